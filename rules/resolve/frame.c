/* SPDX-License-Identifier: Apache-2.0 */
/* Patterns, frames, regions and tables. */
#include "rules/resolve/resolve.h"

#include "proto/base/nearest.h"
#include "rules/parse/cells.h"
#include "rules/source/place.h"
#include "rules/tree/limits.h"

/* Patterns may name each other: what they hold flattened, all together. Four times what can be written. */
#define FLATTENED_MAX (4u * RULES_ATOMS_MAX)
#define SHOWN_MAX     60u /* bytes of a condition in a proposal */

#define KINDS_FRAME   (1u << DEF_FRAME | 1u << DEF_PATTERN)
#define KINDS_PATTERN (1u << DEF_PATTERN)
#define KINDS_REGION  (1u << DEF_REGION)
#define KINDS_TABLE   (1u << DEF_TABLE)

/* ---- patterns -------------------------------------------------------------------------------- */

static const struct rule_pattern *pattern_of_name(struct resolver *r, const struct ast *a)
{
    const struct ast_def *def = look_up(r, a->name, a->place, KINDS_PATTERN, "pattern");
    if (!def)
        return NULL;
    if (def->kind != DEF_PATTERN)
        return wrong(r, "E117", a->place, NULL, "`%.*s` is a %s; a pattern is needed here",
                     BYTES_FMT(a->name), kind_name(def->kind));
    return resolve_def(r, def, a->place);
}

/* Adds an atom once: lists that share parts stay as long as they look. */
static bool add_atom(struct resolver *r, struct list *atoms, struct intern *seen,
                     const struct rule_atom *atom)
{
    uint32_t before = seen->n;
    if (intern_add(seen, bytes_of(&atom, sizeof atom)) == INTERN_NONE) {
        r->oom = true;
        return false;
    }
    if (seen->n == before)
        return true;
    const struct rule_atom **slot = list_add(atoms, r->keep, sizeof(struct rule_atom *));
    if (!slot)
        r->oom = true;
    else
        *slot = atom;
    return slot != NULL;
}

static bool add_kid_atoms(struct resolver *r, struct list *atoms, struct intern *seen, const struct ast *kid)
{
    if (kid->op == AST_NONE)
        return true;
    if (kid->op == AST_ATOM)
        return add_atom(r, atoms, seen, kid->atom);
    const struct rule_pattern *named = pattern_of_name(r, kid);
    for (uint32_t i = 0; named && i < named->n_atoms; i++) {
        if (!add_atom(r, atoms, seen, named->atoms[i]))
            return false;
    }
    return named != NULL;
}

const struct rule_pattern *resolve_pattern(struct resolver *r, const struct ast *a)
{
    if (a->n_kids == 1 && a->kids[0]->op == AST_NAME)
        return pattern_of_name(r, a->kids[0]);
    struct list atoms = {0};
    struct intern seen = INTERN_INIT(NULL);
    bool good = true;
    for (uint32_t i = 0; i < a->n_kids; i++)
        good &= add_kid_atoms(r, &atoms, &seen, a->kids[i]);
    intern_release(&seen);
    if (!good)
        return NULL;
    r->flattened += atoms.n;
    if (r->flattened > FLATTENED_MAX)
        return wrong(r, "E127", a->place, NULL, "the patterns hold more than %u globs and regexes together",
                     FLATTENED_MAX);
    struct rule_pattern *pattern = arena_calloc(r->keep, 1, sizeof *pattern);
    if (!pattern)
        return out_of_memory(r);
    pattern->atoms = atoms.items;
    pattern->n_atoms = atoms.n;
    return pattern;
}

/* ---- frames ---------------------------------------------------------------------------------- */

