/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "proto/pprof/pprof.h"
#include "proto/otlp/view/profiles.h"
#include "proto/pprof/write.h"
#include "proto/wire/wire.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

/* The conditions of all functions tried here are told apart by what *e says. */
static struct error e;

static int read_text(struct pprof *p, struct bytes body)
{
    e.text[0] = 0;
    int r = pprof_read(p, body, &e);
    struct pprof_samples at = pprof_samples(p);
    struct pprof_sample sample;
    while (r == 0)
        r = pprof_next(p, &at, &sample, &e);
    return r == PPROF_END ? 0 : r;
}

static void expect_refused(struct bytes body, const char *why)
{
    cleanup(pprof_release) struct pprof p;
    pprof_init(&p, NULL);
    ck_assert_int_eq(read_text(&p, body), PPROF_MALFORMED);
    ck_assert_str_eq(e.text, why);
}
#define REFUSED(text, why) expect_refused(BYTES_LIT(text), why)

_Static_assert(PPROF_STACK_FRAMES_MAX == PROFILES_STACK_FRAMES_MAX, "what is made of it is read");

#define STRINGS "\x32\x00\x32\x01x" /* "", "x" */
#define TYPE    "\x0a\x02\x08\x01"  /* sample_type x */

UNIT(what_is_wrong_is_said_with_its_place)
{
    REFUSED("\x32\x01x", "string_table[0]: not empty");
    REFUSED("\x0a\x02\x08\x07" STRINGS, "sample_type[0].type: there is no 7");
    REFUSED(STRINGS "\x12\x02\x10\x01", "sample_type: none");
    REFUSED(STRINGS TYPE "\x12\x04\x08\x05\x10\x01", "sample[0].location_id: there is no 5");
    REFUSED(STRINGS TYPE "\x12\x04\x10\x01\x10\x01", "sample[0].value: more than there are sample types");
    REFUSED(STRINGS TYPE "\x12\x00", "sample[0].value: fewer than there are sample types");
    REFUSED(STRINGS TYPE "\x12\x02\x10\x01\x12\x06\x10\x01\x1a\x02\x08\x09",
            "sample[1].label[0].key: there is no 9");
    REFUSED(STRINGS "\x1a\x02\x10\x01", "mapping[0].id: 0 is no id");
    REFUSED(STRINGS "\x2a\x02\x08\x01\x2a\x02\x08\x01", "function[1].id: another entry has it");
    REFUSED(STRINGS "\x22\x06\x08\x01\x22\x02\x08\x04", "location[0].line[0].function_id: there is no 4");
    REFUSED(STRINGS "\x22\x03\x0a\x01x", "location[0].id: no varint");
    REFUSED(STRINGS "\x2a\x02\x12\x05", "function[0]: no protobuf message, or cut off");
    REFUSED(STRINGS "\x48\x05\x48\x06", "time_nanos: a second one: these are profiles one behind the other");
    REFUSED(STRINGS "\x68\x05", "comment[0]: there is no 5");
    REFUSED("", "empty");
    REFUSED(STRINGS "\x22\x06\x08\x01\x22\x02\x10\x04", "location[0].line[0].function_id: none");
    REFUSED(STRINGS "\x28\x05", "function: no message");
    REFUSED(STRINGS "\x32\x05x", "no pprof, or cut off: no protobuf from byte 5 on");
    REFUSED(STRINGS "\x3d\x01\x01\x01\x01", "profile[0].drop_frames: no varint");
    REFUSED(STRINGS "\x38\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
            "profile[0].drop_frames: there is no 18446744073709551615");
}

UNIT(a_mapping_that_is_not_there_is_none)
{
    cleanup(pprof_release) struct pprof p;
    pprof_init(&p, NULL);
    ck_assert_int_eq(read_text(&p, BYTES_LIT(STRINGS TYPE "\x22\x04\x08\x01\x10\x09")), 0);
    ck_assert_uint_eq(p.locations.n, 1);
    ck_assert_uint_eq(p.locations.p[0].mapping, 0);
}

/* A sample of `n` times one location of two lines, packed or not, read as a list or left packed. */
static int read_deep(uint32_t n, bool is_packed, bool stays_packed)
{
    struct buffer body = BUFFER_INIT(0), sample = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&body), s = wire_writer(&sample);
    struct pprof p;
    struct pprof_sample got;
    pprof_init(&p, NULL);
    ck_assert_int_eq(buffer_add_bytes(&body, BYTES_LIT(STRINGS TYPE "\x2a\x02\x08\x01"
                                                                    "\x22\x0a\x08\x01\x22\x02\x08\x01"
                                                                    "\x22\x02\x08\x01")),
                     0);
    size_t list = is_packed ? wire_begin(&s, 1) : 0;
    for (uint32_t i = 0; i < n; i++)
        ck_assert_int_eq(buffer_add_bytes(&sample, is_packed ? BYTES_LIT("\x01") : BYTES_LIT("\x08\x01")), 0);
    if (is_packed)
        wire_end(&s, list);
    ck_assert_int_eq(buffer_add_bytes(&sample, BYTES_LIT("\x10\x01")), 0);
    wire_put_bytes(&w, 2, buffer_bytes(&sample));
    ck_assert_int_eq(pprof_read(&p, buffer_bytes(&body), &e), 0);
    struct pprof_samples at = pprof_samples(&p);
    at.packed = stays_packed;
    int r = pprof_next(&p, &at, &got, &e);
    ck_assert(r != 0 || stays_packed == (got.packed.p != NULL));
    if (r == 0 && stays_packed)
        r = pprof_check_packed(&p, &at, got.packed, &e);
    pprof_release(&p);
    buffer_release(&body);
    buffer_release(&sample);
    return r;
}

