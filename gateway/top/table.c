/* SPDX-License-Identifier: Apache-2.0 */
/* Series become rows; sorted, equal rows are added up, and runs of them are groups: the processes of a metric
 * by function, the label sets of others. Then lines are given out, and only then is anything drawn: how wide
 * a column is depends on what stands in it. */
#include "gateway/top/table.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "gateway/top/words.h"
#include "proto/base/intern.h"
#include "proto/base/macros.h"

#define GROUPS_SURE   10u /* processes that have a line before a function has one */
#define GROUPS_PLAIN  15u /* lines of a section when nothing limits the page */
#define ITEMS_MAX     5u  /* functions of a process */
#define ITEMS_PLAIN   4u
#define ITEM_SHARE    0.01 /* of its section: less tells nothing */
#define GROUP_SHARE   0.002
#define SECTIONS_MAX  64u
#define BAR_COLUMNS   10u
#define BAR_WIDTH_MIN 72u  /* of a terminal that has room for bars */
#define BESIDE_SHARE  0.05 /* of its group: what is named beside it */
#define NOTE_MIN      12u
#define NAME_COLUMNS  64u /* columns: what a function is for shall stand beside it */

struct row {
    uint32_t section;
    struct bytes group, item, note;
    bool is_rest;  /* what had no name of its own: behind all that have one */
    double amount; /* per second of a counter; the value of a gauge */
};

struct group {
    const struct row *items; /* the greatest first */
    uint32_t n_items, shown; /* of its items: those with a line of their own */
    double amount;
};

struct section {
    const struct top_metric *metric;
    struct group *groups; /* the greatest first */
    uint32_t n_groups, shown;
    double total; /* with what is told at the end */
};

struct table {
    const struct top_view *view;
    const struct top_page *before, *now;
    double seconds;
    struct arena arena; /* names that are put together */
    struct row *rows;
    uint32_t n_rows;
    struct group *groups;
    struct section sections[SECTIONS_MAX];
    uint32_t n_sections;
    struct bytes host; /* "" where there are none or several */
    uint32_t n_hosts;  /* 2: several */
    double own;        /* what profgate and profsend take themselves */
    struct line line;
    uint32_t name_columns;
};

/* ---- rows ---- */

static bool is_own(struct bytes service)
{
    return bytes_is(service, "profgate") || bytes_is(service, "profsend");
}

/* The values of a page by key. */
static int index_page(const struct top_page *page, struct intern *keys, double **ret_values)
{
    double *values = calloc(page->series.n + 1, sizeof *values);
    if (!values)
        return -ENOMEM;
    for (uint32_t i = 0; i < page->series.n; i++) {
        uint32_t id = intern_add(keys, page->series.p[i].key);
        if (id == INTERN_NONE) {
            free(values);
            return -ENOMEM;
        }
        values[id] = page->series.p[i].value;
    }
    *ret_values = values;
    return 0;
}

static double amount_of(const struct table *t, const struct top_series *s, const struct intern *keys,
                        const double *old)
{
    if (t->now->metrics.p[s->metric].is_gauge)
        return s->value;
    uint32_t id = intern_find(keys, s->key);
    double was = id == INTERN_NONE ? 0 : old[id];
    return (s->value >= was ? s->value - was : s->value) / t->seconds; /* smaller: it began anew */
}

static void find_hosts(struct table *t)
{
    for (uint32_t i = 0; i < t->now->series.n && t->n_hosts < 2; i++) {
        struct bytes host = t->now->series.p[i].host;
        if (host.n == 0 || (t->n_hosts > 0 && bytes_eq(host, t->host)))
            continue;
        t->host = host;
        t->n_hosts++;
    }
    if (t->n_hosts > 1)
        t->host = BYTES_LIT("");
}

/* Two texts with something between, where there are two. */
static struct bytes join(struct table *t, struct bytes a, const char *between, struct bytes b)
{
    if (a.n == 0 || b.n == 0)
        return a.n > 0 ? a : b;
    char *both = arena_printf(&t->arena, "%.*s%s%.*s", BYTES_FMT(a), between, BYTES_FMT(b));
    return both ? bytes_str(both) : a;
}