/* resource.service.name, as others write an attribute. */
static bool is_attribute(struct resolver *r, struct bytes name, struct rule_place place)
{
    static const struct {
        const char *theirs, *ours;
    } scopes[] = {{"resource.attributes.", "resource"},
                  {"resource.", "resource"},
                  {"scope.", "scope"},
                  {"sample.", "sample"},
                  {"profile.", "profile"},
                  {"attributes.", "attr"},
                  {"attribute.", "attr"},
                  {"attr.", "attr"},
                  {"labels.", "sample"},
                  {"label.", "sample"}};
    if (bytes_is(name, "leaf.function") || bytes_is(name, "root.function")) {
        report_at(r->report, "E103", place, "there is no table named `%.4s`", name.p);
        report_propose(r->report, "write: function of %.4s", name.p);
        report_done(r->report);
        return true;
    }
    static const char *const known[] = {"service.", "host.", "k8s.", "container.", "process.", "deployment."};
    const uint8_t *dot = memchr(name.p, '.', name.n);
    for (size_t i = 0; dot && i < ARRAY_LEN(known); i++) {
        if (!bytes_starts(name, known[i]))
            continue;
        report_at(r->report, "E103", place, "there is no table named `%.*s`", (int)(dot - name.p), name.p);
        report_propose(r->report, "an attribute is written resource[\"%.*s\"]", BYTES_FMT(name));
        report_done(r->report);
        return true;
    }
    for (size_t i = 0; i < ARRAY_LEN(scopes); i++) {
        size_t n = strlen(scopes[i].theirs);
        if (!bytes_starts(name, scopes[i].theirs) || name.n == n)
            continue;
        report_at(r->report, "E103", place, "there is no table named `%.*s`", (int)(n - 1), scopes[i].theirs);
        report_propose(r->report, "an attribute is written %s[\"%.*s\"]", scopes[i].ours,
                       BYTES_FMT(bytes_of(name.p + n, name.n - n)));
        report_done(r->report);
        return true;
    }
    return false;
}

bool resolve_column(struct resolver *r, struct bytes name, struct rule_place place,
                    const struct rule_table **ret_table, uint32_t *ret_column)
{
    const struct ast_def *def = NULL;
    size_t n = name.n;
    for (; n > 1; n--) {
        if (name.p[n - 1] != '.')
            continue;
        def = find_def(r, r->here.pack, bytes_of(name.p, n - 1));
        if (def && def->kind == DEF_TABLE)
            break;
        def = NULL;
    }
    if (!def) {
        const uint8_t *dot = memrchr(name.p, '.', name.n);
        if (is_attribute(r, name, place))
            return false;
        look_up(r, bytes_of(name.p, dot ? (size_t)(dot - name.p) : name.n), place, KINDS_TABLE, "table");
        return false;
    }
    struct bytes column = bytes_of(name.p + n, name.n - n);
    const struct ast_table *t = &def->table;
    struct nearest near;
    nearest_start(&near, column);
    for (uint32_t i = 0; i < t->n_columns; i++) {
        if (bytes_eq(t->columns[i].name, column)) {
            *ret_table = resolve_def(r, def, place);
            *ret_column = i;
            return *ret_table != NULL;
        }
        nearest_offer(&near, t->columns[i].name);
    }
    if (def->broken)
        return false;
    report_at(r->report, "E103", place, "table %.*s has no column named `%.*s`", BYTES_FMT(def->name.name),
              BYTES_FMT(column));
    if (near.best.n > 0)
        report_side(r->report, "did you mean `%.*s.%.*s`?", BYTES_FMT(def->name.name), BYTES_FMT(near.best));
    report_done(r->report);
    return false;
}

bool resolve_field(struct resolver *r, const struct ast *a, struct rule_field_ref *ret)
{
    *ret = (struct rule_field_ref){.field = a->field};
    if (a->op == AST_FIELD)
        return true;
    ret->field = RULE_FIELD_COLUMN;
    if (!resolve_column(r, a->name, a->place, &ret->table, &ret->column))
        return false;
    if (!ret->table->over)
        return true;
    return wrong(r, "E102", a->place,
                 "it has one value a sample: use it without `of`, in `where`, `when` or a label",
                 "`%.*s` belongs to a whole stack, but this speaks of one frame", BYTES_FMT(a->name));
}

static struct rule_frame *frame_new(struct resolver *r, int op, const struct ast *a)
{
    struct rule_frame *f = arena_calloc(r->keep, 1, sizeof *f);
    if (!f)
        return out_of_memory(r);
    f->op = op;
    f->place = a->place;
    f->negated = a->negated;
    return f;
}

