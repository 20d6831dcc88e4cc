/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/browse.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "gateway/top/flame.h"
#include "gateway/top/stacks.h"
#include "gateway/top/terminal.h"
#include "gateway/top/words.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

#define LOOK          "/api/v1/look/"
#define FETCH_TIMEOUT (5u * (uint64_t)NSEC_PER_SEC)
#define SPARK_COLUMNS 40u
#define SLICE_S       10u /* no finer than the store's */
#define LIST_LIMIT    20u /* the API's */
#define LABEL_MAX     256u
#define SEARCH_MAX    64u
#define WINDOW_MIN_S  60u
/* Slices are of ten seconds: oftener shows nothing new. */
#define INTERVAL_MIN (2u * (uint64_t)NSEC_PER_SEC)

enum pane { FLAME, FUNCTIONS, SANDWICH, DIFF, HELP };
enum sort { BY_SELF, BY_TOTAL };

static const struct {
    const char *name, *label; /* of the API; NULL: it cannot be asked for */
} groups[] = {{"service", "service_name"},
              {"host", "host_name"},
              {"thread", "thread_name"},
              {"container", "container_id"},
              {"runtime", NULL}};

static const uint32_t windows[] = {60, 300, 900, 3600, 6 * 3600, 24 * 3600, 7 * 24 * 3600};

struct browse {
    struct browse_options options;
    struct browse_events events;
    struct io_loop *loop;
    struct io_timer *timer;
    struct terminal *terminal;
    struct top_fetch *fetch;
    struct top_url url; /* what is being asked */
    struct line_style style;

    uint32_t window_s, group;
    enum pane pane, before; /* before: where Esc goes to from callers and callees */
    enum pane asked;        /* what the answer that is waited for is of */
    enum sort sort;
    bool inside;                   /* keys are the pane's, not the list's */
    bool paused, typing, is_stale; /* is_stale: what is there is not of what is chosen */
    char label[LABEL_MAX];         /* who is chosen; "": everybody */
    char function[LABEL_MAX];
    char search[SEARCH_MAX];
    char message[192];     /* what went wrong, or was done */
    uint64_t root, cursor; /* marks of nodes, of callees where there are two trees */
    uint32_t row;          /* of the functions */

    struct stacks_rows list, top;
    struct stacks tree, callers;
};

static const char *const pane_names[] = {"flame graph", "functions", "callers and callees",
                                         "compared with the time before", "keys"};

static void refresh(struct browse *b);
static void ask_pane(struct browse *b);
static void show(struct browse *b);

__attribute__((format(printf, 2, 3))) static void say(struct browse *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(b->message, sizeof b->message, format, arguments);
    va_end(arguments);
}

/* ---- asking ------------------------------------------------------------------------------------ */

/* Appends text to the path, each byte that is not plain as %XX. False: there is no more room. */
static bool add_escaped(struct browse *b, const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
    size_t n = strlen(b->url.path);
    for (; *text; text++) {
        if (n + 4 > sizeof b->url.path)
            return false;
        n += (size_t)snprintf(b->url.path + n, 4, strchr(plain, *text) ? "%c" : "%%%02X",
                              (unsigned char)*text);
    }
    return true;
}

/* The same for a value in quotes. */
static bool add_quoted(struct browse *b, const char *text)
{
    char part[3] = "\\";
    bool fits = add_escaped(b, "\"");
    for (; *text && fits; text++) {
        part[0] = *text == '"' || *text == '\\' ? '\\' : *text;
        part[1] = part[0] == '\\' ? *text : 0;
        fits = add_escaped(b, part);
    }
    return fits && add_escaped(b, "\"");
}

static bool add_selector(struct browse *b, const char *name)
{
    const char *label = groups[b->group].label;
    if (!label || !b->label[0])
        return true;
    const size_t n = strlen(b->url.path);
    snprintf(b->url.path + n, sizeof b->url.path - n, "&%s=%%7B%s%%3D", name, label);
    return add_quoted(b, b->label) && add_escaped(b, "}");
}