static struct row row_of(struct table *t, const struct top_series *s, double amount)
{
    const struct top_metric *m = &t->now->metrics.p[s->metric];
    struct bytes process = s->service.n > 0 ? s->service : BYTES_LIT("(no name)");
    if (t->n_hosts > 1)
        process = join(t, process, " @", s->host);
    struct bytes what = s->is_overflow ? BYTES_LIT("(others)") : s->what;
    struct row row = {.section = s->metric, .amount = amount, .is_rest = s->is_overflow};
    if (m->by_function) {
        row.group = process;
        row.item = what;
        row.note = s->rest;
    } else {
        what = join(t, what, ", ", s->rest);
        row.group = what.n > 0 ? what : BYTES_LIT("(all)");
        row.item = process;
    }
    return row;
}

/* "none" is how a rule says that there is nothing to tell. */
static bool tells_nothing(const struct top_metric *m, const struct top_series *s)
{
    return !m->by_function && bytes_is(s->what, "none") && s->rest.n == 0;
}

static int find_rows(struct table *t)
{
    cleanup(intern_release) struct intern keys = INTERN_INIT(NULL);
    double *old = NULL;
    t->rows = calloc(t->now->series.n + 1, sizeof *t->rows);
    t->groups = calloc(t->now->series.n + 1, sizeof *t->groups);
    int r = t->rows && t->groups ? index_page(t->before, &keys, &old) : -ENOMEM;
    for (uint32_t i = 0; r == 0 && i < t->now->series.n; i++) {
        const struct top_series *s = &t->now->series.p[i];
        const struct top_metric *m = &t->now->metrics.p[s->metric];
        double amount = amount_of(t, s, &keys, old);
        if (!isfinite(amount) || amount <= 0 || tells_nothing(m, s))
            continue;
        if (m->by_function && is_own(s->service))
            t->own += amount;
        else
            t->rows[t->n_rows++] = row_of(t, s, amount);
    }
    free(old);
    return r;
}

static int by_names(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return order_of(x->section, y->section) ?: bytes_compare(x->group, y->group)
               ?: bytes_compare(x->item, y->item) ?: bytes_compare(x->note, y->note);
}

static int by_amount(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return order_of(x->is_rest, y->is_rest) ?: order_of(y->amount, x->amount) ?: by_names(a, b);
}

static int groups_by_amount(const void *a, const void *b)
{
    const struct group *x = a, *y = b;
    return order_of(y->amount, x->amount) ?: bytes_compare(x->items[0].group, y->items[0].group);
}

static int sections_by_amount(const void *a, const void *b)
{
    const struct section *x = a, *y = b;
    bool x_cpu = bytes_is(x->metric->on, "cpu"), y_cpu = bytes_is(y->metric->on, "cpu");
    return order_of(y_cpu, x_cpu) ?: order_of(y->total, x->total)
               ?: bytes_compare(x->metric->name, y->metric->name);
}

/* Rows that say the same, of several hosts or containers, are one. */
static void add_up(struct table *t)
{
    uint32_t n = 0;
    qsort(t->rows, t->n_rows, sizeof *t->rows, by_names);
    for (uint32_t i = 0; i < t->n_rows; i++) {
        if (n > 0 && by_names(&t->rows[n - 1], &t->rows[i]) == 0)
            t->rows[n - 1].amount += t->rows[i].amount;
        else
            t->rows[n++] = t->rows[i];
    }
    t->n_rows = n;
}

static void find_groups(struct table *t)
{
    struct group *g = t->groups;
    for (uint32_t i = 0, end; i < t->n_rows; i = end) {
        struct row *first = &t->rows[i];
        struct section *s = t->n_sections > 0 ? &t->sections[t->n_sections - 1] : NULL;
        if (!s || s->metric != &t->now->metrics.p[first->section]) {
            if (t->n_sections == SECTIONS_MAX)
                break;
            s = &t->sections[t->n_sections++];
            *s = (struct section){.metric = &t->now->metrics.p[first->section], .groups = g};
            s->total = s->metric->by_function ? t->own : 0;
        }
        *g = (struct group){.items = first};
        for (end = i; end < t->n_rows && t->rows[end].section == first->section &&
                      bytes_eq(t->rows[end].group, first->group);
             end++)
            g->amount += t->rows[end].amount;
        g->n_items = end - i;
        qsort(first, g->n_items, sizeof *first, by_amount);
        s->total += g->amount;
        s->n_groups++;
        g++;
    }
    for (uint32_t i = 0; i < t->n_sections; i++)
        qsort(t->sections[i].groups, t->sections[i].n_groups, sizeof *g, groups_by_amount);
    if (t->view->by_amount)
        qsort(t->sections, t->n_sections, sizeof *t->sections, sections_by_amount);
}

