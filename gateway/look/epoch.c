/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/epoch.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"

/* Pairs of an open slice that are merged anew when they have doubled. */
#define MERGE_MIN 4096u

/* ---- life ---------------------------------------------------------------------------------- */

struct look_epoch *look_epoch_new(struct budget *parent, uint64_t now_ns)
{
    struct look_epoch *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->budget = (struct budget)BUDGET_INIT(SIZE_MAX, parent);
    e->series.budget = e->coarse_of.budget = e->stacks.budget = &e->budget;
    e->series_of.budget = e->stack_of.budget = &e->budget;
    e->slices.budget = e->open.budget = e->examples.budget = e->old_examples.budget = &e->budget;
    rng_seed(&e->rng, hash_seed() ^ now_ns);
    e->began_ns = now_ns;
    e->oldest = UINT32_MAX;
    if (look_dict_init(&e->dict, &e->budget) < 0)
        return look_epoch_free(e);
    return e;
}

static void free_slices(struct look_epoch *e)
{
    for (uint32_t i = 0; i < e->slices.n; i++) {
        budget_refund(&e->budget, e->slices.p[i].data.n);
        free((void *)e->slices.p[i].data.p);
    }
    vec_release(&e->slices);
}

void look_epoch_keep_names(struct look_epoch *e)
{
    free_slices(e);
    vec_release(&e->dict.nodes);
}

struct look_epoch *look_epoch_free(struct look_epoch *e)
{
    if (!e)
        return NULL;
    free_slices(e);
    for (uint32_t i = 0; i < e->open.n; i++)
        vec_release(&e->open.p[i].pairs);
    look_dict_release(&e->dict);
    vec_release(&e->series);
    vec_release(&e->coarse_of);
    vec_release(&e->stacks);
    hash_table_release(&e->series_of);
    hash_table_release(&e->stack_of);
    vec_release(&e->open);
    vec_release(&e->examples);
    vec_release(&e->old_examples);
    if (e->budget.parent)
        budget_refund(e->budget.parent, e->budget.used);
    free(e);
    return NULL;
}

/* ---- series and stacks ----------------------------------------------------------------------- */

static uint32_t other(struct look_epoch *e)
{
    const uint32_t string = look_dict_string(&e->dict, BYTES_LIT("[other]"));
    return string == LOOK_NONE ? LOOK_EMPTY : string;
}

uint32_t look_epoch_series(struct look_epoch *e, const struct look_series *series)
{
    struct look_series s = *series;
    static const enum look_label steps[][3] = {{LOOK_THREAD, LOOK_THREAD, LOOK_THREAD},
                                               {LOOK_CONTAINER, LOOK_K8S_POD, LOOK_EXECUTABLE},
                                               {LOOK_HOST, LOOK_K8S_CONTAINER, LOOK_K8S_NAMESPACE},
                                               {LOOK_SERVICE, LOOK_NAMESPACE, LOOK_ENVIRONMENT}};
    /* Each step has a tenth more to itself. */
    for (uint32_t i = 0; i < ARRAY_LEN(steps); i++)
        if (e->series.n >= LOOK_SERIES_MAX + i * (LOOK_SERIES_MAX / 10))
            for (uint32_t k = 0; k < 3; k++)
                if (s.label[steps[i][k]] != LOOK_EMPTY)
                    s.label[steps[i][k]] = other(e);
    return LOOK_FIND_OR_ADD(&e->series, &e->series_of, &s);
}

uint32_t look_epoch_find_stack(const struct look_epoch *e, uint64_t hash)
{
    struct hash_at at = hash_table_at(&e->stack_of, hash);
    for (uint32_t i; (i = hash_table_next(&e->stack_of, &at)) != HASH_NONE;)
        if (e->stacks.p[i].hash == hash)
            return e->stacks.p[i].node;
    return LOOK_NONE;
}

int look_epoch_know_stack(struct look_epoch *e, uint64_t hash, uint32_t node)
{
    struct hash_at at = hash_table_at(&e->stack_of, hash);
    if (vec_reserve(&e->stacks, (uint64_t)e->stacks.n + 1) < 0 ||
        hash_table_add(&e->stack_of, at, e->stacks.n) < 0)
        return -ENOMEM;
    e->stacks.p[e->stacks.n++] = (struct look_known_stack){hash, node};
    return 0;
}

