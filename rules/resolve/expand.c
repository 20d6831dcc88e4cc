/* SPDX-License-Identifier: Apache-2.0 */
#include "rules/resolve/expand.h"

#include "rules/resolve/expand_cell.h"

/* What a node says that may be dependent: chains are as long as a line is. */
struct subject {
    const struct rule_frame *frame;
    const struct rule_region *region;
};

/* ---- what is asked --------------------------------------------------------------------------- */

static bool collect_frame(struct guards *g, const struct rule_frame *f)
{
    if (!f || !f->dependent)
        return true;
    if (!guards_visit(g))
        return false;
    if (f->op == RULE_FRAME_MATCH || f->op == RULE_FRAME_EQUAL)
        return cell_collect(g, f->field.table, f->field.column, f);
    for (uint32_t i = 0; i < f->n_kids; i++) {
        if (!collect_frame(g, f->kids[i]))
            return false;
    }
    return true;
}

static bool collect_region(struct guards *g, const struct rule_region *region)
{
    if (!region || !region->dependent)
        return true;
    return collect_frame(g, region->after) && collect_frame(g, region->while_) &&
           collect_frame(g, region->until);
}

/* All that the combinations are of; false with an error. */
static bool counted(struct guards *g, bool collected, struct rule_place place)
{
    uint32_t n = 0;
    if (collected && !g->too_many) {
        do
            n++;
        while (n <= EXPAND_MAX && guards_next(g));
        for (uint32_t i = 0; i < g->n; i++)
            g->value[i] = false;
        g->is_settled = n <= EXPAND_MAX;
        if (g->is_settled)
            return true;
    }
    if (collected || g->too_many)
        wrong(g->r, "E127", place, "fewer different `when`s and attributes in the table's rows",
              "what this asks of frames depends on the sample in more than %u ways", EXPAND_MAX);
    return false;
}

/* ---- in a combination ------------------------------------------------------------------------ */

static const struct rule_frame *frame_of(struct guards *g, const struct rule_frame *f)
{
    if (!f || !f->dependent)
        return f;
    if (f->op == RULE_FRAME_MATCH || f->op == RULE_FRAME_EQUAL)
        return cell_condition(g, f);
    struct rule_frame *made = arena_calloc(g->r->keep, 1, sizeof *made);
    const struct rule_frame **kids = arena_calloc(g->r->keep, f->n_kids, sizeof *kids);
    if (!made || !kids || !guards_visit(g))
        return out_of_memory(g->r);
    *made = *f;
    made->dependent = false;
    made->kids = kids;
    for (uint32_t i = 0; i < f->n_kids; i++) {
        if (!(kids[i] = frame_of(g, f->kids[i])))
            return NULL;
    }
    return made;
}

static const struct rule_region *region_of(struct guards *g, const struct rule_region *region)
{
    if (!region || !region->dependent)
        return region;
    struct rule_region *made = arena_calloc(g->r->keep, 1, sizeof *made);
    if (!made)
        return out_of_memory(g->r);
    *made = *region;
    made->dependent = false;
    made->after = frame_of(g, region->after);
    made->while_ = frame_of(g, region->while_);
    made->until = frame_of(g, region->until);
    bool good =
        !made->after == !region->after && !made->while_ == !region->while_ && !made->until == !region->until;
    return good ? made : NULL;
}

static bool is_dependent(const struct rule_frame *f, const struct rule_region *region)
{
    return (f && f->dependent) || (region && region->dependent);
}

static bool ref_of(struct guards *g, const struct rule_ref *ref, struct rule_ref *ret)
{
    *ret = *ref;
    ret->frame = frame_of(g, ref->frame);
    ret->region = region_of(g, ref->region);
    return !ret->frame == !ref->frame && !ret->region == !ref->region;
}

/* ---- conditions about a sample --------------------------------------------------------------- */

static bool sample_is_dependent(const struct rule_sample *s)
{
    bool any = is_dependent(s->frame, s->region) || is_dependent(s->ref.frame, s->ref.region);
    for (uint32_t i = 0; i < s->n_chain; i++)
        any |= s->chain[i]->dependent;
    return any;
}

static bool collect_sample(struct guards *g, const struct rule_sample *s)
{
    bool good = collect_frame(g, s->frame) && collect_region(g, s->region) &&
                collect_frame(g, s->ref.frame) && collect_region(g, s->ref.region);
    for (uint32_t i = 0; i < s->n_chain && good; i++)
        good = collect_frame(g, s->chain[i]);
    return good;
}