/* ---- lines are given out ---- */

/* How many of the groups are worth a line. */
static uint32_t groups_worth(const struct section *s, double share)
{
    uint32_t n = 0;
    while (n < s->n_groups && s->groups[n].amount >= share * s->total)
        n++;
    return n;
}

/* The group whose next function is the greatest of those that have no line yet, or NULL. */
static struct group *next_item(const struct section *s, uint32_t items_max)
{
    struct group *best = NULL;
    for (uint32_t i = 0; i < s->shown; i++) {
        struct group *g = &s->groups[i];
        if (g->shown >= min_of(g->n_items, items_max) || g->items[g->shown].amount < ITEM_SHARE * s->total)
            continue;
        if (!best || g->items[g->shown].amount > best->items[best->shown].amount)
            best = g;
    }
    return best;
}

/* Gives lines to a section by function: to processes, to functions, to more processes. Returns the lines that
 * are left. */
static uint32_t give_functions(struct section *s, uint32_t lines, uint32_t groups_max, uint32_t items_max)
{
    uint32_t worth = min_of(groups_worth(s, GROUP_SHARE), groups_max);
    s->shown = min_of(min_of(worth, GROUPS_SURE), lines);
    for (lines -= s->shown; lines > 0; lines--) {
        struct group *g = next_item(s, items_max);
        if (g)
            g->shown++;
        else if (s->shown < worth)
            s->shown++;
        else
            break;
    }
    return lines;
}

static void give_plain(struct table *t)
{
    for (uint32_t i = 0; i < t->n_sections; i++) {
        struct section *s = &t->sections[i];
        if (s->metric->by_function)
            give_functions(s, UINT32_MAX, GROUPS_PLAIN, ITEMS_PLAIN);
        else
            s->shown = min_of(s->n_groups, GROUPS_PLAIN);
    }
}

/* Each section takes a blank line and a heading besides. Those without functions have three lines first, and
 * what is left at the end. */
static void give_lines(struct table *t, uint32_t lines)
{
    uint32_t n_functions = 0;
    for (uint32_t i = 0; i < t->n_sections; i++)
        n_functions += t->sections[i].metric->by_function;
    for (uint32_t i = 0; i < t->n_sections; i++) {
        struct section *s = &t->sections[i];
        uint32_t least = min_of(s->n_groups, 3u);
        if (s->metric->by_function || lines < least + 2 + n_functions * 5)
            continue;
        s->shown = min_of(groups_worth(s, ITEM_SHARE), max_of(least, n_functions ? lines / 5 : 3u));
        lines -= s->shown + 2;
    }
    for (uint32_t i = 0; i < t->n_sections; i++) {
        struct section *s = &t->sections[i];
        if (s->metric->by_function && lines >= 3)
            lines = give_functions(s, lines - 2, UINT32_MAX, ITEMS_MAX);
    }
    for (bool given = true; given && lines > 0;) {
        given = false;
        for (uint32_t i = 0; i < t->n_sections && lines > 0; i++) {
            struct section *s = &t->sections[i];
            if (s->shown == 0 || s->metric->by_function || s->shown >= groups_worth(s, GROUP_SHARE))
                continue;
            s->shown++;
            lines--;
            given = true;
        }
    }
}

/* ---- columns ---- */

#define AMOUNT_COLUMNS 7u
#define SHARE_COLUMNS  4u

static bool has_bars(const struct table *t)
{
    return t->view->style.width >= BAR_WIDTH_MIN;
}

/* Where names begin. */
static uint32_t left_columns(const struct table *t)
{
    return AMOUNT_COLUMNS + 1 + SHARE_COLUMNS + 2 + (has_bars(t) ? BAR_COLUMNS + 2 : 0);
}

/* A function's name that is too long loses its arguments first: "f(int, char*)" is f. What is a name itself
 * stays, "operator()" and "(anonymous namespace)::f". */
