/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
#include <errno.h>
#include <stdio.h>

#include "proto/otlp/write/build.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/request.h"

static uint32_t frame(struct build *b, const char *name, uint64_t address)
{
    uint32_t attr = build_attribute_text(b, "profile.frame.type", BYTES_LIT("native"));
    uint32_t build_id = build_attribute_text(b, "process.executable.build_id.gnu", BYTES_LIT("abcd"));
    uint32_t mapping =
        build_mapping(b, &(struct build_mapping){.memory_start = 0x400000,
                                                 .memory_limit = 0x500000,
                                                 .filename = build_string(b, BYTES_LIT("prog")),
                                                 .attrs = &build_id,
                                                 .n_attrs = 1});
    struct build_line line = {.function = build_function(b,
                                                         &(struct build_function){
                                                             .name = build_string(b, bytes_str(name)),
                                                             .filename = build_string(b, BYTES_LIT("prog.c")),
                                                         }),
                              .line = 12};
    return build_location(b, &(struct build_location){.mapping = mapping,
                                                      .address = address,
                                                      .lines = &line,
                                                      .n_lines = 1,
                                                      .attrs = &attr,
                                                      .n_attrs = 1});
}

/* n samples over two resources, two profiles each, stacks of 1 … 40 frames out of 50. */
static void fill(struct build *b, uint32_t n)
{
    static const uint8_t id[16] = "profile-id-here";
    const struct attr host[] = {{BYTES_LIT("host.name"), {ATTR_STRING, {.text = BYTES_LIT("h1")}}},
                                {BYTES_LIT("process.pid"), {ATTR_INT, {.integer = 77}}},
                                {BYTES_LIT("share"), {ATTR_DOUBLE, {.real = 0.25}}},
                                {BYTES_LIT("yes"), {ATTR_BOOL, {.boolean = true}}}};
    for (uint32_t r = 0; r < 2; r++) {
        build_resource(b, host, ARRAY_LEN(host), BYTES_LIT("https://example/schema"));
        build_scope(b, BYTES_LIT("profsend"), BYTES_LIT("0.1"), host, r, BYTES_LIT(""));
        for (uint32_t p = 0; p < 2; p++) {
            build_profile(b, &(struct build_profile){.type = build_string(b, BYTES_LIT("samples")),
                                                     .unit = build_string(b, BYTES_LIT("count")),
                                                     .period_type = build_string(b, BYTES_LIT("cpu")),
                                                     .period_unit = build_string(b, BYTES_LIT("nanoseconds")),
                                                     .period = 52631578,
                                                     .time_unix_nano = 1700000000000000000u + p,
                                                     .duration_nano = 5000000000u,
                                                     .profile_id = id});
            for (uint32_t i = 0; i < n / 4; i++) {
                char name[32];
                uint32_t stack[40], depth = 1 + i % 40;
                for (uint32_t k = 0; k < depth; k++) {
                    snprintf(name, sizeof name, "function_%u", (i + k) % 50);
                    stack[k] = frame(b, name, 0x400000 + (i + k) % 50 * 64);
                }
                uint32_t attr = build_attribute_int(b, "thread.id", i % 5);
                uint64_t times[3] = {1700000000000000000u + i, 1700000000000000001u + i,
                                     1700000000000000002u + i};
                int64_t values[3] = {100, -5, 1 << 20};
                uint8_t trace[16] = {1, (uint8_t)i}, span[8] = {2};
                build_sample(b, &(struct build_sample){.stack = build_stack(b, stack, depth),
                                                       .link = i % 7 ? 0 : build_link(b, trace, span),
                                                       .attrs = &attr,
                                                       .n_attrs = 1,
                                                       .values = values,
                                                       .n_values = p ? 1 + i % 3 : 0,
                                                       .timestamps = times,
                                                       .n_timestamps = 1 + i % 3});
            }
        }
    }
}

