/* SPDX-License-Identifier: Apache-2.0 */
/* One worker's table: numbers, sets, bounds, and what a take hands over. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "gateway/aggregate/aggregate.h"
#include "gateway/aggregate/attrset.h"
#include "gateway/stats/block.h"
#include "gateway/aggregate/delta.h"
#include "proto/base/macros.h"

static const struct aggregate_metric metrics[] = {
    {.name = BYTES_LIT("profile.cpu.time"), .unit = BYTES_LIT("s"), .kind = METRIC_SUM, .is_seconds = true},
    {.name = BYTES_LIT("profile.heap.live"), .unit = BYTES_LIT("By"), .kind = METRIC_GAUGE},
};

static struct attr text(const char *key, const char *value)
{
    return (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = bytes_str(value)}};
}

static struct aggregate_label label(const char *name, const char *value)
{
    return (struct aggregate_label){bytes_str(name), bytes_str(value)};
}

static struct aggregate *table(struct budget *budget)
{
    struct aggregate *a = unit_made(aggregate_new(metrics, ARRAY_LEN(metrics), budget));
    return a;
}

UNIT(equal_sets_have_equal_numbers_in_any_order)
{
    struct aggregate *a = table(NULL);
    struct attr one[] = {text("service.name", "shop"), text("host.name", "a")};
    struct attr other[] = {text("host.name", "a"), text("service.name", "shop"),
                           text("host.name", "ignored")};
    struct attr different[] = {text("host.name", "b"), text("service.name", "shop")};
    uint32_t r = aggregate_resource(a, one, 2);
    ck_assert_uint_ne(r, RESOURCE_OVERFLOW);
    ck_assert_uint_eq(r, aggregate_resource(a, other, 3));
    ck_assert_uint_ne(r, aggregate_resource(a, different, 2));

    struct aggregate_label l1[] = {label("mode", "user"), label("runtime", "go")};
    struct aggregate_label l2[] = {label("runtime", "go"), label("mode", "user")};
    uint32_t s = aggregate_series(a, 0, l1, 2);
    ck_assert_uint_eq(s, aggregate_series(a, 0, l2, 2));
    ck_assert_uint_ne(s, aggregate_series(a, 1, l2, 2));
    ck_assert_uint_ne(s, aggregate_series(a, 0, NULL, 0));
    aggregate_free(a);
}

UNIT(the_kind_of_a_value_tells_sets_apart)
{
    struct aggregate *a = table(NULL);
    struct attr number = {BYTES_LIT("x"), {.kind = ATTR_INT, .integer = 0}};
    struct attr real = {BYTES_LIT("x"), {.kind = ATTR_DOUBLE, .real = 0}};
    struct attr none = {BYTES_LIT("x"), {.kind = ATTR_EMPTY}};
    uint32_t ids[] = {aggregate_resource(a, &number, 1), aggregate_resource(a, &real, 1),
                      aggregate_resource(a, &none, 1), aggregate_resource(a, NULL, 0)};
    for (size_t i = 0; i < ARRAY_LEN(ids); i++)
        for (size_t j = 0; j < i; j++)
            ck_assert_uint_ne(ids[i], ids[j]);
    aggregate_free(a);
}

UNIT(attributes_of_every_kind_come_back)
{
    cleanup(buffer_release) struct buffer set = BUFFER_INIT(0);
    struct attr in[] = {
        {BYTES_LIT("a"), {.kind = ATTR_BOOL, .boolean = true}},
        {BYTES_LIT("b"), {.kind = ATTR_INT, .integer = INT64_MIN}},
        {BYTES_LIT("c"), {.kind = ATTR_DOUBLE, .real = -0.5}},
        {BYTES_LIT("d"), {.kind = ATTR_BYTES, .text = BYTES_LIT("\xff\x00")}},
        {BYTES_LIT("e"), {.kind = ATTR_STRING, .text = BYTES_LIT("caf\xc3\xa9")}},
        {BYTES_LIT("f"), {.kind = ATTR_EMPTY}},
    };
    ck_assert_int_eq(attrset_encode(&set, in, ARRAY_LEN(in)), 0);
    cleanup(arena_release) struct arena arena = ARENA_INIT(NULL);
    const struct attr *out;
    uint32_t n;
    ck_assert_int_eq(attrset_decode(buffer_bytes(&set), &arena, &out, &n), 0);
    ck_assert_uint_eq(n, ARRAY_LEN(in));
    for (uint32_t i = 0; i < n; i++) {
        ck_assert(bytes_eq(out[i].key, in[i].key));
        ck_assert_int_eq(out[i].value.kind, in[i].value.kind);
    }
    ck_assert(out[0].value.boolean);
    ck_assert_int_eq(out[1].value.integer, INT64_MIN);
    ck_assert_double_eq(out[2].value.real, -0.5);
    ck_assert(bytes_eq(out[3].value.text, in[3].value.text));
    ck_assert(bytes_eq(out[4].value.text, in[4].value.text));
}

UNIT(long_values_are_cut_between_characters_and_counted)
{
    static const struct {
        enum attr_kind kind;
        struct bytes in, out;
    } cases[] = {
        {ATTR_STRING, BYTES_LIT("12345678"), BYTES_LIT("12345678")},
        {ATTR_STRING, BYTES_LIT("123456789"), BYTES_LIT("12345678")},
        {ATTR_STRING, BYTES_LIT("1234567\xc3\xa9"), BYTES_LIT("1234567")},
        {ATTR_STRING, BYTES_LIT("12345\xf0\x9f\x98\x80\xf0\x9f\x98\x80"), BYTES_LIT("12345")},
        {ATTR_STRING, BYTES_LIT("1234567\xff"), BYTES_LIT("1234567")}, /* U+FFFD has three bytes */
        {ATTR_BYTES, BYTES_LIT("\xff\xff\xff\xff\xff\xff\xff\xff\x01"),
         BYTES_LIT("\xff\xff\xff\xff\xff\xff\xff\xff")},
        {ATTR_ARRAY, BYTES_LIT("half of it is none"), {0}},
    };
    cleanup(buffer_release) struct buffer set = BUFFER_INIT(0);
    uint64_t cut = 0;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct attr in = {BYTES_LIT("k"), {.kind = cases[i].kind, .text = cases[i].in}}, out;
        set.n = 0;
        ck_assert_int_eq(attrset_encode_cut(&set, &in, 1, 8, &cut), 0);
        struct bytes rest = buffer_bytes(&set);
        ck_assert(attrset_next(&rest, &out) && rest.n == 0);
        ck_assert_msg(out.value.kind == (cases[i].out.p ? cases[i].kind : ATTR_EMPTY) &&
                          (!cases[i].out.p || bytes_eq(out.value.text, cases[i].out)),
                      "%zu", i);
    }
    ck_assert_uint_eq(cut, 5);
}

