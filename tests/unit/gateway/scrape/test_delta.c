/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/pprof proto/coding */
#include "gateway/scrape/delta.h"

#include "proto/base/macros.h"
#include "proto/base/room.h"
#include "proto/pprof/write.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

/* What a stack has, by its address: allocations since the start, and those in use. */
struct stack {
    uint64_t address;
    int64_t allocated, used;
};

/* Location ids count down from `first_id`, as another dump of the same process may have them. */
static struct buffer dump(const char *type, const struct stack *stacks, uint32_t n, uint64_t first_id)
{
    struct buffer out = BUFFER_INIT(0);
    struct pprof_writer w;
    pprof_write_begin(&w, NULL, &out);
    const uint32_t name = pprof_write_string(&w, bytes_str(type)),
                   unit = pprof_write_string(&w, BYTES_LIT("count"));
    pprof_write_type(&w, &(struct pprof_type){name, unit});
    pprof_write_type(&w, &(struct pprof_type){pprof_write_string(&w, BYTES_LIT("inuse_objects")), unit});
    for (uint32_t i = 0; i < n; i++) {
        const uint64_t id = first_id - i;
        const uint32_t location = (uint32_t)id;
        const int64_t values[] = {stacks[i].allocated, stacks[i].used};
        pprof_write_location(&w, &(struct pprof_location){.id = id, .address = stacks[i].address}, NULL, 0);
        pprof_write_sample(&w, &(struct pprof_sample){&location, 1, values, NULL, 0}, 2);
    }
    ck_assert_int_eq(pprof_write_end(&w), 0);
    return out;
}

static struct pprof result;

/* "ADDRESS:ALLOCATED/USED ADDRESS:…" of what came since. */
static const char *take(struct delta *d, const char *type, const struct stack *stacks, uint32_t n,
                        uint64_t first_id, struct delta_said *said)
{
    static char text[200];
    struct buffer in = dump(type, stacks, n, first_id), out = BUFFER_INIT(0);
    struct pprof_sample s;
    struct error e = {""};
    size_t at = 0;
    ck_assert_int_eq(delta_take(d, buffer_bytes(&in), &out, said, &e), 0);
    pprof_init(&result, NULL);
    ck_assert_msg(pprof_read(&result, buffer_bytes(&out), &e) == 0, "%s", e.text);
    text[0] = 0;
    for (struct pprof_samples i = pprof_samples(&result); pprof_next(&result, &i, &s, &e) == 0;)
        at += (size_t)snprintf(text + at, sizeof text - at, "%s%d:%d/%d", at ? " " : "",
                               (int)result.locations.p[s.locations[0] - 1].address, (int)s.values[0],
                               (int)s.values[1]);
    pprof_release(&result);
    buffer_release(&in);
    room_release(&out, NULL);
    return text;
}

#define TAKE(...)                                                 \
    take(d, "alloc_objects", (const struct stack[]){__VA_ARGS__}, \
         (uint32_t)ARRAY_LEN(((const struct stack[]){__VA_ARGS__})), 9, &said)

UNIT(what_counts_since_the_start_becomes_what_came_since)
{
    struct delta *d = unit_made(delta_new(NULL));
    struct delta_said said;
    ck_assert_str_eq(TAKE({1, 10, 2}, {2, 20, 0}), "1:0/2");
    ck_assert(said.is_cumulative && said.is_first && !said.restarted);
    delta_keep(d);
    ck_assert_str_eq(TAKE({2, 25, 0}, {1, 10, 0}, {3, 4, 1}), "2:5/0 3:4/1");
    ck_assert(!said.is_first && !said.restarted);
    /* it was not kept: the next one has that, too; and one stack of several samples is one */
    ck_assert_str_eq(TAKE({1, 5, 1}, {1, 6, 1}, {2, 25, 0}, {3, 9, 0}), "1:1/2 2:5/0 3:9/0");
    delta_keep(d);
    ck_assert_str_eq(TAKE({1, 11, 0}, {2, 25, 0}, {3, 9, 0}), "");
    delta_free(d);
}

UNIT(a_process_that_began_anew_is_known_by_what_it_has_lost)
{
    struct delta *d = unit_made(delta_new(NULL));
    struct delta_said said;
    TAKE({1, 100, 0}, {2, 50, 0});
    delta_keep(d);
    ck_assert_str_eq(TAKE({1, 3, 0}, {2, 1, 0}), "1:3/0 2:1/0"); /* the total fell */
    ck_assert(said.restarted);
    delta_keep(d);
    ck_assert_str_eq(TAKE({1, 900, 0}, {4, 1, 0}), "1:900/0 4:1/0"); /* a stack is gone */
    ck_assert(said.restarted);
    delta_keep(d);
    ck_assert_str_eq(TAKE({1, 899, 0}, {4, 2, 0}), "4:1/0"); /* a rounding is nothing */
    ck_assert(!said.restarted);
    delta_free(d);
}

UNIT(what_is_now_stays_as_it_is)
{
    struct delta *d = unit_made(delta_new(NULL));
    struct delta_said said;
    const struct stack stacks[] = {{1, 7, 1}, {2, 8, 0}};
    for (int i = 0; i < 2; i++) {
        ck_assert_str_eq(take(d, "goroutine", stacks, 2, 2, &said), "1:7/1 2:8/0");
        ck_assert(!said.is_cumulative && !said.restarted);
        delta_keep(d);
    }
    /* another profile altogether: nothing to compare with */
    ck_assert_str_eq(take(d, "contentions", stacks, 2, 2, &said), "1:0/1");
    ck_assert(said.is_first);
    delta_free(d);
}

UNIT(no_profile_is_said_to_be_none)
{
    struct delta *d = unit_made(delta_new(NULL));
    struct delta_said said;
    struct buffer out = BUFFER_INIT(0);
    struct error e = {""};
    ck_assert_int_eq(delta_take(d, BYTES_LIT("<html>"), &out, &said, &e), PPROF_MALFORMED);
    ck_assert(e.text[0] && out.n == 0);
    delta_free(d);
}

UNIT(a_spent_budget_loses_nothing)
{
    const struct stack stacks[] = {{1, 10, 2}, {2, 20, 0}};
    for (size_t limit = 0; limit < 40000; limit += 97) {
        struct budget budget = BUDGET_INIT(limit, NULL);
        struct buffer in = dump("delay", stacks, 2, 2), out = BUFFER_INIT(0);
        struct delta_said said;
        struct error e;
        struct delta *d = unit_made(delta_new(&budget));
        if (delta_take(d, buffer_bytes(&in), &out, &said, &e) == 0)
            delta_keep(d);
        room_release(&out, &budget);
        delta_free(d);
        buffer_release(&in);
        ck_assert_uint_eq(budget.used, 0);
    }
}