static const struct rule_frame *frame_of_pattern(struct resolver *r, const struct ast_def *def,
                                                 const struct rule_pattern *pattern, struct rule_place place)
{
    struct def_state *s = def ? &r->states[def->id] : NULL;
    if (s && s->as_frame)
        return s->as_frame;
    struct rule_frame *f = pattern ? arena_calloc(r->keep, 1, sizeof *f) : NULL;
    if (!f)
        return pattern ? out_of_memory(r) : NULL;
    f->op = RULE_FRAME_MATCH;
    f->place = place;
    f->field.field = RULE_FIELD_FUNCTION;
    f->pattern = pattern;
    if (s)
        s->as_frame = f;
    return f;
}

static const struct rule_frame *frame_of_name(struct resolver *r, const struct ast *a)
{
    const struct ast_def *def = look_up(r, a->name, a->place, KINDS_FRAME, "frame, region or pattern");
    if (!def)
        return NULL;
    if (def->kind == DEF_FRAME)
        return resolve_def(r, def, a->place);
    if (def->kind == DEF_PATTERN)
        return frame_of_pattern(r, def, resolve_def(r, def, a->place), a->place);
    if (def->kind == DEF_REGION)
        return wrong(r, "E117", a->place, "a region stands behind `in` or `over`",
                     "`%.*s` is a region; a condition about a frame is needed here", BYTES_FMT(a->name));
    if (def->kind == DEF_SAMPLE)
        return wrong(r, "E102", a->place, "in a table say it behind the row: … when …; in a rule, in `where`",
                     "`%.*s` speaks of a whole sample, but this is about one frame", BYTES_FMT(a->name));
    return wrong(r, "E117", a->place, NULL, "`%.*s` is a %s; a condition about a frame is needed here",
                 BYTES_FMT(a->name), kind_name(def->kind));
}

static const struct rule_frame *frame_of_kids(struct resolver *r, int op, const struct ast *a)
{
    struct rule_frame *f = frame_new(r, op, a);
    const struct rule_frame **kids = f ? arena_calloc(r->keep, a->n_kids, sizeof *kids) : NULL;
    if (!kids)
        return out_of_memory(r);
    bool good = true;
    for (uint32_t i = 0; i < a->n_kids; i++) {
        kids[i] = resolve_frame(r, a->kids[i]);
        good &= kids[i] != NULL;
    }
    f->kids = kids;
    f->n_kids = a->n_kids;
    return good ? f : NULL;
}

static const struct rule_frame *frame_comparison(struct resolver *r, const struct ast *a)
{
    bool match = a->op == AST_FRAME_MATCH;
    struct rule_frame *f = frame_new(r, match ? RULE_FRAME_MATCH : RULE_FRAME_EQUAL, a);
    if (!f)
        return NULL;
    bool good = resolve_field(r, a->kids[0], &f->field);
    if (match)
        f->pattern = resolve_pattern(r, a->kids[1]);
    else if (a->kids[1]->op == AST_STRING)
        f->literal = a->kids[1]->name;
    return good && (!match || f->pattern) ? f : NULL;
}

/* A glob or regex where one stands alone (fprim). */
static const struct rule_frame *frame_of_atom(struct resolver *r, const struct ast *a)
{
    struct rule_pattern *pattern = arena_calloc(r->keep, 1, sizeof *pattern);
    const struct rule_atom **atoms = arena_calloc(r->keep, 1, sizeof *atoms);
    if (!pattern || !atoms)
        return out_of_memory(r);
    atoms[0] = a->atom;
    pattern->atoms = atoms;
    pattern->n_atoms = 1;
    return frame_of_pattern(r, NULL, pattern, a->place);
}

const struct rule_frame *resolve_frame(struct resolver *r, const struct ast *a)
{
    struct rule_frame *f;
    switch (a->op) {
    case AST_AND: return frame_of_kids(r, RULE_FRAME_AND, a);
    case AST_OR: return frame_of_kids(r, RULE_FRAME_OR, a);
    case AST_NOT: return frame_of_kids(r, RULE_FRAME_NOT, a);
    case AST_NAME: return frame_of_name(r, a);
    case AST_ATOM: return frame_of_atom(r, a);
    case AST_PATTERN: return frame_of_pattern(r, NULL, resolve_pattern(r, a), a->place);
    case AST_INLINED: return frame_new(r, RULE_FRAME_INLINED, a);
    case AST_FRAME_MATCH:
    case AST_FRAME_EQUAL: return frame_comparison(r, a);
    default:
        f = frame_new(r, RULE_FRAME_EQUAL, a); /* a type word */
        if (f) {
            f->field.field = RULE_FIELD_TYPE;
            f->literal = a->name;
        }
        return f;
    }
}

