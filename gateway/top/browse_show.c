/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "gateway/top/browse_parts.h"
#include "gateway/top/words.h"
#include "proto/base/macros.h"

static const char *const pane_names[] = {"flame graph", "functions", "callers and callees",
                                         "compared with the time before", "keys"};

/* Each by its own largest value: what is to be seen is when. */
static void add_spark(const struct browse *b, struct line *l, const struct stacks_row *row)
{
    double most = 0;
    for (uint32_t i = 0; i < b->list.n_values; i++)
        most = max_of(most, row->values[i]);
    static const char *const eighth[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"}, *const plain[] = {
                                                                                           " ", ".", ".",
                                                                                           ":", "-", "=",
                                                                                           "+", "*", "#"};
    line_look(l, "38;5;110");
    for (uint32_t i = 0; i < b->list.n_values; i++) {
        const uint32_t level = most > 0 ? (uint32_t)(row->values[i] / most * 8 + 0.999) : 0;
        line_add(l, bytes_str(b->style.ascii ? plain[min_of(level, 8u)] : eighth[min_of(level, 8u)]), 1);
    }
    line_plain(l);
}

static void window_words(uint32_t seconds, char text[24])
{
    const bool h = seconds >= 2 * 3600, d = seconds >= 48 * 3600;
    snprintf(text, 24, d ? "%u d" : h ? "%u h" : "%u min", seconds / (d ? 86400 : h ? 3600 : 60));
}

static void draw_head(const struct browse *b, struct line *l)
{
    char cores[16], window[24];
    top_number(b->list.total, cores);
    window_words(b->window_s, window);
    line_look(l, "1");
    line_printf(l, "profgate top");
    line_plain(l);
    line_printf(l, "   last %s   %s %s   ", window, cores, bytes_is(b->list.unit, "cores") ? "cores" : "");
    if (b->paused) {
        line_look(l, "7");
        line_printf(l, " paused ");
        line_plain(l);
        line_printf(l, "   ");
    }
    if (b->options.note) {
        line_look(l, "33");
        line_add(l, bytes_str(b->options.note), UINT32_MAX);
        line_plain(l);
        line_printf(l, "   ");
    }
    line_look(l, "2");
    line_add(l, bytes_str(b->options.name), UINT32_MAX);
    line_end(l);
}

/* Row 0 is everybody. */
static void draw_row(const struct browse *b, struct line *l, uint32_t i, bool is_chosen)
{
    char cores[16];
    const struct stacks_row *row = i > 0 ? &b->list.rows[i - 1] : NULL;
    const double value = row ? row->total : b->list.total;
    if (is_chosen)
        line_look(l, b->inside ? "1" : "1;7");
    top_number(value, cores);
    line_printf(l, "%s %6s %3.0f%% ", is_chosen ? ">" : " ", cores,
                b->list.total > 0 ? 100 * value / b->list.total : 0);
    line_plain(l);
    line_printf(l, " ");
    if (b->style.width >= 60 && row)
        add_spark(b, l, row);
    line_pad(l, (b->style.width >= 60 ? b->list.n_values : 0) + 17);
    if (is_chosen)
        line_look(l, "1");
    if (!row)
        line_printf(l, "all");
    else if (row->lib.n > 0)
        line_add(l, row->lib, UINT32_MAX);
    else
        line_add(l, row->name.n > 0 ? row->name : BYTES_LIT("[none]"), UINT32_MAX);
    line_end(l);
}

uint32_t browse_chosen(const struct browse *b)
{
    for (uint32_t i = 0; i < b->list.n && b->label[0]; i++)
        if (b->list.rows[i].lib.n == 0 && bytes_is(b->list.rows[i].name, b->label))
            return i + 1;
    return 0;
}

static uint32_t draw_list(const struct browse *b, struct line *l, uint32_t height)
{
    const uint32_t n = b->list.n + 1, at = browse_chosen(b),
                   room = b->inside ? 1 : min_of(n, max_of(height / 3, 3u));
    const uint32_t first = b->inside ? at : at >= room ? at - room + 1 : 0;
    for (uint32_t i = first; i < first + room; i++)
        draw_row(b, l, i, i == at);
    return room;
}

