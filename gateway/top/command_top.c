/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/command_top.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gateway/top/fetch.h"
#include "gateway/top/parse.h"
#include "gateway/top/table.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/io/loop.h"
#include "proto/io/signal.h"
#include "proto/io/timer.h"

#define URL_DEFAULT "http://localhost:9464"
#define INTERVAL_MIN \
    (100u * NSEC_PER_MSEC) /* more often shows noise, and costs the gateway a page each time */
#define WINDOW_DEFAULT (10u * (uint64_t)NSEC_PER_SEC) /* two of profsend's reports */
#define WINDOW_MAX     (3600u * (uint64_t)NSEC_PER_SEC)
#define HISTORY_MAX    128u /* looks remembered; where a window holds more, it is shorter */
#define FETCH_TIMEOUT  (5u * (uint64_t)NSEC_PER_SEC)
#define WIDTH_PLAIN    140u
#define SCREEN_ENTER   "\x1b[?1049h\x1b[?25l" /* alternate screen, no cursor: xterm's control sequences */
#define SCREEN_LEAVE   "\x1b[?25h\x1b[?1049l"
#define SCREEN_HOME    "\x1b[H"
#define LINE_CLEAR     "\x1b[K"
#define BELOW_CLEAR    "\x1b[J"

struct options {
    const char *url;
    uint64_t interval, window;
    bool once;
};

struct look {
    struct top_page page;
    uint64_t taken; /* monotonic */
};

struct top {
    struct options options;
    struct top_url url;
    struct io_loop *loop;
    struct io_timer *timer;
    struct io_signal *interrupt, *terminate;
    struct top_fetch *fetch;
    struct look
        looks[HISTORY_MAX]; /* oldest first: senders report every few seconds, so rates are over a window */
    unsigned n_looks;
    bool tty;
    bool waiting; /* the gateway is away and that was said */
    int exit_code;
};

static int set_url(void *target, const char *value, struct arena *unused, struct error *e)
{
    struct top_url parsed;
    ((struct options *)target)->url = value;
    return top_url_parse(value, &parsed, e);
}

static int set_interval(void *target, const char *value, struct arena *unused, struct error *e)
{
    struct options *o = target;
    if (quantity_duration(bytes_str(value), &o->interval) < 0 || o->interval < INTERVAL_MIN ||
        o->interval > 3600 * (uint64_t)NSEC_PER_SEC)
        return error_set(e, -EINVAL, "%s: not an interval between 100ms and 1h", value);
    return 0;
}

static int set_window(void *target, const char *value, struct arena *unused, struct error *e)
{
    struct options *o = target;
    if (quantity_duration(bytes_str(value), &o->window) < 0 || o->window > WINDOW_MAX)
        return error_set(e, -EINVAL, "%s: not a time up to 1h", value);
    return 0;
}

static const struct settings_row rows[] = {
    {"url", SETTINGS_OWN, .set = set_url, .metavar = "URL",
     .doc = "the gateway's admin address; default " URL_DEFAULT},
    {"interval", SETTINGS_OWN, .set = set_interval, .metavar = "TIME",
     .doc = "time between two looks, e.g. 500ms; default 1s"},
    {"window", SETTINGS_OWN, .set = set_window, .metavar = "TIME",
     .doc = "what rates are taken over; default 10s"},
    {"once", SETTINGS_BOOL, offsetof(struct options, once),
     .doc = "print one table after one interval, and end"},
};

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

static struct top_view view_of(const struct top *t)
{
    struct top_view view = {.url = t->options.url, .width = WIDTH_PLAIN, .color = t->tty};
    struct winsize size;
    if (t->tty && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 1) {
        view.width = size.ws_col - 1u;  /* clearing to the right from behind the last column would eat that */
        view.height = size.ws_row - 1u; /* a newline behind the last row would scroll */
    }
    if (t->options.once)
        view.height = 0;
    return view;
}

/* Writes a picture: in place on a terminal, as lines elsewhere. */
static void show(const struct top *t, struct bytes text)
{
    bool in_place = t->tty && !t->options.once;
    if (in_place)
        fputs(SCREEN_HOME, stdout);
    for (size_t i = 0; i < text.n; i++) {
        if (in_place && text.p[i] == '\n')
            fputs(LINE_CLEAR, stdout);
        putchar(text.p[i]);
    }
    if (in_place)
        fputs(BELOW_CLEAR, stdout);
    else if (!t->options.once)
        putchar('\n');
    fflush(stdout);
}

/* Drops the n oldest looks. */
static void forget(struct top *t, unsigned n)
{
    for (unsigned i = 0; i < n; i++)
        top_page_release(&t->looks[i].page);
    t->n_looks -= n;
    memmove(t->looks, t->looks + n, t->n_looks * sizeof *t->looks);
}

