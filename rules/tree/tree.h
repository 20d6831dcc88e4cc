/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checked tree: what a set of rule files means, with every name resolved, every type and level agreed,
 * every `set`, `enable`, `override` and `extend` applied. The front end (compile.h) builds it; the back end
 * (program.h) lowers it to pattern sets and automata. rules/LANGUAGE.md is the specification; section
 * numbers below are its.
 *
 * Everything lives in the arena of its rule_set and is immutable once compiled. Shared definitions are shared
 * nodes: two rules that name one frame predicate point at one struct, so lowering may key on pointers.
 */
#ifndef RULES_TREE_TREE_H
#define RULES_TREE_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"

/* Where a node stands in its source, for diagnostics and `explain`. */
struct rule_place {
    uint16_t file;         /* rule_set.files[file] */
    uint32_t line, column; /* from 1 */
    uint32_t length;       /* bytes to underline */
};

/* ---- text patterns (§2, §4) ------------------------------------------------------------------ */

struct rule_atom {
    enum { RULE_GLOB, RULE_REGEX } kind;
    struct bytes
        text; /* glob: as written, without quotes; regex: PCRE2 source, already checked to be regular */
    bool nocase;
    struct rule_place place;
    /* Globs, taken apart: the literal runs between stars, escapes resolved. "ab*c" is {ab, c}; anchored at an
     * end unless a star stands there. */
    struct bytes *pieces;
    uint32_t n_pieces;
    bool star_first, star_last;
};

/* Holds for a text if one of its atoms does; no atoms (`none`): for nothing. Names are resolved, lists
 * flattened. */
struct rule_pattern {
    const struct rule_atom *const *atoms;
    uint32_t n_atoms;
    struct bytes name; /* "" when it stands inline */
};

/* ---- frames ---------------------------------------------------------------------------------- */

/* The text fields of a frame (§1). RULE_FIELD_COLUMN is a column of a table without `over`. */
enum rule_field {
    RULE_FIELD_TYPE,
    RULE_FIELD_FUNCTION,
    RULE_FIELD_SYSTEM_NAME,
    RULE_FIELD_FILE,
    RULE_FIELD_MAPPING,
    RULE_FIELD_LIBRARY,
    RULE_FIELD_BUILD_ID,
    RULE_FIELD_COLUMN,
};

struct rule_table;

struct rule_field_ref {
    enum rule_field field;
    const struct rule_table *table; /* RULE_FIELD_COLUMN */
    uint32_t column;
};

/* A predicate about one frame. */
struct rule_frame {
    enum {
        RULE_FRAME_AND,
        RULE_FRAME_OR,
        RULE_FRAME_NOT,   /* kids[0] */
        RULE_FRAME_MATCH, /* field ~ pattern (a bare pattern is function ~ pattern) */
        RULE_FRAME_EQUAL, /* field == literal; literal.p == NULL: == none. Type words are type == "…" */
        RULE_FRAME_INLINED,
    } op;
    bool negated; /* MATCH, EQUAL: !~ and !=, the exact opposites */
    const struct rule_frame *const *kids;
    uint32_t n_kids;
    struct rule_field_ref field;
    const struct rule_pattern *pattern;
    struct bytes literal;
    struct bytes name; /* of the definition, "" when it stands inline */
    struct rule_place place;
};

/* A slice of the stack found in one walk from leaf to root (§4). NULL pointers: the part is absent. */
struct rule_region {
    struct bytes name;
    const struct rule_frame *after, *while_, *until; /* until: `through` or `before` */
    bool through;                                    /* the until frame belongs to the region */
    struct rule_place place;
};

/* One frame of a sample. */
struct rule_ref {
    enum {
        RULE_REF_LEAF,
        RULE_REF_ROOT,
        RULE_REF_FIRST,
        RULE_REF_LAST,
        RULE_REF_FRAME
    } kind;                           /* FRAME: of an `each` */
    const struct rule_frame *frame;   /* FIRST, LAST */
    const struct rule_region *region; /* NULL: the whole stack */
};

/* ---- samples --------------------------------------------------------------------------------- */

struct rule_text;

