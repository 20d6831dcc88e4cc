/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema proto/otlp/json proto/otlp/write */
/* Profiles and metrics while memory fails: the same view then as ever, or none; and the next one is whole. */
#include <errno.h>

#include "proto/otlp/view/profiles.h"
#include "proto/otlp/json/profiles.h"
#include "proto/otlp/write/subset.h"
#include "tests/lib/sweep.h"

#define REQUESTS 3

struct capture {
    struct bytes body, json;
    struct buffer whole; /* what its subset is when memory does not fail */
};

static struct capture *capture(void)
{
    static struct capture c;
    if (!c.body.p) {
        c.body.p = unit_data("connector/synth-multi.pb", &c.body.n);
        c.json = BYTES_LIT(
            "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"key\":\"a\",\"value\":{\"arrayValue\":"
            "{\"values\":[{\"stringValue\":\"x\\u00e9\"},{\"kvlistValue\":{\"values\":[{\"key\":\"k\","
            "\"value\":{\"intValue\":\"-7\"}}]}}]}}}]},\"scopeProfiles\":[{\"profiles\":[{\"samples\":[{"
            "\"stackIndex\":1,\"values\":[\"1\",2],\"timestampsUnixNano\":[1,2]}]}]}]}],\"dictionary\":{"
            "\"stringTable\":[\"\",\"f\"],\"locationTable\":[{},{\"address\":\"7\"}],\"stackTable\":[{},"
            "{\"locationIndices\":[1]}]}}");
    }
    return &c;
}

/* Everything that the view says, as bytes; 0 or -ENOMEM. */
static int retold(const struct profiles *v, struct buffer *out)
{
    cleanup(arena_release) struct arena scratch = ARENA_INIT(NULL);
    return profiles_subset(v, NULL, NULL, &scratch, out);
}

OOM_SWEEP(one_view_for_several_requests)
{
    struct capture *c = capture();
    struct budget budget = BUDGET_INIT((size_t)1 << 30, NULL);
    struct profiles v;
    int made = profiles_init(&v, &budget);
    ck_assert(made == 0 || made == -ENOMEM);
    for (int i = 0; i < REQUESTS && made == 0; i++) {
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        struct error e = {""};
        uint32_t before = sweep_failures();
        int r = profiles_decode(&v, c->body, &profiles_limits_default, &e);
        ck_assert_msg(r == 0 || r == -ENOMEM, "%d: %s", r, e.text);
        if (r == 0) {
            ck_assert_uint_eq(v.rejected.samples, 0);
            r = retold(&v, &out);
            ck_assert(r == 0 || (r == -ENOMEM && out.n == 0));
        } else {
            ck_assert_uint_eq(v.sample.n, 0);
        }
        ck_assert(r == 0 || sweep_failures() > before);
        if (r == 0 && c->whole.n == 0) {
            sweep_pause();
            ck_assert_int_eq(buffer_add_bytes(&c->whole, buffer_bytes(&out)), 0);
            sweep_resume();
        }
        if (r == 0)
            ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(&c->whole)));
    }
    if (made == 0)
        profiles_release(&v);
    ck_assert_uint_eq(budget.used, 0);
}

OOM_SWEEP(json_is_transcoded_whole_or_not_at_all)
{
    static struct buffer whole;
    struct capture *c = capture();
    for (int i = 0; i < REQUESTS + 1; i++) {
        cleanup(buffer_release) struct buffer out = BUFFER_INIT((size_t)1 << 20);
        struct budget budget = BUDGET_INIT((size_t)1 << 30, NULL);
        struct error e = {""};
        uint32_t before = sweep_failures();
        struct profiles_written as;
        int r = profiles_json_transcode(c->json, &profiles_limits_default, &budget, &out, &as, &e);
        ck_assert_msg(r == 0 || (r == -ENOMEM && sweep_failures() > before && out.n == 0), "%d: %s", r,
                      e.text);
        ck_assert_uint_eq(budget.used, out.cap);
        if (r == 0 && whole.n == 0) {
            sweep_pause();
            ck_assert_int_eq(buffer_add_bytes(&whole, buffer_bytes(&out)), 0);
            sweep_resume();
        }
        if (r == 0)
            ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(&whole)));
    }
}