/* ---- regions --------------------------------------------------------------------------------- */

const struct rule_region *resolve_region_name(struct resolver *r, struct bytes name, struct rule_place place,
                                              bool *ret_good)
{
    *ret_good = true;
    if (name.n == 0)
        return NULL;
    const struct rule_region *region = NULL;
    const struct ast_def *def = look_up(r, name, place, KINDS_REGION, "region");
    if (def && def->kind != DEF_REGION)
        wrong(r, "E117", place, NULL, "`%.*s` is a %s; a region is needed here", BYTES_FMT(name),
              kind_name(def->kind));
    else if (def)
        region = resolve_def(r, def, place);
    *ret_good = region != NULL;
    return region;
}

const struct rule_region *resolve_region(struct resolver *r, const struct ast_def *def)
{
    struct rule_region *region = arena_calloc(r->keep, 1, sizeof *region);
    if (!region)
        return out_of_memory(r);
    const struct ast_region *a = &def->region;
    region->name = def->name.name;
    region->place = def->name.place;
    region->through = a->through;
    region->after = a->after ? resolve_frame(r, a->after) : NULL;
    region->while_ = a->while_ ? resolve_frame(r, a->while_) : NULL;
    region->until = a->until ? resolve_frame(r, a->until) : NULL;
    bool good = !region->after == !a->after && !region->while_ == !a->while_ && !region->until == !a->until;
    return good ? region : NULL;
}

/* ---- tables ---------------------------------------------------------------------------------- */

static void propose_beside(struct resolver *r, const struct ast_def *def, const struct ast *when)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(SHOWN_MAX);
    const char *open = when->op == AST_OR ? "(" : "", *close = when->op == AST_OR ? ")" : "";
    source_fold(when->source, &text, SHOWN_MAX);
    report_propose(r->report, "ask the sample beside it:  any frame is (%.*s.%.*s == \"…\") and %s%.*s%s%s",
                   BYTES_FMT(def->name.name), BYTES_FMT(def->table.columns[0].name), open,
                   BYTES_FMT(buffer_bytes(&text)), text.n == SHOWN_MAX ? "…" : "", close);
}

static void propose_over(struct resolver *r, const struct ast_def *def)
{
    cleanup(buffer_release) struct buffer columns = BUFFER_INIT(600);
    for (uint32_t i = 0; i < def->table.n_columns; i++)
        buffer_printf(&columns, "%s%.*s", i > 0 ? ", " : "", BYTES_FMT(def->table.columns[i].name));
    report_propose(r->report,
                   "or let it be about the stack:  table %.*s (%.*s) over frames nearest leaf { … }",
                   BYTES_FMT(def->name.name), BYTES_FMT(buffer_bytes(&columns)));
}

/* A table without `over` says of a frame what it is, whoever asks: conditions about frames are met once by
 * each distinct frame, not once by each sample. */
static bool no_when_here(struct resolver *r, const struct ast_def *def, const struct ast *when)
{
    report_at(r->report, "E130", when->place,
              "no `when` here: `%.*s` is about one frame, and says the same of it in every sample",
              BYTES_FMT(def->name.name));
    propose_beside(r, def, when);
    propose_over(r, def);
    report_done(r->report);
    return false;
}

static bool no_sample_here(struct resolver *r, const struct ast_def *def, struct bytes column,
                           const struct ast *cell)
{
    struct bytes name = def->name.name;
    report_at(
        r->report, "E130", cell->place,
        "no text of the sample here: `%.*s` is about one frame, and says the same of it in every sample",
        BYTES_FMT(name));
    report_propose(r->report, "join them where the column is asked:  label %.*s = %.*s.%.*s of leaf ?? …",
                   BYTES_FMT(column), BYTES_FMT(name), BYTES_FMT(column));
    propose_over(r, def);
    report_done(r->report);
    return false;
}

