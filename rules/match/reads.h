/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Everything that rules read of a sample once its stack was walked, as numbered primitive reads ("function of
 * the frame in register 3", "what regex 7 captures in that", "resource attribute 2").
 *
 * Given the state of the walk, the same values lead an evaluation to the same next read. So reads and their
 * values are what a sample's outcome depends on, and all that needs to be remembered of it (paths.h).
 */
#ifndef RULES_MATCH_READS_H
#define RULES_MATCH_READS_H

#include <stdbool.h>
#include <stdint.h>

#include "rules/match/frames.h"
#include "rules/match/memory.h"
#include "rules/match/shapes.h"
#include "rules/match/strings.h"
#include "rules/match/tuples.h"

#define MATCH_NO_REG   (UINT32_MAX - 1)
#define MATCH_REG_EACH UINT32_MAX /* the register that stands for `frame` in a rule with `each` */

enum read_what {               /* `of`                `which`            `column` */
                 READ_FIELD,   /* register            enum rule_field             */
                 READ_ATTR,    /* enum rule_scope     key                         */
                 READ_TYPE,    /*                                                 */
                 READ_UNIT,    /*                                                 */
                 READ_LINKED,  /*                                                 */
                 READ_COLUMN,  /* register            frame table        column   */
                 READ_NODE,    /* register            node                        */
                 READ_CAPTURE, /* read                regex                       */
                 READ_MATCH,   /* read                bit of the text domain      */
                 READ_NEAREST, /* table over a stack  set of its rows             */
                 READ_SAMPLE,  /* an input: keys, low half    high half             */
};
struct read {
    enum read_what what;
    uint32_t of, which, column; /* 0 where there is nothing to say */
};

/* Of READ_SAMPLE what samples say is read: rules_says. */
static inline uint64_t match_read_keys(const struct read *read)
{
    return (uint64_t)read->which << 32 | read->of;
}

/* What a read gave. */
struct read_note {
    uint32_t read, value;
};

/* The sample being asked about. */
struct reading {
    const struct rules_verdict *v;
    const struct rules_asker *asker;
    uint32_t each_frame;    /* `frame` */
    enum rules_level level; /* the highest of what was noted */
};

/* Conditions and columns of one frame that were read recently, by what they depend on in frames of its type:
 * which fields that are, and the answer for their texts. Without them captures cost 21 % more instructions
 * where a label is of a frame table (bench_classify with `label package = symbol.package of leaf` besides).
 */
#define MATCH_READ_FIELDS  256u
#define MATCH_READ_ANSWERS 1024u
#define MATCH_READ_TEXTS   2u /* what depends on more is evaluated each time */
struct read_fields {
    struct read read; /* of no register */
    uint32_t type, fields;
};
struct read_answer {
    struct read read;
    uint32_t type, text[MATCH_READ_TEXTS], value;
};

struct match_reads {
    const struct rules_program *p;
    struct match_memory *memory;
    struct match_strings *strings;
    struct match_frames *frames;
    struct tuples reads; /* struct read, word by word */
    struct tuples rows;  /* of READ_NEAREST: a bit a row whose guard holds and that some frame satisfies */
    bool wants_inlined;
    struct read_fields *fields;  /* [MATCH_READ_FIELDS]; of a free one the read is of what is no such thing */
    struct read_answer *answers; /* [MATCH_READ_ANSWERS] */
};

/* As match_strings_init. */
int match_reads_init(struct match_reads *x, struct match_frames *frames);
void match_reads_clear(struct match_reads *x); /* forgets all: it knows strings by number */
void match_reads_release(struct match_reads *x);

/* The number of a read, or of a set of rows (`words` of them). RULES_NONE: no memory. */
uint32_t match_reads_add(struct match_reads *x, struct read read);
uint32_t match_reads_add_rows(struct match_reads *x, const uint32_t *rows, uint32_t words);

static inline const struct read *match_reads_get(const struct match_reads *x, uint32_t read)
{
    return (const struct read *)tuples_get(&x->reads, read);
}

/* Reads: a string number, 0 or 1, or of READ_NEAREST a row. RULES_NONE, too, when memory is out. */
uint32_t match_reads_value(struct match_reads *x, const struct read *read, const struct reading *at);

/* The read that its value is a function of: the innermost of captures and matches, or itself. */
const struct read *match_reads_input(const struct match_reads *x, const struct read *read);

/* What its value depends on beside the stack. */
enum rules_level match_reads_level(const struct match_reads *x, const struct read *read);

/* The frame a register stands for. */
static inline uint32_t reading_frame(const struct reading *at, uint32_t reg)
{
    return reg == MATCH_REG_EACH ? at->each_frame : at->v->registers[reg].frame;
}

#endif