static void rest(struct browse *b)
{
    io_timer_set(b->timer, io_loop_now(b->loop) + max_of(b->options.interval, INTERVAL_MIN));
}

static void ask(struct browse *b, top_fetch_fn done, bool fits)
{
    b->fetch = fits ? top_fetch_start(b->loop, &b->url, FETCH_TIMEOUT, done, b) : NULL;
    if (b->fetch)
        return;
    say(b, "%s", fits ? "no memory" : "a name there is too long to ask for");
    rest(b);
}

__attribute__((format(printf, 2, 3))) static void begin(struct browse *b, const char *format, ...)
{
    va_list arguments;
    b->fetch = top_fetch_cancel(b->fetch);
    b->url = *b->options.url;
    va_start(arguments, format);
    vsnprintf(b->url.path, sizeof b->url.path, format, arguments);
    va_end(arguments);
}

/* The answer is no such, or none came. True: it was told. */
static bool is_lost(struct browse *b, int error, const char *why)
{
    b->fetch = NULL;
    if (error == 0)
        return false;
    if (!b->terminal) {
        b->events.unavailable(b->events.user);
        return true;
    }
    say(b, "%s", why);
    rest(b);
    show(b);
    return true;
}

static void on_pane(void *user, int error, const char *why, struct bytes body)
{
    struct browse *b = user;
    if (is_lost(b, error, why))
        return;
    struct stacks tree = {0}, callers = {0};
    struct stacks_rows top = {0};
    int r = b->asked == FUNCTIONS ? stacks_read_top(body, &top)
                                  : stacks_read(body, b->asked == SANDWICH ? "callees" : "node", &tree);
    if (r == 0 && b->asked == SANDWICH) {
        r = stacks_read(body, "callers", &callers);
        if (r != 0)
            stacks_release(&tree);
    }
    if (r != 0) {
        is_lost(b, -EPROTO, r < 0 ? "no memory for the answer" : "an answer that is not understood");
        return;
    }
    stacks_release(&b->tree);
    stacks_release(&b->callers);
    b->tree = tree;
    b->callers = callers;
    if (b->asked == FUNCTIONS) {
        stacks_rows_release(&b->top);
        b->top = top;
        b->row = min_of(b->row, top.n ? top.n - 1 : 0);
    }
    b->is_stale = false;
    rest(b);
    show(b);
}

static void ask_pane(struct browse *b)
{
    const uint32_t w = b->window_s;
    bool fits = true;
    b->is_stale = true;
    b->asked = b->pane;
    if (b->pane == DIFF) {
        begin(b, LOOK "diff?nodes=%u&a.from=now-%us&a.to=now-%us&b.from=now-%us&b.to=now", STACKS_NODES,
              2 * w, w, w);
        fits = add_selector(b, "a.query") && add_selector(b, "b.query");
    } else if (b->pane == FUNCTIONS) {
        begin(b, LOOK "top?from=now-%us&limit=%u&sort=%s", w, STACKS_ROWS,
              b->sort == BY_SELF ? "self" : "total");
        fits = add_selector(b, "query");
    } else if (b->pane == SANDWICH) {
        begin(b, LOOK "sandwich?nodes=%u&from=now-%us&function=", STACKS_NODES, w);
        fits = add_escaped(b, b->function) && add_selector(b, "query");
    } else {
        begin(b, LOOK "flame?nodes=%u&from=now-%us", STACKS_NODES, w);
        fits = add_selector(b, "query");
    }
    ask(b, on_pane, fits);
}

static void pressed(void *user, uint32_t key);

