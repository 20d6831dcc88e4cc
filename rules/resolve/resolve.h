/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names to nodes: from the packs as written (rules/parse/ast.h) to the checked tree (rules/tree/tree.h),
 * definitions shared, sets applied.
 *
 * One resolver serves a whole compilation. What it knows of each definition (its node, or that it is wrong)
 * belongs to a *pass*: the main one, and one for each test that sets parameters.
 */
#ifndef RULES_RESOLVE_RESOLVE_H
#define RULES_RESOLVE_RESOLVE_H

#include "proto/base/intern.h"
#include "rules/parse/ast.h"
#include "rules/source/report.h"
#include "rules/source/list.h"
#include "rules/tree/policy.h"

/* A parameter's value from a `set`. */
struct set_value {
    const struct ast_set *set; /* NULL: the parameter keeps its own */
    uint32_t pack;             /* whose names the value uses */
};

struct def_state {
    enum { DEF_UNSEEN, DEF_BUSY, DEF_DONE, DEF_WRONG } state;
    const void *node;                  /* by the definition's kind */
    const struct rule_frame *as_frame; /* a pattern used as `function ~ pattern` */
    uint16_t rank;                     /* definitions inside each other, itself included */
    bool uses_frame;                   /* says `frame`: only in labels of a rule with `each` */
    bool needs_sample;                 /* more than one frame decides it */
};

/* The names a pack sees: its own and those it uses. */
struct pack_scope {
    struct intern names;
    const struct ast_def **defs; /* [names' id] */
    bool usable;                 /* false: the file had no header */
};

/* Where an expression stands. */
struct resolve_place {
    uint32_t pack;
    bool each;  /* `frame` is known */
    bool cells; /* in a row's cell: bare fields are known */
    bool is_on; /* behind `on` */
    uint16_t rank;
    bool uses_frame, needs_sample; /* results */
};

/* The `extend`s of one definition, in the order their rows stand: of the latest file first. */
struct extensions {
    const struct ast_extend **items;
    uint32_t n, n_rows;
};

struct resolver {
    struct report *report;
    struct arena *keep, *scratch;
    const struct rule_file *files;
    const struct ast_pack *packs;
    struct pack_scope *scopes;
    uint32_t n_packs, n_defs;
    struct extensions *extensions;       /* [definition's id] */
    const struct ast_metric **overrides; /* those without an error, the later one wins */
    uint32_t n_overrides;
    struct set_value *values; /* [definition's id], of this pass */
    struct def_state *states; /* [definition's id], of this pass */
    struct resolve_place here;
    uint32_t busy;      /* definitions being resolved inside each other */
    uint32_t flattened; /* atoms in all resolved patterns */
    bool oom;
};

/* ---- resolve.c: packs, names, definitions */
/* Builds the scopes: packs by name, `use`s, definitions by name; reports what clashes. 0 or -ENOMEM. */
int resolve_scopes(struct resolver *r);
void resolve_scopes_release(struct resolver *r);
/* The definition that PACK.NAME means, by the longest pack that is declared; *ret_pack is that pack (NULL
 * when none is). NULL without an error. */
const struct ast_def *find_foreign(const struct resolver *r, struct bytes name,
                                   const struct ast_pack **ret_pack);
/* A pack's own definition, not what it uses itself. */
const struct ast_def *find_own(const struct ast_pack *pack, struct bytes name);
/* Ends a report of what a pack does not have: with the nearest of its definitions that count (as PACK.NAME,
 * if qualified), or else with the first of them. */
void report_own(struct resolver *r, const struct ast_pack *pack, struct bytes wanted, bool is_qualified,
                bool (*counts)(const struct ast_def *def));
/* The pack of this name, or NULL. *ret_index may be NULL. */
const struct ast_pack *find_pack(const struct resolver *r, struct bytes name, uint32_t *ret_index);
const struct ast_def *find_def(const struct resolver *r, uint32_t pack, struct bytes name);
/* The definition a name in `here` means; NULL with E103, which says it looked for `kinds` ("frame or
 * pattern"), a set of 1 << enum ast_kind. */
const struct ast_def *look_up(struct resolver *r, struct bytes name, struct rule_place place, unsigned kinds,
                              const char *what);
/* Its node (struct rule_pattern, … by kind), made once a pass; NULL when it is wrong, which has been
 * reported. */
const void *resolve_def(struct resolver *r, const struct ast_def *def, struct rule_place place);
const char *kind_name(enum ast_kind kind);
/* Applies a `set` of pack `pack` to `values`. */
void apply_set(struct resolver *r, const struct ast_set *set, uint32_t pack, bool in_test);
/* An error, and NULL. */
void *wrong(struct resolver *r, const char *code, struct rule_place place, const char *proposal,
            const char *format, ...) __attribute__((format(printf, 5, 6)));
void *out_of_memory(struct resolver *r);

/* ---- frame.c */
const struct rule_pattern *resolve_pattern(struct resolver *r, const struct ast *a);
const struct rule_frame *resolve_frame(struct resolver *r, const struct ast *a);
/* A region by name; NULL for "" and on error, which *ret_good tells apart. */
const struct rule_region *resolve_region_name(struct resolver *r, struct bytes name, struct rule_place place,
                                              bool *ret_good);
const struct rule_region *resolve_region(struct resolver *r, const struct ast_def *def);
bool resolve_field(struct resolver *r, const struct ast *a, struct rule_field_ref *ret);
/* TABLE.COLUMN in `here`; false with an error. */
bool resolve_column(struct resolver *r, struct bytes name, struct rule_place place,
                    const struct rule_table **ret_table, uint32_t *ret_column);
const struct rule_table *resolve_table(struct resolver *r, const struct ast_def *def);

/* ---- sample.c */
const struct rule_sample *resolve_sample(struct resolver *r, const struct ast *a);
const struct rule_text *resolve_text(struct resolver *r, const struct ast *a);

/* ---- metric.c, proof.c */
/* The metrics of one pack, or of all (UINT32_MAX), into *ret (of struct rule_metric, in the set's arena). */
int resolve_metrics(struct resolver *r, uint32_t pack, struct list *ret);
/* The tests of all packs; metrics and keeps (of struct rule_keep) are those of the main pass. */
int resolve_tests(struct resolver *r, const struct list *metrics, const struct list *keeps, struct list *ret);

/* ---- policy.c */
/* `keep` and `drop` of one pack, or of all (UINT32_MAX), into *ret (of struct rule_keep). */
int resolve_keeps(struct resolver *r, uint32_t only, struct list *ret);
/* All triggers, into *ret (of struct rule_trigger); metrics are those of the main pass and stay in place. */
int resolve_triggers(struct resolver *r, const struct list *metrics, struct list *ret);
bool is_trigger(const struct resolver *r, struct bytes name); /* for `enable` and `disable` */

/* ---- override.c */
/* Gathers the `override`s, reports those of no metric, of the pack's own, and against each other. 0 or
 * -ENOMEM. */
int resolve_overrides(struct resolver *r);
/* A metric's definition with the clauses that overrides replace, but for its labels; NULL when memory is out.
 */
const struct ast_metric *override_metric(struct resolver *r, const struct ast_metric *a);

/* ---- extend.c */
/* Which `extend`s each table has; reports those of no table, or of the pack's own. 0 or -ENOMEM. */
int resolve_extends(struct resolver *r);

#endif
