/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of a matcher, shared by the match*.c files.
 */
#ifndef RULES_MATCH_PARTS_H
#define RULES_MATCH_PARTS_H

#include "proto/base/arena.h"
#include "proto/base/macros.h"
#include "rules/program/lowered.h"
#include "rules/match/match.h"
#include "rules/match/keep.h"
#include "rules/match/tuples.h"

#define MATCH_TYPE_NONE 62u /* a frame class's type number when the frame has no type */
#define MATCH_TYPE_MORE 63u /* … when it is not among the first 62 types seen */
#define MATCH_NO_REG    (UINT32_MAX - 1)
#define MATCH_REG_EACH  UINT32_MAX  /* the register that stands for `frame` in a rule with `each` */
#define MATCH_DENSE_MAX 4096u       /* frame classes that have a column in the automaton's table */
#define MATCH_PUSH      0x80000000u /* an action that appends the frame to the list of an `each` */

/* A map from pairs of numbers to a number: open addressing, the value stored + 1. */
struct pair_slot {
    uint64_t key;
    uint32_t value;
};
struct pairs {
    struct budget *budget;
    struct pair_slot *slot;
    uint32_t n, n_slots;
};
static inline uint64_t pair_key(uint32_t a, uint32_t b)
{
    return (uint64_t)a << 32 | b;
}
bool pairs_find(const struct pairs *t, uint64_t key, uint32_t *ret);
int pairs_set(struct pairs *t, uint64_t key, uint32_t value); /* the key must be new */
void pairs_clear(struct pairs *t);

/* Strings are known by a 64-bit XXH3 under the process's seed, and their length: nobody can prepare two that
 * share it, and by chance it does not happen (2^18 strings: one in 10^9). So a known string's bytes are read
 * once, to hash them. */
struct string_slot {
    uint64_t hash;
    uint32_t length; /* its low 32 bits */
    uint32_t id;     /* + 1; 0 is free */
};

/* Frame classes asked lately, by key: small enough for the first-level cache. */
#define MATCH_FRAME_CACHE 1024u
#define MATCH_KEY_MAX     4u /* longer keys go by the table alone */
struct frame_slot {
    uint32_t key[MATCH_KEY_MAX];
    uint32_t class; /* + 1; 0 is free */
};

/* What is left to ask of a frame when its type is known (frames.c). A program has a dozen types; a peer
 * that invents more than there are plans for is matched by the texts of each frame. */
#define MATCH_PLANS_MAX 256u
struct frame_plan {
    uint32_t number;
    uint32_t fields; /* mask of those to look at, the type aside */
    uint32_t asked;  /* those of them that patterns are asked of; the others only make columns */
    bool by_text;    /* a column is made of several fields: kinds of texts do not say all */
    uint32_t columns_at[RULES_FIELDS],
        n_columns[RULES_FIELDS];      /* in plan_columns: made of this field alone */
    uint32_t none_kind[RULES_FIELDS]; /* + 1 */
};
struct text_kind {
    uint32_t where; /* plan and field, + 1; 0: none yet */
    uint32_t kind;
    uint32_t class; /* + 1, of frames that nothing else matters to; 0: not known */
};

/* The registers a transition sets are written four at a time, without asking how many there are: `set` names
 * the last one again, or a spare register when there is none. */
#define MATCH_SETS 4u
struct transition {
    uint32_t next, row; /* the state and where its cells begin */
    uint32_t set[MATCH_SETS];
    uint32_t actions, n_actions; /* all of them, for a slow transition */
    bool absorbing;              /* the next state is */
    bool slow;                   /* more than MATCH_SETS actions, or one is a MATCH_PUSH */
};

struct path_node {
    uint32_t spec; /* + 1: what to read here; 0: nothing known yet, or a leaf */
    uint32_t leaf; /* + 1: the outcome or series */
};