static void on_list(void *user, int error, const char *why, struct bytes body)
{
    struct browse *b = user;
    if (is_lost(b, error, why))
        return;
    struct stacks_rows list;
    const int r = stacks_read_series(body, &list);
    if (r != 0) {
        is_lost(b, -EPROTO,
                r < 0 ? "no memory for the answer" : "what answers there is no gateway of this version");
        return;
    }
    stacks_rows_release(&b->list);
    b->list = list;
    if (!b->terminal) {
        b->terminal = terminal_new(b->loop, pressed, b);
        if (!b->terminal) {
            b->events.unavailable(b->events.user);
            return;
        }
    }
    ask_pane(b);
    show(b);
}

static void refresh(struct browse *b)
{
    const uint32_t step = max_of(b->window_s / SPARK_COLUMNS / SLICE_S, 1u) * SLICE_S;
    begin(b, LOOK "series?from=now-%us&step=%us&limit=%u&group=%s", b->window_s, step, LIST_LIMIT,
          groups[b->group].name);
    ask(b, on_list, true);
}

static void on_timer(void *user)
{
    struct browse *b = user;
    if (b->paused && b->terminal)
        return;
    refresh(b);
}

/* ---- saving ------------------------------------------------------------------------------------ */

static void on_profile(void *user, int error, const char *why, struct bytes body)
{
    struct browse *b = user;
    char name[LABEL_MAX + 64],
        *at = name + snprintf(name, sizeof name, "profgate-%s", b->label[0] ? b->label : "all");
    if (is_lost(b, error, why))
        return;
    for (char *c = name; *c; c++)
        if (!strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_", *c))
            *c = '_';
    const time_t now = time(NULL);
    struct tm tm;
    localtime_r(&now, &tm);
    strftime(at, sizeof name - (size_t)(at - name), "-%Y%m%d-%H%M%S.pb.gz", &tm);
    const int fd = open(name, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    const ssize_t n = fd < 0 ? -1 : write(fd, body.p, body.n);
    if (n == (ssize_t)body.n)
        say(b, "saved %s", name);
    else
        say(b, "%s: %s", name, n < 0 ? strerror(errno) : "not all of it was written");
    if (fd >= 0)
        close(fd);
    rest(b);
    show(b);
}

static void save(struct browse *b)
{
    begin(b, LOOK "pprof?from=now-%us", b->window_s);
    ask(b, on_profile, add_selector(b, "query"));
}

/* ---- the picture ------------------------------------------------------------------------------- */

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
    line_pad(l, (b->style.width >= 60 ? b->list.n_values : 0) + 15);
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

static uint32_t chosen(const struct browse *b)
{
    for (uint32_t i = 0; i < b->list.n && b->label[0]; i++)
        if (b->list.rows[i].lib.n == 0 && bytes_is(b->list.rows[i].name, b->label))
            return i + 1;
    return 0;
}

static uint32_t draw_list(const struct browse *b, struct line *l, uint32_t height)
{
    const uint32_t n = b->list.n + 1, at = chosen(b),
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

static struct flame flame_of(const struct browse *b, const struct stacks *s, uint32_t height)
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
    const struct flame down = flame_of(b, &b->tree, height - up.height);
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
    } else if (!b->is_stale && (b->pane == FUNCTIONS ? b->top.n == 0 : has_tree))
        line_printf(l, "Nothing was kept in this time: does a profiler send to this gateway?");
    line_end(l);
}

static void show(struct browse *b)
{
    uint32_t columns, rows;
    if (!b->terminal)
        return;
    terminal_size(b->terminal, &columns, &rows);
    b->style =
        (struct line_style){.width = max_of(columns, 2u) - 1, .color = true, .ascii = b->options.ascii};
    struct buffer out = BUFFER_INIT(0);
    struct line l = {.style = &b->style, .out = &out};
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
    line_release(&l);
    buffer_release(&out);
}

/* ---- keys -------------------------------------------------------------------------------------- */

static void forget_place(struct browse *b)
{
    b->root = b->cursor = 0;
    b->row = 0;
}

static void choose(struct browse *b, uint32_t i)
{
    const struct stacks_row *row = i > 0 && i <= b->list.n ? &b->list.rows[i - 1] : NULL;
    if (row && (row->lib.n > 0 || row->name.n == 0 || row->name.n >= LABEL_MAX))
        return;
    snprintf(b->label, sizeof b->label, "%.*s", row ? (int)row->name.n : 0,
             row ? (const char *)row->name.p : "");
    forget_place(b);
    ask_pane(b);
}

static void open_pane(struct browse *b, enum pane pane)
{
    if (pane != b->pane && b->pane != HELP)
        b->before = b->pane == SANDWICH ? b->before : b->pane;
    b->pane = pane;
    forget_place(b);
    ask_pane(b);
}

/* Callers and callees of what is under the cursor. */
static void open_function(struct browse *b)
{
    const uint32_t i = b->tree.n > 0 && b->pane != FUNCTIONS ? stacks_find(&b->tree, b->cursor) : 0;
    const struct bytes name = b->pane == FUNCTIONS
                                  ? (b->row < b->top.n ? b->top.rows[b->row].name : BYTES_LIT(""))
                              : i > 0 ? b->tree.names[i].name
                                      : BYTES_LIT("");
    if (name.n == 0 || name.n >= LABEL_MAX) {
        say(b, "%s",
            name.n > 0 ? "that name is too long to ask for" : "choose a frame first: Enter, then the arrows");
        return;
    }
    snprintf(b->function, sizeof b->function, "%.*s", (int)name.n, (const char *)name.p);
    open_pane(b, SANDWICH);
}

static void move_in_graph(struct browse *b, uint32_t key)
{
    const enum flame_step step = key == TERMINAL_UP     ? FLAME_PARENT
                                 : key == TERMINAL_DOWN ? FLAME_CHILD
                                 : key == TERMINAL_LEFT ? FLAME_BEFORE
                                                        : FLAME_AFTER;
    if (b->tree.n == 0)
        return;
    const struct flame f = flame_of(b, &b->tree, 1);
    const int64_t node = flame_step(&f, step);
    if (node >= 0)
        b->cursor = b->tree.mark[node];
}

static void move(struct browse *b, uint32_t key)
{
    const bool is_list = !b->inside || b->pane == FUNCTIONS;
    const uint32_t n = b->inside ? b->top.n : b->list.n + 1, at = b->inside ? b->row : chosen(b);
    if (!is_list) {
        move_in_graph(b, key);
        return;
    }
    const uint32_t to = key == TERMINAL_UP          ? (at > 0 ? at - 1 : 0)
                        : key == TERMINAL_DOWN      ? at + 1
                        : key == TERMINAL_PAGE_UP   ? (at > 10 ? at - 10 : 0)
                        : key == TERMINAL_PAGE_DOWN ? at + 10
                        : key == TERMINAL_HOME      ? 0
                        : key == TERMINAL_END       ? UINT32_MAX
                                                    : at;
    const uint32_t row = min_of(to, n > 0 ? n - 1 : 0);
    if (b->inside)
        b->row = row;
    else if (row != at)
        choose(b, row);
}

static void enter(struct browse *b)
{
    if (!b->inside)
        b->inside = true;
    else if (b->pane == FUNCTIONS)
        open_function(b);
    else
        b->root = b->cursor;
}

static void leave(struct browse *b)
{
    if (b->search[0])
        b->search[0] = 0;
    else if (b->pane == HELP || (b->pane == SANDWICH && b->root == 0))
        open_pane(b, b->before);
    else if (b->inside && b->root != 0 && b->tree.n > 0 && stacks_find(&b->tree, b->root) > 0)
        b->root = 0;
    else
        b->inside = false;
}

static void change_window(struct browse *b, bool is_longer)
{
    uint32_t i = 0;
    while (i + 1 < ARRAY_LEN(windows) && windows[i] < b->window_s)
        i++;
    i = is_longer ? min_of(i + 1, (uint32_t)ARRAY_LEN(windows) - 1) : i > 0 ? i - 1 : 0;
    b->window_s = windows[i];
    refresh(b);
}

static void type(struct browse *b, uint32_t key)
{
    size_t n = strlen(b->search);
    if (key == TERMINAL_ENTER || key == TERMINAL_ESCAPE)
        b->typing = false;
    if (key == TERMINAL_ESCAPE)
        b->search[0] = 0;
    else if (key == TERMINAL_BACKSPACE)
        while (n > 0 && ((uint8_t)b->search[--n] & 0xc0) == 0x80)
            b->search[n] = 0;
    if (key == TERMINAL_BACKSPACE)
        b->search[n] = 0;
    for (int shift = 24; shift >= 0 && (key < TERMINAL_UP || key > TERMINAL_GONE) && n + 1 < sizeof b->search;
         shift -= 8)
        if (key >> shift & 0xff) {
            b->search[n++] = (char)(key >> shift);
            b->search[n] = 0;
        }
}

static void press_letter(struct browse *b, uint32_t key)
{
    if (key == 'f' || key == 't' || key == 'd')
        open_pane(b, key == 'f' ? FLAME : key == 't' ? FUNCTIONS : DIFF);
    else if (key == 'x')
        open_function(b);
    else if (key == '+' || key == '-')
        change_window(b, key == '+');
    else if (key == '/')
        b->typing = true;
    else if (key == 'e')
        save(b);
    else if (key == 's') {
        b->sort = b->sort == BY_SELF ? BY_TOTAL : BY_SELF;
        open_pane(b, FUNCTIONS);
    } else if (key == 'g') {
        b->group = (b->group + 1) % ARRAY_LEN(groups);
        b->label[0] = 0;
        forget_place(b);
        refresh(b);
    } else if (key == 'p') {
        b->paused = !b->paused;
        rest(b);
    } else if (key == '?' && b->pane != HELP) {
        b->before = b->pane == SANDWICH ? b->before : b->pane;
        b->pane = HELP;
    }
}

static void pressed(void *user, uint32_t key)
{
    struct browse *b = user;
    b->message[0] = 0;
    if (key == TERMINAL_GONE || (key == 'q' && !b->typing)) {
        b->events.ended(b->events.user);
        return;
    }
    if (b->typing)
        type(b, key);
    else if (key == TERMINAL_ENTER)
        enter(b);
    else if (key == TERMINAL_ESCAPE)
        leave(b);
    else if (key >= TERMINAL_UP && key <= TERMINAL_END)
        move(b, key);
    else
        press_letter(b, key);
    show(b);
}

/* ---- beginning and end ------------------------------------------------------------------------- */

struct browse *browse_new(struct io_loop *loop, const struct browse_options *options,
                          const struct browse_events *events)
{
    struct browse *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    *b = (struct browse){.options = *options, .events = *events, .loop = loop};
    b->window_s = (uint32_t)max_of(options->window / NSEC_PER_SEC, (uint64_t)WINDOW_MIN_S);
    b->timer = io_timer_new(loop, on_timer, b);
    if (!b->timer)
        return browse_free(b);
    io_timer_set(b->timer, 0);
    return b;
}

struct browse *browse_free(struct browse *b)
{
    if (!b)
        return NULL;
    struct buffer left = BUFFER_INIT(0);
    if (b->terminal)
        buffer_add_bytes(&left, terminal_shown(b->terminal)); /* without memory nothing stays */
    terminal_free(b->terminal);
    fwrite(left.n > 0 ? (const char *)left.p : "", 1, left.n, stdout);
    fflush(stdout);
    buffer_release(&left);
    top_fetch_cancel(b->fetch);
    io_timer_free(b->timer);
    stacks_rows_release(&b->list);
    stacks_rows_release(&b->top);
    stacks_release(&b->tree);
    stacks_release(&b->callers);
    free(b);
    return NULL;
}
