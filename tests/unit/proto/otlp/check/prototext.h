/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of the checker: requests as text, so that what a case changes is a line a person can read, and
 * bytes that no library would write.
 *
 *     name { … }     a message                  name: [1, -2]   a packed list
 *     name: 7        a number, also 0x7         name: 7         several: one of a list, not packed
 *     name: "a\x00"  text or bytes              @0a02           these bytes, as they are
 */
#ifndef TESTS_UNIT_PROTO_OTLP_CHECK_PROTOTEXT_H
#define TESTS_UNIT_PROTO_OTLP_CHECK_PROTOTEXT_H

#include <check.h>
#include <ctype.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/wire/writer.h"

#define PROTOTEXT_DEPTH 300u

static inline const char *prototext_blank(const char *p)
{
    while (isspace((unsigned char)*p))
        p++;
    return p;
}

static inline const struct field *prototext_field(enum profiles_layout layout, enum message message,
                                                  struct bytes name)
{
    const struct fields f = fields_of(message);
    for (uint32_t i = 0; i < f.n; i++)
        if (f.row[i].number[layout] > 0 && bytes_eq(f.row[i].proto, name))
            return &f.row[i];
    ck_abort_msg("no field %.*s", BYTES_FMT(name));
    return NULL;
}

static inline void prototext_number(struct wire_writer *w, const struct field *f, const char **p)
{
    char *end;
    const uint64_t v = **p == '-' ? (uint64_t)strtoll(*p, &end, 0) : strtoull(*p, &end, 0);
    ck_assert_ptr_ne(end, *p);
    *p = prototext_blank(end);
    if (field_wire(f) == WIRE_VARINT)
        wire_put_varint(w, v);
    else
        buffer_add(w->out, &v, sizeof v);
}

static inline void prototext_list(struct wire_writer *w, const struct field *f, uint32_t number,
                                  const char **p)
{
    const size_t mark = wire_begin(w, number);
    while (**p != ']') {
        prototext_number(w, f, p);
        *p = prototext_blank(**p == ',' ? *p + 1 : *p);
    }
    ++*p;
    wire_end(w, mark);
}

static inline void prototext_string(struct wire_writer *w, uint32_t number, const char **p)
{
    const size_t mark = wire_begin(w, number);
    for (++*p; **p != '"'; ++*p) {
        uint8_t byte = (uint8_t) * *p;
        if (byte == '\\') {
            byte = (uint8_t)(bytes_hex_value((uint8_t)(*p)[2]) << 4 | bytes_hex_value((uint8_t)(*p)[3]));
            *p += 3;
        }
        buffer_add(w->out, &byte, 1);
    }
    ++*p;
    wire_end(w, mark);
}

static inline void prototext_raw(struct wire_writer *w, const char **p)
{
    for (++*p; bytes_hex_value((uint8_t) * *p) >= 0; *p += 2) {
        const uint8_t byte =
            (uint8_t)(bytes_hex_value((uint8_t)(*p)[0]) << 4 | bytes_hex_value((uint8_t)(*p)[1]));
        buffer_add(w->out, &byte, 1);
    }
}

/* The bytes of a request. */
static inline void prototext(enum profiles_layout layout, const char *p, struct buffer *out)
{
    struct wire_writer w = wire_writer(out);
    enum message message[PROTOTEXT_DEPTH] = {MESSAGE_REQUEST};
    size_t mark[PROTOTEXT_DEPTH];
    uint32_t depth = 0;
    for (p = prototext_blank(p); *p; p = prototext_blank(p)) {
        if (*p == '}') {
            wire_end(&w, mark[depth--]);
            p++;
            continue;
        }
        if (*p == '@') {
            prototext_raw(&w, &p);
            continue;
        }
        const char *name = p;
        while (islower((unsigned char)*p) || *p == '_')
            p++;
        const struct field *f = prototext_field(layout, message[depth], bytes_of(name, (size_t)(p - name)));
        const uint32_t number = f->number[layout];
        p = prototext_blank(p);
        if (*p == '{') {
            ck_assert_uint_lt(++depth, PROTOTEXT_DEPTH);
            message[depth] = (enum message)f->message;
            mark[depth] = wire_begin(&w, number);
            p++;
            continue;
        }
        ck_assert_int_eq(*p, ':');
        p = prototext_blank(p + 1);
        if (*p == '[') {
            p++;
            prototext_list(&w, f, number, &p);
        } else if (*p == '"') {
            prototext_string(&w, number, &p);
        } else {
            wire_put_varint(&w, WIRE_TAG(number, field_wire(f)));
            prototext_number(&w, f, &p);
        }
    }
    ck_assert_uint_eq(depth, 0);
    ck_assert_int_eq(w.failed, 0);
    wire_put_raw(&w, bytes_of("", 0));
}

/* `text` with the first `from` replaced by `to`; the caller frees it. */
static inline char *prototext_replaced(const char *text, const char *from, const char *to)
{
    struct buffer out = BUFFER_INIT(0);
    const char *at = strstr(text, from);
    ck_assert_msg(at != NULL, "nowhere: %s", from);
    ck_assert_int_eq(buffer_add(&out, text, (size_t)(at - text)), 0);
    ck_assert_int_eq(buffer_add_str(&out, to), 0);
    ck_assert_int_eq(buffer_add(&out, at + strlen(from), strlen(at + strlen(from)) + 1), 0);
    return (char *)out.p;
}

#endif
