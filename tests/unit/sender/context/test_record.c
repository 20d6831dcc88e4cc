/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <string.h>

#include "sender/context/record.h"

static uint8_t raw[CONTEXT_BYTES_MAX + 1];

/* A record with both ids and n bytes of attributes, of which it says there are `said`. */
static size_t make(const void *attributes, size_t n, uint16_t said)
{
    memset(raw, 0, sizeof raw);
    memset(raw, 0xaa, 16);
    memset(raw + 16, 0xbb, 8);
    raw[CONTEXT_VALID_AT] = 1;
    memcpy(raw + CONTEXT_SIZE_AT, &said, sizeof said);
    memcpy(raw + CONTEXT_HEAD_BYTES, attributes, n);
    return CONTEXT_HEAD_BYTES + n;
}

UNIT(ids_and_entries_are_read)
{
    struct record r;
    uint8_t key;
    struct bytes value;
    size_t n = make("\x03\x02hi\x00\x00\xff\x01x", 9, 9);
    ck_assert(record_read(raw, n, &r));
    ck_assert(r.is_linked && r.trace_id[15] == 0xaa && r.span_id[7] == 0xbb);
    struct bytes rest = r.attributes;
    ck_assert(record_next(&rest, &key, &value) && key == 3 && bytes_is(value, "hi"));
    ck_assert(record_next(&rest, &key, &value) && key == 0 && value.n == 0);
    ck_assert(record_next(&rest, &key, &value) && key == 255 && bytes_is(value, "x"));
    ck_assert(!record_next(&rest, &key, &value));
    ck_assert(record_has_new_key(&r, 4) && record_has_new_key(&r, 255) && !record_has_new_key(&r, 256));
}

UNIT(what_does_not_say_it_is_valid_says_nothing)
{
    struct record r;
    size_t n = make("", 0, 0);
    ck_assert(record_read(raw, n, &r));
    for (int v = 0; v < 256; v++) {
        raw[CONTEXT_VALID_AT] = (uint8_t)v;
        ck_assert_int_eq(record_read(raw, n, &r), v == 1 || v == GO_CONTEXT);
    }
    raw[CONTEXT_VALID_AT] = 1;
    for (size_t less = 0; less < n; less++)
        ck_assert(!record_read(raw, less, &r));
    ck_assert(!record_read(NULL, 0, &r));
}

UNIT(one_id_alone_is_no_link)
{
    struct record r;
    size_t n = make("\x01\x01x", 3, 3);
    memset(raw + 16, 0, 8);
    ck_assert(record_read(raw, n, &r) && !r.is_linked && r.trace_id[0] == 0 && r.attributes.n == 3);
    n = make("\x01\x01x", 3, 3);
    memset(raw, 0, 16);
    ck_assert(record_read(raw, n, &r) && !r.is_linked && r.span_id[0] == 0);
    n = make("", 0, 0);
    memset(raw, 0, 24);
    ck_assert(!record_read(raw, n, &r)); /* neither ids nor attributes */
}

UNIT(entries_end_where_they_are_not_whole)
{
    struct record r;
    uint8_t key;
    struct bytes value;
    /* It says more than was copied; the last entry is cut. */
    size_t n = make("\x00\x01x\x01\x05"
                    "ab",
                    7, 600);
    ck_assert(record_read(raw, n, &r));
    ck_assert_uint_eq(r.attributes.n, 7);
    ck_assert(record_next(&r.attributes, &key, &value) && bytes_is(value, "x"));
    ck_assert(!record_next(&r.attributes, &key, &value));
    n = make("\x00\x01x\x01", 4, 4); /* a key without a length */
    ck_assert(record_read(raw, n, &r) && record_next(&r.attributes, &key, &value));
    ck_assert(!record_next(&r.attributes, &key, &value));
    n = make("\x00\x01x\x01\x01y", 6, 3); /* what is behind what it says is not its own */
    ck_assert(record_read(raw, n, &r) && record_next(&r.attributes, &key, &value));
    ck_assert(!record_next(&r.attributes, &key, &value));
}

UNIT(a_goroutines_labels_are_pairs)
{
    struct record r;
    struct bytes key, value;
    size_t n = make("\x04\x03userbob\x01\x00k\x05\x05"
                    "cut..ab",
                    21, 600);
    memset(raw, 0, 24);
    raw[CONTEXT_VALID_AT] = GO_CONTEXT;
    ck_assert(record_read(raw, n, &r) && r.has_labels && !r.is_linked && !record_has_new_key(&r, 0));
    ck_assert(record_next_label(&r.attributes, &key, &value) && bytes_is(key, "user") &&
              bytes_is(value, "bob"));
    ck_assert(record_next_label(&r.attributes, &key, &value) && bytes_is(key, "k") && value.n == 0);
    ck_assert(!record_next_label(&r.attributes, &key, &value)); /* not whole */
}
