/* SPDX-License-Identifier: Apache-2.0 */
/* An output's tables as a whole: made, emptied, copied into others without what is dead. */
#include "gateway/aggregate/tables.h"

#include "proto/base/macros.h"

#define COMPACT_DEAD 1024u /* fewer dead cells are not worth renumbering for */
#define OLD_NAMES    4096u /* nor fewer names without a cell or a candidate */

/* Below are the cells that always are, by metric: a reload may make them more. */
#define NUMBERS_FROM ((uint64_t)1 << 32)

void output_tables_release(struct output_tables *t)
{
    intern_release(&t->resources);
    intern_release(&t->series);
    vec_release(&t->known);
    idmap_release(&t->shares);
    idmap_release(&t->cell_of);
    idmap_release(&t->n_series);
    largest_release(&t->largest);
    vec_release(&t->cells);
    vec_release(&t->exemplars);
}

static void reset_overflow_cells(struct output_tables *t, uint32_t n_metrics)
{
    vec_clear(&t->cells);
    vec_clear(&t->exemplars);
    t->n_dead = 0;
    for (uint32_t m = 0; m < n_metrics; m++) /* there is room: there always was */
        vec_append(&t->cells, (struct output_cell){
                                  .resource = RESOURCE_OVERFLOW, .series = m, .metric = m, .number = m});
}

bool output_tables_init(struct output_tables *t, uint32_t n_metrics, struct budget *budget)
{
    *t = (struct output_tables){.budget = budget,
                                .next_number = NUMBERS_FROM,
                                .resources = INTERN_INIT(budget),
                                .series = INTERN_INIT(budget),
                                .known.budget = budget,
                                .shares = IDMAP_INIT(budget),
                                .cell_of = IDMAP_INIT(budget),
                                .n_series = IDMAP_INIT(budget),
                                .cells.budget = budget,
                                .exemplars.budget = budget};
    largest_init(&t->largest, budget);
    if (vec_reserve(&t->cells, n_metrics + 1) < 0)
        return false;
    reset_overflow_cells(t, n_metrics);
    return true;
}

void output_clear(struct output *o)
{
    struct output_tables *t = &o->tables;
    intern_clear(&t->resources);
    intern_clear(&t->series);
    vec_clear(&t->known);
    idmap_clear(&t->shares);
    idmap_clear(&t->cell_of);
    idmap_clear(&t->n_series);
    largest_clear(&t->largest);
    reset_overflow_cells(t, o->all->n_metrics);
    o->names_at = 0;
    o->generation++;
}

/* A cell's example, into other tables. */
static void move_exemplar(const struct output_tables *from, struct output_cell *moved,
                          struct output_tables *to)
{
    bool had = moved->has_exemplar;
    uint32_t was = moved->exemplar;
    moved->exemplar = 0;
    moved->has_exemplar = false;
    if (!had || vec_append(&to->exemplars, from->exemplars.p[was - 1]) < 0)
        return;
    moved->exemplar = to->exemplars.n;
    moved->has_exemplar = true;
}

/* A resource's number in other tables, with all that is known of it; RESOURCE_OVERFLOW stays that. False: no
 * memory. */
static bool move_resource(const struct output_tables *from, uint32_t resource, struct output_tables *to,
                          uint32_t *ret)
{
    *ret = RESOURCE_OVERFLOW;
    if (resource == RESOURCE_OVERFLOW)
        return true;
    const struct output_resource *r = &from->known.p[resource - 1];
    uint32_t *share =
        vec_reserve(&to->known, to->known.n + 1) < 0 ? NULL : idmap_place(&to->shares, r->client, 0);
    uint32_t id =
        share ? intern_add(&to->resources, intern_get(&from->resources, resource - 1)) : INTERN_NONE;
    if (id == INTERN_NONE)
        return false;
    if (id == to->known.n) {
        vec_append(&to->known, *r);
        ++*share;
    }
    *ret = id + 1;
    return true;
}

