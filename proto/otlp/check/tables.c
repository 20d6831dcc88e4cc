/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>

#include "proto/otlp/check/parts.h"

void *check_column(struct check *c, size_t n, size_t size)
{
    void *p = NULL;
    if (budget_charge(c->budget, n * size) && !(p = calloc(n + 1, size)))
        budget_refund(c->budget, n * size);
    c->is_out |= !p;
    return p;
}

/* Fields by number become tables by the numbers of 1.10: from 1.8 on these are the same. */
static void collect(struct check *c, struct bytes dictionary)
{
    struct wire_reader r = wire_reader(dictionary);
    struct wire_field f;
    c->n_dictionaries++;
    while (wire_next(&r, &f) == 0)
        if (f.number < TABLES && f.type == WIRE_LEN && c->field[MESSAGE_DICTIONARY][f.number] &&
            check_failed(c, vec_append(&c->table[f.number].at, (uint32_t)(f.from - c->body.p))))
            return;
}

void check_collect_tables(struct check *c)
{
    struct wire_reader r = wire_reader(c->body);
    struct wire_field f;
    c->n_dictionaries = 0;
    while (wire_next(&r, &f) == 0 && !c->is_out)
        if (f.number == REQUEST_DICTIONARY && f.type == WIRE_LEN)
            collect(c, f.bytes);
    for (uint32_t t = 1; t < TABLES && !c->is_out; t++) {
        struct check_table *table = &c->table[t];
        table->used = check_column(c, table->at.n, sizeof *table->used);
    }
}

void check_release_tables(struct check *c)
{
    if (c->attribute)
        budget_refund(c->budget, c->table[DICTIONARY_ATTRIBUTE_TABLE].at.n * sizeof *c->attribute);
    if (c->mapping)
        budget_refund(c->budget, c->table[DICTIONARY_MAPPING_TABLE].at.n * sizeof *c->mapping);
    free(take_ptr(c->attribute));
    free(take_ptr(c->mapping));
    for (uint32_t t = 1; t < TABLES; t++) {
        struct check_table *table = &c->table[t];
        const size_t n = table->at.n;
        if (table->used)
            budget_refund(c->budget, n);
        if (table->same)
            budget_refund(c->budget, n * sizeof *table->same);
        free(take_ptr(table->used));
        free(take_ptr(table->same));
        vec_release(&table->at);
    }
}

struct bytes check_entry(const struct check *c, uint32_t table, uint32_t i)
{
    struct wire_reader r = {c->body.p + c->table[table].at.p[i], c->body.p + c->body.n};
    struct wire_field f;
    return wire_next(&r, &f) == 0 ? f.bytes : bytes_of(NULL, 0);
}

struct bytes check_string(const struct check *c, uint32_t i)
{
    return i < c->table[DICTIONARY_STRING_TABLE].at.n ? check_entry(c, DICTIONARY_STRING_TABLE, i)
                                                      : bytes_of(NULL, 0);
}

/* ---- entry 0 ----------------------------------------------------------------------------------- */

/* As protobuf compares messages: fields that are not known make a difference, zeros that are written do not.
 */
static bool is_zero(const struct check *c, enum message message, struct bytes b)
{
    struct wire_reader r = wire_reader(b);
    struct wire_field f;
    while (wire_next(&r, &f) == 0) {
        const struct field *row = check_row(c, message, &f);
        if (!row || (row->repeated && (f.type != WIRE_LEN || row->type == FIELD_MESSAGE)))
            return false;
        if (f.type == WIRE_LEN ? f.bytes.n > 0 : f.value != 0)
            return false;
    }
    return true;
}

/* A link in the form that trace.proto has for an invalid one. */
static bool is_invalid_link(const struct check *c, struct bytes b)
{
    struct wire_reader r = wire_reader(b);
    struct wire_field f;
    bool trace = false, span = false;
    for (uint32_t row; (row = check_next(c, MESSAGE_LINK, &r, &f)) != NOWHERE;) {
        trace |= row == ROW_LINK_TRACE_ID && f.bytes.n == 16 && check_is_zeros(f.bytes);
        span |= row == ROW_LINK_SPAN_ID && f.bytes.n == 8 && check_is_zeros(f.bytes);
    }
    return trace && span;
}

static void entry_0(struct check *c, uint32_t table)
{
    const struct bytes b = check_entry(c, table, 0);
    if (table == DICTIONARY_STRING_TABLE
            ? b.n == 0
            : is_zero(c, (enum message)c->field[MESSAGE_DICTIONARY][table]->message, b))
        return;
    if (table == DICTIONARY_STRING_TABLE)
        check_found_entry(c, CHECK_ENTRY_0, table, 0, "\"%.*s\"", (int)min_of(b.n, (size_t)64),
                          (const char *)b.p);
    else if (table == DICTIONARY_LINK_TABLE && is_invalid_link(c, b))
        check_found_entry(c, CHECK_LINK_0, table, 0, "%s", "");
    else
        check_found_entry(c, CHECK_ENTRY_0, table, 0, "%s", "");
}

void check_entries_0(struct check *c)
{
    if (c->n_dictionaries == 0) {
        check_found(c, CHECK_NO_DICTIONARY, NULL, NOWHERE, "%s", "");
        return;
    }
    for (uint32_t t = 1; t < TABLES; t++) {
        if (c->table[t].at.n == 0)
            check_found_entry(c, CHECK_TABLE_EMPTY, t, NOWHERE, "%s", "");
        else
            entry_0(c, t);
    }
}

#define TABLE_RULES(name) \
    [DICTIONARY_##name##_TABLE] = {CHECK_##name##_INDEX, CHECK_##name##_ORPHAN, CHECK_##name##_DUPLICATE}
const struct check_table_rules check_table_rules[TABLES] = {
    TABLE_RULES(MAPPING), TABLE_RULES(LOCATION),  TABLE_RULES(FUNCTION), TABLE_RULES(LINK),
    TABLE_RULES(STRING),  TABLE_RULES(ATTRIBUTE), TABLE_RULES(STACK),
};

/* ---- entries that nothing refers to ------------------------------------------------------------- */

void check_orphans(struct check *c)
{
    for (uint32_t t = 1; t < TABLES; t++)
        for (uint32_t i = 1; i < c->table[t].at.n; i++)
            if (!c->table[t].used[i])
                check_found_entry(c, check_table_rules[t].orphan, t, i, "%s", "");
}
