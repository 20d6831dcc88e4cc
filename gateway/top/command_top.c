/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/top/command_top.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "gateway/top/browse.h"
#include "gateway/top/fetch.h"
#include "gateway/top/page.h"
#include "gateway/top/table.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/client/authorization.h"
#include "proto/io/loop.h"
#include "proto/io/signal.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"

#define URL_DEFAULT "http://localhost:9464"
#define INTERVAL_MIN \
    (100u * NSEC_PER_MSEC) /* more often shows noise, and costs the gateway a page each time */
#define WINDOW_DEFAULT (10u * (uint64_t)NSEC_PER_SEC) /* two of profsend's reports */
#define WINDOW_BROWSE  (900u * (uint64_t)NSEC_PER_SEC)
#define WINDOW_MAX     (3600u * (uint64_t)NSEC_PER_SEC)
#define HISTORY_MAX    128u /* looks remembered; where a window holds more, it is shorter */
#define FETCH_TIMEOUT  (5u * (uint64_t)NSEC_PER_SEC)
#define FOR_MAX        (365u * 86400u * (uint64_t)NSEC_PER_SEC)
#define WIDTH_PLAIN    140u
#define PACK_DEFAULT   "busy" /* rules/builtin/busy.rules */
#define PACK_ALL       "all"
#define PACK_MAX       63u
#define HINT           "No functions: the gateway counts none. It does with --set rules.enable=" PACK_DEFAULT
#define HINT_OTHER     "The gateway counts nothing of the pack of --pack; all that it counts is this."
#define SCREEN_ENTER   "\x1b[?1049h\x1b[?25l" /* alternate screen, no cursor: xterm's control sequences */
#define SCREEN_LEAVE   "\x1b[?25h\x1b[?1049l"
#define SCREEN_HOME    "\x1b[H"
#define LINE_CLEAR     "\x1b[K"
#define BELOW_CLEAR    "\x1b[J"

struct options {
    const char *url, *note, *pack; /* pack NULL: the usual one */
    uint64_t interval, window;     /* window 0: the usual one */
    uint64_t how_long;             /* 0: until a signal */
    bool once, flame;
    const char *service; /* of the flame graph; NULL: everybody's */
    const char *user, *password_file, *bearer_token_file;
    const char *ca_file, *cert_file, *key_file;
    bool insecure_skip_verify;
};

struct look {
    struct top_page page;
    uint64_t taken; /* monotonic */
};

struct top {
    struct options options;
    struct top_url url;
    struct top_way way;
    struct io_loop *loop;
    struct io_timer *timer, *over;
    struct io_signal *interrupt, *terminate;
    struct top_fetch *fetch;
    struct browse *browse; /* where stacks are kept and somebody presses keys, instead of the rest */
    struct look
        looks[HISTORY_MAX]; /* oldest first: senders report every few seconds, so rates are over a window */
    unsigned n_looks;
    bool in_place;      /* one table over the other, on a screen of its own */
    bool color, ascii;  /* what the terminal shows */
    struct buffer last; /* the table that is there: it stays when the screen goes */
    bool every_pack;    /* there are no metrics in the one that is wanted */
    bool waiting;       /* the gateway is away and that was said */
    int exit_code;
};

static int set_url(void *target, const char *value, struct arena *unused, struct error *e)
{
    struct top_url parsed;
    ((struct options *)target)->url = value;
    return top_url_parse(value, &parsed, e);
}

static int set_pack(void *target, const char *value, struct arena *unused, struct error *e)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.";
    size_t n = strlen(value);
    if (n == 0 || n > PACK_MAX || strspn(value, letters) != n)
        return error_set(e, -EINVAL, "%s: not the name of a pack of rules", value);
    ((struct options *)target)->pack = value;
    return 0;
}

static int set_service(void *target, const char *value, struct arena *unused, struct error *e)
{
    if (strlen(value) == 0 || strlen(value) >= BROWSE_NAME_MAX)
        return error_set(e, -EINVAL, "a service's name has 1 to %u bytes", BROWSE_NAME_MAX - 1);
    ((struct options *)target)->service = value;
    return 0;
}

#define AT(field) offsetof(struct options, field)