static bool resolve_cell(struct resolver *r, const struct ast_def *def, uint32_t column, const struct ast *a,
                         const struct rule_text **ret)
{
    r->here.needs_sample = false;
    *ret = resolve_text(r, a);
    if (*ret && r->here.needs_sample && !def->table.over)
        return no_sample_here(r, def, def->table.columns[column].name, a);
    return *ret != NULL;
}

static bool resolve_row(struct resolver *r, const struct ast_def *def, const struct ast_row *a,
                        struct rule_row *ret)
{
    const struct ast_table *t = &def->table;
    ret->place = a->frame_place;
    bool good = true;
    if (a->frame)
        good = (ret->frame = resolve_frame(r, a->frame)) != NULL;
    if (a->when)
        good &= (ret->when = resolve_sample(r, a->when)) != NULL;
    if (ret->when && !t->over)
        good = no_when_here(r, def, a->when);
    const struct rule_text **cells = arena_calloc(r->keep, t->n_columns, sizeof *cells);
    if (!cells) {
        r->oom = true;
        return false;
    }
    r->here.cells = true; /* with `over`: of the frame that decided */
    for (uint32_t i = 0; i < a->n_cells && i < t->n_columns; i++) {
        if (a->cells[i])
            good &= resolve_cell(r, def, i, a->cells[i], &cells[i]);
    }
    r->here.cells = false;
    ret->cells = cells;
    return good;
}

static bool add_row(struct resolver *r, const struct ast_def *def, const struct ast_row *a, struct list *rows)
{
    struct rule_row row = {0};
    if (!resolve_row(r, def, a, &row))
        return false;
    if (!list_append(rows, r->keep, &row))
        return out_of_memory(r);
    return true;
}

/* The rows that other packs put above a table's own, with their packs' names. */
static bool resolve_extensions(struct resolver *r, const struct ast_def *def, struct list *rows)
{
    const struct extensions *x = &r->extensions[def->id];
    uint32_t pack = r->here.pack;
    bool good = true;
    for (uint32_t i = 0; i < x->n; i++) {
        r->here.pack = x->items[i]->pack;
        for (uint32_t k = 0; k < x->items[i]->n_rows; k++) {
            const struct ast_row *row = &x->items[i]->rows[k];
            good &= cells_fit(&def->table, row, r->report) && add_row(r, def, row, rows);
        }
    }
    r->here.pack = pack;
    return good;
}

/* By its heaviest row. */
static void weigh_table(struct rule_table *t)
{
    for (uint32_t i = 0; i < t->n_rows; i++) {
        const struct rule_row *row = &t->rows[i];
        const uint32_t when = row->when ? row->when->n_written : 0;
        for (uint32_t k = 0; k < t->n_columns; k++)
            t->n_written = max_of(t->n_written, when + (row->cells[k] ? row->cells[k]->n_written : 0));
    }
}

const struct rule_table *resolve_table(struct resolver *r, const struct ast_def *def)
{
    const struct ast_table *a = &def->table;
    struct list rows = {0};
    struct rule_table *t = arena_calloc(r->keep, 1, sizeof *t);
    struct bytes *columns = arena_calloc(r->keep, a->n_columns, sizeof *columns);
    if (!t || !columns)
        return out_of_memory(r);
    for (uint32_t i = 0; i < a->n_columns; i++)
        columns[i] = a->columns[i].name;
    *t = (struct rule_table){
        .name = def->name.name,
        .pack = r->packs[def->pack].name.name,
        .columns = columns,
        .n_columns = a->n_columns,
        .over = a->over,
        .nearest_leaf = a->nearest_leaf,
        .place = def->name.place,
    };
    bool good;
    t->region = resolve_region_name(r, a->region.name, a->region.place, &good);
    good &= resolve_extensions(r, def, &rows);
    for (uint32_t i = 0; i < a->n_rows; i++)
        good &= add_row(r, def, &a->rows[i], &rows);
    t->rows = rows.items;
    t->n_rows = rows.n;
    weigh_table(t);
    return good ? t : NULL;
}