static struct bytes without_arguments(struct bytes name)
{
    uint32_t depth = 0;
    size_t close = name.n;
    while (close > 0 && name.p[close - 1] != ')')
        close--;
    for (size_t i = close; i > 0; i--) {
        depth += name.p[i - 1] == ')';
        depth -= name.p[i - 1] == '(';
        if (depth == 0 && i > 1 && name.p[i - 2] != ':' && name.p[i - 2] != ' ')
            return bytes_of(name.p, i - 1);
        if (depth == 0)
            break;
    }
    return name;
}

static void find_columns(struct table *t)
{
    const struct line_style *style = &t->view->style;
    uint32_t names = 0, notes = 0, left = left_columns(t);
    bool beside = false; /* something stands in a row beside a name */
    for (uint32_t i = 0; i < t->n_sections; i++) {
        const struct section *s = &t->sections[i];
        for (uint32_t k = 0; k < s->shown; k++) {
            const struct group *g = &s->groups[k];
            names = max_of(names, line_columns(style, g->items[0].group));
            beside |= g->shown == 0;
            for (uint32_t n = 0; n < g->shown; n++) {
                names = max_of(names, 2 + line_columns(style, g->items[n].item));
                notes = max_of(notes, line_columns(style, g->items[n].note));
            }
        }
    }
    uint32_t room = style->width > left ? style->width - left : 0;
    notes = beside ? room * 11 / 20 : min_of(max_of(notes, NOTE_MIN) + 2, room * 2 / 5);
    t->name_columns = min_of(min_of(names, NAME_COLUMNS), room - notes);
}

/* ---- drawing ---- */

static void draw_amount(struct table *t, const struct section *s, double amount)
{
    char text[16];
    double share = s->total > 0 ? amount / s->total : 0;
    top_amount(s->metric, amount, text);
    line_printf(&t->line, "%*s ", (int)AMOUNT_COLUMNS, text);
    if (share < 0.005)
        line_printf(&t->line, " <1%%  ");
    else
        line_printf(&t->line, "%3.0f%%  ", 100 * share);
}

static void draw_name(struct table *t, struct bytes name, uint32_t indent)
{
    uint32_t room = t->name_columns > indent ? t->name_columns - indent : 0;
    line_pad(&t->line, left_columns(t) + indent);
    if (line_columns(&t->view->style, name) > room)
        name = without_arguments(name);
    line_add(&t->line, name, room);
}

/* What a group is made of, the greatest first, as far as it fits: the processes that a row of labels is
 * about, or the functions of a process that has no lines for them. */
static void draw_items(struct table *t, const struct group *g)
{
    const struct line_style *style = &t->view->style;
    for (uint32_t i = 0; i < g->n_items && g->items[i].amount >= BESIDE_SHARE * g->amount; i++) {
        uint32_t left = style->width - min_of(t->line.columns, style->width);
        struct bytes item = g->items[i].item;
        if (line_columns(style, item) > left)
            item = without_arguments(item);
        if (i > 0 && line_columns(style, item) + line_columns(style, g->items[i].note) + 5 > left)
            break;
        if (i > 0)
            line_printf(&t->line, ", ");
        line_add(&t->line, item, UINT32_MAX);
        if (g->items[i].note.n > 0) {
            line_printf(&t->line, " (");
            line_add(&t->line, g->items[i].note, UINT32_MAX);
            line_printf(&t->line, ")");
        }
    }
}

static void draw_group(struct table *t, const struct section *s, const struct group *g)
{
    double most = s->groups[0].amount;
    draw_amount(t, s, g->amount);
    if (has_bars(t)) {
        line_look(&t->line, "34");
        line_bar(&t->line, BAR_COLUMNS, most > 0 ? g->amount / most : 0);
        line_plain(&t->line);
    }
    if (s->metric->by_function)
        line_look(&t->line, "1");
    draw_name(t, g->items[0].group, 0);
    line_plain(&t->line);
    if (g->shown == 0) {
        line_pad(&t->line, left_columns(t) + t->name_columns + 2);
        line_look(&t->line, "2");
        draw_items(t, g);
    }
    line_end(&t->line);
    for (uint32_t i = 0; i < g->shown; i++) {
        line_look(&t->line, "2");
        draw_amount(t, s, g->items[i].amount);
        line_plain(&t->line);
        draw_name(t, g->items[i].item, 2);
        line_pad(&t->line, left_columns(t) + t->name_columns + 2);
        line_look(&t->line, "36");
        line_add(&t->line, g->items[i].note, UINT32_MAX);
        line_end(&t->line);
    }
}