static void draw_functions(const struct browse *b, struct line *l, uint32_t height)
{
    const struct stacks_rows *t = &b->top;
    const uint32_t first = b->row + 1 > height ? b->row + 1 - height : 0;
    const double most = t->n > 0 ? max_of(t->rows[0].self, t->rows[0].total) : 0;
    for (uint32_t y = 0; y < height; y++) {
        const struct stacks_row *row = first + y < t->n ? &t->rows[first + y] : NULL;
        if (row) {
            const bool is_here = b->inside && first + y == b->row;
            line_look(l, is_here ? "1;7" : "0");
            line_printf(l, "%c%5.1f%% %5.1f%% ", is_here ? '>' : ' ', 100 * row->self / max_of(t->total, 1.0),
                        100 * row->total / max_of(t->total, 1.0));
            line_plain(l);
            if (b->style.width >= 70) {
                char look[24];
                snprintf(look, sizeof look, "38;5;%s", flame_color(row->kind));
                line_look(l, look);
                line_bar(l, 10, most > 0 ? (b->sort == BY_SELF ? row->self : row->total) / most : 0);
                line_plain(l);
                line_printf(l, " ");
            }
            if (b->search[0] && !flame_matches(row->name, bytes_str(b->search)))
                line_look(l, "2");
            line_add(l, row->name.n > 0 ? row->name : BYTES_LIT("[unknown]"), b->style.width * 2 / 3);
            line_look(l, "2");
            line_printf(l, "  ");
            line_add(l, row->lib, UINT32_MAX);
        }
        line_end(l);
    }
}

struct flame browse_flame(const struct browse *b, const struct stacks *s, uint32_t height)
{
    return (struct flame){.stacks = s,
                          .root = stacks_find(s, b->root),
                          .cursor = stacks_find(s, b->cursor),
                          .has_cursor = b->inside && s == &b->tree,
                          .width = b->style.width,
                          .height = height,
                          .search = bytes_str(b->search)};
}

static void draw_flames(struct browse *b, struct line *l, uint32_t height)
{
    struct flame up = {
        .stacks = &b->callers, .up = true, .width = b->style.width, .search = bytes_str(b->search)};
    const int64_t rows = b->pane == SANDWICH ? flame_rows(&up) : 0;
    up.height = rows < 0 ? 0 : min_of((uint32_t)rows, height / 2);
    const struct flame down = browse_flame(b, &b->tree, height - up.height);
    int r = rows < 0 ? (int)rows : flame_draw(&up, l);
    if (r == 0)
        r = flame_draw(&down, l);
    if (r < 0)
        l->r = r;
}

static void draw_help(struct line *l, uint32_t height)
{
    static const char *const keys[][2] = {
        {"up, down", "choose who; in a graph or table: move"},
        {"Enter", "look into whom is chosen; zoom into a frame"},
        {"Esc", "out again"},
        {"f t x d", "flame graph, functions, callers and callees, compare with the time before"},
        {"/", "search: what has no such name is dim"},
        {"g", "by service, host, thread, container or runtime"},
        {"s", "functions by self or by total"},
        {"+ -", "a longer, a shorter time"},
        {"p", "pause"},
        {"e", "save a pprof file here"},
        {"q", "quit"}};
    for (uint32_t y = 0; y < height; y++) {
        if (y < ARRAY_LEN(keys)) {
            line_printf(l, "  ");
            line_look(l, "1");
            line_printf(l, "%s", keys[y][0]);
            line_plain(l);
            line_pad(l, 14);
            line_printf(l, "%s", keys[y][1]);
        }
        line_end(l);
    }
}

static void draw_title(const struct browse *b, struct line *l)
{
    line_look(l, "1");
    line_add(l,
             b->pane == SANDWICH ? bytes_str(b->function)
             : b->label[0]       ? bytes_str(b->label)
                                 : BYTES_LIT("all"),
             l->style->width / 2);
    line_plain(l);
    line_printf(l, ": %s", pane_names[b->pane]);
    if (b->pane == FUNCTIONS)
        line_printf(l, ", by %s (self, total)", b->sort == BY_SELF ? "self" : "total");
    if (b->search[0] || b->typing) {
        line_printf(l, "   /");
        line_add(l, bytes_str(b->search), UINT32_MAX);
        if (b->typing)
            line_printf(l, "_");
    }
    if (b->is_stale)
        line_printf(l, " ...");
    line_end(l);
}

