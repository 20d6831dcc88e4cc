/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/classify/classify.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/classify/parts.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

#define TEXT_MAX \
    (1u << 20) /* of one attribute as text; the wire's 64 MiB of nested lists need not be copied whole */
#define KEEP_MAX  (64u << 20) /* tables of a huge request are given back when they pass this together */
#define ALIKE_MAX 32u         /* attributes of a sample that is compared with another; more are read anew */
#define REST_MAX  (1u << 20)  /* and above this when no request comes */

/* ---- tables -------------------------------------------------------------------------------- */

static void init_tables(struct classify *c)
{
    c->series_number.budget = c->places.budget = c->labels.budget = c->budget;
#define X(type, name) c->request.name.budget = c->budget;
    CLASSIFY_TABLES(X)
#undef X
}

static void release_tables(struct classify *c)
{
#define X(type, name) vec_release(&c->request.name);
    CLASSIFY_TABLES(X)
#undef X
}

static void trim_tables(struct classify *c, size_t keep)
{
    size_t bytes = 0;
#define X(type, name) bytes += c->request.name.room * sizeof(type);
    CLASSIFY_TABLES(X)
#undef X
    if (bytes > keep)
        release_tables(c);
}

void classify_rest(struct classify *c)
{
    trim_tables(c, REST_MAX);
}

void classify_forget(struct classify *c)
{
    release_tables(c);
    vec_release(&c->series_number);
    vec_release(&c->places);
    rules_matcher_forget(c->matcher);
    aggregate_forget(c->aggregate);
}

/* ---- life ---------------------------------------------------------------------------------- */

struct classify *classify_new(const struct rules_program *program, struct aggregate *aggregate,
                              struct stats *stats, struct budget *budget)
{
    struct classify *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->program = program;
    c->aggregate = aggregate;
    c->stats = stats;
    c->own = (struct budget)BUDGET_INIT(SIZE_MAX, budget);
    c->budget = &c->own;
    init_tables(c);
    c->n_attrs = rules_program_attrs(program);
    c->wants_inlined = rules_program_wants_inlined(program);
    c->text = (struct buffer)BUFFER_INIT(TEXT_MAX);
    c->matcher = rules_matcher_new(program, c->budget);
    c->answers = calloc(CLASSIFY_OWNERS * c->n_attrs + 1, sizeof *c->answers);
    c->sample_attrs = malloc((c->n_attrs + 1) * sizeof *c->sample_attrs);
    c->sample_keys = malloc((c->n_attrs + 1) * sizeof *c->sample_keys);
    c->registers = calloc(rules_program_registers(program) + 1, sizeof *c->registers);
    if (!c->matcher || !c->answers || !c->sample_attrs || !c->sample_keys || !c->registers ||
        sums_init(c) < 0)
        return classify_free(c);
    memset(c->sample_attrs, 0xff, c->n_attrs * sizeof *c->sample_attrs); /* RULES_NONE */
    c->said_key = hash_seed() | 1;
    frames_asker(c, &c->asker);
    return c;
}