UNIT(a_stack_of_too_many_frames_is_refused)
{
    const uint32_t most = PPROF_STACK_FRAMES_MAX / 2;
    for (int how = 0; how < 3; how++) {
        ck_assert_int_eq(read_deep(most, how > 0, how > 1), 0);
        ck_assert_int_eq(read_deep(most + 1, how > 0, how > 1), PPROF_MALFORMED);
        ck_assert_str_eq(e.text, "sample[0].location_id: more than 65536 frames");
    }
}

UNIT(numbers_are_taken_packed_and_not)
{
    cleanup(pprof_release) struct pprof p;
    struct pprof_sample s;
    pprof_init(&p, NULL);
    const struct bytes body = BYTES_LIT(STRINGS TYPE TYPE "\x22\x02\x08\x01\x22\x02\x08\x02"
                                                          "\x12\x08\x0a\x02\x01\x02\x12\x02\x05\x06"
                                                          "\x12\x08\x08\x01\x08\x02\x10\x05\x10\x06");
    ck_assert_int_eq(pprof_read(&p, body, &e), 0);
    struct pprof_samples at = pprof_samples(&p);
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(pprof_next(&p, &at, &s, &e), 0);
        ck_assert(s.n_locations == 2 && s.locations[0] == 1 && s.locations[1] == 2);
        ck_assert(s.values[0] == 5 && s.values[1] == 6);
    }
    ck_assert_int_eq(pprof_next(&p, &at, &s, &e), PPROF_END);
}

UNIT(ids_are_any_numbers_but_zero)
{
    static const uint64_t some[] = {1, 2, UINT64_MAX, 3, UINT64_MAX - 1, 77, 1u << 31};
    struct pprof_ids ids = {0};
    for (uint32_t i = 0; i < ARRAY_LEN(some); i++)
        ck_assert_int_eq(pprof_ids_add(&ids, some[i]), 0);
    for (uint32_t i = 0; i < ARRAY_LEN(some); i++) {
        ck_assert_uint_eq(pprof_ids_place(&ids, some[i]), i + 1);
        ck_assert_int_eq(pprof_ids_add(&ids, some[i]), PPROF_ID_TAKEN);
    }
    ck_assert_uint_eq(pprof_ids_place(&ids, 4), 0);
    ck_assert_uint_eq(pprof_ids_place(&ids, 0), 0);
    pprof_ids_clear(&ids);
    ck_assert_uint_eq(pprof_ids_place(&ids, UINT64_MAX), 0);
    idmap_release(&ids.places);
}

UNIT(an_otlp_request_is_not_taken_for_one)
{
    ck_assert(!pprof_is_likely(BYTES_LIT("\x0a\x00\x12\x04\x2a\x02xx")));
    ck_assert(!pprof_is_likely(BYTES_LIT("")));
    ck_assert(pprof_is_likely(BYTES_LIT(STRINGS)));
    ck_assert(!pprof_is_likely(BYTES_LIT("\x0a\x04\x12\x02\x12\x00\x12\x00"))); /* a profile of nothing */
    ck_assert(
        pprof_is_likely(BYTES_LIT("\x0a\x04\x08\x01\x10\x02\x12\x09\x0a"))); /* as Go writes it, cut off */
}

static int write_one(struct buffer *out)
{
    struct pprof_writer w;
    const int64_t value = -1;
    const uint32_t location = 1;
    const struct pprof_line line = {1, 7, 2};
    pprof_write_begin(&w, NULL, out);
    uint32_t text = pprof_write_string(&w, BYTES_LIT("text"));
    pprof_write_type(&w, &(struct pprof_type){text, 0});
    pprof_write_mapping(&w, &(struct pprof_mapping){.id = 1, .start = 4096, .has_filenames = true});
    pprof_write_function(&w, &(struct pprof_function){.id = 1, .name = text});
    pprof_write_location(&w, &(struct pprof_location){.id = 1, .mapping = 1}, &line, 1);
    pprof_write_sample(
        &w, &(struct pprof_sample){&location, 1, &value, &(struct pprof_label){.key = text, .number = 3}, 1},
        1);
    return pprof_write_end(&w);
}

OOM_SWEEP(what_is_written_is_read_or_memory_is_out)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    cleanup(pprof_release) struct pprof p;
    struct pprof_sample s;
    pprof_init(&p, NULL);
    int r = write_one(&out);
    ck_assert(r == 0 || (r == -ENOMEM && out.n == 0));
    if (r == 0)
        r = pprof_read(&p, buffer_bytes(&out), &e);
    struct pprof_samples at = pprof_samples(&p);
    if (r == 0)
        r = pprof_next(&p, &at, &s, &e);
    ck_assert(r == 0 || r == -ENOMEM);
    if (r == 0) {
        ck_assert(p.mappings.p[0].has_filenames && p.mappings.p[0].start == 4096);
        ck_assert(p.locations.p[0].n_lines == 1 && p.lines.p[0].line == 7 && p.lines.p[0].column == 2);
        ck_assert(s.values[0] == -1 && s.labels[0].number == 3 && s.labels[0].key == p.functions.p[0].name);
    }
}
