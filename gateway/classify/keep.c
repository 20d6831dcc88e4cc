/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/classify/keep.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/classify/parts.h"

/* Frames that may be walked for a request: each stack once takes about its bytes (several times where
 * functions are inlined); rules that look at a sample's own attributes walk a stack once for every sample of
 * it. */
#define WALK_PER_BYTE 32u
#define WALK_FREE     (1u << 20)

/* Memos of a huge request are given back. */
#define MEMOS_KEEP_MAX (4u << 20)

/* What the rules said of a stack, as long as what it depended on is the same. */
struct memo {
    uint32_t kept; /* CLASSIFY_UNKNOWN; CLASSIFY_EMPTY: it has no frames */
    uint32_t active, profile;
    enum rules_level level;
};

struct classify_keep {
    struct classify *c;
    VEC(struct memo) memos;
    uint32_t active, profile; /* the profile asked for last; CLASSIFY_UNKNOWN */
    uint64_t walks;           /* frames that may still be walked */
};

struct classify_keep *classify_keep_new(struct classify *c)
{
    struct classify_keep *k = calloc(1, sizeof *k);
    if (!k)
        return NULL;
    k->c = c;
    k->memos.budget = c->budget;
    return k;
}

struct classify_keep *classify_keep_free(struct classify_keep *k)
{
    if (!k)
        return NULL;
    vec_release(&k->memos);
    free(k);
    return NULL;
}

bool classify_keep_has_rules(const struct classify_keep *k)
{
    return rules_program_keeps(k->c->program) > 0;
}

int classify_keep_begin(struct classify_keep *k, const struct profiles *view)
{
    struct classify *c = k->c;
    if (classify_room(&k->memos, view->stack.n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < view->stack.n; i++)
        k->memos.p[i].kept = CLASSIFY_UNKNOWN;
    k->profile = CLASSIFY_UNKNOWN;
    k->walks = (uint64_t)view->body.n * WALK_PER_BYTE + WALK_FREE;
    return classify_resume(c, view);
}

void classify_keep_end(struct classify_keep *k)
{
    k->c->request.view = NULL;
    if (k->memos.room * sizeof *k->memos.p > MEMOS_KEEP_MAX)
        vec_release(&k->memos);
}

static uint64_t frames_of(const struct classify *c)
{
    uint64_t n = 0;
    for (uint32_t i = 0; c->request.frames_at && i < c->request.stack.n; i++)
        n += c->request.frames_at[c->request.stack.items[i] + 1] -
             c->request.frames_at[c->request.stack.items[i]];
    return c->request.frames_at ? n : c->request.stack.n;
}

static int look(struct classify_keep *k, uint32_t stack, struct memo *memo)
{
    struct classify *c = k->c;
    const struct profiles *v = c->request.view;
    uint32_t from = v->stack.locations_at[stack];
    c->request.stack.items = v->stack_location.location + from;
    c->request.stack.n = v->stack.locations_at[stack + 1] - from;
    struct rules_verdict verdict = {.registers = c->registers};
    *memo = (struct memo){.kept = CLASSIFY_EMPTY};
    if (stack == 0 || c->request.stack.n == 0)
        return 0;
    uint64_t frames = frames_of(c);
    if (k->walks < frames)
        return -E2BIG;
    k->walks -= frames;
    if (!rules_matcher_walk(c->matcher, &c->request.stack, &verdict))
        return rules_matcher_error(c->matcher);
    uint32_t kept = rules_matcher_kept(c->matcher, &verdict, k->active, &c->asker);
    if (kept == RULES_NONE)
        return -ENOMEM;
    *memo = (struct memo){kept, k->active, k->profile, rules_matcher_kept_at(c->matcher, kept)->level};
    return rules_matcher_error(c->matcher);
}

static bool still_holds(const struct classify_keep *k, const struct memo *memo)
{
    if (memo->kept >= CLASSIFY_EMPTY)
        return memo->kept == CLASSIFY_EMPTY;
    return memo->active == k->active && (memo->level == RULES_LEVEL_STACK ||
                                         (memo->level == RULES_LEVEL_PROFILE && memo->profile == k->profile));
}

int classify_keep_sample(struct classify_keep *k, uint32_t profile, uint32_t sample,
                         const struct rules_kept **ret)
{
    struct classify *c = k->c;
    uint32_t stack = c->request.view->sample.stack[sample];
    struct memo *memo = &k->memos.p[stack];
    if (k->profile != profile) {
        const struct rules_profile p = profile_describe(c->request.view, profile);
        k->active = rules_matcher_keep_active(c->matcher, &p);
        k->profile = profile;
        if (k->active == RULES_NONE)
            return -ENOMEM;
    }
    c->request.profile = profile;
    c->request.sample = sample;
    int r = still_holds(k, memo) ? 0 : look(k, stack, memo);
    if (r < 0)
        return r;
    *ret = memo->kept == CLASSIFY_EMPTY ? NULL : rules_matcher_kept_at(c->matcher, memo->kept);
    return 0;
}

const struct rule_keep *classify_keep_rate(const struct classify_keep *k, uint32_t rate, uint32_t *ret_rule,
                                           struct bytes *ret_text)
{
    const struct rules_kept_rate *r = rules_matcher_kept_rate(k->c->matcher, rate);
    *ret_rule = r->keep;
    *ret_text = r->by == RULES_NONE ? BYTES_LIT("") : rules_matcher_text(k->c->matcher, r->by);
    return rules_program_keep(k->c->program, r->keep);
}
