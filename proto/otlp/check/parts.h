/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request being checked, as the files of this folder share it.
 */
#ifndef PROTO_OTLP_CHECK_PARTS_H
#define PROTO_OTLP_CHECK_PARTS_H

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/base/hash_table.h"
#include "proto/base/vec.h"
#include "proto/otlp/check/finding.h"
#include "proto/otlp/check/names.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/wire/reader.h"

/* Messages inside one another that readers follow: 100 in C++, Java and Python, the request included. */
#define DEPTH_MAX 100u

/* Rows of one message: those of Profile are the most. */
#define ROWS_MAX 32u

#define NOWHERE UINT32_MAX /* no index */

/* A table of the dictionary, by the number of its field in 1.10: 1 … DICTIONARY_HIGHEST. */
#define TABLES (DICTIONARY_HIGHEST + 1)

struct check_table {
    VEC(uint32_t) at; /* by entry: where in the body its field begins */
    uint8_t *used;    /* by entry: whether anything refers to it; NULL: references are not checked */
    uint32_t *same;   /* by entry: the first that is equal to it; NULL: all are different */
};

/* What can be wrong with an index into a table, and with its entries. */
struct check_table_rules {
    enum check_rule index, orphan, duplicate;
};
extern const struct check_table_rules check_table_rules[TABLES];

/* What is known of an attribute of the table. */
struct check_attribute {
    uint32_t key;                  /* string, the first of equal ones; NOWHERE: none */
    uint8_t kind;                  /* enum check_kind */
    const struct check_name *name; /* NULL: no convention */
};

/* Of a mapping. */
struct check_range {
    uint64_t start, limit;
};

/* The way to the message at hand. */
struct check_frame {
    const uint8_t *at, *end;   /* what is still to be read of it */
    const struct field *field; /* by which it was entered; NULL: the request itself */
    uint32_t index;            /* of several: which */
    enum message message;
    uint32_t last;           /* number of the field before */
    bool is_unordered;       /* and that was told */
    uint32_t seen[ROWS_MAX]; /* by row: how many there were */
};

/* A set of byte strings that the request or somebody else holds. */
struct check_set {
    VEC(struct bytes) of;
    struct hash_table table;
};

struct check_profile {
    uint64_t begins, ends;
    int shape;                /* of the first sample: enum in profile.c */
    struct check_set samples; /* by identity: the first of each */
};

struct check {
    /* Results. */
    uint32_t per_rule;
    uint64_t count[CHECK_RULES];
    VEC(struct check_finding) findings;
    struct arena arena; /* their texts */
    struct budget *budget;

    /* The request. */
    struct bytes body;
    enum profiles_layout layout;
    bool is_translated; /* from an older layout: what is on the wire is ours */
    bool has_order;     /* of its writer */
    bool has_content;   /* its content is checked, not its wire alone */
    bool is_out;        /* of memory */
    const struct field *field[MESSAGES][FIELD_NUMBERS]; /* of this layout */
    struct check_table table[TABLES];
    uint32_t n_dictionaries;
    struct check_attribute *attribute; /* by entry of attribute_table */
    struct check_range *mapping;       /* by entry of mapping_table */
    struct check_frame frame[DEPTH_MAX];
    uint32_t depth;
    uint32_t before[TABLES];                     /* entries in dictionaries that were read */
    struct check_profile profile;                /* at hand */
    struct arena identities;                     /* of its samples */
    struct check_set resource_keys, profile_ids; /* of the resource at hand; of the request */

    /* Scratch. */
    VEC(uint32_t) list;
    struct check_set set;
    struct buffer entry, other;
};

/* ---- report.c --------------------------------------------------------------------------------- */

/* One more that breaks the rule: at a field of the message at hand, or at that message (`leaf` NULL); `index`
 * of a list's elements or NOWHERE. */
void check_found(struct check *c, enum check_rule rule, const char *leaf, uint32_t index, const char *format,
                 ...) __attribute__((format(printf, 5, 6)));

/* At an entry of a table of the dictionary; at the table itself (NOWHERE). */
void check_found_entry(struct check *c, enum check_rule rule, uint32_t table, uint32_t index,
                       const char *format, ...) __attribute__((format(printf, 5, 6)));

