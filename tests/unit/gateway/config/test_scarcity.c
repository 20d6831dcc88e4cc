/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/export */
/* A configuration read without memory: whole, or refused for that reason and no other. */
#include <errno.h>

#include "gateway/config/config.h"
#include "gateway/export/kinds.h"
#include "tests/lib/sweep.h"

static const char yaml[] =
    "receivers:\n  otlp:\n    - { endpoint: 0.0.0.0:14317, auth: { htpasswd_file: /etc/p } }\n"
    "    - endpoint: unix:/run/s\n"
    "rules: { builtin: [connector], files: [/etc/a.rules, /etc/b.rules] }\n"
    "metrics: { flush_interval: 5s, temporality: cumulative, exporters: [prometheus, otlp/m] }\n"
    "profiles: { keep: 1%, exporters: otlp/p }\n"
    "exporters:\n"
    "  otlp/m: { endpoint: \"http://c:4317\", headers: { Authorization: \"Bearer x\", X-Scope: y } }\n"
    "  otlp/p: { endpoint: \"https://d:4317\", compression: zstd }\n";

static bool fine(int r, const struct error *e, uint32_t before)
{
    ck_assert_msg(r == 0 || (r == -ENOMEM && sweep_failures() > before), "%d: %s", r, e->text);
    return r == 0;
}

static void tell(void *user, const char *key)
{
    ++*(int *)user;
}

OOM_SWEEP_HOW(a_file_is_read_whole_or_not_at_all, SWEEP_ONCE | SWEEP_FOR_GOOD)
{
    static struct buffer whole; /* what the first calm run printed */
    struct error e = {""};
    struct buffer out = BUFFER_INIT(0);
    uint32_t before = sweep_failures();
    struct config *c = config_new(export_kinds), *other = config_new(export_kinds);
    bool good = c && fine(config_parse(c, "t.yaml", BYTES_LIT(yaml), &e), &e, before) &&
                fine(config_set(c, "metrics.flush_interval", "7s", &e), &e, before) &&
                fine(config_check(c, &e), &e, before);
    ck_assert(good || sweep_failures() > before);
    if (good && other) {
        int differ = 0;
        if (fine(config_restart_keys(other, c, tell, &differ), &e, before))
            ck_assert_int_gt(differ, 0);
    }
    sweep_over();
    if (good) {
        ck_assert_int_eq(config_show(c, &out), 0);
        if (whole.n == 0)
            ck_assert_int_eq(buffer_add_bytes(&whole, buffer_bytes(&out)), 0);
        ck_assert(bytes_eq(buffer_bytes(&out), buffer_bytes(&whole)));
    }
    buffer_release(&out);
    config_free(c);
    config_free(other);
}

OOM_SWEEP(what_is_printed_is_whole)
{
    struct error e = {""};
    sweep_pause();
    struct config *c = unit_made(config_new(export_kinds));
    ck_assert_msg(config_parse(c, "t.yaml", BYTES_LIT(yaml), &e) == 0, "%s", e.text);
    sweep_resume();
    for (int what = 0; what < 2; what++) {
        static size_t whole[2];
        cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
        uint32_t before = sweep_failures();
        int r = what ? config_reference(c, &out) : config_show(c, &out);
        if (fine(r, &e, before)) {
            whole[what] = whole[what] ? whole[what] : out.n;
            ck_assert_uint_eq(out.n, whole[what]);
        }
    }
    config_free(c);
}
