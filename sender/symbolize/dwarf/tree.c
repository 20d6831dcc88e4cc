/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/dwarf/parts.h"

#define SPANS_MAX (2 * DWARF_CALLS_MAX)
/* Noted; a name above it lacks its namespaces. */
#define SCOPES_MAX (512u * 1024)

void dwarf_tree_release(struct dwarf_tree *t)
{
    vec_release(&t->calls);
    vec_release(&t->spans);
    vec_release(&t->rows);
    vec_release(&t->scopes);
    arena_release(&t->text);
    *t = (struct dwarf_tree){0};
}

struct walk {
    struct dwarf_file *f;
    const struct dwarf_cu *cu;
    struct dwarf_query *q;
    uint32_t n;
    struct dwarf_tree *t;
    struct dwarf_index *note;          /* functions are noted there; NULL: they are not */
    bool is_part;                      /* what is around it is not seen */
    uint64_t die;                      /* being looked at */
    uint32_t call, root;               /* the entry whose ranges come, and the function it is in */
    uint32_t scope[DWARF_NESTING_MAX]; /* the call around each open entry */
    uint64_t named[DWARF_NESTING_MAX]; /* the namespace or class around it; 0: none */
    uint32_t depth;
};

static uint32_t add_call(struct dwarf_tree *t, const struct dwarf_die *die, uint32_t parent)
{
    const struct dwarf_call *around = parent == DWARF_NO_CALL ? NULL : &t->calls.p[parent];
    struct dwarf_call call = {.parent = parent,
                              .depth = around ? around->depth + 1 : 0,
                              .root = around ? around->root : t->calls.n,
                              .die = die->at,
                              .origin = die->origin,
                              .call_file = die->call_file,
                              .call_line = die->call_line};
    if (t->calls.n < DWARF_CALLS_MAX && vec_append(&t->calls, call) == 0)
        return t->calls.n - 1;
    t->is_full = true;
    return DWARF_NO_CALL;
}

/* A range of a function: queries in it become its. The first of several in one range asks for all of it. */
static bool function_range(void *user, uint64_t start, uint64_t end)
{
    struct walk *w = user;
    uint64_t covered = 0;
    for (uint32_t i = dwarf_lower_bound(w->q, w->n, start); i < w->n && w->q[i].address < end; i++) {
        struct dwarf_query *q = &w->q[i];
        if (q->function != DWARF_NO_CALL)
            continue;
        if (q->address < covered) {
            q->is_answered = true;
            continue;
        }
        q->start = max_of(max_of(q->start, start), q->address - min_of(q->address, (uint64_t)DWARF_REACH));
        q->end =
            min_of(min_of(q->end, end), q->address + min_of(UINT64_MAX - q->address, (uint64_t)DWARF_REACH));
        q->start = max_of(q->start, covered); /* what the query before it gives */
        covered = q->end;
        q->function = w->call;
    }
    return true;
}

static bool call_range(void *user, uint64_t start, uint64_t end)
{
    struct walk *w = user;
    struct dwarf_tree *t = w->t;
    if (t->spans.n < SPANS_MAX &&
        vec_append(&t->spans, (struct dwarf_span){start, end, w->root, w->call}) == 0)
        return true;
    t->is_full = true;
    return false;
}

static bool has_code(const struct dwarf_die *die)
{
    return die->ranges.form || (die->low.form && die->high.form);
}

struct mark {
    const struct walk *w;
    bool found;
};

static bool note_function(void *user, uint64_t start, uint64_t end)
{
    const struct walk *w = user;
    dwarf_index_add(w->note, &w->note->functions, start, end, w->die - w->cu->unit.at,
                    (struct dwarf_pointer){0});
    return true;
}

static bool is_wanted(void *user, uint64_t start, uint64_t end)
{
    struct mark *m = user;
    const struct walk *w = m->w;
    for (uint32_t i = dwarf_lower_bound(w->q, w->n, start); i < w->n && w->q[i].address < end; i++)
        m->found |= w->q[i].function == DWARF_NO_CALL && !w->q[i].is_answered;
    return !m->found;
}