static const struct rule_sample *sample_of(struct guards *g, const struct rule_sample *s)
{
    struct rule_sample *made = arena_calloc(g->r->keep, 1, sizeof *made);
    const struct rule_frame **chain = arena_calloc(g->r->keep, (size_t)s->n_chain + 1, sizeof *chain);
    if (!made || !chain)
        return out_of_memory(g->r);
    *made = *s;
    made->frame = frame_of(g, s->frame);
    made->region = region_of(g, s->region);
    bool good = ref_of(g, &s->ref, &made->ref) && !made->frame == !s->frame && !made->region == !s->region;
    for (uint32_t i = 0; i < s->n_chain; i++)
        good &= (chain[i] = frame_of(g, s->chain[i])) != NULL;
    if (s->n_chain > 0)
        made->chain = chain;
    return good ? made : NULL;
}

const struct rule_sample *expand_sample(struct resolver *r, struct rule_sample *s)
{
    struct guards g = {.r = r};
    struct list kids = {0};
    if (!sample_is_dependent(s))
        return s;
    if (!counted(&g, collect_sample(&g, s), s->place))
        return NULL;
    do {
        const struct rule_sample *kid = sample_of(&g, s);
        kid = kid ? guards_condition(&g, kid, s->place) : NULL;
        const struct rule_sample **slot = kid ? list_add(&kids, r->keep, sizeof *slot) : NULL;
        if (!slot)
            return kid ? out_of_memory(r) : NULL;
        *slot = kid;
    } while (guards_next(&g));
    struct rule_sample *any = arena_calloc(r->keep, 1, sizeof *any);
    if (!any)
        return out_of_memory(r);
    *any =
        (struct rule_sample){.op = RULE_SAMPLE_OR, .kids = kids.items, .n_kids = kids.n, .place = s->place};
    return any;
}

/* ---- texts and tables: one row for each combination ------------------------------------------ */

/* A condition that every frame meets: a row with it is chosen by its `when` alone. */
static const struct rule_frame *every_frame(struct resolver *r, struct rule_place place)
{
    struct rule_frame *f = arena_calloc(r->keep, 3, sizeof *f);
    const struct rule_frame **kids = arena_calloc(r->keep, 2, sizeof *kids);
    if (!f || !kids)
        return out_of_memory(r);
    for (int i = 1; i < 3; i++) {
        f[i] = (struct rule_frame){
            .op = RULE_FRAME_EQUAL, .negated = i == 1, .field = {.field = RULE_FIELD_TYPE}, .place = place};
        kids[i - 1] = &f[i];
    }
    f[0] = (struct rule_frame){.op = RULE_FRAME_OR, .kids = kids, .n_kids = 2, .place = place};
    return f;
}

static const struct rule_text *text_of_part(struct resolver *r, const struct rule_text_part *part,
                                            struct rule_place place)
{
    struct rule_text *text = arena_calloc(r->keep, 1, sizeof *text);
    struct rule_choice *choice = arena_calloc(r->keep, 1, sizeof *choice);
    struct rule_text_part *own = arena_calloc(r->keep, 1, sizeof *own);
    if (!text || !choice || !own)
        return out_of_memory(r);
    *own = *part;
    *choice = (struct rule_choice){.parts = own, .n_parts = 1};
    *text = (struct rule_text){.choices = choice, .n_choices = 1, .place = place};
    return text;
}

/* Adds a row for the present combination, with room for n cells. */
static const struct rule_text **add_choice_row(struct guards *g, struct list *rows,
                                               const struct rule_frame *every, uint32_t n,
                                               struct rule_place place)
{
    struct rule_row *row = list_add(rows, g->r->keep, sizeof *row);
    const struct rule_text **cells = arena_calloc(g->r->keep, n, sizeof *cells);
    if (!row || !cells)
        return out_of_memory(g->r);
    *row = (struct rule_row){.frame = every, .cells = cells, .place = place};
    row->when = guards_condition(g, NULL, place);
    return g->r->oom ? NULL : cells;
}

