/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/dwarf/dwarf.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/dwarf/parts.h"

/* No function in assembly is longer. */
#define SYMBOL_MAX 65536u
/* Paths are cut to this. */
#define PATH_TEXT_MAX 1024u

/* What answering the queries of one unit needs. */
struct job {
    struct dwarf_file *f;
    struct dwarf_cu cu;
    struct dwarf_lines lines;
    struct dwarf_tree tree;
    struct dwarf_others *others;
    struct bytes *path; /* by file number, filled as asked for; NULL: no memory for it, or no lines */
    const struct dwarf_index *known; /* of the unit; NULL: it is walked whole */
    struct dwarf_index fresh;        /* made on the way */
    bool is_marking;                 /* what is used is found out; else it is given */
    dwarf_piece_fn fn;
    void *user;
};

static void close_job(struct job *j)
{
    dwarf_cu_close(&j->cu);
    dwarf_lines_close(&j->lines);
    dwarf_tree_release(&j->tree);
    dwarf_index_release(&j->fresh);
    free(j->path);
}

static struct bytes path_of(struct job *j, uint64_t number)
{
    char path[PATH_TEXT_MAX];
    if (!j->path || number >= j->lines.files.n)
        return BYTES_LIT("");
    if (!j->path[number].p) {
        size_t n = dwarf_lines_path(j->f, &j->cu, &j->lines, number, path, sizeof path);
        struct bytes copy = arena_copy(&j->tree.text, bytes_of(path, n));
        j->path[number] = copy.p ? copy : BYTES_LIT("");
    }
    return j->path[number];
}

struct place {
    uint32_t call; /* the innermost; DWARF_NO_CALL: no function is known */
    uint64_t file;
    uint32_t line;
};

static void mark(struct job *j, const struct place *place)
{
    for (uint32_t at = place->call; at != DWARF_NO_CALL && !j->tree.calls.p[at].is_used;
         at = j->tree.calls.p[at].parent)
        j->tree.calls.p[at].is_used = true;
}

/* Gives [start, end) as the chain of functions from the innermost out. */
static void give(struct job *j, uint64_t start, uint64_t end, const struct place *place)
{
    struct dwarf_frame frame[DWARF_DEPTH_MAX + 1];
    uint32_t n = 0;
    if (j->is_marking) {
        mark(j, place);
        return;
    }
    struct bytes file = path_of(j, place->file);
    uint32_t line = place->line;
    if (place->call == DWARF_NO_CALL)
        frame[n++] = (struct dwarf_frame){.file = file, .line = line};
    for (uint32_t at = place->call; at != DWARF_NO_CALL && n < ARRAY_LEN(frame);
         at = j->tree.calls.p[at].parent) {
        const struct dwarf_call *call = &j->tree.calls.p[at];
        frame[n] = call->frame;
        frame[n].file = file;
        frame[n++].line = line;
        file = path_of(j, call->call_file);
        line = call->call_line <= UINT32_MAX ? (uint32_t)call->call_line : 0;
    }
    j->fn(j->user, &(struct dwarf_piece){.start = start, .end = end, .frame = frame, .n_frames = n});
}

/* A walk along the addresses of one query. */
struct sweep {
    const struct dwarf_span *span, *span_end;    /* of its function, not yet begun */
    const struct dwarf_row *row, *row_end;       /* not yet ended */
    struct dwarf_span open[DWARF_DEPTH_MAX + 1]; /* by depth; those that have ended stay */
    uint32_t n_open;
};

/* What there is at `at`, and in *next how far it goes. */
static struct place place_at(const struct job *j, struct sweep *s, uint32_t function, uint64_t at,
                             uint64_t *next)
{
    struct place place = {.call = function};
    for (; s->span < s->span_end && s->span->start <= at; s->span++) {
        uint32_t depth = min_of(j->tree.calls.p[s->span->call].depth, DWARF_DEPTH_MAX);
        for (; s->n_open <= depth; s->n_open++)
            s->open[s->n_open].end = 0;
        s->open[depth] = *s->span;
    }
    if (s->span < s->span_end)
        *next = min_of(*next, s->span->start);
    for (uint32_t depth = 0; depth < s->n_open; depth++) {
        if (s->open[depth].end <= at)
            continue;
        place.call = s->open[depth].call;
        *next = min_of(*next, s->open[depth].end);
    }
    while (s->row < s->row_end && s->row->end <= at)
        s->row++;
    if (s->row < s->row_end && s->row->start > at) {
        *next = min_of(*next, s->row->start);
    } else if (s->row < s->row_end) {
        *next = min_of(*next, s->row->end);
        place.file = s->row->file;
        place.line = s->row->line;
    } else {
        place.file = UINT64_MAX;
    }
    return place;
}

