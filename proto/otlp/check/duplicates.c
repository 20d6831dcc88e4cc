/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which entries of a table are equal: "the identity of a dictionary item is based on its value, recursively
 * as needed". So each entry is written in one form, in which an index is that of the first equal entry,
 * attributes are in order, and zeros stand where nothing was said; and tables are taken from strings upwards.
 */
#include "proto/base/hash.h"
#include "proto/otlp/check/parts.h"

/* Its memory is charged: a location may have any number of lines. */
static void put(struct check *c, struct buffer *out, const void *p, size_t n)
{
    const size_t before = out->cap;
    if (check_failed(c, buffer_reserve(out, n)))
        return;
    if (out->cap > before && !budget_charge(c->budget, out->cap - before)) {
        budget_refund(c->budget, before);
        buffer_release(out);
        c->is_out = true;
        return;
    }
    check_failed(c, buffer_add(out, p, n));
}

void check_scratch_clear(struct check *c, struct buffer *scratch, size_t keep_max)
{
    const size_t before = scratch->cap;
    buffer_clear(scratch, keep_max);
    budget_refund(c->budget, before - scratch->cap);
}

static void put_list(struct check *c, struct buffer *out)
{
    put(c, out, &c->list.n, sizeof c->list.n);
    put(c, out, c->list.p, c->list.n * sizeof *c->list.p);
}

/* A line of a location: the numbers that are not 0, then an end. */
static void put_line(struct check *c, struct buffer *out, struct bytes line)
{
    struct wire_reader r = wire_reader(line);
    struct wire_field f;
    uint64_t value[ROWS_LINE] = {0};
    for (uint32_t row; (row = check_next(c, MESSAGE_LINE, &r, &f)) != NOWHERE;)
        value[row] = row == ROW_LINE_FUNCTION_INDEX
                         ? check_same(&c->table[DICTIONARY_FUNCTION_TABLE], check_index(f.value))
                         : f.value;
    for (uint32_t row = 0; row < ROWS_LINE; row++) {
        if (value[row] == 0)
            continue;
        put(c, out, &(uint8_t){(uint8_t)row}, 1);
        put(c, out, &value[row], sizeof value[row]);
    }
    put(c, out, "\xff", 1);
}

/* A message: its lines, its values in the order of rows, its list of indices; of bytes and values the bytes.
 */
static void put_message(struct check *c, enum message message, struct bytes b, struct buffer *out)
{
    struct wire_reader r = wire_reader(b);
    struct wire_field f;
    uint64_t value[ROWS_MAX] = {0};
    const struct fields rows = fields_of(message);
    vec_clear(&c->list);
    for (uint32_t row; (row = check_next(c, message, &r, &f)) != NOWHERE;) {
        const struct field *of = &rows.row[row];
        if (of->type == FIELD_MESSAGE && of->message == MESSAGE_LINE)
            put_line(c, out, f.bytes);
        else if (of->repeated)
            check_list(c, &f);
        else if (f.type != WIRE_LEN)
            value[row] = of->table ? check_same(&c->table[of->table], check_index(f.value)) : f.value;
        else { /* the ids of a link, the value of an attribute */
            put(c, out, &row, sizeof row);
            put(c, out, &f.bytes.n, sizeof f.bytes.n);
            put(c, out, f.bytes.p, f.bytes.n);
        }
    }
    const uint32_t of = message == MESSAGE_STACK ? DICTIONARY_LOCATION_TABLE : DICTIONARY_ATTRIBUTE_TABLE;
    for (uint32_t i = 0; i < c->list.n; i++)
        c->list.p[i] = check_same(&c->table[of], c->list.p[i]);
    if (message != MESSAGE_STACK)
        check_list_sort(c);
    put_list(c, out);
    put(c, out, value, rows.n * sizeof *value);
}

/* An entry in its one form: of a string its own bytes. */
static struct bytes form(struct check *c, uint32_t table, uint32_t i, struct buffer *scratch)
{
    const struct bytes b = check_entry(c, table, i);
    if (table == DICTIONARY_STRING_TABLE)
        return b;
    scratch->n = 0;
    put_message(c, (enum message)c->field[MESSAGE_DICTIONARY][table]->message, b, scratch);
    return buffer_bytes(scratch);
}

/* Remembers that entry i is equal to an earlier one. */
static void is_equal(struct check *c, struct check_table *t, uint32_t i, uint32_t first)
{
    if (!t->same) {
        t->same = check_column(c, t->at.n, sizeof *t->same);
        if (!t->same)
            return;
        for (uint32_t k = 0; k < t->at.n; k++)
            t->same[k] = k;
    }
    t->same[i] = first;
}

static void table(struct check *c, uint32_t number)
{
    struct check_table *t = &c->table[number];
    cleanup(hash_table_release) struct hash_table known = {.budget = c->budget};
    if (t->at.n > 1)
        check_failed(c, hash_table_reserve(&known, t->at.n));
    for (uint32_t i = 0; i < t->at.n && t->at.n > 1 && !c->is_out; i++) {
        const struct bytes b = form(c, number, i, &c->entry);
        struct hash_at at = hash_table_at(&known, hash_bytes(b, hash_seed()));
        uint32_t k;
        while ((k = hash_table_next(&known, &at)) != HASH_NONE &&
               !bytes_eq(form(c, number, k, &c->other), b)) {
        }
        if (k == HASH_NONE) {
            check_failed(c, hash_table_add(&known, at, i));
            continue;
        }
        is_equal(c, t, i, k);
        check_found_entry(c, check_table_rules[number].duplicate, number, i, "equal to [%u]", k);
    }
}

void check_duplicates(struct check *c)
{
    static const uint32_t order[] = {DICTIONARY_STRING_TABLE,   DICTIONARY_ATTRIBUTE_TABLE,
                                     DICTIONARY_MAPPING_TABLE,  DICTIONARY_FUNCTION_TABLE,
                                     DICTIONARY_LOCATION_TABLE, DICTIONARY_STACK_TABLE,
                                     DICTIONARY_LINK_TABLE};
    for (size_t i = 0; i < ARRAY_LEN(order); i++)
        table(c, order[i]);
}