struct rule_sample {
    enum {
        RULE_SAMPLE_AND,
        RULE_SAMPLE_OR,
        RULE_SAMPLE_NOT,
        RULE_SAMPLE_LINKED,
        RULE_SAMPLE_ANY,    /* any frame in region is frame */
        RULE_SAMPLE_NO,     /* no frame … : true on an empty region */
        RULE_SAMPLE_EVERY,  /* every frame … : false on an empty region */
        RULE_SAMPLE_REF_IS, /* ref is frame */
        RULE_SAMPLE_CALLS,  /* chain[0] calls chain[1] …; one frame each */
        RULE_SAMPLE_MATCH,  /* text ~ pattern */
        RULE_SAMPLE_EQUAL,  /* text == text2 */
    } op;
    bool negated; /* MATCH, EQUAL */
    const struct rule_sample *const *kids;
    uint32_t n_kids;
    const struct rule_frame *frame;
    const struct rule_region *region; /* NULL: the whole stack */
    struct rule_ref ref;
    const struct rule_frame *const *chain;
    const bool *directly; /* directly[i]: between chain[i] and chain[i + 1] */
    uint32_t n_chain;
    const struct rule_text *text, *text2;
    uint32_t n_written; /* as of a text */
    const struct rule_pattern *pattern;
    struct bytes name;
    struct rule_place place;
};

/* ---- texts ----------------------------------------------------------------------------------- */

enum rule_scope {
    RULE_SCOPE_SAMPLE,
    RULE_SCOPE_PROFILE,
    RULE_SCOPE_SCOPE,
    RULE_SCOPE_RESOURCE,
    RULE_SCOPE_ATTR
};

struct rule_text_part {
    enum {
        RULE_TEXT_LITERAL,
        RULE_TEXT_NONE,
        RULE_TEXT_GROUP,    /* ( text ) or a named text: .text */
        RULE_TEXT_COLUMN,   /* TABLE.COLUMN of a table with `over` */
        RULE_TEXT_FIELD_OF, /* field of ref */
        RULE_TEXT_FIELD,    /* a bare field in a frame table's cell: of the frame being classified */
        RULE_TEXT_ATTR,     /* scope["key"] */
        RULE_TEXT_PROFILE_TYPE,
        RULE_TEXT_PROFILE_UNIT,
        RULE_TEXT_CAPTURE, /* capture atom from .from */
    } kind;
    struct bytes literal; /* LITERAL: the text; ATTR: the key */
    const struct rule_text *text;
    const struct rule_table *table;
    uint32_t column;
    struct rule_field_ref field;
    struct rule_ref ref;
    enum rule_scope scope;
    const struct rule_atom *regex;     /* CAPTURE; NULL when its name stands for `none`: the result is none */
    const struct rule_text_part *from; /* CAPTURE */
};

/* A concatenation, guarded: none if a part is none, or if `when` does not hold. */
struct rule_choice {
    const struct rule_text_part *parts;
    uint32_t n_parts;
    const struct rule_sample *when; /* NULL: always */
};

/* The first choice that is neither none nor empty; else the last one's value. */
struct rule_text {
    const struct rule_choice *choices;
    uint32_t n_choices;
    uint32_t n_written; /* parts and conditions, with those that they name: at most RULES_WRITTEN_MAX */
    struct bytes name;
    struct rule_place place;
};

/* ---- tables ---------------------------------------------------------------------------------- */

struct rule_row {
    const struct rule_frame *frame;       /* NULL: else */
    const struct rule_sample *when;       /* NULL: always */
    const struct rule_text *const *cells; /* one a column; NULL: none ("-") */
    struct rule_place place;
};

struct rule_table {
    struct bytes name, pack;
    struct bytes *columns;
    uint32_t n_columns;
    bool over;                        /* false: classifies one frame; true: a stack */
    const struct rule_region *region; /* over a region; NULL with over: all frames */
    bool nearest_leaf;
    const struct rule_row *rows;
    uint32_t n_rows;
    uint32_t n_written; /* of the heaviest row, as of a text */
    struct rule_place place;
};

/* ---- metrics --------------------------------------------------------------------------------- */

enum rule_kind {
    RULE_KIND_CPU,
    RULE_KIND_WALL,
    RULE_KIND_OFF_CPU,
    RULE_KIND_ALLOC,
    RULE_KIND_LOCK,
    RULE_KIND_ANY
};

enum rule_value { RULE_VALUE_TIME, RULE_VALUE_SAMPLES, RULE_VALUE_SUM, RULE_VALUE_EVENTS, RULE_VALUE_ONE };