/* The spans of one function: they are together. */
static void find_spans(const struct dwarf_tree *t, uint32_t function, struct sweep *s)
{
    uint32_t from = first_where(t->spans.n, i, t->spans.p[i].root >= function);
    if (t->spans.n == 0)
        return;
    s->span = s->span_end = t->spans.p + from;
    while (s->span_end < t->spans.p + t->spans.n && s->span_end->root == function)
        s->span_end++;
}

/* The first row that may reach behind an address: rows are apart, unless the file lies. */
static void find_rows(const struct dwarf_tree *t, uint64_t address, struct sweep *s)
{
    uint32_t from = first_where(t->rows.n, i, t->rows.p[i].start > address);
    if (t->rows.n == 0)
        return;
    s->row = t->rows.p + (from > 0 ? from - 1 : 0);
    s->row_end = t->rows.p + t->rows.n;
}

static void answer(struct job *j, struct dwarf_query *q)
{
    struct sweep s = {0};
    struct place last = {0}, place;
    uint64_t begun = q->start, next;
    q->is_answered = !j->is_marking;
    find_rows(&j->tree, q->start, &s);
    if (q->function != DWARF_NO_CALL)
        find_spans(&j->tree, q->function, &s);
    j->f->work -= 8 * (int64_t)(s.span_end - s.span);
    for (uint64_t at = q->start; at < q->end && j->f->work >= 0; at = next) {
        next = q->end;
        place = place_at(j, &s, q->function, at, &next);
        j->f->work -= 16;
        if (at > begun && (place.call != last.call || place.file != last.file || place.line != last.line)) {
            give(j, begun, at, &last);
            begun = at;
        }
        last = place;
        if (next == q->end)
            give(j, begun, q->end, &last);
    }
}

/* Whether what is in no function has lines: assembly has, padding between functions has not. */
static bool has_lines(struct job *j, const struct dwarf_query *q)
{
    struct sweep s = {0};
    find_rows(&j->tree, q->start, &s);
    for (; s.row < s.row_end && s.row->start < q->end && j->f->work >= 0; s.row++) {
        j->f->work -= 16;
        if (s.row->end > q->start && s.row->line != 0)
            return true;
    }
    return false;
}

/* Whether a query in no function has the range of the last one that was in none: it is answered with that. */
static bool is_beside(const struct dwarf_query *last, const struct dwarf_query *q)
{
    return last && q->function == DWARF_NO_CALL && last->end == q->end;
}

static void answer_all(struct job *j, struct dwarf_query *q, uint32_t n)
{
    const struct dwarf_query *last = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (q[i].is_answered)
            continue;
        if (is_beside(last, &q[i])) {
            q[i].is_answered = last->is_answered;
            continue;
        }
        if (q[i].function == DWARF_NO_CALL)
            last = &q[i];
        if (q[i].function != DWARF_NO_CALL || has_lines(j, &q[i]))
            answer(j, &q[i]);
    }
}

static int by_end(const void *a, const void *b)
{
    const struct dwarf_window *x = a, *y = b;
    return order_of(x->end, y->end);
}

/* Runs the line program for the ranges that are still to be answered. */
static void gather_lines(struct job *j, struct dwarf_query *q, uint32_t n)
{
    uint32_t n_windows = 0;
    autofree struct dwarf_window *window = malloc(n * sizeof *window);
    if (!window || dwarf_lines_open(j->f, &j->cu, !j->known, &j->lines) < 0)
        return;
    const struct dwarf_query *last = NULL;
    for (uint32_t i = 0; i < n; i++) {
        if (q[i].is_answered)
            continue;
        if (q[i].function == DWARF_NO_CALL) { /* assembly: there may be lines nevertheless, once a symbol */
            if (is_beside(last, &q[i]))
                continue;
            if (q[i].end - q[i].start > SYMBOL_MAX) { /* no symbol: a gap, with others' code in it */
                q[i].start = q[i].address;
                q[i].end = q[i].address + 1;
            }
            last = &q[i];
        }
        window[n_windows++] = (struct dwarf_window){q[i].start, q[i].end};
    }
    qsort(window, n_windows, sizeof *window, by_end);
    if (j->known)
        dwarf_tree_lines_known(j->f, &j->lines, window, n_windows, j->known, &j->tree);
    else
        dwarf_tree_lines(j->f, &j->lines, window, n_windows, &j->fresh, &j->tree);
    j->path = calloc(j->lines.files.n ? j->lines.files.n : 1, sizeof *j->path);
}

