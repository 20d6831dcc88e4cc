/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rule file as it was written: what the parser makes and the resolver reads. Names are still names, fields
 * that may turn out to be a table's column are still names, and nothing is shared.
 *
 * One node type serves patterns, frames, samples and texts: the grammar nests them in each other everywhere.
 * Everything lives in the arena of the compilation; strings and atoms, which the tree keeps, in the set's.
 */
#ifndef RULES_PARSE_AST_H
#define RULES_PARSE_AST_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "rules/tree/policy.h"
#include "rules/tree/tree.h"

enum ast_op {
    /* patterns */
    AST_PATTERN, /* kids: AST_ATOM, AST_NAME, AST_NONE */
    AST_ATOM,    /* atom */
    /* frames and samples */
    AST_AND,
    AST_OR,   /* kids */
    AST_NOT,  /* kids[0] */
    AST_NAME, /* name: of a definition, or TABLE.COLUMN */
    /* frames */
    AST_TYPE_WORD, /* name */
    AST_INLINED,
    AST_FRAME_MATCH, /* kids: a field, AST_PATTERN; negated */
    AST_FRAME_EQUAL, /* kids: a field, AST_STRING or AST_NONE; negated */
    AST_FIELD,       /* field */
    AST_REF,         /* ref; kids[0]: a frame, of first and last; region */
    /* samples */
    AST_LINKED,
    AST_ANY,
    AST_NO,
    AST_EVERY,      /* kids[0]: a frame; region */
    AST_REF_IS,     /* kids: AST_REF, a frame */
    AST_CALLS,      /* kids: frames; directly[] */
    AST_TEXT_MATCH, /* kids: AST_TEXT, AST_PATTERN; negated */
    AST_TEXT_EQUAL, /* kids: AST_TEXT, AST_TEXT; negated */
    /* texts */
    AST_TEXT,   /* kids: AST_CHOICE */
    AST_CHOICE, /* kids: the parts; guard */
    AST_STRING, /* name: the text, escapes resolved */
    AST_NONE,
    AST_GROUP,    /* kids[0]: AST_TEXT */
    AST_FIELD_OF, /* kids: AST_FIELD or AST_NAME, AST_REF */
    AST_ATTR,     /* scope, name: the key */
    AST_PROFILE_TYPE,
    AST_PROFILE_UNIT,
    AST_CAPTURE, /* kids: AST_ATOM or AST_NAME, a part */
};

struct ast {
    enum ast_op op;
    struct rule_place place; /* all of it, as far as its first line goes */
    struct bytes source;     /* all of it */
    struct ast **kids;
    uint32_t n_kids;
    bool negated;
    struct bytes name;
    const struct rule_atom *atom;
    enum rule_field field;
    enum rule_scope scope;
    int ref;             /* struct rule_ref's kind */
    struct bytes region; /* name; "" when none is named */
    struct rule_place region_place;
    bool *directly;
    struct ast *guard; /* NULL: none */
};

struct ast_region {
    struct ast *after, *while_, *until;
    bool through;
};

struct ast_row {
    struct ast *frame; /* NULL: else */
    struct ast *when;
    struct ast **cells; /* NULL: "-" */
    uint32_t n_cells;
    struct rule_place place, cells_place, frame_place;
};

struct ast_name {
    struct bytes name;
    struct rule_place place;
};

struct ast_table {
    struct ast_name *columns;
    uint32_t n_columns;
    bool over, nearest_leaf;
    struct ast_name region; /* "" with over: all frames */
    struct ast_row *rows;
    uint32_t n_rows;
};

enum ast_kind { DEF_PATTERN, DEF_FRAME, DEF_REGION, DEF_SAMPLE, DEF_TEXT, DEF_TABLE };

struct ast_def {
    enum ast_kind kind;
    struct ast_name name;
    bool param, broken; /* broken: it had an error, reported already */
    struct ast *body;
    struct ast_region region;
    struct ast_table table;
    uint32_t pack; /* in which file */
    uint32_t id;   /* among all definitions */
};

struct ast_label {
    struct ast_name name; /* or the table's, of TABLE.* */
    bool columns;         /* TABLE.* */
    struct ast *text;
    struct rule_place place;
    uint32_t pack; /* whose names the text uses */
};