/* What an entry means for the calls; the scope of its children. */
static uint32_t enter(struct walk *w, const struct dwarf_die *die, uint32_t scope)
{
    if (w->n == 0)
        return DWARF_NO_CALL;
    if (die->tag == DW_TAG_subprogram) {
        struct mark m = {.w = w};
        w->die = die->at;
        if (w->note && has_code(die))
            dwarf_ranges(w->f, w->cu, die, note_function, w);
        if (has_code(die))
            dwarf_ranges(w->f, w->cu, die, is_wanted, &m);
        if (!m.found)
            return DWARF_NO_CALL;
        w->call = add_call(w->t, die, DWARF_NO_CALL);
        if (w->call != DWARF_NO_CALL)
            dwarf_ranges(w->f, w->cu, die, function_range, w);
        return w->call;
    }
    if (die->tag != DW_TAG_inlined_subroutine || scope == DWARF_NO_CALL)
        return scope;
    if (w->t->calls.p[scope].depth + 2 > DWARF_DEPTH_MAX)
        return scope;
    w->call = add_call(w->t, die, scope);
    if (w->call == DWARF_NO_CALL)
        return scope;
    w->root = w->t->calls.p[w->call].root;
    if (has_code(die))
        dwarf_ranges(w->f, w->cu, die, call_range, w);
    return w->call;
}

/* Notes where a name is; the namespace, class or function that its children are in. */
static uint64_t note_scope(struct walk *w, const struct dwarf_die *die, uint64_t around)
{
    struct dwarf_tree *t = w->t;
    if (w->is_part)
        return 0; /* the index has them */
    bool is_scope = die->has_children && (die->tag == DW_TAG_namespace || die->tag == DW_TAG_structure_type ||
                                          die->tag == DW_TAG_class_type || die->tag == DW_TAG_union_type);
    bool is_function = die->tag == DW_TAG_subprogram && die->name.form && !die->linkage_name.form;
    struct dwarf_scope scope = {.die = die->at, .parent = around, .is_function = is_function};
    if (around && (is_scope || is_function) && t->scopes.n < SCOPES_MAX)
        (void)vec_append(&t->scopes, scope); /* without memory names lack their namespaces */
    return is_scope || (die->tag == DW_TAG_subprogram && die->has_children) ? die->at : around;
}

static int by_start(const void *a, const void *b)
{
    const struct dwarf_span *x = a, *y = b;
    /* A caller is met before what is inlined into it. */
    return order_of(x->root, y->root) ?: order_of(x->start, y->start) ?: order_of(x->call, y->call);
}

/* Passes over an entry's children, if it says where they end. */
static bool pass_children(const struct walk *w, const struct dwarf_die *die, struct cursor *c, uint64_t end)
{
    uint64_t at = end - c->rest.size - reader_left(&c->at), to = w->cu->unit.at + die->sibling;
    if (!die->sibling || to < at || to >= end)
        return false;
    cursor_skip(c, to - at);
    return true;
}

/* Walks from a cursor on; `end` is where in .debug_info its bytes end. */
static void walk(struct walk *w, struct cursor *c, uint64_t end)
{
    struct dwarf_die die = {.at = 0};
    struct dwarf_tree *t = w->t;
    w->depth = 0;
    w->scope[0] = DWARF_NO_CALL;
    w->named[0] = 0;
    while (!t->is_full && w->f->work >= 0 && !cursor_at_end(c)) {
        uint64_t at = end - c->rest.size - reader_left(&c->at);
        if (!dwarf_die_read(c, at, &w->cu->unit, &w->cu->abbrevs, &die))
            break;
        if (die.tag == 0) {
            if (w->depth <= 1)
                break; /* behind the first entry's children there is nothing */
            w->depth--;
            continue;
        }
        uint32_t scope = enter(w, &die, w->scope[w->depth]);
        uint64_t name_scope = note_scope(w, &die, w->named[w->depth]);
        if (w->depth > 0 && (!die.has_children || pass_children(w, &die, c, end)))
            continue;
        if (!die.has_children || ++w->depth == DWARF_NESTING_MAX)
            break;
        w->scope[w->depth] = scope;
        w->named[w->depth] = name_scope;
    }
}

void dwarf_tree_scopes(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_tree *ret)
{
    struct cursor c;
    struct walk w = {.f = f, .cu = cu, .t = ret};
    struct extent unit = f->section[ELF_DEBUG_INFO];
    unit.size = cu->unit.end;
    if (cu->unit.end - cu->unit.at > DWARF_SCOPES_UNIT_MAX)
        return;
    cursor_extent(&c, &unit, cu->unit.at + cu->unit.header_size);
    walk(&w, &c, unit.size);
    f->work -= (int64_t)c.taken;
}

