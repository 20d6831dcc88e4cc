/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One pass over the bytes, by the table of fields: each message is a frame on a stack, each field is held
 * against what its row says of it. All that is the same for every field is here: wire types, order, text, and
 * that an index is within its table. What a message means is asked when it is entered (content.c), from its
 * own bytes.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/otlp/check/parts.h"
#include "proto/wire/writer.h"

uint32_t check_next(const struct check *c, enum message message, struct wire_reader *r, struct wire_field *f)
{
    while (wire_next(r, f) == 0) {
        const struct field *row = check_row(c, message, f);
        if (row)
            return check_row_number(message, row);
    }
    return NOWHERE;
}

void check_list(struct check *c, const struct wire_field *f)
{
    struct wire_rest rest = {0};
    uint64_t v;
    while (wire_next_repeated(f, WIRE_VARINT, &rest, &v) == 0)
        if (check_failed(c, vec_append(&c->list, check_index(v))))
            return;
}

static int by_number(const void *a, const void *b)
{
    const uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return order_of(x, y);
}

void check_list_sort(struct check *c)
{
    if (c->list.n > 1)
        qsort(c->list.p, c->list.n, sizeof *c->list.p, by_number);
}

/* ---- numbers ---------------------------------------------------------------------------------- */

static void refer(struct check *c, const struct field *row, const char *name, uint64_t value,
                  uint32_t element)
{
    struct check_table *t = &c->table[row->table];
    const uint32_t i = check_index(value);
    if (!c->has_content)
        return;
    if (i < t->at.n)
        t->used[i] = 1;
    else if (i > 0) /* that there is no entry 0 is told of the table */
        check_found(c, check_table_rules[row->table].index, name, element, "%" PRId32 ", of %u entries",
                    (int32_t)i, t->at.n);
    if (i == 0 && row->repeated && t->at.n > 0)
        check_found(c, CHECK_NULL_IN_LIST, name, element, "0");
}

static void number(struct check *c, const struct field *row, uint64_t value, uint32_t element)
{
    const char *name = (const char *)row->proto.p;
    if (row->type == FIELD_INT32 && value > INT32_MAX && value < (uint64_t)INT32_MIN)
        check_found(c, CHECK_INT32, name, element, "%" PRIu64, value);
    if (row->type == FIELD_BOOL && value > 1)
        check_found(c, CHECK_BOOL_RANGE, name, element, "%" PRIu64, value);
    if (row->table)
        refer(c, row, name, value, element);
}

/* The numbers of a packed list, by its bytes. */
static void packed(struct check *c, const struct field *row, struct bytes list, uint32_t first)
{
    const char *name = (const char *)row->proto.p;
    if (field_wire(row) == WIRE_I64) {
        if (list.n % 8 > 0)
            check_found(c, CHECK_PACKED, name, NOWHERE, "%zu bytes, of 8 each", list.n);
        return;
    }
    struct wire_reader r = wire_reader(list);
    size_t shortest = 0;
    uint64_t v;
    int got;
    for (; (got = wire_next_varint(&r, &v)) == 0; first++) {
        shortest += wire_varint_size(v);
        number(c, row, v, first);
    }
    if (got == WIRE_MALFORMED)
        check_found(c, CHECK_PACKED, name, first, "%zu bytes are left", (size_t)(r.end - r.p));
    else if (shortest < list.n)
        check_found(c, CHECK_OVERLONG, name, NOWHERE, "%zu bytes for what takes %zu", list.n, shortest);
}

/* ---- a field ----------------------------------------------------------------------------------- */

static uint32_t tag_size(const struct wire_field *f)
{
    return wire_varint_size(WIRE_TAG((uint64_t)f->number, f->type) & UINT32_MAX);
}

/* The bytes it would take. */
static size_t shortest(const struct wire_field *f)
{
    switch (f->type) {
    case WIRE_VARINT: return tag_size(f) + wire_varint_size(f->value);
    case WIRE_LEN: return tag_size(f) + wire_varint_size(f->bytes.n) + f->bytes.n;
    case WIRE_I64: return tag_size(f) + 8;
    default: return tag_size(f) + 4;
    }
}

static const char *wire_name(enum wire_type type)
{
    static const char *const names[] = {"VARINT", "I64", "LEN", "group", "group", "I32"};
    return names[type];
}