/* A text, or the like, that reads below a root are made of. */
struct cue {
    enum { CUE_READ, CUE_FIELD, CUE_ATTR, CUE_TYPE, CUE_UNIT, CUE_LINKED } what;
    uint32_t field; /* or scope */
    uint32_t of;    /* a register, or a key; of READ a spec */
};

/* Where the decision tree begins for a state and a set of active sources. */
#define MATCH_CUES 10u /* more than the shipped packs ask of any sample */
struct root {
    uint32_t node, n_cues;
    uint32_t tag; /* a number of its own for these cues, never 0 */
    struct cue cue[MATCH_CUES];
    bool no_cues; /* there would be more */
};
struct root_memo {
    uint32_t active, root; /* the number of the root asked for last, + 1; 0: none yet */
};

/* Outcomes found lately, by root and what its cues were. Two places each; as many as captures have outcomes,
 * four times over. */
#define MATCH_LATELY 2048u
struct lately {
    uint32_t tag, outcome; /* of the root; 0: free */
    uint32_t key[MATCH_CUES];
};

struct list_item {
    uint32_t each, frame, position;
};

struct rules_matcher {
    const struct rules_program *p;
    struct budget *budget;
    uint64_t seed;
    int error;
    uint32_t epoch, generation;
    uint64_t resets;
    struct pattern_scratch scratch;
    uint64_t *row; /* the widest row of any domain */

    /* strings */
    struct arena text_arena;
    struct string_slot *string_slot;
    uint32_t n_string_slots, n_strings, cap_text, cap_library;
    struct bytes *text;
    uint32_t *library; /* + 1 */
    uint64_t string_bytes;
    struct string_class {
        uint32_t *of; /* [string] class; 0: not asked yet */
        uint32_t cap;
        struct tuples rows; /* class c is row c - 1; class 0 is "none" */
    } * domain;

    /* frames */
    struct tuples frame_keys, classes;
    uint32_t *key_class, cap_key_class;
    struct frame_slot *frame_cache;
    struct frame_plan *plans;
    uint32_t n_plans, *type_plan, cap_type_plan, none_plan; /* [type] plan + 1; of frames without a type */
    uint32_t *plan_columns, n_plan_columns, cap_plan_columns;
    struct tuples kinds;
    struct text_kind *text_kind; /* [string] */
    uint32_t cap_text_kind;
    struct pairs more_kinds; /* plan and field, string */
    uint32_t types[MATCH_TYPE_NONE], n_types;
    uint8_t *node_value;   /* while a frame is evaluated: 0 unknown, 1 false, 2 true */
    uint8_t *node_seen;    /* while a plan is made */
    uint32_t *column_text; /* as node_value, [domain]; MATCH_UNKNOWN */
    uint32_t *kind_words;
    uint32_t *root_words;
    uint32_t n_root_words; /* of a class: the bits, then the type number */

    /* the automaton */
    struct tuples states;
    uint32_t n_state_words;
    uint32_t *cells, cap_cells, stride; /* [state × stride + 1 + class]; the first of a row is RULES_MANY's */
    uint8_t *absorbing;
    struct root_memo *state_root; /* [state] */
    uint32_t cap_absorbing, cap_state_root;
    struct transition *transitions;
    uint32_t n_transitions, cap_transitions;
    uint32_t *actions, n_actions, cap_actions;
    uint32_t *step_words, *step_actions, n_step_actions; /* scratch of one step */
    uint8_t *in_region;
    struct list_item *list; /* of the last walk */
    uint32_t n_list, cap_list;

    /* outcomes */
    struct tuples specs, actives, series;
    struct pairs captures, children, roots, each_roots, alone;
    struct root *root; /* numbers are in `roots` */
    uint32_t n_root, cap_root, tags;
    struct lately *lately;
    struct path_node *nodes;
    uint32_t n_nodes, cap_nodes;
    struct rules_outcome *outcomes;
    uint32_t n_outcomes, cap_outcomes;
    struct rules_entry *entries;
    uint32_t n_entries, cap_entries;
    uint32_t *lists, n_lists, cap_lists;
    struct rules_entry *frame_entries;
    uint32_t cap_frame_entries;
    uint32_t *series_mark, cap_series_mark, stamp;