/* ---- tables.c: what the dictionary has, before anything else is looked at ---------------------- */

void check_collect_tables(struct check *c);

/* Zeroed memory of n elements and a spare one, charged for n; NULL with c->is_out: there is none. */
void *check_column(struct check *c, size_t n, size_t size);

void check_release_tables(struct check *c);

/* The entry of a table as bytes: of a message or string. i is below the table's n. */
struct bytes check_entry(const struct check *c, uint32_t table, uint32_t i);

/* A string, "" for what leads nowhere. */
struct bytes check_string(const struct check *c, uint32_t i);

static inline uint32_t check_same(const struct check_table *t, uint32_t i)
{
    return t->same && i < t->at.n ? t->same[i] : i;
}

/* ---- duplicates.c, tables.c -------------------------------------------------------------------- */

void check_duplicates(struct check *c); /* fills `same` */

/* Empties c->entry or c->other, which are charged for. */
void check_scratch_clear(struct check *c, struct buffer *scratch, size_t keep_max);

void check_orphans(struct check *c); /* behind the walk */
void check_entries_0(struct check *c);

/* ---- walk.c ------------------------------------------------------------------------------------ */

/* Every message and every field, once, in the order of the wire. False: it is malformed, and that is told. */
bool check_walk(struct check *c);

/* ---- set.c ------------------------------------------------------------------------------------- */

/* Which of the set's members this is equal to, added if to none: then NOWHERE, as when memory is out. */
uint32_t check_set_add(struct check *c, struct check_set *set, struct bytes b);
bool check_set_has(const struct check_set *set, struct bytes b);

/* Empties it, at a cost of what was in it. */
void check_set_clear(struct check_set *set);
void check_set_release(struct check_set *set);

/* ---- what a message says; when it is entered, and when it was read ------------------------------ */

void check_enter(struct check *c, struct bytes message); /* content.c */
void check_leave(struct check *c);

void check_profile(struct check *c, struct bytes message); /* profile.c */
void check_sample(struct check *c, struct bytes message);

void check_mappings_of_table(struct check *c); /* dictionary.c: fills c->mapping */
void check_mapping(struct check *c, struct bytes message);
void check_location(struct check *c, struct bytes message);
void check_line(struct check *c, struct bytes message);
void check_function(struct check *c, struct bytes message);
void check_link(struct check *c, struct bytes message);

void check_attributes_of_table(struct check *c);                    /* attributes.c: fills c->attribute */
void check_attribute_list(struct check *c, enum check_place place); /* of c->list */
void check_key_values(struct check *c, struct bytes message);       /* of a resource, scope or list */
void check_key_value(struct check *c, struct bytes message);
void check_key_value_and_unit(struct check *c, struct bytes message);
void check_entity(struct check *c, struct bytes message);

/* ---- reading ------------------------------------------------------------------------------------ */

/* The row of a field as the layout has it, or NULL; only for those whose wire type it can be. */
static inline const struct field *check_row(const struct check *c, enum message message,
                                            const struct wire_field *f)
{
    const struct field *row = f->number < FIELD_NUMBERS ? c->field[message][f->number] : NULL;
    return row && field_takes(row, f->type) ? row : NULL;
}

/* Its place among the rows of its message: ROW_SAMPLE_VALUES. */
static inline uint32_t check_row_number(enum message message, const struct field *row)
{
    return (uint32_t)(row - fields_of(message).row);
}

/* For a loop over what a message has: the next known field's row number, or NOWHERE at the end. */
uint32_t check_next(const struct check *c, enum message message, struct wire_reader *r, struct wire_field *f);

/* Adds the numbers of a repeated int32, packed or not, to `c->list`; sorts that. */
void check_list(struct check *c, const struct wire_field *f);
void check_list_sort(struct check *c);

/* Whether all are 0. */
static inline bool check_is_zeros(struct bytes b)
{
    size_t i = 0;
    while (i < b.n && b.p[i] == 0)
        i++;
    return i == b.n;
}

/* An index as readers take it: the low 32 bits. */
static inline uint32_t check_index(uint64_t v)
{
    return (uint32_t)v;
}

/* What cannot be told for want of memory is remembered. */
static inline bool check_failed(struct check *c, int r)
{
    c->is_out |= r < 0;
    return r < 0;
}

#endif