/* What holds for any field, of a row or not. `size` is what it took. False: there is no more to say of it. */
static bool look(struct check *c, struct check_frame *at, const struct field *row, const struct wire_field *f,
                 size_t size)
{
    const char *name = row ? (const char *)row->proto.p : NULL;
    if (f->number < at->last && c->has_order && !at->is_unordered) {
        check_found(c, CHECK_ORDER, NULL, NOWHERE, "field %u behind field %u", f->number, at->last);
        at->is_unordered = true;
    }
    at->last = f->number;
    if (f->type == WIRE_SGROUP) {
        check_found(c, CHECK_GROUP, name, NOWHERE, "field %u", f->number);
        return false;
    }
    if (size > shortest(f))
        check_found(c, CHECK_OVERLONG, name, NOWHERE, "%zu bytes for what takes %zu", size, shortest(f));
    if (!row) {
        check_found(c, CHECK_UNKNOWN_FIELD, NULL, NOWHERE, "field %u, %s", f->number, wire_name(f->type));
        return false;
    }
    if (!field_takes(row, f->type)) {
        check_found(c, CHECK_WIRE_TYPE, name, NOWHERE, "%s, not %s", wire_name(f->type),
                    wire_name(field_wire(row)));
        return false;
    }
    return true;
}

/* How many there were of it before. */
static uint32_t count(struct check *c, struct check_frame *at, const struct field *row)
{
    const uint32_t number = check_row_number(at->message, row), before = at->seen[number]++;
    if (!row->repeated && before == 1)
        check_found(c, CHECK_REPEATED, (const char *)row->proto.p, NOWHERE, "%s", "");
    if (at->message != MESSAGE_ANY_VALUE || before > 0)
        return before;
    for (uint32_t i = 0; i < ROWS_ANY_VALUE; i++)
        if (i != number && at->seen[i] > 0)
            check_found(c, CHECK_ONEOF, (const char *)row->proto.p, NOWHERE, "beside %.*s",
                        BYTES_FMT(fields_of(MESSAGE_ANY_VALUE).row[i].proto));
    return before;
}

static void enter(struct check *c, const struct field *row, struct bytes message, uint32_t index)
{
    if (c->depth == DEPTH_MAX) {
        check_found(c, CHECK_DEPTH, (const char *)row->proto.p, NOWHERE, "more than %u", DEPTH_MAX);
        return;
    }
    struct check_frame *f = &c->frame[c->depth++];
    f->at = message.p;
    f->end = message.p + message.n;
    f->field = row;
    f->index = index;
    f->message = row ? (enum message)row->message : MESSAGE_REQUEST;
    f->last = 0;
    f->is_unordered = false;
    memset(f->seen, 0, fields_of(f->message).n * sizeof *f->seen);
    if (c->has_content)
        check_enter(c, message);
}

/* One whose payload is text, a message, or bytes. */
static void payload(struct check *c, const struct field *row, struct bytes b, uint32_t index)
{
    if (row->type == FIELD_MESSAGE)
        enter(c, row, b, index);
    else if (row->type == FIELD_STRING && !bytes_is_utf8(b))
        check_found(c, CHECK_UTF8, (const char *)row->proto.p, row->repeated ? index : NOWHERE, "%.*s",
                    (int)min_of(b.n, (size_t)64), (const char *)b.p);
}

static void field(struct check *c, struct check_frame *at, const struct wire_field *f, size_t size)
{
    const struct field *row = f->number < FIELD_NUMBERS ? c->field[at->message][f->number] : NULL;
    if (!look(c, at, row, f, size))
        return;
    uint32_t index = count(c, at, row);
    if (at->message == MESSAGE_DICTIONARY && f->number < TABLES)
        index += c->before[f->number];
    if (field_wire(row) == WIRE_LEN) {
        payload(c, row, f->bytes, index);
    } else if (f->type == WIRE_LEN) {
        packed(c, row, f->bytes, index);
    } else {
        if (row->repeated)
            check_found(c, CHECK_UNPACKED, (const char *)row->proto.p, index, "%s", "");
        number(c, row, f->value, row->repeated ? index : NOWHERE);
    }
}

bool check_walk(struct check *c)
{
    c->depth = 0;
    enter(c, NULL, c->body, 0);
    while (c->depth > 0) {
        struct check_frame *at = &c->frame[c->depth - 1];
        struct wire_reader r = {at->at, at->end};
        struct wire_field f;
        const int got = wire_next(&r, &f);
        if (got == WIRE_MALFORMED) {
            check_found(c, CHECK_MALFORMED, NULL, NOWHERE, "at byte %zu of %zu", (size_t)(r.p - c->body.p),
                        c->body.n);
            c->depth = 0;
            return false;
        }
        if (got == WIRE_END) {
            if (c->has_content)
                check_leave(c);
            c->depth--;
            continue;
        }
        at->at = r.p;
        field(c, at, &f, (size_t)(r.p - f.from));
    }
    return true;
}
