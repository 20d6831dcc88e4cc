/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why a condition holds or fails, for a sample that was walked: it is evaluated once more, from the top, by
 * the evaluator of the residual (match/eval.h), and what holds is gathered: of an `and` every part, of an
 * `or` the first that does. For what speaks of a frame the witness is looked for on the stack itself, frame
 * by frame: the first in the region, the one a reference means, the one that is called last. A table's row is
 * asked of the matcher.
 *
 * Definitions use each other, perhaps over and over, so depth and visits are bounded: an explanation may end
 * early, and is never wrong.
 */
#include "rules/prove/explain.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "rules/match/parts.h"
#include "rules/source/place.h"

#define DEPTH_MAX 64u
/* Definitions may use each other 32 in a row and each several times; nobody reads an explanation of more. */
#define VISITS_MAX 100000u

/* ---- who asks a table ------------------------------------------------------------------------ */

struct search {
    const struct rule_table *table;
    uint32_t visits;
};

static bool text_asks(const struct rule_text *text, struct search *s, uint32_t depth);

static bool sample_asks(const struct rule_sample *sample, struct search *s, uint32_t depth)
{
    if (!sample || depth == 0 || ++s->visits > VISITS_MAX)
        return false;
    bool asks = (sample->text && text_asks(sample->text, s, depth - 1)) ||
                (sample->text2 && text_asks(sample->text2, s, depth - 1));
    for (uint32_t i = 0; i < sample->n_kids && !asks; i++)
        asks = sample_asks(sample->kids[i], s, depth - 1);
    return asks;
}

static bool part_asks(const struct rule_text_part *part, struct search *s, uint32_t depth)
{
    if (depth == 0 || ++s->visits > VISITS_MAX)
        return false;
    if (part->kind == RULE_TEXT_COLUMN)
        return part->table == s->table;
    if (part->kind == RULE_TEXT_GROUP)
        return text_asks(part->text, s, depth - 1);
    return part->kind == RULE_TEXT_CAPTURE && part_asks(part->from, s, depth - 1);
}

static bool text_asks(const struct rule_text *text, struct search *s, uint32_t depth)
{
    for (uint32_t i = 0; i < text->n_choices && depth > 0; i++) {
        if (sample_asks(text->choices[i].when, s, depth - 1))
            return true;
        for (uint32_t j = 0; j < text->choices[i].n_parts; j++)
            if (part_asks(&text->choices[i].parts[j], s, depth - 1))
                return true;
    }
    return false;
}