bool expand_part(struct resolver *r, struct rule_text_part *part, struct rule_place place)
{
    struct guards g = {.r = r};
    struct list rows = {0};
    if (!is_dependent(part->ref.frame, part->ref.region))
        return true;
    const struct rule_frame *every = every_frame(r, place);
    struct rule_table *t = arena_calloc(r->keep, 1, sizeof *t);
    struct bytes *column = arena_calloc(r->keep, 1, sizeof *column);
    if (!every || !t || !column)
        return out_of_memory(r);
    if (!counted(&g, collect_frame(&g, part->ref.frame) && collect_region(&g, part->ref.region), place))
        return false;
    do {
        struct rule_text_part of = *part;
        const struct rule_text **cells =
            ref_of(&g, &part->ref, &of.ref) ? add_choice_row(&g, &rows, every, 1, place) : NULL;
        if (!cells || !(cells[0] = text_of_part(r, &of, place)))
            return false;
    } while (guards_next(&g));
    *column = BYTES_LIT("value");
    *t = (struct rule_table){.name = BYTES_LIT("of"),
                             .pack = r->packs[r->here.pack].name.name,
                             .columns = column,
                             .n_columns = 1,
                             .over = true,
                             .rows = rows.items,
                             .n_rows = rows.n,
                             .place = place};
    *part = (struct rule_text_part){.kind = RULE_TEXT_COLUMN, .table = t};
    return true;
}

bool expand_row(struct resolver *r, const struct rule_row *row, struct list *rows)
{
    struct guards g = {.r = r};
    struct rule_row *slot;
    if (!is_dependent(row->frame, NULL)) {
        slot = list_add(rows, r->keep, sizeof *slot);
        if (!slot)
            return out_of_memory(r);
        *slot = *row;
        return true;
    }
    r->here.needs_sample = true;
    if (!counted(&g, collect_frame(&g, row->frame), row->place))
        return false;
    do {
        struct rule_row made = *row;
        made.frame = frame_of(&g, row->frame);
        made.when = made.frame ? guards_condition(&g, row->when, row->place) : NULL;
        if (!made.frame || r->oom)
            return false;
        slot = list_add(rows, r->keep, sizeof *slot);
        if (!slot)
            return out_of_memory(r);
        *slot = made;
    } while (guards_next(&g));
    return true;
}

const struct rule_table *expand_table(struct resolver *r, struct rule_table *t)
{
    struct guards g = {.r = r};
    struct list rows = {0};
    if (!is_dependent(NULL, t->region))
        return t;
    const struct rule_frame *every = every_frame(r, t->place);
    struct rule_table *made = arena_calloc(r->keep, 1, sizeof *made);
    if (!every || !made)
        return out_of_memory(r);
    if (!counted(&g, collect_region(&g, t->region), t->place))
        return NULL;
    do {
        struct rule_table *one = arena_calloc(r->keep, 1, sizeof *one);
        const struct rule_text **cells =
            one ? add_choice_row(&g, &rows, every, t->n_columns, t->place) : out_of_memory(r);
        if (!cells)
            return NULL;
        *one = *t;
        if (!(one->region = region_of(&g, t->region)))
            return NULL;
        for (uint32_t i = 0; i < t->n_columns; i++) {
            const struct rule_text_part part = {.kind = RULE_TEXT_COLUMN, .table = one, .column = i};
            if (!(cells[i] = text_of_part(r, &part, t->place)))
                return NULL;
        }
    } while (guards_next(&g));
    *made = *t;
    made->region = NULL;
    made->nearest_leaf = false;
    made->rows = rows.items;
    made->n_rows = rows.n;
    return made;
}

/* ---- sources --------------------------------------------------------------------------------- */

bool expand_source(struct resolver *r, const struct rule_source *s, struct list *sources)
{
    struct guards g = {.r = r};
    bool dependent = is_dependent(s->each_frame, s->each_region);
    if (dependent &&
        !counted(&g, collect_frame(&g, s->each_frame) && collect_region(&g, s->each_region), s->place))
        return false;
    do {
        struct rule_source made = *s;
        if (dependent) {
            made.each_frame = frame_of(&g, s->each_frame);
            made.each_region = region_of(&g, s->each_region);
            made.where = guards_condition(&g, s->where, s->place);
            if (!made.each_frame != !s->each_frame || !made.each_region != !s->each_region || r->oom)
                return false;
        }
        struct rule_source *slot = list_add(sources, r->keep, sizeof *slot);
        if (!slot)
            return out_of_memory(r);
        *slot = made;
    } while (guards_next(&g));
    return true;
}