UNIT(what_was_built_decodes_to_the_same)
{
    struct build *b = unit_made(build_new(NULL));
    struct buffer first = BUFFER_INIT(0), second = BUFFER_INIT(0);
    struct profiles v;
    struct error e = {""};
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    fill(b, 400);
    size_t announced = build_size(b);
    ck_assert_int_eq(build_finish(b, &first), 0);
    ck_assert_uint_le(first.n, announced);
    ck_assert_uint_ge(first.n, announced / 2);
    uint8_t *body = padded(first.p, first.n);
    ck_assert_msg(profiles_decode(&v, bytes_of(body, first.n), &profiles_limits_default, &e) == 0, "%s",
                  e.text);
    ck_assert_uint_eq(v.rejected.samples, 0);
    ck_assert_uint_eq(v.sample.n, 400);
    ck_assert_uint_eq(v.location.n, 51); /* 50 functions and the zero entry */
    ck_assert_uint_eq(v.mapping.n, 2);
    ck_assert_uint_eq(v.resource.n, 2);
    ck_assert_uint_eq(v.resource.attrs_at[1], 4);
    ck_assert_int_eq(v.key_value.attr[1].value.integer, 77);
    char *ours = view_meaning(&v), *theirs = bytes_meaning(first.p, first.n, false);
    same_meaning("the view", ours, theirs);
    ck_assert_ptr_nonnull(strstr(ours, "'function_49'"));

    build_begin(b); /* and once more with the kept memory: the same bytes */
    fill(b, 400);
    ck_assert_int_eq(build_finish(b, &second), 0);
    ck_assert(bytes_eq(buffer_bytes(&first), buffer_bytes(&second)));
    free(ours);
    free(theirs);
    free(body);
    buffer_release(&first);
    buffer_release(&second);
    profiles_release(&v);
    build_free(b);
}

UNIT(entries_are_deduplicated_and_zero_is_zero)
{
    struct build *b = unit_made(build_new(NULL));
    static const uint8_t zero[16];
    ck_assert_uint_eq(build_string(b, BYTES_LIT("")), 0);
    ck_assert_uint_eq(build_mapping(b, &(struct build_mapping){0}), 0);
    ck_assert_uint_eq(build_function(b, &(struct build_function){0}), 0);
    ck_assert_uint_eq(build_location(b, &(struct build_location){0}), 0);
    ck_assert_uint_eq(build_stack(b, NULL, 0), 0);
    ck_assert_uint_eq(build_link(b, zero, zero), 0);
    ck_assert_uint_eq(build_attribute(b, BYTES_LIT(""), &(struct attr_value){ATTR_EMPTY}, 0), 0);
    ck_assert_uint_eq(frame(b, "f", 1), frame(b, "f", 1));
    ck_assert_uint_ne(frame(b, "f", 1), frame(b, "f", 2));
    ck_assert_uint_eq(build_string(b, BYTES_LIT("f")), build_string(b, BYTES_LIT("f")));
    build_free(b);
}

/* Parca refuses a request where the first link is not empty or a profile has no period_type, and ends where
 * there is no sample_type. */
UNIT(what_is_zero_is_empty_and_what_is_empty_is_there)
{
    struct build *b = unit_made(build_new(NULL));
    struct buffer out = BUFFER_INIT(0);
    int64_t one = 1;
    build_resource(b, NULL, 0, bytes_of(NULL, 0));
    build_scope(b, bytes_of(NULL, 0), bytes_of(NULL, 0), NULL, 0, bytes_of(NULL, 0));
    build_profile(b, &(struct build_profile){0});
    build_sample(b, &(struct build_sample){.values = &one, .n_values = 1});
    ck_assert_int_eq(build_finish(b, &out), 0);
    Request *q = unit_made(request_unpack(out.p, out.n));
    ck_assert_uint_eq(q->dictionary->n_link_table, 1);
    ck_assert_uint_eq(q->dictionary->link_table[0]->trace_id.len, 0);
    ck_assert_uint_eq(q->dictionary->link_table[0]->span_id.len, 0);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->resource);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->scope_profiles[0]->scope);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->scope_profiles[0]->profiles[0]->sample_type);
    ck_assert_ptr_nonnull(q->resource_profiles[0]->scope_profiles[0]->profiles[0]->period_type);
    request_free(q);
    buffer_release(&out);
    build_free(b);
}

UNIT(failure_is_remembered_until_begin)
{
    struct budget budget = BUDGET_INIT(200u << 10, NULL);
    struct build *b = build_new(&budget);
    struct buffer out = BUFFER_INIT(0);
    char text[100];
    ck_assert_ptr_nonnull(b);
    for (int i = 0; i < 100000; i++) {
        snprintf(text, sizeof text, "a string of some length, number %d", i);
        build_string(b, bytes_str(text));
    }
    ck_assert_int_eq(build_finish(b, &out), -ENOMEM);
    ck_assert_uint_eq(out.n, 0);
    build_begin(b);
    fill(b, 4);
    ck_assert_int_eq(build_finish(b, &out), 0);
    build_begin(b);
    build_sample(b, &(struct build_sample){0}); /* outside of any profile */
    ck_assert_int_eq(build_finish(b, &out), -EINVAL);
    build_free(b);
    buffer_release(&out);
    ck_assert_uint_eq(atomic_load(&budget.used), 0);
}
