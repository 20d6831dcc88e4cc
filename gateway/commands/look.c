/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate look FILE…`: the store, the API and the page of a gateway over what is in files, at an address of
 * this machine. Stacks are where their profiles' time is; the page is told to begin there.
 */
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "gateway/admin/admin.h"
#include "gateway/commands/capture_file.h"
#include "gateway/commands/command.h"
#include "gateway/look/tap.h"
#include "gateway/run/counting.h"
#include "gateway/run/looking.h"
#include "gateway/ui/ui.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"
#include "proto/io/signal.h"

#define MEMORY         ((uint64_t)8 << 30) /* as limits.memory; stacks have an eighth of it */
#define SAMPLES_ALL    1000000000u         /* nothing is thinned: it is to be seen as it is in the files */
#define LISTEN_DEFAULT "127.0.0.1:0"
#define SPAN_MIN_MS    60000u

struct look_arguments {
    const char *listen;
};

static int set_listen(void *target, const char *value, struct arena *unused, struct error *e)
{
    char host[256];
    uint16_t port;
    ((struct look_arguments *)target)->listen = value;
    return io_address_parse(value, host, sizeof host, &port, e);
}

static const struct settings_row rows[] = {
    {"listen", SETTINGS_OWN, .set = set_listen, .metavar = "ADDRESS",
     .doc = "where the page is; default " LISTEN_DEFAULT ", a free port"},
};

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

/* Everything there is while the page can be opened. */
struct viewer {
    struct config *config;
    struct budget budget;
    struct io_loop *loop;
    struct looking *looking;
    struct look_tap *tap;
    struct ui *ui;
    struct admin *admin;
    struct io_signal *interrupt, *terminate;
    bool is_over;            /* by a signal, maybe before all is read */
    uint64_t from_ns, to_ns; /* when what is in the files was */
    uint64_t samples, rejected;
    struct error first; /* why the first one was */
};

static int take_request(void *context, const struct profiles *view, uint32_t request)
{
    struct viewer *v = context;
    uint64_t at = 0;
    for (uint32_t i = 0; i < view->profile.n && at == 0; i++)
        at = view->profile.time_unix_nano[i];
    at = at ? at : clock_realtime();
    v->from_ns = v->from_ns ? min_of(v->from_ns, at) : at;
    v->to_ns = max_of(v->to_ns, at);
    if (v->rejected == 0)
        v->first = view->rejected.first;
    v->samples += view->sample.n;
    v->rejected += view->rejected.samples;
    look_tap_push(v->tap, view, at);
    looking_take(v->looking, look_tap_take(v->tap));
    io_loop_run_once(v->loop, 0); /* signals, too */
    looking_end(v->looking);      /* no faster than the store takes it, and what is announced is all of it */
    return v->is_over ? -ECANCELED : 0;
}

static void on_signal(void *user, int signum)
{
    struct viewer *v = user;
    v->is_over = true;
    io_loop_stop(v->loop);
}

static int begin(struct viewer *v, const char *listen, struct error *e)
{
    v->config = config_new(NULL);
    v->loop = v->config ? io_loop_new() : NULL;
    v->ui = ui_new();
    if (!v->loop || !v->ui)
        return error_set(e, -ENOMEM, "out of memory");
    v->config->memory = MEMORY;
    v->config->look_memory = MEMORY;
    v->config->look_retention_ns = UINT64_MAX;
    v->config->look_samples_per_second = SAMPLES_ALL;
    v->config->look_expose = true; /* where he says */
    v->config->admin_endpoint = listen;
    v->budget = (struct budget)BUDGET_INIT(MEMORY, NULL);
    const int r = looking_new(&v->looking, v->config, v->loop, &v->budget, e);
    if (r < 0)
        return r;
    struct counting *counting = counting_new(v->config, e); /* the shipped rules */
    if (!counting)
        return -EINVAL;
    looking_set_counting(v->looking, counting);
    counting_drop(counting);
    v->tap = looking_tap(v->looking);
    v->interrupt = io_signal_new(v->loop, SIGINT, on_signal, v);
    v->terminate = io_signal_new(v->loop, SIGTERM, on_signal, v);
    return v->tap && v->interrupt && v->terminate ? 0 : error_set(e, -ENOMEM, "out of memory");
}

static int listen_at(struct viewer *v, struct error *e)
{
    struct admin_page pages[LOOKING_PAGES_MAX + UI_PAGES_MAX];
    uint32_t n_ui;
    const struct admin_page *ui = ui_pages(v->ui, &n_ui);
    const uint32_t n = looking_pages(v->looking, pages);
    memcpy(&pages[n], ui, n_ui * sizeof *ui);
    const struct admin_options options = {
        .endpoint = v->config->admin_endpoint, .pages = pages, .n_pages = n + n_ui};
    v->admin = admin_new(&options, v->loop, e);
    return v->admin ? 0 : -EADDRINUSE;
}

/* The address, with the time that there is something of, in slices of ten seconds and a little around it. */
static void announce(const struct viewer *v)
{
    const uint64_t slice = 10000, end = (v->to_ns / NSEC_PER_MSEC / slice + 2) * slice,
                   begin = v->from_ns / NSEC_PER_MSEC / slice * slice,
                   span = max_of(end - begin, (uint64_t)SPAN_MIN_MS);
    const char *host = v->config->admin_endpoint;
    size_t n = (size_t)(strrchr(host, ':') - host);
    if (n == 0 || *host == '*') { /* every address: the one that is this machine's own */
        host = "localhost";
        n = strlen(host);
    }
    printf("http://%.*s:%u/#end=%" PRIu64 "&span=%" PRIu64 "\n", (int)n, host, admin_port(v->admin), end,
           span);
    fflush(stdout);
}

static void end(struct viewer *v)
{
    admin_free(v->admin);
    looking_end(v->looking);
    look_tap_free(v->tap);
    looking_free(v->looking);
    ui_free(v->ui);
    io_signal_free(v->interrupt);
    io_signal_free(v->terminate);
    if (v->loop)
        io_loop_free(v->loop);
    config_free(v->config);
}

/* What is not shown, and why; with nothing left, that there is nothing to show. */
static int say_rejected(const struct viewer *v, struct error *e)
{
    if (v->samples == v->rejected)
        return v->rejected == 0
                   ? error_set(e, -ENODATA, "no samples in these files")
                   : error_set(e, -ENODATA, "no samples in these files: %" PRIu64 " rejected; the first: %s",
                               v->rejected, v->first.text);
    if (v->rejected > 0)
        fprintf(stderr, "profgate look: %" PRIu64 " of %" PRIu64 " samples rejected; the first: %s\n",
                v->rejected, v->samples, v->first.text);
    return 0;
}

static int look(const char *listen, char **files, int n, struct error *e)
{
    struct viewer v = {0};
    int code = EXIT_ENVIRONMENT, r = begin(&v, listen, e);
    for (int i = 0; i < n && r == 0; i++)
        if ((r = capture_file_read(files[i], take_request, &v, e)) < 0)
            code = exit_of_work(r);
    if (r == 0 && (r = say_rejected(&v, e)) < 0)
        code = EXIT_NO;
    if (r == 0)
        r = listen_at(&v, e);
    if (r == 0) {
        announce(&v);
        while (!v.is_over)
            io_loop_run(v.loop);
    }
    end(&v);
    return r == 0 || v.is_over ? EXIT_DONE : code;
}

static int run(int argc, char **argv)
{
    struct look_arguments arguments = {LISTEN_DEFAULT};
    struct error e = {""};
    int rest = argc, code = EXIT_USAGE;
    int r = settings_flags(&flags, argc, argv, &arguments, NULL, &rest, &e);
    if (r == 0 && rest == argc)
        r = error_set(&e, -EINVAL, "name a captured request or a profile");
    if (r == 0)
        code = look(arguments.listen, argv + rest, argc - rest, &e);
    if (code != EXIT_DONE)
        fprintf(stderr, "profgate look: %s\n", e.text[0] ? e.text : "out of memory");
    return code;
}

const struct settings_command look_command = {
    .name = "profgate look",
    .usage = "[--listen ADDRESS] FILE...",
    .doc = "show captured requests and profiles in a browser",
    .text =
        "Shows files (OTLP as captured, pprof, folded stacks or what `perf script` printed, plain, gzip or zstd) on the\n"
        "page that a gateway has, at the address it prints, until it is interrupted.\n",
    .flags = &flags,
    .run = run,
};