/* What is under the cursor, in words. */
static void draw_status(const struct browse *b, struct line *l)
{
    const bool has_tree = b->tree.n > 0 && b->pane != FUNCTIONS && b->pane != HELP;
    const uint32_t i = has_tree ? stacks_find(&b->tree, b->inside ? b->cursor : 0) : 0;
    const struct stacks *s = &b->tree;
    if (b->message[0]) {
        line_look(l, "33");
        line_add(l, bytes_str(b->message), UINT32_MAX);
    } else if (has_tree && s->total_b) {
        const double a = s->total[0] > 0 ? s->total[i] / s->total[0] : 0,
                     c = s->total_b[0] > 0 ? s->total_b[i] / s->total_b[0] : 0;
        line_printf(l, "%.2f%% before, %.2f%% now%s  ", 100 * a, 100 * c,
                    i > 0 && stacks_change(s, i) == 0 ? ", no more than chance" : "");
        line_add(l, s->names[i].name, UINT32_MAX);
    } else if (has_tree && s->total[0] > 0) {
        line_printf(l, "%.2f%%, self %.2f%%%s  ", 100 * s->total[i] / s->total[0],
                    100 * s->self[i] / s->total[0], b->pane == SANDWICH ? " of it" : "");
        line_add(l, s->names[i].name, UINT32_MAX);
        line_look(l, "2");
        line_printf(l, "  ");
        line_add(l, s->names[i].lib, UINT32_MAX);
        if (i == 0)
            line_printf(l, "%s%.0f samples", s->names[0].lib.n > 0 ? "  " : "", s->kept_a);
        if (i == 0 && s->not_kept > 0)
            line_printf(l, ", %.1f%% has no stack: no room (look.memory)", 100 * s->not_kept / s->total[0]);
    } else if (!b->is_stale && (b->pane == FUNCTIONS ? b->top.n == 0 : has_tree))
        line_printf(l, "Nothing was kept%s in this time: %s is idle, or no profiler sends here.",
                    b->options.service ? " of it" : "", b->options.service ? "it" : "whoever is profiled");
    line_end(l);
}

int browse_print(struct browse *b)
{
    b->style = (struct line_style){
        .width = max_of(b->options.width, 2u), .color = b->options.color, .ascii = b->options.ascii};
    const struct flame all = browse_flame(b, &b->tree, 0);
    const int64_t rows = flame_rows(&all);
    if (rows < 0)
        return (int)rows;
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    cleanup(line_release) struct line l = {.style = &b->style, .out = &out};
    draw_head(b, &l);
    draw_title(b, &l);
    if (b->tree.total[0] > 0)
        draw_flames(b, &l, (uint32_t)rows);
    draw_status(b, &l);
    if (l.r == 0)
        fwrite(out.p, 1, out.n, stdout);
    return l.r;
}

void browse_show(struct browse *b)
{
    uint32_t columns, rows;
    if (!b->terminal)
        return;
    terminal_size(&columns, &rows);
    b->style =
        (struct line_style){.width = max_of(columns, 2u) - 1, .color = true, .ascii = b->options.ascii};
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    cleanup(line_release) struct line l = {.style = &b->style, .out = &out};
    draw_head(b, &l);
    const uint32_t used = 4 + draw_list(b, &l, rows), height = rows > used ? rows - used : 0;
    draw_title(b, &l);
    if (b->pane == HELP)
        draw_help(&l, height);
    else if (b->pane == FUNCTIONS)
        draw_functions(b, &l, height);
    else if (b->tree.n > 0 && (b->pane != SANDWICH || b->callers.n > 0))
        draw_flames(b, &l, height);
    else
        for (uint32_t y = 0; y < height; y++)
            line_end(&l);
    draw_status(b, &l);
    line_look(&l, "2");
    line_printf(
        &l, "%s",
        b->typing
            ? "Enter keeps, Esc ends the search"
            : "Enter in  Esc out  f flame  t functions  x callers  d diff  g by  / search  + - time  p pause  e save  ? help  q quit");
    line_end(&l);
    if (l.r == 0)
        terminal_show(b->terminal, buffer_bytes(&out));
}
