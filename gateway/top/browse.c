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

#include "gateway/top/browse_parts.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

#define LOOK          "/api/v1/look/"
#define FETCH_TIMEOUT (5u * (uint64_t)NSEC_PER_SEC)
#define SPARK_COLUMNS 40u
#define SLICE_S       10u /* no finer than the store's */
#define LIST_LIMIT    20u /* the API's */
#define WINDOW_MIN_S  60u
/* Slices are of ten seconds: oftener shows nothing new. */
#define INTERVAL_MIN (2u * (uint64_t)NSEC_PER_SEC)

void browse_say(struct browse *b, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(b->message, sizeof b->message, format, arguments);
    va_end(arguments);
}

const struct browse_group browse_groups[BROWSE_GROUPS] = {{"service", "service_name"},
                                                          {"host", "host_name"},
                                                          {"thread", "thread_name"},
                                                          {"container", "container_id"},
                                                          {"runtime", NULL}};

/* ---- asking ------------------------------------------------------------------------------------ */

/* Appends text to the path, each byte that is not plain as %XX. False: there is no more room. */
static bool add_escaped(struct browse *b, const char *text)
{
    const size_t room = sizeof b->url.path - 1;
    struct buffer path = {.p = (uint8_t *)b->url.path, .n = strlen(b->url.path), .cap = room, .max = room};
    const bool fits = buffer_add_percent(&path, text, "") == 0;
    path.p[path.n] = 0;
    return fits;
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
    const char *label = browse_groups[b->group].label;
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
    browse_say(b, "%s", fits ? "no memory" : "a name there is too long to ask for");
    if (b->options.once)
        b->events.unavailable(b->events.user, b->message);
    else
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
        b->events.unavailable(b->events.user, why);
        return true;
    }
    browse_say(b, "%s", why);
    rest(b);
    browse_show(b);
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
    if (b->options.once) {
        if (browse_print(b) < 0)
            b->events.unavailable(b->events.user, "no memory");
        else
            b->events.ended(b->events.user);
        return;
    }
    rest(b);
    browse_show(b);
}

void browse_ask(struct browse *b)
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
    if (!b->terminal && !b->options.once) {
        b->terminal = terminal_new(b->loop, browse_press, b);
        if (!b->terminal) {
            b->events.unavailable(b->events.user, "no terminal");
            return;
        }
    }
    browse_ask(b);
    browse_show(b);
}

void browse_refresh(struct browse *b)
{
    const uint32_t step = max_of(b->window_s / SPARK_COLUMNS / SLICE_S, 1u) * SLICE_S;
    begin(b, LOOK "series?from=now-%us&step=%us&limit=%u&group=%s", b->window_s, step, LIST_LIMIT,
          browse_groups[b->group].name);
    ask(b, on_list, true);
}

static void on_timer(void *user)
{
    struct browse *b = user;
    if (b->paused && b->terminal)
        return;
    browse_refresh(b);
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
        browse_say(b, "saved %s", name);
    else
        browse_say(b, "%s: %s", name, n < 0 ? strerror(errno) : "not all of it was written");
    if (fd >= 0)
        close(fd);
    rest(b);
    browse_show(b);
}

void browse_save(struct browse *b)
{
    begin(b, LOOK "pprof?from=now-%us", b->window_s);
    ask(b, on_profile, add_selector(b, "query"));
}

/* ---- beginning and end ------------------------------------------------------------------------- */

struct browse *browse_new(struct io_loop *loop, const struct browse_options *options,
                          const struct browse_events *events)
{
    struct browse *b = calloc(1, sizeof *b);
    if (!b)
        return NULL;
    *b = (struct browse){.options = *options, .events = *events, .loop = loop};
    snprintf(b->label, sizeof b->label, "%s", options->service ? options->service : "");
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