UNIT(two_names_that_are_one_when_cut_add_up)
{
    struct stats stats = {0};
    struct aggregate *a = table(NULL);
    struct attr one = text("k", "0123456789abcdef-one"), two = text("k", "0123456789abcdef-two");
    aggregate_cut_values(a, 16, &stats);
    ck_assert_uint_eq(aggregate_resource(a, &one, 1), aggregate_resource(a, &two, 1));
    struct aggregate_label long_one = label("l", "0123456789abcdef-one");
    aggregate_series(a, 0, &long_one, 1);
    ck_assert_uint_eq(stats.value[STATS_VALUES_CUT], 3);
    aggregate_free(a);
}

UNIT(bad_bytes_become_replacement_characters)
{
    /* Two keys that become equal by it are one: the first. */
    cleanup(buffer_release) struct buffer set = BUFFER_INIT(0);
    struct attr twice[] = {text("k\xff", "1"), text("k\xfe", "2"), text("a", "3")};
    ck_assert_int_eq(attrset_encode(&set, twice, 3), 0);
    struct bytes rest = buffer_bytes(&set);
    struct attr attr;
    ck_assert(attrset_next(&rest, &attr) && bytes_is(attr.key, "a"));
    ck_assert(attrset_next(&rest, &attr) && bytes_is(attr.key, "k\xef\xbf\xbd"));
    ck_assert(bytes_is(attr.value.text, "1"));
    ck_assert(!attrset_next(&rest, &attr));
}