enum rule_combine { RULE_COMBINE_SUM, RULE_COMBINE_MEAN, RULE_COMBINE_LAST };

struct rule_label {
    struct bytes name;
    /* Either a text, or a column of a table with `over` (label TABLE.*): then text is a single COLUMN part.
     */
    const struct rule_text *text;
    struct rule_place place;
};

/* One way samples reach a metric: its definition, or an `also`. Defaults are filled in, inheritance is done.
 */
struct rule_source {
    bool on_kind; /* `on KIND`, else `on pattern` over TYPE/UNIT */
    enum rule_kind kind;
    const struct rule_pattern *on;
    const struct rule_sample *where; /* NULL: every sample */
    bool each, distinct;
    const struct rule_region *each_region; /* NULL: the whole stack */
    const struct rule_frame *each_frame;   /* NULL: every frame */
    enum rule_value value;
    const struct rule_label *labels;
    uint32_t n_labels;
    struct rule_place place;
};

struct rule_metric {
    bool gauge;   /* else a counter: a monotonic sum */
    bool enabled; /* `off` and enable/disable applied */
    bool off;     /* declared off: in tests it takes part only if an expect names it */
    struct bytes name, pack, describe, unit;
    uint32_t limit; /* 0: the gateway's default */
    bool largest;
    enum rule_combine combine; /* gauges */
    const struct rule_source *sources;
    uint32_t n_sources;
    struct rule_place place;
};

/* ---- tests (§7) ------------------------------------------------------------------------------ */

struct rule_test_frame {
    bool inlined, untyped;
    bool has_function, has_mapping, has_file;
    struct bytes type, function, mapping, file;
};

struct rule_test_sample {
    const struct rule_test_frame *frames; /* leaf first */
    uint32_t n_frames;
    uint32_t events; /* number of timestamps; 0: none given */
    bool has_value;
    int64_t value;
    bool linked;
};

struct rule_test_attr {
    enum rule_scope scope;
    struct bytes key, value;
    uint32_t sample; /* for RULE_SCOPE_SAMPLE: the sample it was said after; else 0 */
};

struct rule_test_expect {
    enum {
        RULE_EXPECT_SERIES,
        RULE_EXPECT_NOTHING,
        RULE_EXPECT_THAT,
        RULE_EXPECT_KEPT,    /* share: the probability of sample `sample`, in millionths */
        RULE_EXPECT_KEPT_BY, /* share samples a second (per_second) or minute: a rate takes it */
    } kind;
    uint32_t share;
    bool per_second;
    struct bytes metric;
    bool has_amount;
    bool amount_is_time; /* 30ms: amount is in ns */
    int64_t amount;
    const struct rule_label *labels; /* name = literal text */
    struct bytes *label_values;
    uint32_t n_labels;
    const struct rule_sample *that; /* THAT: asked of sample `sample`, as KEPT is */
    uint32_t sample;
    struct rule_place place;
};

struct rule_test {
    struct bytes name, pack;
    struct bytes type, unit; /* of the profile; "samples", "count" by default */
    uint64_t period_ns;      /* of cpu/nanoseconds; 10 ms by default */
    const struct rule_test_sample *samples;
    uint32_t n_samples;
    const struct rule_test_attr *attrs;
    uint32_t n_attrs;
    const struct rule_test_expect *expects;
    uint32_t n_expects;
    /* The rules this test runs over: its own pack's, with the test's own `set`s applied. */
    const struct rule_set *set;
    struct rule_place place;
};

/* ---- all of it ------------------------------------------------------------------------------- */

struct rule_file {
    struct bytes name; /* as given: "builtin/cpu.rules", "/etc/…" */
    struct bytes text; /* whole, NUL-terminated */
    struct bytes pack;
    bool builtin;
    bool proven; /* its tests are not read */
};

struct rule_keep;
struct rule_trigger;

struct rule_set {
    struct arena arena, test_arena; /* the second: what only tests need */
    const struct rule_file *files;
    uint32_t n_files;
    const struct rule_metric *metrics; /* in order of definition */
    uint32_t n_metrics;
    const struct rule_test *tests;
    uint32_t n_tests;
    const struct rule_keep *keeps; /* policy.h; in order of definition, unordered in meaning */
    uint32_t n_keeps;
    const struct rule_trigger *triggers;
    uint32_t n_triggers;
};

#endif
