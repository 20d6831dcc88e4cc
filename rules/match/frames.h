/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Frames become classes: all that a walk needs to know of one.
 */
#ifndef RULES_MATCH_FRAMES_H
#define RULES_MATCH_FRAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/idmap.h"
#include "rules/match/memory.h"
#include "rules/match/plan.h"
#include "rules/match/predicates.h"
#include "rules/match/shapes.h"
#include "rules/match/strings.h"
#include "rules/match/tuples.h"

#define RULES_CLASSES_MAX (1u << 14) /* reached, everything is forgotten between requests */

#define MATCH_TYPE_NONE 62u /* a frame class's type number when the frame has no type */
#define MATCH_TYPE_MORE 63u /* … when it is not among the first 62 types seen */

/* Frame classes asked recently, by key: small enough for the first-level cache. Worth 5 % of the instructions
 * of random profiles, 0.5 % of captures (bench_classify). */
#define MATCH_RECENT_FRAMES 1024u
#define MATCH_KEY_MAX       4u /* longer keys go by the table alone */
struct recent_frame {
    uint32_t key[MATCH_KEY_MAX];
    uint32_t class; /* + 1; 0 is free */
};

/* Kinds are worth 23 % of the instructions of captures, and make frames that are new five times cheaper; the
 * class beside a kind 13 % (bench_classify). */
struct text_kind {
    uint32_t where; /* plan and field, + 1; 0: none yet */
    uint32_t kind;
    uint32_t class; /* + 1, of frames that nothing else matters to; 0: not known */
};

struct match_frames {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_strings *strings;
    struct match_predicates predicates;
    struct match_plans plans;

    struct tuples keys;                       /* plan and kinds, or texts */
    VEC(uint32_t) key_class;                  /* [key] + 1; 0: not evaluated yet */
    struct recent_frame *recent;              /* [MATCH_RECENT_FRAMES] */
    struct tuples kinds;                      /* plan, field, class of the text, classes of its columns */
    VEC(struct text_kind) text;               /* [string] */
    struct idmap more_kinds;                  /* plan and field, string → kind */
    struct tuples classes;                    /* the roots' bits, then the type's number */
    uint32_t n_class_words;                   /* of a class */
    uint32_t *words;                          /* of a class or kind being made */
    uint32_t types[MATCH_TYPE_NONE], n_types; /* those with numbers */
};

/* As match_strings_init. */
int match_frames_init(struct match_frames *f, struct match_strings *strings);
void match_frames_clear(struct match_frames *f); /* forgets all: it knows strings by number */
void match_frames_release(struct match_frames *f);
bool match_frames_full(const struct match_frames *f);

/* Mask of the fields that matter in frames of this type. */
uint32_t match_frames_fields(struct match_frames *f, uint32_t type);

/* The class of a frame. 0 when memory is out. */
uint32_t match_frames_class(struct match_frames *f, const struct rules_frame *frame);

/* The same of a frame that is not inlined, where this is the one field that matters to its type: a text's
 * class is beside its kind. */
uint32_t match_frames_find_text(struct match_frames *f, uint32_t type, enum rule_field field,
                                uint32_t string);
static inline uint32_t match_frames_text_class(struct match_frames *f, uint32_t type, enum rule_field field,
                                               uint32_t string)
{
    if (likely(string < f->text.n && type < f->plans.of_type.n)) {
        const struct text_kind *text = &f->text.p[string];
        uint32_t where =
            (f->plans.of_type.p[type] - 1) * RULES_FIELDS + (uint32_t)field + 1; /* or no plan's */
        if (likely(text->where == where && text->class != 0))
            return text->class - 1;
    }
    return match_frames_find_text(f, type, field, string);
}

#endif
