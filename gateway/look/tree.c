/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/tree.h"

#include <errno.h>

#include "proto/base/clock.h"

/* From here on the coarse level tells what it can: 2000 slices are a fifth of a second. */
#define COARSE_FROM_NS (6 * 3600ull * NSEC_PER_SEC)

/* A tree that is to be cut keeps so many times what it will be cut to, and this at least, where what was
 * gathered becomes one tree's. */
#define KEEP_TIMES 8u
#define KEEP_MIN   65536u

int look_tree_init(struct look_tree *t, struct budget *budget, enum look_detail detail, uint32_t most)
{
    *t = (struct look_tree){.budget = budget, .detail = detail, .most = most};
    t->gathered_max = most == LOOK_ALL_NODES ? LOOK_GATHERED_MAX : LOOK_GATHERED_CUT_MAX;
    t->keep = most == LOOK_ALL_NODES ? LOOK_ALL_NODES : max_of(most * KEEP_TIMES, KEEP_MIN);
    for (uint32_t i = 0; i < LOOK_SIDES; i++)
        t->self[i].budget = t->more[i].budget = t->total[i].budget = t->unit[i].budget = budget;
    look_gathered_init(&t->gathered, budget);
    return look_dict_init(&t->dict, budget);
}

void look_tree_release(struct look_tree *t)
{
    look_dict_release(&t->dict);
    look_gathered_release(&t->gathered);
    for (uint32_t i = 0; i < LOOK_SIDES; i++) {
        vec_release(&t->self[i]);
        vec_release(&t->more[i]);
        vec_release(&t->total[i]);
        vec_release(&t->unit[i]);
    }
}

/* ---- which slices -------------------------------------------------------------------------- */

static void span(uint32_t first, uint32_t last, uint64_t *oldest, uint64_t *newest)
{
    if (first > last)
        return;
    *oldest = min_of(*oldest, first * LOOK_SLICE_NS);
    *newest = max_of(*newest, (last + 1) * LOOK_SLICE_NS);
}

void look_range(const struct look_store *s, const struct look_select *select, bool is_of_services,
                struct look_found *ret, uint32_t *ret_from, uint32_t *ret_to)
{
    uint64_t oldest = UINT64_MAX, newest = 0;
    for (uint32_t i = 0; i < s->n_epochs; i++)
        span(s->epochs[i]->oldest, s->epochs[i]->newest, &oldest, &newest);
    for (uint32_t i = 0; s->shelf && i < look_shelf_n(s->shelf); i++)
        span(look_shelf_at(s->shelf, i)->oldest, look_shelf_at(s->shelf, i)->newest, &oldest, &newest);
    const bool is_coarse = is_of_services && select->to_ns - select->from_ns > COARSE_FROM_NS &&
                           look_select_is_of_services(select);
    const uint64_t unit = is_coarse ? LOOK_COARSE_SLICES * LOOK_SLICE_NS : LOOK_SLICE_NS;
    const uint64_t to = min_of(select->to_ns, newest), from = min_of(max_of(select->from_ns, oldest), to);
    *ret_from = (uint32_t)(from / unit);
    *ret_to = (uint32_t)((to + unit - 1) / unit);
    *ret = (struct look_found){
        .from_ns = *ret_from * unit, .to_ns = *ret_to * unit, .level = is_coarse ? LOOK_COARSE : LOOK_FINE};
}

struct visiting {
    const struct look_visit *visit;
    struct look_epoch *epoch;
    const uint8_t *wanted; /* [series] */
    struct look_found *found;
};

static int show_slice(void *context, const struct look_slice *slice)
{
    const struct visiting *v = context;
    struct look_sections sections;
    struct look_section section;
    if (v->visit->deadline_ns != 0 && clock_monotonic() > v->visit->deadline_ns)
        return LOOK_TOO_LONG;
    const uint64_t unit = slice->level == LOOK_COARSE ? LOOK_COARSE_SLICES * LOOK_SLICE_NS : LOOK_SLICE_NS;
    v->found->slice_ns = unit;
    int r = look_sections_begin(slice->data, &sections);
    while (r == 0 && (r = look_sections_next(&sections, &section)) == 0) {
        if (section.series >= v->epoch->series.n || !v->wanted[section.series])
            continue;
        v->found->total = look_add(v->found->total, section.total);
        v->found->kept = look_add(v->found->kept, section.kept);
        v->found->seen = look_add(v->found->seen, section.seen);
        r = v->visit->show(v->visit->context, v->epoch, slice->at * unit, &section);
        if (r != 0)
            return r;
    }
    return 0; /* what is damaged ends there */
}