UNIT(a_take_hands_over_sums_and_new_names_once)
{
    struct aggregate *a = table(NULL);
    ck_assert_ptr_null(aggregate_take(a));
    struct attr shop = text("service.name", "shop");
    struct aggregate_label go = label("runtime", "go");
    uint32_t r = aggregate_resource(a, &shop, 1), s = aggregate_series(a, 0, &go, 1);
    ck_assert_ptr_null(aggregate_take(a)); /* names without sums are nothing to say */
    aggregate_add(a, r, s, 5);
    aggregate_add(a, r, s, 7);

    struct aggregate_delta *d = unit_made(aggregate_take(a));
    ck_assert_ptr_null(d->next);
    ck_assert_uint_eq(d->epoch, aggregate_epoch(a));
    ck_assert_uint_eq(d->n_resources, 1);
    ck_assert_uint_eq(d->n_series, 1);
    ck_assert_uint_eq(d->n_cells, 1);
    ck_assert_int_eq(d->cells[0].sum, 12);
    ck_assert_uint_eq(d->cells[0].resource, r);
    ck_assert_uint_eq(d->cells[0].series, s);
    aggregate_delta_free(d);

    ck_assert_ptr_null(aggregate_take(a));
    aggregate_add(a, r, s, 1);
    d = unit_made(aggregate_take(a));
    ck_assert_uint_eq(d->n_resources, 0);
    ck_assert_uint_eq(d->resource_from, 1);
    ck_assert_int_eq(d->cells[0].sum, 1);
    aggregate_delta_free(d);
    aggregate_free(a);
}

UNIT(sums_stop_at_the_ends_and_never_go_down)
{
    struct aggregate *a = table(NULL);
    uint32_t r = aggregate_resource(a, NULL, 0);
    uint32_t sum = aggregate_series(a, 0, NULL, 0), gauge = aggregate_series(a, 1, NULL, 0);
    aggregate_add(a, r, sum, INT64_MAX);
    aggregate_add(a, r, sum, INT64_MAX);
    aggregate_add(a, r, sum, -1); /* a counter cannot go down */
    aggregate_add(a, r, gauge, INT64_MIN);
    aggregate_add(a, r, gauge, -1);
    struct aggregate_delta *d = unit_made(aggregate_take(a));
    ck_assert_uint_eq(d->n_cells, 2);
    for (uint32_t i = 0; i < 2; i++)
        ck_assert_int_eq(d->cells[i].sum, d->cells[i].metric == 0 ? INT64_MAX : INT64_MIN);
    aggregate_delta_free(d);
    aggregate_free(a);
}

UNIT(many_cells_add_up)
{
    struct aggregate *a = table(NULL);
    uint32_t resources[40], series[60];
    char name[32];
    for (uint32_t i = 0; i < ARRAY_LEN(resources); i++) {
        snprintf(name, sizeof name, "service-%u", i);
        struct attr attr = text("service.name", name);
        resources[i] = aggregate_resource(a, &attr, 1);
    }
    for (uint32_t i = 0; i < ARRAY_LEN(series); i++) {
        snprintf(name, sizeof name, "f%u", i);
        struct aggregate_label l = label("function", name);
        series[i] = aggregate_series(a, 0, &l, 1);
    }
    for (int round = 0; round < 3; round++)
        for (uint32_t i = 0; i < ARRAY_LEN(resources); i++)
            for (uint32_t j = 0; j < ARRAY_LEN(series); j++)
                aggregate_add(a, resources[i], series[j], (int64_t)i * 1000 + j);
    struct aggregate_delta *d = unit_made(aggregate_take(a));
    ck_assert_uint_eq(d->n_cells, ARRAY_LEN(resources) * ARRAY_LEN(series));
    for (uint32_t k = 0; k < d->n_cells; k++) {
        uint32_t i = d->cells[k].resource - resources[0], j = d->cells[k].series - series[0];
        ck_assert_int_eq(d->cells[k].sum, 3 * ((int64_t)i * 1000 + j));
    }
    aggregate_delta_free(d);
    aggregate_free(a);
}