/* ---- examples ------------------------------------------------------------------------------ */

/* The last ones in turn; of those that they replace, each is as likely kept as any other. */
void look_epoch_add_example(struct look_epoch *e, const struct look_example *example)
{
    if (e->n_examples < LOOK_EXAMPLES_EACH) {
        e->n_examples += vec_append(&e->examples, *example) == 0;
        return;
    }
    struct look_example *place = &e->examples.p[e->n_examples++ % LOOK_EXAMPLES_EACH];
    const uint64_t n_old = e->n_examples - LOOK_EXAMPLES_EACH;
    const uint64_t chosen =
        n_old <= LOOK_EXAMPLES_EACH ? n_old - 1 : (uint64_t)(rng_unit(&e->rng) * (double)n_old);
    if (chosen < e->old_examples.n)
        e->old_examples.p[chosen] = *place;
    else if (chosen < LOOK_EXAMPLES_EACH)
        vec_append(&e->old_examples, *place); /* without memory it is none */
    *place = *example;
}

/* ---- slices -------------------------------------------------------------------------------- */

static struct look_open *open_of(struct look_epoch *e, enum look_level level, uint32_t at)
{
    for (uint32_t i = e->open.n; i-- > 0;)
        if (e->open.p[i].at == at && e->open.p[i].level == level)
            return &e->open.p[i];
    struct look_open open = {.at = at, .level = level};
    open.pairs.budget = &e->budget;
    return vec_append(&e->open, open) < 0 ? NULL : vec_last(&e->open);
}

static void note_time(struct look_epoch *e, enum look_level level, uint32_t at)
{
    if (level != LOOK_FINE)
        return;
    e->oldest = min_of(e->oldest, at);
    e->newest = max_of(e->newest, at);
}

static void merge(struct look_open *open)
{
    look_pairs_merge(&open->pairs);
    open->n_merged = open->pairs.n;
}

int look_epoch_add(struct look_epoch *e, enum look_level level, uint32_t at, const struct look_pair *pair)
{
    struct look_open *open = open_of(e, level, at);
    if (!open)
        return -ENOMEM;
    if (open->pairs.n >= max_of(2 * open->n_merged, MERGE_MIN))
        merge(open);
    if (vec_append(&open->pairs, *pair) < 0)
        return -ENOMEM;
    note_time(e, level, at);
    return 0;
}

static uint32_t coarse_of(struct look_epoch *e, uint32_t series)
{
    for (uint32_t i = e->coarse_of.n; i <= series; i++)
        if (vec_append(&e->coarse_of, LOOK_NONE) < 0)
            return LOOK_NONE;
    if (e->coarse_of.p[series] == LOOK_NONE) {
        const struct look_series *fine = &e->series.p[series];
        struct look_series coarse = {.type = fine->type, .unit = fine->unit};
        coarse.label[LOOK_SERVICE] = fine->label[LOOK_SERVICE];
        e->coarse_of.p[series] = look_epoch_series(e, &coarse);
    }
    return e->coarse_of.p[series];
}