static void draw_section(struct table *t, const struct section *s)
{
    char total[16];
    top_amount(s->metric, s->total, total);
    line_end(&t->line);
    line_look(&t->line, "1");
    line_add(&t->line, s->metric->describe.n > 0 ? s->metric->describe : s->metric->name, UINT32_MAX);
    const char *unit = top_unit(s->metric);
    line_printf(&t->line, ": %s%s%s", total, unit[0] && unit[0] != '/' ? " " : "", unit);
    line_end(&t->line);
    for (uint32_t i = 0; i < s->shown; i++)
        draw_group(t, s, &s->groups[i]);
}

static void draw_header(struct table *t)
{
    struct line *l = &t->line;
    line_look(l, "7");
    line_printf(l, "profgate top   ");
    if (t->n_hosts > 1)
        line_printf(l, "several hosts   ");
    else if (t->n_hosts == 1) {
        line_add(l, t->host, 40);
        line_printf(l, "   ");
    }
    line_printf(l, "over %.0f s   ", max_of(t->seconds, 1.0));
    line_add(l, bytes_str(t->view->url), UINT32_MAX);
    line_end(l);
    const char *const words[] = {t->view->note, t->view->hint};
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (!words[i])
            continue;
        line_look(l, i == 0 ? "1;33" : "2");
        line_add(l, bytes_str(words[i]), UINT32_MAX);
        line_end(l);
    }
}

/* What a person does not look for, in one line: processes that had none, and what looking costs. */
static void draw_footer(struct table *t, const struct section *s)
{
    char text[16];
    double rest = 0;
    for (uint32_t i = s->shown; i < s->n_groups; i++)
        rest += s->groups[i].amount;
    if (rest <= 0 && t->own <= 0)
        return;
    line_look(&t->line, "2");
    if (rest > 0) {
        draw_amount(t, s, rest);
        draw_name(t, BYTES_LIT(""), 0);
        line_printf(&t->line, "%u more", s->n_groups - s->shown);
    } else {
        draw_amount(t, s, t->own);
        draw_name(t, BYTES_LIT(""), 0);
        line_printf(&t->line, "profgate and profsend themselves");
    }
    if (rest > 0 && t->own > 0) {
        top_amount(s->metric, t->own, text);
        line_printf(&t->line, "; profgate and profsend %s", text);
    }
    line_end(&t->line);
}

static void draw(struct table *t)
{
    draw_header(t);
    for (uint32_t i = 0; i < t->n_sections; i++) {
        if (t->sections[i].shown == 0)
            continue;
        draw_section(t, &t->sections[i]);
        if (t->sections[i].metric->by_function)
            draw_footer(t, &t->sections[i]);
    }
    if (t->n_sections > 0)
        return;
    line_end(&t->line);
    line_printf(
        &t->line, "%s",
        t->now->samples > t->before->samples
            ? "Samples arrive; what they count comes with the next hand-over."
            : "Nothing was counted meanwhile: whoever is profiled is idle, or no profiler sends here.");
    line_end(&t->line);
}

int top_table(const struct top_view *view, const struct top_page *before, const struct top_page *now,
              double seconds, struct buffer *out)
{
    struct table *t = calloc(1, sizeof *t); /* large: not for the stack */
    if (!t)
        return -ENOMEM;
    *t = (struct table){.view = view,
                        .before = before,
                        .now = now,
                        .seconds = seconds,
                        .line = {.style = &view->style, .out = out}};
    find_hosts(t);
    int r = find_rows(t);
    if (r == 0) {
        add_up(t);
        find_groups(t);
        uint32_t used = 2u + (view->note != NULL) + (view->hint != NULL); /* the header, and the footer */
        if (view->height == 0)
            give_plain(t);
        else
            give_lines(t, view->height > used ? view->height - used : 0);
        find_columns(t);
        draw(t);
        r = t->line.r;
    }
    free(t->rows);
    free(t->groups);
    line_release(&t->line);
    arena_release(&t->arena);
    free(t);
    return r;
}