UNIT(it_forgets_only_at_the_start_of_a_request_and_loses_nothing)
{
    struct aggregate *a = table(NULL);
    uint32_t epoch = aggregate_epoch(a);
    char name[32];
    for (uint32_t i = 0; i < 40000; i++) { /* more than half of RESOURCES_MAX */
        snprintf(name, sizeof name, "pid-%u", i);
        struct attr attr = text("process", name);
        aggregate_add(a, aggregate_resource(a, &attr, 1), aggregate_series(a, 0, NULL, 0), 1);
        ck_assert_uint_eq(aggregate_epoch(a), epoch);
    }
    aggregate_begin(a);
    ck_assert_uint_ne(aggregate_epoch(a), epoch);
    aggregate_add(a, aggregate_resource(a, NULL, 0), aggregate_series(a, 0, NULL, 0), 1);
    aggregate_begin(a);

    struct aggregate_delta *d = unit_made(aggregate_take(a));
    ck_assert_ptr_nonnull(d->next);
    ck_assert_uint_eq(d->n_cells, 40000);
    ck_assert_uint_eq(d->next->n_cells, 1);
    ck_assert_uint_eq(d->next->resource_from, 0);
    ck_assert_uint_eq(d->next->epoch, aggregate_epoch(a));
    aggregate_delta_free(d);
    aggregate_free(a);
}

/* For whoever needs the memory more: names and table, but no sums. */
UNIT(it_forgets_when_it_is_told_and_loses_nothing)
{
    struct budget budget = BUDGET_INIT(64 << 20, NULL);
    struct aggregate *a = table(&budget);
    const size_t empty = aggregate_memory_used(a);
    const uint32_t epoch = aggregate_epoch(a);
    char name[32];
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "pid-%u", i);
        struct attr attr = text("process", name);
        aggregate_add(a, aggregate_resource_of(a, bytes_str(name), &attr, 1), aggregate_series(a, 0, NULL, 0),
                      1);
    }
    ck_assert_uint_gt(aggregate_memory_used(a), empty + 5000 * 32);
    aggregate_forget(a);
    ck_assert_uint_le(aggregate_memory_used(a), empty);
    ck_assert_uint_ne(aggregate_epoch(a), epoch);
    struct attr attr = text("process", "pid-4999");
    aggregate_add(a, aggregate_resource_of(a, BYTES_LIT("pid-4999"), &attr, 1),
                  aggregate_series(a, 0, NULL, 0), 1);
    struct aggregate_delta *d = unit_made(aggregate_take(a));
    ck_assert_uint_eq(d->n_cells, 5000);
    unit_made(d->next);
    ck_assert_uint_eq(d->next->n_cells, 1);
    ck_assert_uint_eq(d->next->n_resources, 1);
    aggregate_free(a);
    ck_assert_uint_gt(budget.used, 0); /* what was taken */
    aggregate_delta_free(d);
    ck_assert_uint_eq(budget.used, 0);
}

/* What a flood needed, also when nothing comes after it. */
UNIT(who_rests_gives_the_cells_back)
{
    struct budget budget = BUDGET_INIT(64 << 20, NULL);
    struct aggregate *a = table(&budget);
    const size_t empty = aggregate_memory_used(a);
    char name[32];
    for (uint32_t i = 0; i < 40000; i++) {
        snprintf(name, sizeof name, "pid-%u", i);
        struct attr attr = text("process", name);
        aggregate_add(a, aggregate_resource(a, &attr, 1), aggregate_series(a, 0, NULL, 0), 1);
    }
    aggregate_begin(a); /* forgets the names, and keeps room for as many cells */
    ck_assert_uint_gt(aggregate_memory_used(a), empty + 40000 * 16);
    aggregate_delta_free(unit_made(aggregate_take(a)));
    ck_assert_ptr_null(aggregate_take(a));
    ck_assert_uint_le(aggregate_memory_used(a),
                      empty + 40000 * 16); /* of the clients there is a number each */
    aggregate_free(a);
    ck_assert_uint_eq(budget.used, 0);
}