/* All or nothing: there is room for it first. */
static int add_to_coarse(struct look_epoch *e, uint32_t fine)
{
    struct look_open *coarse = open_of(e, LOOK_COARSE, e->open.p[fine].at / LOOK_COARSE_SLICES);
    if (!coarse)
        return -ENOMEM;
    const look_pairs *pairs = &e->open.p[fine].pairs;
    for (uint32_t i = 0; i < pairs->n; i++)
        if (coarse_of(e, pairs->p[i].series) == LOOK_NONE)
            return -ENOMEM;
    if (vec_reserve(&coarse->pairs, (uint64_t)coarse->pairs.n + pairs->n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < pairs->n; i++) {
        struct look_pair pair = pairs->p[i];
        pair.series = e->coarse_of.p[pair.series];
        coarse->pairs.p[coarse->pairs.n++] = pair;
    }
    if (coarse->pairs.n >= max_of(2 * coarse->n_merged, MERGE_MIN))
        merge(coarse);
    return 0;
}

int look_epoch_add_sealed(struct look_epoch *e, const struct look_slice *slice)
{
    if (vec_reserve(&e->slices, (uint64_t)e->slices.n + 1) < 0 || !budget_charge(&e->budget, slice->data.n))
        return -ENOMEM;
    uint8_t *data = malloc(max_of(slice->data.n, (size_t)1));
    if (!data) {
        budget_refund(&e->budget, slice->data.n);
        return -ENOMEM;
    }
    memcpy(data, slice->data.p, slice->data.n);
    e->slices.p[e->slices.n] = *slice;
    e->slices.p[e->slices.n++].data.p = data;
    note_time(e, slice->level, slice->at);
    return 0;
}

static int seal(struct look_epoch *e, uint32_t i, struct buffer *scratch)
{
    scratch->n = 0;
    merge(&e->open.p[i]);
    int r = look_slice_write(&e->open.p[i].pairs, scratch);
    const struct look_slice slice = {e->open.p[i].at, e->open.p[i].level, e->dict.nodes.n,
                                     buffer_bytes(scratch)};
    if (r == 0 && slice.level == LOOK_FINE && vec_reserve(&e->slices, (uint64_t)e->slices.n + 1) == 0)
        r = add_to_coarse(e, i);
    if (r == 0)
        r = look_epoch_add_sealed(e, &slice);
    if (r < 0)
        return r;
    vec_release(&e->open.p[i].pairs);
    e->open.p[i] = *vec_last(&e->open);
    e->open.n--;
    return 0;
}

int look_epoch_seal(struct look_epoch *e, bool (*is_over)(const struct look_open *open, uint64_t now_ns),
                    uint64_t now_ns)
{
    cleanup(buffer_release) struct buffer scratch = BUFFER_INIT(0);
    int r = 0;
    for (int level = LOOK_FINE; level < LOOK_N_LEVELS;
         level++) /* fine ones become part of coarse ones first */
        for (uint32_t i = e->open.n; i-- > 0 && r == 0;)
            if (e->open.p[i].level == (enum look_level)level && is_over(&e->open.p[i], now_ns))
                r = seal(e, i, &scratch);
    return r;
}

/* Those who told of a stack to it may ask the next one for it (store.c): which stacks it knows stays. */
void look_epoch_finish(struct look_epoch *e)
{
    if (e->open.n > 0) /* what had no memory is sealed later, which may need a series */
        return;
    hash_table_release(&e->dict.strings.table);
    hash_table_release(&e->dict.frame_of);
    hash_table_release(&e->dict.node_of);
    hash_table_release(&e->series_of);
    vec_release(&e->coarse_of);
    vec_fit(&e->dict.strings);
    vec_fit(&e->dict.frames);
    vec_fit(&e->dict.nodes);
    vec_fit(&e->stacks);
    vec_fit(&e->slices);
}

/* Whether a slice belongs to what is asked for: a fine one that is part of no coarse one yet, too. */
static bool is_wanted(enum look_level of, uint32_t at, bool is_alone, enum look_level level, uint32_t from,
                      uint32_t to)
{
    const bool is_part = level == LOOK_COARSE && of == LOOK_FINE && is_alone;
    at /= is_part ? LOOK_COARSE_SLICES : 1;
    return (of == level || is_part) && at >= from && at < to;
}

int look_epoch_each(struct look_epoch *e, enum look_level level, uint32_t from, uint32_t to,
                    int (*show)(void *context, const struct look_slice *slice), void *context)
{
    int r = 0;
    for (uint32_t i = 0; i < e->slices.n && r == 0; i++)
        if (is_wanted(e->slices.p[i].level, e->slices.p[i].at, e->is_read, level, from, to))
            r = show(context, &e->slices.p[i]);
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    for (uint32_t i = 0; i < e->open.n && r == 0; i++) {
        if (!is_wanted(e->open.p[i].level, e->open.p[i].at, true, level, from, to))
            continue;
        text.n = 0;
        merge(&e->open.p[i]);
        r = look_slice_write(&e->open.p[i].pairs, &text);
        const struct look_slice slice = {e->open.p[i].at, e->open.p[i].level, e->dict.nodes.n,
                                         buffer_bytes(&text)};
        r = r < 0 ? r : show(context, &slice);
    }
    return r;
}