bool rules_source_asks(const struct rule_source *source, const struct rule_table *table)
{
    struct search s = {table, 0};
    if (sample_asks(source->where, &s, DEPTH_MAX))
        return true;
    for (uint32_t k = 0; k < source->n_labels; k++)
        if (text_asks(source->labels[k].text, &s, DEPTH_MAX))
            return true;
    return false;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* Whether the frame at a position satisfies a condition that was lowered (else it cannot have been asked). */
static bool holds(const struct rules_explained *x, const struct rule_frame *frame, uint32_t position)
{
    if (!frame)
        return true;
    uint32_t node = lower_find(x->matcher->p, frame);
    struct frame_eval fe = {.asker = x->asker, .frame = x->frames[position]};
    match_predicates_start(&x->matcher->frames.predicates);
    return node != LOWER_NONE && match_predicates_holds(&x->matcher->frames.predicates, &fe, node);
}

/* A region's frames: *ret_from … *ret_to (LANGUAGE §4). */
static void slice(const struct rules_explained *x, const struct rule_region *region, uint32_t *ret_from,
                  uint32_t *ret_to)
{
    uint32_t from = 0, to;
    if (region && region->after) {
        while (from < x->n_frames && !holds(x, region->after, from))
            from++;
        from += from < x->n_frames;
    }
    for (to = from; to < x->n_frames && region; to++) {
        if (region->while_ && !holds(x, region->while_, to))
            break;
        if (region->until && holds(x, region->until, to)) {
            to += region->through;
            break;
        }
    }
    *ret_from = from;
    *ret_to = region ? to : x->n_frames;
}

static uint32_t first_of(const struct rules_explained *x, const struct rule_region *region,
                         const struct rule_frame *frame)
{
    uint32_t from, to;
    for (slice(x, region, &from, &to); from < to; from++) {
        if (holds(x, frame, from))
            return from;
    }
    return RULES_NONE;
}

static uint32_t referred(const struct rules_explained *x, const struct rule_ref *ref)
{
    uint32_t from, to;
    switch (ref->kind) {
    case RULE_REF_LEAF: return 0;
    case RULE_REF_ROOT: return x->n_frames - 1;
    case RULE_REF_FIRST: return first_of(x, ref->region, ref->frame);
    case RULE_REF_LAST:
        for (slice(x, ref->region, &from, &to); to > from; to--) {
            if (holds(x, ref->frame, to - 1))
                return to - 1;
        }
        return RULES_NONE;
    default: return RULES_NONE;
    }
}

/* Of `A calls B …`: the frame that is called last, nearest the leaf. */
static uint32_t called(const struct rules_explained *x, const struct rule_sample *s)
{
    uint32_t n = x->n_frames, last = s->n_chain - 1;
    autofree bool *memory = calloc(2 * (size_t)n + 1, sizeof *memory);
    if (!memory)
        return RULES_NONE;
    bool *may = memory, *next = memory + n;
    for (uint32_t at = 0; at < n; at++) {
        if (!holds(x, s->chain[last], at))
            continue;
        /* Frames that element k may be at, given that the last one is at `at`. */
        memset(may, 0, n * sizeof *may);
        may[at] = true;
        bool any = true;
        for (uint32_t k = last; k > 0 && any; k--) {
            bool below = false;
            any = false;
            for (uint32_t i = 0; i < n; i++) {
                bool near = s->directly[k - 1] ? i > 0 && may[i - 1] : below;
                next[i] = near && holds(x, s->chain[k - 1], i);
                any |= next[i];
                below |= may[i];
            }
            bool *swap = may;
            may = next;
            next = swap;
        }
        if (any)
            return at;
    }
    return RULES_NONE;
}

/* ---- conditions ------------------------------------------------------------------------------ */

struct explaining {
    const struct rules_explained *x;
    struct eval *e;
    struct rules_because *ret;
    uint32_t n, max, visits;
};

static uint32_t witness(const struct rules_explained *x, const struct rule_sample *s)
{
    switch (s->op) {
    case RULE_SAMPLE_ANY: return first_of(x, s->region, s->frame);
    case RULE_SAMPLE_REF_IS: return referred(x, &s->ref);
    case RULE_SAMPLE_CALLS: return called(x, s);
    default: return RULES_NONE;
    }
}

static void explain(struct explaining *to, const struct rule_sample *s, uint32_t depth)
{
    if (depth == 0 || to->n == to->max || ++to->visits > VISITS_MAX)
        return;
    if (s->op != RULE_SAMPLE_AND && s->op != RULE_SAMPLE_OR) {
        to->ret[to->n++] = (struct rules_because){s, witness(to->x, s)};
        return;
    }
    for (uint32_t i = 0; i < s->n_kids; i++) {
        if (s->op == RULE_SAMPLE_OR && !eval_sample(to->e, s->kids[i]))
            continue;
        explain(to, s->kids[i], depth - 1);
        if (s->op == RULE_SAMPLE_OR)
            return;
    }
}

/* The conditions that together make `where` hold (it must): of an `and` all, of an `or` the first. At most
 * `max`; returns how many. */
static uint32_t explain_where(const struct rules_explained *x, const struct rule_sample *where,
                              struct rules_because *ret, uint32_t max)
{
    struct eval e;
    matcher_eval(&e, x->matcher, x->verdict, x->asker);
    struct explaining to = {.x = x, .e = &e, .ret = ret, .max = max};
    if (where)
        explain(&to, where, DEPTH_MAX);
    eval_release(&e);
    return to.n;
}

/* ---- in words -------------------------------------------------------------------------------- */

#define BECAUSE_MAX 32u

void rules_reasons_where(const struct rules_explained *x, const struct rule_set *set,
                         const struct rule_sample *where, rules_reason_told *tell, void *context)
{
    struct rules_because because[BECAUSE_MAX];
    const uint32_t n = explain_where(x, where, because, BECAUSE_MAX);
    for (uint32_t i = 0; i < n; i++) {
        const struct rule_sample *s = because[i].condition;
        const struct bytes text =
            s->name.n > 0 ? s->name : place_source(&set->files[s->place.file], s->place);
        tell(context, &(struct rules_reason){"where", text, s->place, because[i].position});
    }
}

static uint32_t position_of(const struct rules_explained *x, uint32_t frame)
{
    for (uint32_t i = 0; i < x->n_frames; i++)
        if (x->frames[i] == frame)
            return i;
    return RULES_NONE;
}

void rules_reasons(const struct rules_explained *x, const struct rules_program *p, const struct rule_set *set,
                   const struct rule_source *source, rules_reason_told *tell, void *context)
{
    if (source->each)
        tell(context, &(struct rules_reason){
                          "each", source->distinct ? BYTES_LIT("distinct frame") : BYTES_LIT("frame"),
                          source->place, RULES_NONE});
    rules_reasons_where(x, set, source->where, tell, context);
    for (uint32_t i = 0; i < p->tables.n; i++) {
        const struct rule_table *table = p->tables.p[i].source;
        uint32_t row, frame;
        char text[160];
        if (!rules_source_asks(source, table) ||
            !rules_matcher_why(x->matcher, x->verdict, x->asker, table, &row, &frame))
            continue;
        snprintf(text, sizeof text, "%.*s, row %u", BYTES_FMT(table->name), row + 1);
        tell(context, &(struct rules_reason){"table", bytes_str(text), table->rows[row].place,
                                             frame == RULES_NONE ? RULES_NONE : position_of(x, frame)});
    }
}

/* ---- why not --------------------------------------------------------------------------------- */

static void explain_not(struct explaining *to, const struct rule_sample *s, uint32_t depth)
{
    if (depth == 0 || to->n == to->max || ++to->visits > VISITS_MAX)
        return;
    if (s->op == RULE_SAMPLE_AND || s->op == RULE_SAMPLE_OR) {
        for (uint32_t i = 0; i < s->n_kids; i++)
            if (!eval_sample(to->e, s->kids[i]))
                explain_not(to, s->kids[i], depth - 1);
        return;
    }
    /* What a frame was asked and is not: that of a reference is known, of `any` there is none; what must not
     * be and is there has one. */
    uint32_t position = s->op == RULE_SAMPLE_REF_IS ? referred(to->x, &s->ref)
                        : s->op == RULE_SAMPLE_NO   ? first_of(to->x, s->region, s->frame)
                        : s->op == RULE_SAMPLE_NOT  ? witness(to->x, s->kids[0])
                                                    : RULES_NONE;
    to->ret[to->n++] = (struct rules_because){s, position};
}

uint32_t rules_explain_not(const struct rules_explained *x, const struct rule_sample *where,
                           struct rules_because *ret, uint32_t max)
{
    struct eval e;
    matcher_eval(&e, x->matcher, x->verdict, x->asker);
    struct explaining to = {.x = x, .e = &e, .ret = ret, .max = max};
    if (where && !eval_sample(&e, where))
        explain_not(&to, where, DEPTH_MAX);
    eval_release(&e);
    return to.n;
}

bool rules_is_active(const struct rules_explained *x, uint32_t active, uint32_t source)
{
    const uint32_t *words = tuples_get(&x->matcher->outcomes.actives, active);
    uint64_t word;
    memcpy(&word, words + 2 * (source / 64), sizeof word); /* tuples are of words half as long */
    return word >> source % 64 & 1;
}