    /* what is kept (keep.c) */
    struct tuples keep_actives;
    struct pairs keep_alone, keep_roots;
    struct rules_kept *kept;
    uint32_t n_kept, cap_kept;
    struct rules_kept_rate *kept_rates;
    uint32_t n_kept_rates, cap_kept_rates;
};

#define MATCH_UNKNOWN (UINT32_MAX - 2)

/* A frame being looked at; fields come from `sid` where `have` says so, else from the asker. */
struct frame_eval {
    const struct rules_asker *asker;
    uint32_t frame;
    uint32_t sid[RULES_FIELDS];
    uint32_t have;
    bool inlined;
};

uint32_t matcher_oom(struct rules_matcher *m); /* marks it; returns RULES_NONE */
uint32_t matcher_string_class(struct rules_matcher *m, uint32_t domain, uint32_t string);
bool matcher_string_bit(struct rules_matcher *m, uint32_t domain, uint32_t string, uint32_t bit);

void matcher_frame_start(struct rules_matcher *m);
bool matcher_node(struct rules_matcher *m, struct frame_eval *fe, uint32_t node);
uint32_t matcher_frame_field(struct rules_matcher *m, struct frame_eval *fe, uint32_t field);
uint32_t matcher_column(struct rules_matcher *m, struct frame_eval *fe, uint32_t ftable, uint32_t column);
uint32_t matcher_pure_text(struct rules_matcher *m, struct frame_eval *fe, const struct rule_text *text);
uint32_t matcher_capture(struct rules_matcher *m, uint32_t regex, uint32_t string);

int matcher_frame_init(struct rules_matcher *m); /* 0 or -1; free() also after a failure */
void matcher_frame_clear(struct rules_matcher *m);
void matcher_frame_free(struct rules_matcher *m);
/* The plan of a type; NULL when memory is out or a peer has invented more types than have one. */
struct frame_plan *matcher_find_plan(struct rules_matcher *m, uint32_t type);
static inline struct frame_plan *matcher_plan(struct rules_matcher *m, uint32_t type)
{
    if (likely(type < m->cap_type_plan && m->type_plan[type] != 0))
        return &m->plans[m->type_plan[type] - 1];
    return matcher_find_plan(m, type);
}
void matcher_stack_clear(struct rules_matcher *m);   /* frees the automaton */
void matcher_outcome_clear(struct rules_matcher *m); /* frees the decision tree */
void matcher_roots_clear(struct rules_matcher *m);   /* … forgets which states it begins at */
void matcher_keep_clear(struct rules_matcher *m);

/* Whether a pattern meets a profile's TYPE/UNIT. */
bool matcher_type_is(struct rules_matcher *m, const struct rule_pattern *on, const struct rules_profile *p);
/* The place of a profile's TYPE/UNIT among those of a kind; RULES_NONE: it is not of it. */
uint32_t matcher_kind_rank(enum rule_kind kind, enum rule_value value, const struct rules_profile *p);

static inline bool state_bit(const uint32_t *words, uint32_t bit)
{
    return words[bit / 32] >> (bit % 32) & 1;
}
static inline void state_set(uint32_t *words, uint32_t bit)
{
    words[bit / 32] |= 1u << (bit % 32);
}
static inline void state_clear(uint32_t *words, uint32_t bit)
{
    words[bit / 32] &= ~(1u << (bit % 32));
}
static inline uint32_t state_number(const uint32_t *words, uint32_t bit, uint32_t width)
{
    uint32_t v = 0;
    for (uint32_t i = 0; i < width; i++)
        v |= (uint32_t)state_bit(words, bit + i) << i;
    return v;
}

#endif