enum ast_clause {
    CLAUSE_DESCRIBE,
    CLAUSE_UNIT,
    CLAUSE_OFF,
    CLAUSE_ON,
    CLAUSE_WHERE,
    CLAUSE_EACH,
    CLAUSE_VALUE,
    CLAUSE_LABEL,
    CLAUSE_LIMIT,
    CLAUSE_COMBINE,
    CLAUSES,
};

struct ast_metric {
    bool gauge, also, override, broken;
    struct ast_name name;
    struct rule_place place, at[CLAUSES]; /* at[c].line == 0: no such clause */
    uint32_t from[CLAUSES];               /* the pack whose names the clause uses */
    struct bytes describe, unit;
    bool on_kind;
    enum rule_kind kind;
    struct ast *on, *where, *each;
    bool distinct;
    struct ast_name each_region;
    enum rule_value value;
    enum rule_combine combine;
    uint32_t limit;
    bool largest;
    struct ast_label *labels;
    uint32_t n_labels;
    uint32_t pack;
};

/* extend table PACK.TABLE { rows } */
struct ast_extend {
    struct ast_name name;
    struct ast_row *rows;
    uint32_t n_rows;
    uint32_t pack;
    bool broken;
    struct rule_place place;
};

struct ast_keep {
    struct rule_keep rule; /* what needs no names; its share, rate, kind */
    struct ast *by, *on, *where;
    uint32_t pack;
    struct rule_place place;
};

struct ast_selector_label {
    struct ast_name name;
    bool negated, is_none;
    struct bytes value;  /* = and != */
    struct ast *pattern; /* ~ and !~; else NULL */
};

struct ast_selector {
    struct ast_name metric;
    struct ast_selector_label *labels;
    uint32_t n_labels;
};

enum ast_trigger_clause {
    TRIGGER_DESCRIBE,
    TRIGGER_WHEN,
    TRIGGER_UNTIL,
    TRIGGER_DO,
    TRIGGER_LASTING,
    TRIGGER_COOLDOWN,
    TRIGGER_CLAUSES,
};

struct ast_trigger {
    struct rule_trigger rule; /* what needs no names */
    struct ast_name name;
    struct rule_place place, at[TRIGGER_CLAUSES];
    struct ast_selector part, whole;
    struct ast **per;
    uint32_t n_per;
    struct rule_place action_at; /* of the first `sample` in `do`; line 0: none */
    struct rule_place asks_at;   /* of the first `sample` or `record` */
    bool broken;
    uint32_t pack;
};

struct ast_set {
    struct ast_name name;
    struct ast *value;         /* as text; NULL when it can only be a pattern */
    struct ast *value_pattern; /* the same tokens as a pattern; NULL when they are none */
};

struct ast_switch {
    struct ast_name name;
    bool on;
};

struct ast_expect {
    int kind; /* struct rule_test_expect's */
    struct ast_name metric;
    bool has_amount, amount_is_time, per_second;
    int64_t amount;
    uint32_t share;
    struct ast_label *labels; /* name; text is AST_STRING */
    uint32_t n_labels;
    struct ast *that;
    uint32_t sample;
    struct rule_place place;
};

struct ast_test {
    struct bytes name, type, unit;
    uint64_t period_ns;
    struct rule_test_sample *samples;
    uint32_t n_samples;
    struct rule_test_attr *attrs;
    uint32_t n_attrs;
    struct ast_expect *expects;
    uint32_t n_expects;
    struct ast_set *sets;
    uint32_t n_sets;
    bool broken;
    struct rule_place place;
    uint32_t pack;
};

struct ast_use {
    struct ast_name pack;
    struct ast_name *names;
    uint32_t n_names;
};

/* One file; a file is a pack. Each array is NULL when empty. */
struct ast_pack {
    struct ast_name name;
    struct ast_use *uses;
    uint32_t n_uses;
    struct ast_def **defs;
    uint32_t n_defs;
    struct ast_metric *metrics;
    uint32_t n_metrics;
    struct ast_set *sets;
    uint32_t n_sets;
    struct ast_switch *switches;
    uint32_t n_switches;
    struct ast_test *tests;
    uint32_t n_tests;
    struct ast_extend *extends;
    uint32_t n_extends;
    struct ast_keep *keeps;
    uint32_t n_keeps;
    struct ast_trigger *triggers;
    uint32_t n_triggers;
};

/* How many there are in all files of one compilation: they are numbered, and bounded together. */
struct ast_totals {
    uint32_t atoms, statements, defs;
};

#endif