static int show_example(struct visiting *v, const struct look_example *x)
{
    const uint64_t at = x->at * LOOK_SLICE_NS;
    const struct bytes trace = v->visit->select->trace;
    if (!v->wanted[x->series] || at < v->found->from_ns || at >= v->found->to_ns ||
        (trace.n > 0 && memcmp(trace.p, x->trace, sizeof x->trace) != 0))
        return 0;
    v->found->total = look_add(v->found->total, x->value);
    v->found->kept++;
    v->found->seen += LOOK_SEEN_ONE;
    return v->visit->example(v->visit->context, v->epoch, x);
}

static int show_examples(struct visiting *v)
{
    const struct look_epoch *e = v->epoch;
    int r = 0;
    for (uint32_t i = 0; i < e->examples.n && r == 0; i++)
        r = show_example(v, &e->examples.p[i]);
    for (uint32_t i = 0; i < e->old_examples.n && r == 0; i++)
        r = show_example(v, &e->old_examples.p[i]);
    return r;
}

static int visit_epoch(struct visiting *v, uint32_t from, uint32_t to)
{
    struct look_epoch *e = v->epoch;
    VEC(uint8_t) wanted = {.budget = v->visit->budget};
    int r = vec_extend(&wanted, e->series.n + 1);
    if (r == 0)
        r = look_select_series(v->visit->select, e, wanted.p);
    v->wanted = wanted.p;
    if (r == 0 && v->visit->begin)
        r = v->visit->begin(v->visit->context, e);
    if (r == 0)
        r = v->visit->example ? show_examples(v)
                              : look_epoch_each(e, v->found->level, from, to, show_slice, v);
    if (r == 0 && v->visit->end) {
        v->epoch = NULL;
        r = v->visit->end(v->visit->context, e);
    }
    vec_release(&wanted);
    return r;
}

/* Whether fine slices from the first to the last are of what is asked for, which is of a level. */
static bool is_in(uint32_t first, uint32_t last, enum look_level level, uint32_t from, uint32_t to)
{
    const uint64_t unit = level == LOOK_COARSE ? LOOK_COARSE_SLICES : 1;
    return first < to * unit && last >= from * unit;
}

static bool is_in_memory(const struct look_store *s, uint64_t id)
{
    for (uint32_t i = 0; i < s->n_epochs; i++)
        if (s->epochs[i]->id == id)
            return true;
    return false;
}

/* Files that overlap with [from, to), and that memory has no more. */
static int visit_shelf(struct look_store *s, const struct look_visit *visit, uint32_t from, uint32_t to,
                       struct look_found *found)
{
    int r = 0;
    for (uint32_t i = 0; r == 0 && i < look_shelf_n(s->shelf); i++) {
        const struct look_shelved file = *look_shelf_at(s->shelf, i);
        if (!is_in(file.oldest, file.newest, found->level, from, to) || is_in_memory(s, file.id))
            continue;
        struct visiting v = {.visit = visit, .found = found};
        r = look_shelf_read(s->shelf, i, found->level, from, to, visit->budget, &v.epoch);
        if (v.epoch)
            r = visit_epoch(&v, from, to);
        else if (i < look_shelf_n(s->shelf) && look_shelf_at(s->shelf, i)->id != file.id)
            i--; /* it was damaged, and is not there any more */
        look_epoch_free(v.epoch);
    }
    return r;
}

int look_visit(struct look_store *s, const struct look_visit *visit, struct look_found *ret)
{
    uint32_t from, to;
    look_range(s, visit->select, visit->is_of_services, ret, &from, &to);
    int r = s->shelf && !visit->example ? visit_shelf(s, visit, from, to, ret) : 0; /* files have none */
    for (uint32_t i = 0; i < s->n_epochs && r == 0; i++) {
        struct visiting v = {.visit = visit, .epoch = s->epochs[i], .found = ret};
        if (visit->example || is_in(v.epoch->oldest, v.epoch->newest, ret->level, from, to))
            r = visit_epoch(&v, from, to);
    }
    return r;
}

/* ---- gathering ----------------------------------------------------------------------------- */

struct gathering {
    struct look_tree *tree;
    uint32_t side;
};

static int begin_epoch(void *context, struct look_epoch *e)
{
    const struct gathering *g = context;
    return look_gathered_begin(&g->tree->gathered, &e->dict);
}

static int note_unit(struct gathering *g, const struct look_epoch *e, uint32_t series)
{
    const struct bytes unit = intern_get(&e->dict.strings, e->series.p[series].unit);
    return g->tree->unit[g->side].n > 0 ? 0 : vec_append_all(&g->tree->unit[g->side], unit.p, unit.n);
}

