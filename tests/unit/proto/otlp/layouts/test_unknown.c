/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view */
/* Fields that nobody knows are counted alike in every layout: where it is translated, and where it is read.
 */
#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/layouts/unknown.h"
#include "proto/otlp/view/profiles.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

/* A message of fields.def with what it holds, once each, and a field of a release to come in every one: by
 * the layout's own tables. How many those are. (Lists within attributes nest for ever.) */
static uint32_t put_message(struct wire_writer *w, enum profiles_layout layout, enum message m,
                            uint32_t number)
{
    uint32_t n = 1;
    const struct fields all = fields_of(m);
    wire_put_uint(w, number, 7);
    for (uint32_t i = 0; i < all.n; i++) {
        const struct field *f = &all.row[i];
        if (f->type != FIELD_MESSAGE || f->number[layout] == 0 || f->message == MESSAGE_ARRAY_VALUE ||
            f->message == MESSAGE_KEY_VALUE_LIST || f->message == MESSAGE_ENTITY_REF ||
            (layout == PROFILES_LAYOUT_1_5 && m == MESSAGE_REQUEST && f->message == MESSAGE_DICTIONARY))
            continue;
        size_t mark = wire_begin(w, f->number[layout]);
        n += put_message(w, layout, (enum message)f->message, number);
        wire_end(w, mark);
    }
    return n;
}

UNIT(in_every_layout_and_message)
{
    /* the next but a few, in one byte; one above all tables; the last there is */
    static const uint32_t numbers[] = {30, 100, 536870911};
    for (enum profiles_layout l = PROFILES_LAYOUT_1_5; l <= PROFILES_LAYOUT_1_10; l++)
        for (size_t i = 0; i < ARRAY_LEN(numbers); i++) {
            cleanup(made_end) struct made m;
            struct wire_writer *w = made_begin(&m);
            const uint32_t n = put_message(w, l, MESSAGE_REQUEST, numbers[i]);
            ck_assert_uint_ge(n, 20);
            m.body = padded(m.b.p, m.b.n);
            const struct bytes body = bytes_of(m.body, m.b.n);
            ck_assert_uint_eq(layout_unknown_fields(l, body), n);
            const int r = profiles_decode_as(&m.v, body, l, &profiles_limits_default, &m.e);
            ck_assert_msg(r == 0, "%s: %s", profiles_layout_name(l), m.e.text);
            ck_assert_msg(m.v.unknown_fields == n, "%s: %u of %u", profiles_layout_name(l),
                          m.v.unknown_fields, n);
        }
}

/* The first field above those that a message has: it is known or not, by the layout. */
UNIT(what_came_with_a_later_release_is_unknown_before)
{
    cleanup(made_end) struct made m;
    struct wire_writer *w = made_begin(&m);
    IN(w, 1) IN(w, 2) IN(w, 2)
    {
        wire_put_uint(w, 12, 0);         /* attribute_indices of 1.8 */
        IN(w, 1) wire_put_uint(w, 3, 1); /* aggregation_temporality, until 1.8 */
    }
    IN(w, 1) IN(w, 1) IN(w, 1) wire_put_uint(w, 3, 1); /* KeyValue.key_strindex: common.proto only grew */
    static const uint32_t wanted[PROFILES_LAYOUTS] = {
        [PROFILES_LAYOUT_1_8] = 0, [PROFILES_LAYOUT_1_9] = 2, [PROFILES_LAYOUT_1_10] = 2};
    for (enum profiles_layout l = PROFILES_LAYOUT_1_8; l <= PROFILES_LAYOUT_1_10; l++)
        ck_assert_uint_eq(layout_unknown_fields(l, buffer_bytes(&m.b)), wanted[l]);
}

UNIT(any_bytes_are_safe)
{
    uint8_t bytes[64];
    uint32_t seed = 1;
    for (int round = 0; round < 20000; round++) {
        for (size_t i = 0; i < sizeof bytes; i++) {
            seed = seed * 1664525 + 1013904223;
            bytes[i] = (uint8_t)((seed >> 24) & (i % 2 ? 0xff : 0x3f));
        }
        const enum profiles_layout l = PROFILES_LAYOUT_1_5 + round % 5;
        ck_assert_uint_le(layout_unknown_fields(l, bytes_of(bytes, sizeof bytes)), sizeof bytes);
    }
}