/* What was seen of a large unit makes the next look at it short. */
static void keep_index(struct job *j)
{
    const struct dwarf_unit *u = &j->cu.unit;
    j->fresh.unit = u->at;
    if (u->end - u->at >= DWARF_INDEX_UNIT_MIN && j->f->work >= 0)
        dwarf_indexes_keep(&j->f->keep->indexes, &j->fresh, j->tree.scopes.p, j->tree.scopes.n);
}

static int answer_unit(struct dwarf_file *f, struct dwarf_query *q, uint32_t n, struct dwarf_others *others,
                       dwarf_piece_fn fn, void *user)
{
    struct dwarf_unit unit;
    cleanup(close_job) struct job j = {.f = f, .others = others, .fn = fn, .user = user};
    int r = dwarf_unit_header(f, q->unit, &unit);
    j.known = r ? NULL : dwarf_indexes_of(&f->keep->indexes, unit.at);
    r = r ? r : dwarf_cu_open(f, &unit, j.known ? DWARF_TABLE : DWARF_WHOLE, &j.cu);
    if (r != 0)
        return r == DWARF_DAMAGED ? 0 : r; /* symbols have to do */
    if (j.known)
        dwarf_tree_gather_known(f, &j.cu, q, n, j.known, &j.tree);
    else
        dwarf_tree_gather(f, &j.cu, q, n, &j.fresh, &j.tree);
    gather_lines(&j, q, n);
    if (!j.known)
        keep_index(&j);
    j.is_marking = true;
    answer_all(&j, q, n);
    dwarf_name_calls(f, &j.cu, others, &j.tree);
    j.is_marking = false;
    answer_all(&j, q, n);
    return 0;
}

static int by_unit(const void *a, const void *b)
{
    const struct dwarf_query *x = a, *y = b;
    return order_of(x->unit, y->unit) ?: order_of(x->address, y->address);
}

/* The queries of one unit, from … to - 1. */
struct group {
    uint32_t from, to;
    uint64_t weight;
};

static int by_weight(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return order_of(y->weight, x->weight) ?: order_of(x->from, y->from);
}

/* What a unit may cost, at most mostly: with so much for each there is no need to choose. */
#define UNIT_WORK (256 << 10)

/* Groups queries by unit; how many groups. Those in no unit are left out. What weighs most comes first,
 * unless there is work for all: then they come as they are in the file, for of packed sections what lies
 * between two is unpacked once, and not from a mark before each. */
static uint32_t group(struct dwarf_query *queries, uint32_t n, int64_t work, struct group *ret)
{
    uint32_t n_groups = 0;
    qsort(queries, n, sizeof *queries, by_unit);
    for (uint32_t from = 0, to; from < n && queries[from].unit != DWARF_NO_UNIT; from = to) {
        uint64_t weight = 0;
        for (to = from; to < n && queries[to].unit == queries[from].unit; to++)
            weight += queries[to].weight;
        ret[n_groups++] = (struct group){from, to, weight};
    }
    if (work < (int64_t)n_groups * UNIT_WORK)
        qsort(ret, n_groups, sizeof *ret, by_weight);
    return n_groups;
}

int dwarf_find(struct dwarf_file *f, struct dwarf_query *queries, uint32_t n, dwarf_piece_fn fn, void *user)
{
    for (uint32_t i = 0; i < n; i++)
        queries[i].is_answered = false;
    autofree struct dwarf_others *others = calloc(1, sizeof *others);
    autofree struct group *groups = malloc(n * sizeof *groups + 1);
    int r = others && groups ? dwarf_locate(f, queries, n) : -ENOMEM;
    if (r < 0)
        return r;
    uint32_t n_groups = group(queries, n, f->work - f->reserved, groups);
    for (const struct group *g = groups; g < groups + n_groups && r == 0; g++)
        r = f->work < f->reserved ? DWARF_LEFT
                                  : answer_unit(f, queries + g->from, g->to - g->from, others, fn, user);
    dwarf_others_close(others);
    return r;
}
