/* SPDX-License-Identifier: Apache-2.0 */
/* Captures: begun and ended on one thread, honoured on others. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "gateway/control/capture.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

#define HOUR (3600u * (uint64_t)NSEC_PER_SEC)

static uint32_t begin(struct captures *c, const char *key, const char *value, uint64_t lasting)
{
    struct bytes k = bytes_str(key), v = value ? bytes_str(value) : (struct bytes){0};
    struct capture_rule rule = {&k, &v, 1, clock_monotonic() + lasting};
    uint32_t id = 0;
    ck_assert_int_eq(captures_begin(c, &rule, &id), 0);
    return id;
}

static bool wants(struct capture_reader *r, const char *key, struct attr_value value)
{
    struct attr attrs[] = {{BYTES_LIT("other"), {.kind = ATTR_STRING, .text = BYTES_LIT("x")}},
                           {bytes_str(key), value}};
    return capture_reader_begin(r) && capture_wants(r, attrs, 2);
}

static struct attr_value text(const char *value)
{
    return (struct attr_value){.kind = ATTR_STRING, .text = bytes_str(value)};
}

UNIT(what_is_captured_and_what_not)
{
    struct captures *c = unit_made(captures_new());
    struct capture_reader *r = unit_made(capture_reader_new(c));
    ck_assert(!capture_reader_begin(r));
    uint32_t shop = begin(c, "service.name", "shop", HOUR), pid = begin(c, "process.pid", "7", HOUR);
    ck_assert(wants(r, "service.name", text("shop")));
    ck_assert(!wants(r, "service.name", text("till")));
    ck_assert(!wants(r, "service.names", text("shop")));
    ck_assert(wants(r, "process.pid", (struct attr_value){.kind = ATTR_INT, .integer = 7}));
    ck_assert(!wants(r, "process.pid", (struct attr_value){.kind = ATTR_INT, .integer = 8}));
    captures_end(c, shop);
    captures_end(c, shop); /* not there any more: nothing */
    ck_assert(!wants(r, "service.name", text("shop")));
    ck_assert(wants(r, "process.pid", text("7")));
    captures_end(c, pid);
    ck_assert(!capture_reader_begin(r));
    capture_reader_free(r);
    captures_free(c);
}

UNIT(absent_is_a_value_too_and_no_key_means_all)
{
    struct captures *c = unit_made(captures_new());
    struct capture_reader *r = unit_made(capture_reader_new(c));
    uint32_t id = begin(c, "service.name", NULL, HOUR);
    ck_assert(wants(r, "host.name", text("a")));
    ck_assert(!wants(r, "service.name", text("")));
    captures_end(c, id);
    id = begin(c, "service.name", "", HOUR);
    ck_assert(wants(r, "service.name", text("")));
    ck_assert(!wants(r, "host.name", text("a")));
    captures_end(c, id);
    ck_assert_int_eq(captures_begin(c, &(struct capture_rule){.until_ns = clock_monotonic() + HOUR}, &id), 0);
    ck_assert(wants(r, "anything", text("at all")));
    capture_reader_free(r);
    captures_free(c);
}

static int add_id(void *context, uint32_t id, const struct capture_rule *rule)
{
    *(uint64_t *)context = *(uint64_t *)context * 10 + id;
    return rule->by_hand ? -EINTR : 0;
}

UNIT(those_that_last_are_told)
{
    struct captures *c = unit_made(captures_new());
    uint64_t ids = 0;
    uint32_t id;
    ck_assert_int_eq(captures_each(c, add_id, &ids), 0);
    begin(c, "a", "x", HOUR);
    begin(c, "b", "y", 0);
    begin(c, "c", NULL, HOUR);
    ck_assert_int_eq(captures_each(c, add_id, &ids), 0);
    ck_assert_uint_eq(ids, 13);
    struct capture_rule rule = {.until_ns = clock_monotonic() + HOUR, .by_hand = true};
    ck_assert_int_eq(captures_begin(c, &rule, &id), 0);
    begin(c, "d", "z", HOUR);
    ids = 0;
    ck_assert_int_eq(captures_each(c, add_id, &ids), -EINTR); /* which ends it */
    ck_assert_uint_eq(ids, 134);
    captures_free(c);
}

UNIT(it_ends_by_itself)
{
    struct captures *c = unit_made(captures_new());
    struct capture_reader *r = unit_made(capture_reader_new(c));
    begin(c, "service.name", "shop", 0);
    ck_assert(!capture_reader_begin(r));
    begin(c, "service.name", "till", HOUR);
    ck_assert(!wants(r, "service.name", text("shop")));
    ck_assert(wants(r, "service.name", text("till")));
    capture_reader_free(r);
    captures_free(c);
}

UNIT(no_more_than_so_many)
{
    struct captures *c = unit_made(captures_new());
    struct capture_rule rule = {.until_ns = clock_monotonic() + HOUR};
    uint32_t id, first = 0;
    for (uint32_t i = 0; i < CAPTURES_MAX; i++) {
        ck_assert_int_eq(captures_begin(c, &rule, &id), 0);
        first = i == 0 ? id : first;
    }
    ck_assert_int_eq(captures_begin(c, &rule, &id), CAPTURES_FULL);
    captures_end(c, first);
    ck_assert_int_eq(captures_begin(c, &rule, &id), 0);
    rule.n = CAPTURE_KEYS_MAX + 1;
    ck_assert_int_eq(captures_begin(c, &rule, &id), -E2BIG);
    captures_free(c);
}

struct reading {
    struct captures *captures;
    atomic_bool stop;
    uint64_t looks, wanted;
};

static void *keep_reading(void *arg)
{
    struct reading *reading = arg;
    struct capture_reader *r = capture_reader_new(reading->captures);
    while (r && !atomic_load(&reading->stop)) {
        reading->wanted += wants(r, "service.name", text("shop"));
        reading->looks++;
    }
    capture_reader_free(r);
    return NULL;
}

UNIT(readers_look_while_captures_come_and_go)
{
    struct captures *c = unit_made(captures_new());
    static struct reading readings[3]; /* threads outlive a case that fails */
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        readings[i] = (struct reading){.captures = c};
        ck_assert_int_eq(pthread_create(&threads[i], NULL, keep_reading, &readings[i]), 0);
    }
    for (int i = 0; i < 2000; i++) {
        uint32_t shop = begin(c, "service.name", "shop", HOUR), till = begin(c, "service.name", "till", HOUR);
        captures_end(c, i % 2 ? till : shop);
        captures_end(c, i % 2 ? shop : till);
    }
    for (int i = 0; i < 3; i++) {
        atomic_store(&readings[i].stop, true);
        pthread_join(threads[i], NULL);
        ck_assert_uint_le(readings[i].wanted, readings[i].looks);
    }
    struct capture_reader *r = unit_made(capture_reader_new(c));
    ck_assert(!capture_reader_begin(r));
    capture_reader_free(r);
    captures_free(c);
}