/* Adds a look and drops those that are no longer needed: the oldest one kept is the window's beginning. */
static void remember(struct top *t, struct top_page page)
{
    uint64_t now = clock_monotonic();
    unsigned old = t->n_looks == HISTORY_MAX;
    while (old + 1 < t->n_looks && now - t->looks[old + 1].taken >= t->options.window)
        old++;
    forget(t, old);
    t->looks[t->n_looks++] = (struct look){page, now};
}

static void end(struct top *t, int exit_code)
{
    t->exit_code = exit_code;
    io_loop_stop(t->loop);
}

/* No page this time. Rates begin anew once the gateway is back. */
static void show_waiting(struct top *t, const char *why)
{
    if (t->options.once) {
        fprintf(stderr, "profgate top: %s: %s\n", t->options.url, why);
        end(t, EXIT_ENVIRONMENT);
        return;
    }
    forget(t, t->n_looks);
    struct buffer out = BUFFER_INIT(0);
    int r = buffer_printf(&out, "waiting for %s … (%s)\n", t->options.url, why);
    if (r == 0 && (t->tty || !t->waiting))
        show(t, buffer_bytes(&out));
    t->waiting = true;
    buffer_release(&out);
}

static void show_table(struct top *t)
{
    const struct look *first = &t->looks[0], *last = &t->looks[t->n_looks - 1];
    if (last->taken <= first->taken)
        return;
    struct top_view view = view_of(t);
    struct buffer out = BUFFER_INIT(0);
    double seconds = (double)(last->taken - first->taken) / NSEC_PER_SEC;
    double now_unix = (double)clock_realtime() / NSEC_PER_SEC;
    if (top_table(&view, &first->page, &last->page, seconds, now_unix, &out) == 0)
        show(t, buffer_bytes(&out));
    buffer_release(&out);
    if (t->options.once)
        end(t, EXIT_DONE);
}

static void on_page(void *user, int error, const char *message, struct bytes body)
{
    struct top *t = user;
    t->fetch = NULL;
    io_timer_set(t->timer, io_loop_now(t->loop) + t->options.interval);
    if (error < 0) {
        show_waiting(t, message);
        return;
    }
    struct top_page page;
    if (top_page_read(body, &page) < 0) {
        show_waiting(t, "the page is too large to show");
        return;
    }
    t->waiting = false;
    remember(t, page);
    show_table(t);
}

static void on_timer(void *user)
{
    struct top *t = user;
    t->fetch = top_fetch_start(t->loop, &t->url, FETCH_TIMEOUT, on_page, t);
    if (!t->fetch)
        end(t, EXIT_ENVIRONMENT);
}

static void on_signal(void *user, int signum)
{
    end(user, EXIT_DONE);
}

static int run(struct top *t)
{
    t->loop = io_loop_new();
    if (!t->loop)
        return EXIT_ENVIRONMENT;
    t->timer = io_timer_new(t->loop, on_timer, t);
    t->interrupt = io_signal_new(t->loop, SIGINT, on_signal, t);
    t->terminate = io_signal_new(t->loop, SIGTERM, on_signal, t);
    bool in_place = t->tty && !t->options.once;
    if (t->timer && t->interrupt && t->terminate) {
        if (in_place)
            fputs(SCREEN_ENTER, stdout);
        io_timer_set(t->timer, 0);
        io_loop_run(t->loop);
        if (in_place)
            fputs(SCREEN_LEAVE, stdout);
        fflush(stdout);
    }
    top_fetch_cancel(t->fetch);
    io_timer_free(t->timer);
    io_signal_free(t->interrupt);
    io_signal_free(t->terminate);
    io_loop_free(t->loop);
    forget(t, t->n_looks);
    return t->exit_code;
}

static int top(int argc, char **argv)
{
    struct top t = {.options = {.url = URL_DEFAULT, .interval = NSEC_PER_SEC, .window = WINDOW_DEFAULT},
                    .exit_code = EXIT_ENVIRONMENT};
    struct error e = {0};
    int rest, r = settings_flags(&flags, argc, argv, &t.options, NULL, &rest, &e);
    if (r == SETTINGS_HELP) {
        settings_command_help(&top_command, stdout);
        return EXIT_DONE;
    }
    if (r == 0 && rest < argc)
        r = error_set(&e, -EINVAL, "%s: not expected here", argv[rest]);
    if (r == 0)
        r = top_url_parse(t.options.url, &t.url, &e);
    if (r < 0) {
        fprintf(stderr, "profgate top: %s\n", e.text);
        return EXIT_USAGE;
    }
    t.tty = isatty(STDOUT_FILENO);
    return run(&t);
}

const struct settings_command top_command = {
    .name = "profgate top",
    .usage = "[--url URL] [--interval TIME] [--window TIME] [--once]",
    .doc = "a live table of a running gateway's counters",
    .text = "Shows what a running gateway counts, as rates: CPU time per second is cores.\n",
    .flags = &flags,
    .run = top,
};