static const struct settings_row rows[] = {
    {"url", SETTINGS_OWN, .set = set_url, .metavar = "URL",
     .doc = "the gateway's admin address; default " URL_DEFAULT},
    {"interval", SETTINGS_DURATION, AT(interval), .min = INTERVAL_MIN, .max = WINDOW_MAX, .metavar = "TIME",
     .doc = "time between two looks, e.g. 500ms; default 1s"},
    {"window", SETTINGS_DURATION, AT(window), .max = WINDOW_MAX, .metavar = "TIME",
     .doc = "what rates are taken over; default 10s"},
    {"for", SETTINGS_DURATION, AT(how_long), .min = NSEC_PER_MSEC, .max = FOR_MAX, .metavar = "TIME",
     .doc = "end after so long, e.g. 30s; default: when told to (Ctrl-C)"},
    {"pack", SETTINGS_OWN, .set = set_pack, .metavar = "NAME",
     .doc = "whose metrics: a pack of rules, or " PACK_ALL "; default " PACK_DEFAULT},
    {"note", SETTINGS_TEXT, AT(note), .metavar = "TEXT",
     .doc = "a line above the table, e.g. where the profiles are from"},
    {"once", SETTINGS_BOOL, AT(once), .doc = "print one table after one interval, and end"},
    {"flame", SETTINGS_BOOL, AT(flame), .doc = "print the flame graph of --window (default 15m), and end"},
    {"service", SETTINGS_OWN, .set = set_service, .metavar = "NAME",
     .doc = "whose flame graph; default everybody's"},
    {"user", SETTINGS_TEXT, AT(user), .metavar = "NAME",
     .doc = "of HTTP basic authentication (admin.auth.htpasswd_file)"},
    {"password-file", SETTINGS_TEXT, AT(password_file), .metavar = "FILE",
     .doc = "one line: the password of --user"},
    {"bearer-token-file", SETTINGS_TEXT, AT(bearer_token_file), .metavar = "FILE",
     .doc = "one line: a token (admin.auth.bearer_tokens_file)"},
    {"ca-file", SETTINGS_TEXT, AT(ca_file), .metavar = "FILE",
     .doc = "who signs the gateway's certificate, PEM; default: the system's"},
    {"cert-file", SETTINGS_TEXT, AT(cert_file), .metavar = "FILE",
     .doc = "a certificate of our own, PEM (admin.tls.client_ca_file)"},
    {"key-file", SETTINGS_TEXT, AT(key_file), .metavar = "FILE", .doc = "its key"},
    {"insecure-skip-verify", SETTINGS_BOOL, AT(insecure_skip_verify),
     .doc = "take any certificate of the gateway's"},
};

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

static const char *pack_of(const struct top *t)
{
    return t->options.pack ? t->options.pack : PACK_DEFAULT;
}

static struct top_view view_of(const struct top *t)
{
    bool all = t->every_pack || strcmp(pack_of(t), PACK_ALL) == 0;
    struct top_view view = {.url = t->options.url,
                            .note = t->options.note,
                            .hint = !t->every_pack                          ? NULL
                                    : strcmp(pack_of(t), PACK_DEFAULT) == 0 ? HINT
                                                                            : HINT_OTHER,
                            .style = {WIDTH_PLAIN, t->color, t->ascii},
                            .by_amount = all};
    struct winsize size;
    if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 && size.ws_row > 2) {
        view.style.width = size.ws_col - 1u; /* clearing to the right from behind the last column eats that */
        if (t->in_place)
            view.height = size.ws_row - 2u; /* a newline behind the last row would scroll; a prompt follows */
    }
    return view;
}

/* Writes a picture: in place on a terminal, as lines elsewhere. */
static void show(const struct top *t, struct bytes text)
{
    if (t->in_place)
        fputs(SCREEN_HOME, stdout);
    for (size_t i = 0; i < text.n; i++) {
        if (t->in_place && text.p[i] == '\n')
            fputs(LINE_CLEAR, stdout);
        putchar(text.p[i]);
    }
    if (t->in_place)
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
    while (old + 1 < t->n_looks &&
           now - t->looks[old + 1].taken >= (t->options.window ? t->options.window : WINDOW_DEFAULT))
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
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    int r = buffer_printf(&out, "waiting for %s (%s)\n", t->options.url, why);
    if (r == 0 && (t->in_place || !t->waiting))
        show(t, buffer_bytes(&out));
    t->waiting = true;
}