UNIT(a_resource_is_remembered_by_its_bytes_as_long_as_its_number_holds)
{
    struct aggregate *a = table(NULL);
    struct attr shop = text("service.name", "shop"), other = text("service.name", "other");
    uint32_t number = aggregate_resource_of(a, bytes_str("raw"), &shop, 1);
    ck_assert_uint_eq(number, aggregate_resource(a, &shop, 1));
    ck_assert_uint_eq(number, aggregate_resource_of(a, bytes_str("raw"), &shop, 1));
    ck_assert_uint_eq(number, aggregate_resource_of(a, bytes_str("other raw"), &shop, 1));
    ck_assert_uint_ne(number, aggregate_resource_of(a, bytes_str("war"), &other, 1));

    char name[32];
    for (uint32_t i = 0; i < 40000; i++) {
        snprintf(name, sizeof name, "pid-%u", i);
        struct attr attr = text("process", name);
        aggregate_add(a, aggregate_resource_of(a, bytes_str(name), &attr, 1), aggregate_series(a, 0, NULL, 0),
                      1);
    }
    ck_assert_uint_eq(number, aggregate_resource_of(a, bytes_str("raw"), &shop, 1));
    aggregate_begin(a); /* forgets */
    aggregate_resource(a, &other, 1);
    ck_assert_uint_eq(aggregate_resource_of(a, bytes_str("raw"), &shop, 1), aggregate_resource(a, &shop, 1));
    ck_assert_uint_ne(aggregate_resource(a, &other, 1), aggregate_resource(a, &shop, 1));
    aggregate_free(a);
}

UNIT(without_memory_sums_go_to_overflow_and_the_budget_is_given_back)
{
    struct budget budget = BUDGET_INIT(100 << 10, NULL);
    struct aggregate *a = table(&budget);
    char name[64];
    for (uint32_t i = 0; i < 5000; i++) {
        snprintf(name, sizeof name, "a rather long name of a process, number %u", i);
        struct attr attr = text("process", name);
        aggregate_add(a, aggregate_resource(a, &attr, 1), aggregate_series(a, 0, NULL, 0), 1);
    }
    struct attr attr = text("one", "more");
    ck_assert_uint_eq(aggregate_resource(a, &attr, 1), RESOURCE_OVERFLOW);
    ck_assert_ptr_null(aggregate_take(a)); /* no memory for the delta: the sums stay */
    budget.limit = 10 << 20;
    struct aggregate_delta *d = unit_made(aggregate_take(a));
    int64_t sum = 0;
    for (uint32_t i = 0; i < d->n_cells; i++)
        sum += d->cells[i].sum;
    ck_assert_int_eq(sum, 5000);
    aggregate_delta_free(d);
    aggregate_free(a);
    ck_assert_uint_eq(budget.used, 0);
}

UNIT(too_many_attributes_are_the_overflow_resource)
{
    struct aggregate *a = table(NULL);
    static struct attr attrs[ATTRSET_MAX + 1];
    static char names[ATTRSET_MAX + 1][8];
    for (uint32_t i = 0; i <= ATTRSET_MAX; i++) {
        snprintf(names[i], sizeof names[i], "k%u", i);
        attrs[i] = text(names[i], "v");
    }
    ck_assert_uint_ne(aggregate_resource(a, attrs, ATTRSET_MAX), RESOURCE_OVERFLOW);
    ck_assert_uint_eq(aggregate_resource(a, attrs, ATTRSET_MAX + 1), RESOURCE_OVERFLOW);
    aggregate_free(a);
}
