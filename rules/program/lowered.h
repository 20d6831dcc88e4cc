/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a rule program: the checked tree taken apart into what one walk over a stack can decide.
 *
 * - A *domain* is a kind of text that patterns are asked of: the seven fields of a frame, all texts of
 * samples together, and each column of a frame table. Its pattern set turns a string into a row of bits,
 * once.
 * - A *node* is a frame predicate: a closed formula over those rows. Equal formulas are one node, whoever
 * wrote them.
 * - A *fact* is what a walk leaf → root finds out about (region, node): whether any frame of the region
 * satisfies it, and, where a text asks for it, which was the first and the last.
 * - The *state* that a walk ends in is a string of bits: every fact, `calls` chains, the rows of tables, the
 * frame types seen by `each distinct`. What a frame does to it is a function of what was found so far, which
 * regions the walk is in, and the frame's class (rules/match/walk.c).
 *
 * What is left (texts, attributes, `when`) is evaluated on the tree itself, once per distinct combination of
 * what it read (rules/match/paths.h). So tree nodes are found again by their address, in `map`.
 */
#ifndef RULES_PROGRAM_LOWERED_H
#define RULES_PROGRAM_LOWERED_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"
#include "proto/base/vec.h"
#include "rules/pattern/pattern.h"
#include "rules/pattern/regex_match.h"
#include "rules/tree/policy.h"
#include "rules/tree/tree.h"

#define LOWER_NONE          UINT32_MAX
#define LOWER_FIELDS        7u    /* enum rule_field up to BUILD_ID */
#define LOWER_DOMAIN_TEXT   7u    /* patterns asked of texts of samples */
#define LOWER_DOMAIN_COLUMN 8u    /* here begin the columns */
#define LOWER_NODES_MAX     4096u /* predicates per level (language reference §9) */
#define LOWER_DEPTH_MAX     256u  /* definitions that use definitions; bounds every recursion over the tree */
#define LOWER_AUTOMATA_MAX  (64u << 20) /* bytes, all automata together (§9) */
#define LOWER_TYPES         63u /* frame types an `each distinct` keeps in the state itself; others go by a list */

struct lower_domain {
    struct pattern_build *build; /* while lowering */
    struct pattern_set *set;     /* NULL: no pattern asks, only `none` or nothing */
    uint32_t words;
    uint32_t ftable, column; /* of a column domain */
};

enum lower_op { NODE_TRUE, NODE_AND, NODE_OR, NODE_NOT, NODE_MATCH, NODE_PRESENT, NODE_INLINED };

struct lower_node {
    enum lower_op op;
    uint32_t a,
        b; /* AND, OR: b kids at a in kids; NOT: node a; MATCH: bit b of domain a; PRESENT: domain a */
    uint32_t root; /* its bit in a frame class, or LOWER_NONE when only other nodes ask for it */
};

struct lower_region {
    const struct rule_region *source; /* NULL: the whole stack, region 0 */
    uint32_t after, while_, until;    /* nodes or LOWER_NONE */
    bool through;
};

struct lower_fact {
    uint32_t region, node;
    uint32_t test; /* what the walk asks of a frame of the region: see lower_guard() in lower.c */
    uint32_t bit;
    uint32_t first, last; /* registers, or LOWER_NONE */
};

/* `first P is Q`, `last P is Q`: the fact says whether there is one, the bit whether it satisfied `node`. */
struct lower_is {
    uint32_t fact, node, bit;
    uint32_t test;
    bool last;
};

/* `A calls B calls C`: a bit for the whole. */
struct lower_chain {
    uint32_t n, nodes; /* nodes in kids */
    const bool *directly;
    uint32_t bit;
};

/* A table over a stack. Plain: a bit and a register a row. `nearest leaf` without guards: the row decided is
 * in the state (16 bits, 0: none yet). With guards: as plain, and the registers' positions are compared
 * afterwards. */
struct lower_table {
    const struct rule_table *source;
    uint32_t region;
    uint32_t nodes; /* one a row in kids; LOWER_NONE for else */
    bool in_state;  /* nearest leaf without guards */
    uint32_t bit;
    uint32_t reg; /* in_state: one; else one a row from here */
};

struct lower_ftable {
    const struct rule_table *source;
    uint32_t nodes; /* one a row in kids; LOWER_NONE for else, the last */
};

/* What `each` rules walk over. */
struct lower_each {
    uint32_t region, node;
    bool by_type; /* only the frame's type matters, once per stack: LOWER_TYPES bits and one for the list */
    uint32_t bit;
};

struct lower_label {
    uint32_t name; /* in names */
    const struct rule_text *text;
};

struct lower_source {
    const struct rule_source *source; /* NULL: a probe (lower.h) */
    const struct rule_sample *where;
    uint32_t metric;
    uint32_t each;             /* or LOWER_NONE */
    uint32_t labels, n_labels; /* sorted by name */
};

/* `keep` and `drop` (policy.h). */
struct lower_keep {
    const struct rule_keep *source;
};

struct lower_attr {
    struct bytes key;
};

/* Immutable once lowered; the set it was made of must outlive it. */
struct rules_program {
    VEC(struct lower_domain) domains;
    VEC(struct lower_node) nodes;
    VEC(uint32_t) kids;
    VEC(struct lower_region) regions;
    VEC(struct lower_fact) facts;
    VEC(struct lower_is) iss;
    VEC(struct lower_chain) chains;
    VEC(struct lower_table) tables;
    VEC(struct lower_ftable) ftables;
    VEC(struct lower_each) eaches;
    VEC(struct lower_label) labels;
    VEC(struct lower_source) sources;
    VEC(struct lower_keep) keeps;
    VEC(struct lower_attr) attrs;
    VEC(struct bytes) names;
    VEC(struct regex *) regexes; /* of captures */
    VEC(const struct rule_metric *) metrics;

    struct idmap map; /* address of a tree node → its number here */

    /* What of a walk each source is made of, a bit each lower_component(); one row more, of what is kept. */
    VEC(uint32_t) needs; /* [source × need_words], words */
    uint32_t need_words;

    uint32_t n_bits, n_regs, n_roots, atoms_max;
    uint32_t key_fields; /* mask of fields a frame class depends on */
    bool any_by_type;    /* a frame class also depends on the frame's type */
};

/* The number of a tree node, or LOWER_NONE when lowering never met it. */
uint32_t lower_find(const struct rules_program *p, const void *node);

/* The fact of (region, node), or LOWER_NONE. */
uint32_t lower_find_fact(const struct rules_program *p, uint32_t region, uint32_t node);

/* The (region, node) a reference stands for: leaf and root are the first and last of all frames. */
uint32_t lower_ref_fact(const struct rules_program *p, const struct rule_ref *ref);

/* Regions, facts, … numbered together; LOWER_COMPONENTS, 0: how many there are. */
enum lower_kind {
    LOWER_REGION,
    LOWER_FACT,
    LOWER_IS,
    LOWER_CHAIN,
    LOWER_TABLE,
    LOWER_EACH,
    LOWER_COMPONENTS
};
static inline uint32_t lower_component(const struct rules_program *p, enum lower_kind kind, uint32_t i)
{
    const uint32_t n[] = {p->regions.n, p->facts.n, p->iss.n, p->chains.n, p->tables.n, p->eaches.n};
    for (uint32_t k = 0; k < (uint32_t)kind; k++)
        i += n[k];
    return i;
}

struct rules_program *lowered_free(struct rules_program *p);

#endif