static void show_table(struct top *t)
{
    const struct look *first = &t->looks[0], *last = &t->looks[t->n_looks - 1];
    if (last->taken <= first->taken) {
        if (t->in_place)
            show(t, BYTES_LIT("The first table is of two looks: a moment.\n"));
        return;
    }
    struct top_view view = view_of(t);
    struct buffer out = BUFFER_INIT(0);
    double seconds = (double)(last->taken - first->taken) / NSEC_PER_SEC;
    if (top_table(&view, &first->page, &last->page, seconds, &out) == 0) {
        show(t, buffer_bytes(&out));
        buffer_release(&t->last);
        t->last = out;
        out = (struct buffer){0};
    }
    buffer_release(&out);
    if (t->options.once)
        end(t, EXIT_DONE);
}

/* The page of a pack, where no other was named; -EINVAL: too long. */
static int set_path(struct top_url *url, const char *pack)
{
    size_t room = sizeof url->path;
    return snprintf(url->path, room, TOP_PATH_DEFAULT "?pack=%s", pack) < (int)room ? 0 : -EINVAL;
}

/* Nobody switched the pack on: then what there is. True where that is something else. */
static bool choose_every_pack(struct top *t)
{
    if (t->every_pack || !strchr(t->url.path, '?'))
        return false;
    strcpy(t->url.path, TOP_PATH_DEFAULT);
    return t->every_pack = true;
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
    int r = top_page_read(body, &page);
    if (r != 0) {
        show_waiting(t, r == TOP_PAGE_FOREIGN ? "what answers there is no gateway of this version"
                                              : "the page is too large to show");
        return;
    }
    t->waiting = false;
    if (page.metrics.n == 0 && choose_every_pack(t)) {
        top_page_release(&page);
        io_timer_set(t->timer, 0);
        return;
    }
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

static void on_over(void *user)
{
    end(user, EXIT_DONE);
}

static void begin_table(struct top *t)
{
    if (t->in_place)
        fputs(SCREEN_ENTER, stdout);
    io_timer_set(t->timer, 0);
}

static void on_browse_ended(void *user)
{
    end(user, EXIT_DONE);
}

static void on_browse_unavailable(void *user, const char *why)
{
    struct top *t = user;
    if (t->options.flame) {
        fprintf(stderr, "profgate top: %s: %s (--flame wants a gateway with look.memory)\n", t->options.url,
                why);
        end(t, EXIT_ENVIRONMENT);
        return;
    }
    t->browse = browse_free(t->browse);
    begin_table(t);
}

/* Counters where somebody asked for those of a pack, or the terminal is none to look at stacks on. */
static bool may_browse(const struct top *t)
{
    return t->options.flame || (t->in_place && t->color && isatty(STDIN_FILENO) && !t->options.pack);
}

static void begin(struct top *t)
{
    const struct browse_options options = {.url = &t->url,
                                           .name = t->options.url,
                                           .note = t->options.note,
                                           .interval = t->options.interval,
                                           .window = t->options.window ? t->options.window : WINDOW_BROWSE,
                                           .ascii = t->ascii,
                                           .once = t->options.flame,
                                           .color = t->color,
                                           .width = view_of(t).style.width,
                                           .service = t->options.service};
    const struct browse_events events = {on_browse_ended, on_browse_unavailable, t};
    t->browse = may_browse(t) ? browse_new(t->loop, &options, &events) : NULL;
    if (!t->browse && t->options.flame)
        io_loop_stop(t->loop);
    else if (!t->browse)
        begin_table(t);
}

static int run(struct top *t)
{
    t->loop = io_loop_new();
    if (!t->loop)
        return EXIT_ENVIRONMENT;
    t->timer = io_timer_new(t->loop, on_timer, t);
    t->over = io_timer_new(t->loop, on_over, t);
    t->interrupt = io_signal_new(t->loop, SIGINT, on_signal, t);
    t->terminate = io_signal_new(t->loop, SIGTERM, on_signal, t);
    if (t->timer && t->over && t->interrupt && t->terminate) {
        begin(t);
        if (t->options.how_long > 0)
            io_timer_set(t->over, io_loop_now(t->loop) + t->options.how_long);
        io_loop_run(t->loop);
        if (t->in_place && !t->browse) {
            fputs(SCREEN_LEAVE, stdout);
            fwrite(t->last.p ? (const char *)t->last.p : "", 1, t->last.n, stdout);
        }
        fflush(stdout);
    }
    browse_free(t->browse);
    top_fetch_cancel(t->fetch);
    io_timer_free(t->timer);
    io_timer_free(t->over);
    io_signal_free(t->interrupt);
    io_signal_free(t->terminate);
    io_loop_free(t->loop);
    forget(t, t->n_looks);
    buffer_release(&t->last);
    return t->exit_code;
}

/* What kind of terminal it is, if it is one. A variable that is empty is not set (no-color.org). */
static void see_terminal(struct top *t)
{
    const char *kind = getenv("TERM"), *no_color = getenv("NO_COLOR");
    bool knows_codes = isatty(STDOUT_FILENO) && kind && kind[0] && strcmp(kind, "dumb") != 0;
    setlocale(LC_CTYPE, "");
    t->ascii = strcmp(nl_langinfo(CODESET), "UTF-8") != 0;
    t->in_place = knows_codes && !t->options.once && !t->options.flame;
    t->color = knows_codes && !(no_color && no_color[0]);
}

/* How the gateway is to be asked. */
static int find_way(struct top *t, struct error *e)
{
    const struct options *o = &t->options;
    static const char *const alpn[] = {"http/1.1", NULL};
    const struct tls_options tls = {.ca_file = o->ca_file,
                                    .cert_file = o->cert_file,
                                    .key_file = o->key_file,
                                    .alpn = alpn,
                                    .insecure_skip_verify = o->insecure_skip_verify};
    const char *file = o->password_file ? o->password_file : o->bearer_token_file;
    t->url.way = &t->way;
    if ((o->user == NULL) != (o->password_file == NULL) || (o->user && o->bearer_token_file))
        return error_set(e, -EINVAL,
                         "--user and --password-file go together; --bearer-token-file is another way");
    if (!t->url.is_https && (o->ca_file || o->cert_file || o->key_file || o->insecure_skip_verify))
        return error_set(e, -EINVAL, "certificates mean nothing without https://");
    int r = file ? authorization_from_file(o->user, file, &t->way.authorization, e) : 0;
    return r == 0 && t->url.is_https ? tls_context_new(&t->way.tls, &tls, e) : r;
}

static int top(int argc, char **argv)
{
    struct top t = {.options = {.url = URL_DEFAULT, .interval = NSEC_PER_SEC}, .exit_code = EXIT_ENVIRONMENT};
    struct error e = {0};
    int rest, r = settings_flags(&flags, argc, argv, &t.options, NULL, &rest, &e);
    if (r == 0 && rest < argc)
        r = error_set(&e, -EINVAL, "%s: not expected here", argv[rest]);
    if (r == 0)
        r = top_url_parse(t.options.url, &t.url, &e);
    if (r == 0 && t.options.flame && t.options.pack)
        r = error_set(&e, -EINVAL, "--flame is of stacks, --pack of counters: one of them");
    if (r == 0 && t.options.service && !t.options.flame)
        r = error_set(&e, -EINVAL, "--service goes with --flame");
    if (r == 0)
        r = find_way(&t, &e);
    if (r == 0 && strcmp(t.url.path, TOP_PATH_DEFAULT) == 0 && strcmp(pack_of(&t), PACK_ALL) != 0)
        r = set_path(&t.url, pack_of(&t));
    if (r == 0) {
        see_terminal(&t);
        r = run(&t);
    } else {
        fprintf(stderr, "profgate top: %s\n", e.text);
        r = EXIT_USAGE;
    }
    tls_context_free(t.way.tls);
    buffer_release(&t.way.authorization);
    return r;
}

const struct settings_command top_command = {
    .name = "profgate top",
    .usage =
        "[--url URL] [--user NAME --password-file FILE] [--interval TIME] [--window TIME] [--for TIME] [--pack NAME] [--once | --flame [--service NAME]]",
    .doc = "a live table of a running gateway's counters",
    .text =
        "Shows what a running gateway counts, as rates: CPU time per second is cores. Where it keeps stacks\n"
        "(look.memory), a terminal shows these instead, unless --once or --pack is given; ? shows the keys.\n"
        "The last table stays on the terminal. NO_COLOR and TERM=dumb are honoured.\n",
    .flags = &flags,
    .run = top,
};