static int add_section(void *context, struct look_epoch *e, uint64_t at_ns,
                       const struct look_section *section)
{
    struct gathering *g = context;
    look_pairs_add(section, look_gathered_values(&g->tree->gathered), e->dict.nodes.n);
    return note_unit(g, e, section->series);
}

static int add_example(void *context, struct look_epoch *e, const struct look_example *x)
{
    struct gathering *g = context;
    uint64_t *values = look_gathered_values(&g->tree->gathered);
    if (x->node < e->dict.nodes.n)
        values[x->node] = look_add(values[x->node], x->value);
    return note_unit(g, e, x->series);
}

static int end_epoch(void *context, struct look_epoch *e)
{
    const struct gathering *g = context;
    return look_gathered_end(g->tree, g->side, e);
}

int look_tree_gather(struct look_tree *t, uint32_t side, struct look_store *s,
                     const struct look_select *select, uint64_t deadline_ns, struct look_found *ret)
{
    struct gathering g = {.tree = t, .side = side};
    t->n_sides = max_of(t->n_sides, side + 1);
    const bool is_of_trace = select->trace.n > 0;
    const struct look_visit visit = {
        .select = select,
        .is_of_services = !is_of_trace,
        .deadline_ns = deadline_ns,
        .begin = begin_epoch,
        .show = add_section,
        .example = is_of_trace ? add_example : NULL,
        .end = end_epoch,
        .context = &g,
        .budget = t->budget,
    };
    int r = look_visit(s, &visit, ret);
    ret->unit = bytes_of(t->unit[side].p, t->unit[side].n);
    return r;
}

/* ---- afterwards ---------------------------------------------------------------------------- */

static bool has_text(struct bytes name, struct bytes text)
{
    return text.n <= name.n && memmem(name.p, name.n, text.p, text.n) != NULL;
}

int look_tree_filter(struct look_tree *t, struct bytes text, bool is_whole)
{
    const uint32_t n = t->dict.nodes.n, n_frames = t->dict.frames.n;
    VEC(uint8_t) has = {.budget = t->budget}; /* [node], and behind them [frame] */
    int r = vec_extend(&has, n + n_frames);
    for (uint32_t i = 0; r == 0 && i < n_frames; i++) {
        const struct bytes name = intern_get(&t->dict.strings, t->dict.frames.p[i].name);
        has.p[n + i] = is_whole ? bytes_eq(name, text) : has_text(name, text);
    }
    for (uint32_t i = 1; r == 0 && i < n; i++) {
        const struct look_node *node = &t->dict.nodes.p[i];
        has.p[i] = has.p[node->parent] || has.p[n + node->frame];
        for (uint32_t side = 0; side < LOOK_SIDES; side++)
            if (!has.p[i] && i < t->self[side].n)
                t->self[side].p[i] = 0;
    }
    vec_release(&has);
    return r;
}

int look_tree_under(struct look_tree *t, const struct bytes *names, uint32_t n)
{
    VEC(uint32_t)
    met = {.budget = t->budget}; /* [node] names on its path from the root; n + 1: another one */
    int r = vec_extend(&met, t->dict.nodes.n);
    for (uint32_t i = 1; r == 0 && i < t->dict.nodes.n; i++) {
        const struct look_node *node = &t->dict.nodes.p[i];
        const uint32_t before = met.p[node->parent];
        const bool is_next =
            before < n &&
            bytes_eq(names[before], intern_get(&t->dict.strings, t->dict.frames.p[node->frame].name));
        met.p[i] = before >= n ? before : is_next ? before + 1 : n + 1;
        for (uint32_t side = 0; side < LOOK_SIDES; side++)
            if (met.p[i] != n && i < t->self[side].n)
                t->self[side].p[i] = 0;
    }
    vec_release(&met);
    return r;
}

int look_tree_sum(struct look_tree *t)
{
    const uint32_t n = t->dict.nodes.n;
    for (uint32_t side = 0; side < t->n_sides; side++) {
        vec_clear(&t->total[side]);
        if (vec_append_all(&t->total[side], t->self[side].p, n) < 0)
            return -ENOMEM;
        uint64_t *total = t->total[side].p;
        for (uint32_t i = 0; i < t->more[side].n; i++)
            total[i] = look_add(total[i], t->more[side].p[i]);
        for (uint32_t i = n; i-- > 1;)
            total[t->dict.nodes.p[i].parent] = look_add(total[t->dict.nodes.p[i].parent], total[i]);
    }
    return 0;
}