static void begin(struct dwarf_query *q, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        q[i].function = DWARF_NO_CALL;
}

static void sort_spans(struct dwarf_tree *t)
{
    if (t->spans.n)
        qsort(t->spans.p, t->spans.n, sizeof *t->spans.p, by_start);
}

void dwarf_tree_gather(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_query *q, uint32_t n,
                       struct dwarf_index *index, struct dwarf_tree *ret)
{
    struct cursor c;
    struct walk w = {.f = f, .cu = cu, .q = q, .n = n, .t = ret, .note = index};
    begin(q, n);
    cursor_memory(&c, bytes_of(cu->bytes.p + cu->unit.header_size, cu->bytes.n - cu->unit.header_size));
    walk(&w, &c, cu->unit.end);
    if (index) /* a walk that was cut short has not seen all */
        index->is_bad |= ret->is_full || f->work < 0;
    sort_spans(ret);
}

void dwarf_tree_gather_known(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_query *q,
                             uint32_t n, const struct dwarf_index *index, struct dwarf_tree *ret)
{
    struct cursor c;
    struct walk w = {.f = f, .cu = cu, .q = q, .n = n, .t = ret, .is_part = true};
    struct extent unit = f->section[ELF_DEBUG_INFO];
    unit.size = cu->unit.end;
    begin(q, n);
    for (uint32_t i = 0; i < n && f->work >= 0 && !ret->is_full; i++) {
        const struct dwarf_pointer *p = dwarf_pointers_find(&index->functions, q[i].address);
        if (!p || q[i].function != DWARF_NO_CALL || q[i].is_answered)
            continue;
        cursor_extent(&c, &unit, cu->unit.at + p->at);
        walk(&w, &c, unit.size);
        f->work -= (int64_t)c.taken;
    }
    sort_spans(ret);
    (void)vec_append_all(&ret->scopes, index->scopes.p, index->scopes.n); /* as in note_scope */
}

struct lines {
    const struct dwarf_window *window;
    uint32_t n;
    struct dwarf_tree *t;
};

/* The first window that ends behind an address. */
static uint32_t window_behind(const struct dwarf_window *w, uint32_t n, uint64_t address)
{
    return first_where(n, i, w[i].end > address);
}

static bool take_line(void *user, uint64_t start, uint64_t end, uint64_t file, uint64_t line)
{
    struct lines *l = user;
    struct dwarf_tree *t = l->t;
    uint32_t i = window_behind(l->window, l->n, start);
    if (i == l->n || l->window[i].start >= end)
        return true;
    struct dwarf_row row = {
        .start = start, .end = end, .file = file, .line = line <= UINT32_MAX ? (uint32_t)line : 0};
    if (t->rows.n < DWARF_LINES_MAX && vec_append(&t->rows, row) == 0)
        return true;
    t->is_full = true;
    return false;
}

static int by_address(const void *a, const void *b)
{
    const struct dwarf_row *x = a, *y = b;
    return order_of(x->start, y->start);
}

static void sort_rows(struct dwarf_tree *t)
{
    if (t->rows.n)
        qsort(t->rows.p, t->rows.n, sizeof *t->rows.p, by_address);
}

void dwarf_tree_lines(struct dwarf_file *f, const struct dwarf_lines *lines,
                      const struct dwarf_window *windows, uint32_t n, struct dwarf_index *index,
                      struct dwarf_tree *t)
{
    struct lines l = {.window = windows, .n = n, .t = t};
    dwarf_lines_run(f, lines, index, take_line, &l);
    if (index)
        index->is_bad |= t->is_full;
    sort_rows(t);
}

void dwarf_tree_lines_known(struct dwarf_file *f, const struct dwarf_lines *lines,
                            const struct dwarf_window *windows, uint32_t n, const struct dwarf_index *index,
                            struct dwarf_tree *t)
{
    struct lines l = {.window = windows, .n = n, .t = t};
    const struct dwarf_pointers *all = &index->sequences;
    uint32_t next = 0; /* those before it have been run */
    for (uint32_t i = 0; i < n; i++) {
        next = max_of(next, dwarf_pointers_behind(all, windows[i].start));
        for (; next < all->n && all->p[next].start < windows[i].end && f->work >= 0; next++)
            dwarf_lines_run_part(f, lines, &all->p[next], take_line, &l);
    }
    sort_rows(t);
}