struct classify *classify_free(struct classify *c)
{
    if (!c)
        return NULL;
    rules_matcher_free(c->matcher);
    release_tables(c);
    vec_release(&c->places);
    vec_release(&c->series_number);
    vec_release(&c->labels);
    buffer_release(&c->text);
    free(c->registers);
    free(c->answers);
    free(c->sample_attrs);
    free(c->sample_keys);
    free(c->sources);
    free(c);
    return NULL;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* The entries of frames counted one by one. 0 or -ENOMEM. */
static int list_frames(struct classify *c, struct stack_outcome *found, const struct rules_verdict *verdict)
{
    const struct rules_entry *entries;
    found->frames_at = c->request.frame_entries.n;
    found->n_frames = rules_matcher_frames(c->matcher, verdict, found->outcome, &c->asker, &entries);
    if (vec_append_all(&c->request.frame_entries, entries, found->n_frames) < 0)
        return -ENOMEM;
    return rules_matcher_error(c->matcher);
}

/* What is found beside the first outcome. 0 or -ENOMEM. */
static __attribute__((noinline)) int find_more(struct classify *c, struct stack_memo *memo,
                                               const struct rules_found *found,
                                               const struct rules_verdict *verdict)
{
    memo->more = c->request.found.n;
    memo->n_more = found->n > 0 ? found->n - 1 : 0;
    for (uint32_t k = 1; k < found->n; k++)
        if (vec_append(&c->request.found, (struct stack_outcome){.outcome = found->outcome[k]}) < 0)
            return -ENOMEM;
    for (uint32_t k = 0; k <= memo->n_more; k++) {
        struct stack_outcome *of = k == 0 ? &memo->first : &c->request.found.p[memo->more + k - 1];
        if (rules_matcher_outcome_at(c->matcher, of->outcome)->n_lists == 0)
            continue;
        if (list_frames(c, of, verdict) < 0)
            return -ENOMEM;
        enum rules_level level = rules_matcher_outcome_at(c->matcher, of->outcome)->level;
        memo->level = max_of(memo->level, level); /* frames may read more */
    }
    return 0;
}

/* Frames of the stack in c->request.stack. */
static uint64_t stack_frames(const struct classify *c)
{
    uint64_t n = 0;
    if (!c->request.frames_at)
        return c->request.stack.n;
    for (uint32_t i = 0; i < c->request.stack.n; i++)
        n += c->request.frames_at[c->request.stack.items[i] + 1] -
             c->request.frames_at[c->request.stack.items[i]];
    return n;
}

/* Counts what is done once more. 0 or CLASSIFY_TOO_MUCH_WORK. */
static __attribute__((noinline)) int work_again(struct classify *c, uint64_t n)
{
    c->request.work += n;
    return c->request.work <= c->request.work_max ? 0 : CLASSIFY_TOO_MUCH_WORK;
}

/* Walks the sample's stack and finds its outcome. 0, CLASSIFY_TOO_MUCH_WORK or -ENOMEM. Most stacks are met
 * once: a call of its own costs 30 instructions a sample. */
static inline __attribute__((always_inline)) int classify_stack(struct classify *c, struct stack_memo *memo,
                                                                uint32_t stack, uint32_t active)
{
    const struct profiles *v = c->request.view;
    uint32_t from = v->stack.locations_at[stack];
    c->request.stack.items = v->stack_location.location + from;
    c->request.stack.n = v->stack.locations_at[stack + 1] - from;
    struct rules_verdict verdict; /* the walk fills in what it needs of it */
    verdict.registers = c->registers;
    if (unlikely(memo->first.outcome != CLASSIFY_UNKNOWN) && work_again(c, stack_frames(c)) != 0)
        return CLASSIFY_TOO_MUCH_WORK;
    memo->first = (struct stack_outcome){.outcome = CLASSIFY_EMPTY};
    memo->n_more = 0;
    if (stack == 0 || c->request.stack.n == 0)
        return 0;
    if (!rules_matcher_walk(c->matcher, &c->request.stack, &verdict))
        return rules_matcher_error(c->matcher);
    struct rules_found found;
    if (!rules_matcher_find(c->matcher, &verdict, active, &c->asker, &found))
        return -ENOMEM;
    memo->active = active;
    memo->profile = c->request.profile;
    memo->sample = c->request.sample;
    memo->level = found.level;
    memo->first.outcome = found.outcome[0];
    return likely(found.n <= 1 && !found.lists) ? 0 : find_more(c, memo, &found, &verdict);
}

/* Whether nothing that rules may read of a sample differs between two: the link, and of the attributes those
 * that rules ask for. Lists that are long are not looked at again and again. */
static __attribute__((noinline)) bool samples_are_alike(const struct classify *c, uint32_t one,
                                                        uint32_t other)
{
    const struct profiles *v = c->request.view;
    const uint32_t *attribute = v->attr_index.attribute, *rule_key = c->request.attr_key.p;
    uint32_t i = v->sample.attrs_at[one], i_end = v->sample.attrs_at[one + 1], k = v->sample.attrs_at[other],
             k_end = v->sample.attrs_at[other + 1];
    bool linked = v->link.span_at[v->sample.link[one]] != 0,
         other_linked = v->link.span_at[v->sample.link[other]] != 0;
    if (linked != other_linked || i_end - i > ALIKE_MAX || k_end - k > ALIKE_MAX)
        return false;
    if (i_end - i == k_end - k) /* mostly they have the same list */
        for (; i < i_end && attribute[i] == attribute[k]; i++)
            k++;
    for (;; i++, k++) {
        while (i < i_end && rule_key[attribute[i]] == 0)
            i++;
        while (k < k_end && rule_key[attribute[k]] == 0)
            k++;
        if (i == i_end || k == k_end)
            return i == i_end && k == k_end;
        if (attribute[i] != attribute[k])
            return false;
    }
}

/* An outcome that depended on more than the stack holds for the profile it was found in, or even there only
 * for samples like the one that it was found for. */
static inline bool still_holds(const struct classify *c, const struct stack_memo *memo, uint32_t active)
{
    if (memo->first.outcome >= CLASSIFY_EMPTY)
        return memo->first.outcome == CLASSIFY_EMPTY;
    return memo->active == active &&
           (memo->level == RULES_LEVEL_STACK ||
            (memo->profile == c->request.profile &&
             (memo->level == RULES_LEVEL_PROFILE || samples_are_alike(c, memo->sample, c->request.sample))));
}

static struct slot *new_slot(struct classify *c, const struct stack_outcome *found, bool of_frames)
{
    struct slot slot = {.outcome = found->outcome};
    struct rules_outcome *o = rules_matcher_outcome_at(c->matcher, found->outcome);
    if (unlikely(o->facts == 0 && o->n_entries > 0))
        o->facts = CLASSIFY_KNOWN | sums_weighs(c, rules_matcher_entry(c->matcher, o->entries), o->n_entries);
    slot.weighs = (uint8_t)o->facts;
    if (of_frames) {
        slot.frames_at = found->frames_at;
        slot.n_frames = found->n_frames;
        slot.weighs = sums_weighs(c, c->request.frame_entries.p + found->frames_at, found->n_frames);
    }
    return vec_append(&c->request.slots, slot) < 0 ? NULL : vec_last(&c->request.slots);
}

/* Frames counted one by one belong to this stack alone: a slot of their own. 0, …_TOO_MUCH_WORK or -ENOMEM.
 */
static __attribute__((noinline)) int add_frames(struct classify *c, const struct stack_outcome *found,
                                                const struct rules_time *time, uint32_t *unweighed)
{
    if (work_again(c, found->n_frames) != 0)
        return CLASSIFY_TOO_MUCH_WORK;
    struct slot *slot = new_slot(c, found, true);
    if (!slot)
        return -ENOMEM;
    *unweighed |= sums_sample(c, slot, time, c->request.sample) & slot->weighs;
    return 0;
}

/* Adds the sample to the slot of one outcome; *unweighed is what that could not weigh. */
static inline int add_sample(struct classify *c, const struct stack_outcome *found,
                             const struct rules_time *time, uint32_t *unweighed)
{
    struct rules_outcome *o = rules_matcher_outcome_at(c->matcher, found->outcome);
    struct slot *slot;
    if (likely(o->mark == c->stamp)) {
        slot = c->request.slots.p + o->slot;
    } else {
        o->mark = c->stamp;
        o->slot = c->request.slots.n;
        if (!(slot = new_slot(c, found, false)))
            return -ENOMEM;
    }
    *unweighed |= sums_sample(c, slot, time, c->request.sample) & slot->weighs;
    return likely(found->n_frames == 0) ? 0 : add_frames(c, found, time, unweighed);
}

static inline int classify_sample(struct classify *c, const struct rules_time *time, uint32_t stack,
                                  uint32_t active)
{
    struct stack_memo *memo = c->request.stacks.p + stack;
    if (!still_holds(c, memo, active)) {
        int r = classify_stack(c, memo, stack, active);
        if (r != 0)
            return r;
    }
    if (memo->first.outcome == CLASSIFY_EMPTY)
        return 0;
    uint32_t unweighed = 0;
    int r = add_sample(c, &memo->first, time, &unweighed);
    for (uint32_t k = 0; k < memo->n_more && r == 0; k++)
        r = add_sample(c, c->request.found.p + memo->more + k, time, &unweighed);
    c->request.unweighed += unweighed != 0;
    return r;
}

bool profile_is_like(const struct profiles *v, uint32_t profile, struct profile_memo *memo)
{
    uint32_t type = v->profile.type[profile], unit = v->profile.unit[profile],
             period_type = v->profile.period_type[profile], period_unit = v->profile.period_unit[profile];
    int64_t period = v->profile.period[profile];
    if (memo->valid && memo->type == type && memo->unit == unit && memo->period_type == period_type &&
        memo->period_unit == period_unit && memo->period == period)
        return true;
    *memo = (struct profile_memo){true, type, unit, period_type, period_unit, period, 0, {0}};
    return false;
}

struct rules_profile profile_describe(const struct profiles *v, uint32_t profile)
{
    return (struct rules_profile){profiles_string(v, v->profile.type[profile]),
                                  profiles_string(v, v->profile.unit[profile]),
                                  profiles_string(v, v->profile.period_unit[profile]),
                                  v->profile.period[profile],
                                  profiles_string(v, v->profile.period_type[profile])};
}

static void link_slot(struct classify *c, uint32_t outcome)
{
    const struct rules_outcome *o =
        outcome == CLASSIFY_EMPTY ? NULL : rules_matcher_outcome_at(c->matcher, outcome);
    if (o && o->mark == c->stamp)
        (c->request.slots.p + o->slot)->linked = c->request.sample + 1;
}

/* The last sample with a link of each slot. A second look, so that requests without links, which most are,
 * pay nothing for it: the outcome of a stack that was met is remembered, unless it depended on the sample. */
static __attribute__((cold, noinline)) int note_links(struct classify *c, uint32_t active)
{
    const struct profiles *v = c->request.view;
    for (c->request.sample = v->profile.samples_at[c->request.profile];
         c->request.sample < v->profile.samples_at[c->request.profile + 1]; c->request.sample++) {
        uint32_t stack = v->sample.stack[c->request.sample];
        if (v->sample.link[c->request.sample] == 0 || stack == PROFILES_REJECTED)
            continue;
        struct stack_memo *memo = c->request.stacks.p + stack;
        int r = still_holds(c, memo, active) ? 0 : classify_stack(c, memo, stack, active);
        if (r != 0)
            return r;
        link_slot(c, memo->first.outcome);
        for (uint32_t k = 0; k < memo->n_more; k++)
            link_slot(c, c->request.found.p[memo->more + k].outcome);
    }
    return 0;
}

static int classify_profile(struct classify *c)
{
    const struct profiles *v = c->request.view;
    if (!profile_is_like(v, c->request.profile, &c->request.last_time)) {
        const struct rules_profile p = profile_describe(v, c->request.profile);
        c->request.last_time.time = rules_time_of(&p);
    }
    const struct rules_time time = c->request.last_time.time;
    uint32_t active = c->request.profile_active.p[c->request.profile];
    vec_clear(&c->request.slots);
    if (++c->stamp == 0)
        c->stamp = 1;
    for (c->request.sample = v->profile.samples_at[c->request.profile];
         c->request.sample < v->profile.samples_at[c->request.profile + 1]; c->request.sample++) {
        uint32_t stack = v->sample.stack[c->request.sample];
        int sample_r = stack == PROFILES_REJECTED ? 0 : classify_sample(c, &time, stack, active);
        if (sample_r != 0)
            return sample_r;
    }
    int r = unlikely(v->link.n > 1) ? note_links(c, active) : 0;
    if (r == 0)
        r = work_again(c, 0); /* of texts, too */
    return r == 0 ? sums_profile(c, &time) : r;
}

/* ---- requests ------------------------------------------------------------------------------ */

static int begin(struct classify *c, const struct profiles *view)
{
    c->request.view = view;
    vec_clear(&c->request.found);
    vec_clear(&c->request.frame_entries);
    vec_clear(&c->request.pending);
    vec_clear(&c->request.combined);
    vec_clear(&c->request.examples);
    c->request.unweighed = 0;
    c->request.work = 0;
    c->request.work_max = (uint64_t)CLASSIFY_WORK_PER_BYTE * view->body.n + CLASSIFY_WORK_FREE;
    memset(c->answers, 0, (size_t)CLASSIFY_OWNERS * c->n_attrs * sizeof *c->answers);
    c->request.last_active.valid = c->request.last_time.valid = false;
    aggregate_begin(c->aggregate);
    rules_matcher_begin(c->matcher);
    uint32_t matcher_epoch = rules_matcher_epoch(c->matcher), aggregate_now = aggregate_epoch(c->aggregate);
    if (matcher_epoch != c->matcher_epoch || aggregate_now != c->aggregate_epoch) {
        vec_release(&c->series_number);
        vec_release(&c->places);
        c->matcher_epoch = matcher_epoch;
        c->aggregate_epoch = aggregate_now;
    }
    if (classify_room(&c->request.stacks, view->stack.n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < view->stack.n; i++)
        c->request.stacks.p[i].first.outcome = CLASSIFY_UNKNOWN;
    return 0;
}

static int count(struct classify *c, const struct profiles *view)
{
    int r = begin(c, view);
    if (r == 0)
        r = frames_prepare(c);
    if (r == 0)
        r = active_prepare(c);
    for (c->request.profile = 0; r == 0 && c->request.profile < view->profile.n; c->request.profile++)
        r = classify_profile(c);
    if (r == 0)
        r = rules_matcher_error(c->matcher);
    return r == 0 ? sums_apply(c) : r;
}

size_t classify_memory_used(const struct classify *c)
{
    return atomic_load_explicit(&c->own.used, memory_order_relaxed) + aggregate_memory_used(c->aggregate);
}

void classify_from(struct classify *c, uint64_t client)
{
    aggregate_from(c->aggregate, client);
}

/* What passed its bounds in this request is not held until the next one comes, which may be long. */
static void give_back(struct classify *c, int r)
{
    c->peak = classify_memory_used(c);
    rules_matcher_begin(c->matcher);
    aggregate_begin(c->aggregate);
    if (r != 0)
        release_tables(c); /* so that the next one finds all the room there is */
    else
        trim_tables(c, KEEP_MAX);
}

int classify_push(struct classify *c, const struct profiles *view)
{
    int r = count(c, view);
    c->request.view = NULL;
    struct rules_matcher_figures f = rules_matcher_figures(c->matcher);
    stats_set(c->stats, STATS_MEMO_STRINGS, f.strings);
    stats_add(c->stats, STATS_MEMO_RESETS, f.resets - c->resets_seen);
    stats_add(c->stats, STATS_REGEX_GAVE_UP, f.regex_gave_up - c->gave_up_seen);
    c->resets_seen = f.resets;
    c->gave_up_seen = f.regex_gave_up;
    if (r == 0)
        stats_add(c->stats, STATS_SAMPLES_UNWEIGHED, c->request.unweighed);
    give_back(c, r);
    return r;
}

size_t classify_memory_peak(const struct classify *c)
{
    return c->peak;
}

int classify_resume(struct classify *c, const struct profiles *view)
{
    int r = begin(c, view);
    return r == 0 ? frames_prepare(c) : r;
}