/* Copies a live cell, with its names and its count, into tables for n_metrics metrics. */
static bool move_cell(const struct output *o, const struct output_cell *cell, struct output_tables *to,
                      uint32_t n_metrics)
{
    const struct output_tables *from = &o->tables;
    struct output_cell moved = *cell;
    if (!move_resource(from, cell->resource, to, &moved.resource))
        return false;
    if (cell->series >= o->all->n_metrics) {
        uint32_t id = intern_add(&to->series, intern_get(&from->series, cell->series - o->all->n_metrics));
        uint32_t *n = idmap_place(&to->n_series, idmap_key(moved.resource, moved.metric), 0);
        moved.series = id + n_metrics;
        if (id == INTERN_NONE || !n)
            return false;
        ++*n;
    }
    if (vec_reserve(&to->cells, to->cells.n + 1) < 0 ||
        !idmap_place(&to->cell_of, idmap_key(moved.resource, moved.series), to->cells.n))
        return false;
    move_exemplar(from, &moved, to);
    return vec_append(&to->cells, moved) == 0;
}

/* As move_cell, of a label set that has no name yet. */
static bool move_candidate(const struct output *o, const struct largest_candidate *c,
                           struct output_tables *to, uint32_t n_metrics)
{
    const struct output_tables *from = &o->tables;
    const struct largest_group *g = &from->largest.groups.p[c->group];
    uint32_t resource;
    if (!move_resource(from, g->resource, to, &resource))
        return false;
    uint32_t id = intern_add(&to->series, intern_get(&from->series, c->series - o->all->n_metrics));
    return id != INTERN_NONE && largest_copy(&to->largest, &from->largest, c, resource, id + n_metrics);
}

bool output_tables_for(const struct output *o, uint32_t n_metrics, struct output_tables *ret)
{
    return output_tables_without(o, NULL, n_metrics, ret);
}

bool output_tables_without(const struct output *o, const bool *gone, uint32_t n_metrics,
                           struct output_tables *ret)
{
    const struct output_tables *t = &o->tables;
    uint32_t n_spare = o->all->n_metrics;
    struct output_tables fresh;
    if (!output_tables_init(&fresh, n_metrics, t->budget))
        return false;
    fresh.next_number = t->next_number;
    for (uint32_t i = 0; i < n_spare; i++) {
        fresh.cells.p[i] = t->cells.p[i];
        move_exemplar(t, &fresh.cells.p[i], &fresh);
    }
    for (uint32_t i = n_spare; i < t->cells.n; i++) {
        const struct output_cell *cell = &t->cells.p[i];
        if (cell->live && !(gone && gone[cell->resource]) && !move_cell(o, cell, &fresh, n_metrics)) {
            output_tables_release(&fresh);
            return false;
        }
    }
    for (uint32_t i = 0; i < t->largest.candidates.n; i++) {
        const struct largest_candidate *c = &t->largest.candidates.p[i];
        const struct largest_group *g = &t->largest.groups.p[c->group];
        if (!(gone && gone[g->resource]) && !move_candidate(o, c, &fresh, n_metrics)) {
            output_tables_release(&fresh);
            return false;
        }
    }
    *ret = fresh;
    return true;
}

void output_tables_take(struct output *o, struct output_tables *tables)
{
    output_tables_release(&o->tables);
    o->tables = *tables;
    o->generation++;
}

bool output_has_old_names(const struct output *o)
{
    const struct output_tables *t = &o->tables;
    return t->series.n > max_of(OLD_NAMES + 2 * (t->cells.n + t->largest.candidates.n), o->names_at);
}

static bool is_untidy(const struct output *o)
{
    if (output_has_old_names(o))
        return true;
    const struct output_tables *t = &o->tables;
    bool in_the_way = t->cells.n >= OUTPUT_CELLS_MAX || t->resources.n >= o->options.max_resources;
    return t->n_dead > 0 && (in_the_way || (t->n_dead >= COMPACT_DEAD && t->n_dead >= t->cells.n / 4));
}

void output_compact(struct output *o)
{
    struct output_tables fresh;
    if (!is_untidy(o))
        return;
    bool ok = output_tables_for(o, o->all->n_metrics, &fresh);
    /* Without memory to tidy up in, the untidy tables are still right; and trying costs as much as doing. */
    o->names_at = ok ? 0 : 2 * o->tables.series.n;
    if (ok)
        output_tables_take(o, &fresh);
}
