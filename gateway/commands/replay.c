/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One request after the other, in the order of the files' names: with the next one waits whoever has to take
 * them, and a file is done when all of its requests were acknowledged.
 */
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gateway/commands/capture_file.h"
#include "gateway/commands/command.h"
#include "proto/base/arena.h"
#include "proto/base/clock.h"
#include "proto/base/file.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"
#include "proto/client/client.h"
#include "proto/client/endpoint.h"
#include "proto/io/loop.h"

struct replay_arguments {
    const char *endpoint;
    enum otlp_protocol protocol;
    uint64_t timeout_ns, patience_ns;
    VEC(struct client_header) headers;
    bool remove;
};

#define AT(field) offsetof(struct replay_arguments, field)

static int set_header(void *target, const char *value, struct arena *arena, struct error *e)
{
    struct replay_arguments *a = target;
    const char *equals = strchr(value, '=');
    if (!equals || equals == value)
        return error_set(e, -EINVAL, "wants NAME=VALUE");
    char *name = arena_printf(arena, "%.*s", (int)(equals - value), value);
    return name ? vec_append(&a->headers, (struct client_header){name, equals + 1}) : -ENOMEM;
}

static int set_endpoint(void *target, const char *value, struct arena *arena, struct error *e)
{
    cleanup(endpoint_release) struct endpoint endpoint = {0};
    ((struct replay_arguments *)target)->endpoint = value;
    return endpoint_parse(&endpoint, value, 0, e);
}

/* clang-format off */
static const struct settings_word protocols[] = {{"grpc", OTLP_GRPC}, {"http", OTLP_HTTP}, {NULL}};
static const struct settings_row rows[] = {
    {"endpoint", SETTINGS_OWN, .set = set_endpoint, .metavar = "URL",
     .doc = "where to: http://host:port, https://host:port, unix:/path; default this machine's gateway"},
    {"protocol", SETTINGS_CHOICE, AT(protocol), .words = protocols, .metavar = "PROTOCOL",
     .want = "grpc or http", .doc = "OTLP/gRPC (the default) or OTLP/HTTP"},
    {"header", SETTINGS_OWN, .set = set_header, .metavar = "NAME=VALUE", .doc = "sent with every request; may be repeated"},
    {"timeout", SETTINGS_DURATION, AT(timeout_ns), .min = 1000000, .max = 600000000000, .metavar = "TIME", .doc = "of one attempt; default 10s"},
    {"patience", SETTINGS_DURATION, AT(patience_ns), .max = 86400000000000, .metavar = "TIME",
     .doc = "how long a request that may be repeated is; default 1m, 0 is for ever"},
    {"remove", SETTINGS_BOOL, AT(remove), .doc = "remove each file that was acknowledged"},
};
/* clang-format on */

static const struct settings_section flags = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

/* ---- sending ---- */

struct replay {
    struct io_loop *loop;
    struct client *clients[2]; /* by enum otlp_signal; NULL: not wanted yet */
    const struct replay_arguments *arguments;
    bool is_over, is_lost; /* of the request under way */
    struct error why;
    uint64_t requests, rejected;
    struct error *e;
};

static void on_event(void *user, const struct client_event *event)
{
    struct replay *p = user;
    if (event->kind == CLIENT_RETRIED)
        return;
    p->is_over = true;
    p->is_lost = client_event_is_loss(event->kind);
    p->rejected += event->kind == CLIENT_PARTIAL ? event->rejected : 0;
    error_set(&p->why, 0, "%s", event->message ? event->message : "");
}

static int connect_for(struct replay *p, enum otlp_signal signal)
{
    const struct replay_arguments *a = p->arguments;
    if (p->clients[signal])
        return 0;
    struct client_options o = CLIENT_DEFAULT;
    o.endpoint = a->endpoint;
    o.protocol = a->protocol;
    o.signal = signal;
    o.headers = a->headers.p;
    o.n_headers = a->headers.n;
    o.timeout_ns = a->timeout_ns;
    o.compression = CLIENT_COMPRESS_NONE;
    o.retry.initial_interval_ns = NSEC_PER_SEC / 2;
    o.retry.max_elapsed_ns = a->patience_ns;
    return client_new(&p->clients[signal], p->loop, &o, on_event, p, p->e);
}

/* Sends one and waits for what becomes of it. */
static int send_one(struct replay *p, enum otlp_signal signal, struct bytes request, const char *place)
{
    int r = connect_for(p, signal);
    uint8_t *copy = r == 0 ? malloc(request.n ? request.n : 1) : NULL;
    struct client_body *body = NULL;
    if (copy) {
        memcpy(copy, request.p, request.n);
        body = client_body_new(copy, request.n);
    }
    if (r == 0 && !body)
        r = error_set(p->e, -ENOMEM, "out of memory");
    if (r < 0)
        return r;
    p->is_over = false;
    client_push_newest(p->clients[signal], body, 1);
    client_body_unref(body);
    while (!p->is_over)
        io_loop_run_once(p->loop, NSEC_PER_SEC);
    if (p->is_lost)
        return error_set(p->e, -EREMOTEIO, "%s: %s", place, p->why.text);
    p->requests++;
    return 0;
}

static int send_capture(void *context, const struct capture_request *request)
{
    return send_one(context, OTLP_PROFILES, request->body, request->place);
}

/* A dead letter of metrics is one protobuf request. */
static int send_metrics(struct replay *p, const char *path)
{
    cleanup(buffer_release) struct buffer body = BUFFER_INIT(0);
    const int r = file_read(path, CAPTURE_MAX, &body, p->e);
    return r == 0 ? send_one(p, OTLP_METRICS, buffer_bytes(&body), path) : r > 0 ? -r : r;
}

static int send_file(struct replay *p, const char *path)
{
    int r = bytes_ends(bytes_str(path), ".metrics.pb") ? send_metrics(p, path)
                                                       : capture_file_requests(path, send_capture, p, p->e);
    if (r == 0 && p->arguments->remove && unlink(path) < 0)
        r = error_set(p->e, -errno, "%s: %s", path, strerror(errno));
    return r;
}

static int is_visible(const struct dirent *d)
{
    return d->d_name[0] != '.' && strcmp(d->d_name, "writing") != 0; /* export/shared/dead.c */
}

/* A folder's files; not those of folders in it. */
static int send_folder(struct replay *p, const char *path)
{
    struct dirent **all;
    int n = scandir(path, &all, is_visible, versionsort), r = 0;
    if (n < 0)
        return error_set(p->e, -errno, "%s: %s", path, strerror(errno));
    for (int i = 0; i < n; i++) {
        char file[4096];
        struct stat st;
        snprintf(file, sizeof file, "%s/%s", path, all[i]->d_name);
        if (r == 0 && stat(file, &st) == 0 && S_ISREG(st.st_mode))
            r = send_file(p, file);
        free(all[i]);
    }
    free(all);
    return r;
}

static void on_closed(void *user)
{
    --*(int *)user;
}

static int replay(const struct replay_arguments *a, char **paths, int n, struct error *e)
{
    struct replay p = {.loop = io_loop_new(), .arguments = a, .e = e};
    int r = p.loop ? 0 : error_set(e, -ENOMEM, "out of memory"), open = 0;
    for (int i = 0; r == 0 && i < n; i++) {
        struct stat st;
        r = stat(paths[i], &st) == 0 && S_ISDIR(st.st_mode) ? send_folder(&p, paths[i])
                                                            : send_file(&p, paths[i]);
    }
    for (int i = 0; i < 2; i++)
        if (p.clients[i]) {
            open++;
            client_shutdown(p.clients[i], 0, on_closed, &open);
        }
    while (open > 0)
        io_loop_run_once(p.loop, NSEC_PER_SEC);
    for (int i = 0; i < 2; i++)
        client_free(p.clients[i]);
    if (p.loop)
        io_loop_free(p.loop);
    printf("%" PRIu64 " request%s acknowledged", p.requests, p.requests == 1 ? "" : "s");
    printf(p.rejected > 0 ? ", %" PRIu64 " profiles or points of them rejected\n" : "\n", p.rejected);
    return r;
}

static int run(int argc, char **argv)
{
    struct replay_arguments arguments = {.endpoint = "http://localhost:4317",
                                         .timeout_ns = 10 * NSEC_PER_SEC,
                                         .patience_ns = 60 * NSEC_PER_SEC};
    cleanup(arena_release) struct arena arena = {0};
    struct error e = {""};
    int rest = argc, code = EXIT_USAGE;
    int r = settings_flags(&flags, argc, argv, &arguments, &arena, &rest, &e);
    if (r == 0 && rest == argc) {
        r = error_set(&e, -EINVAL, "name a file or a folder of them");
    } else if (r == 0) {
        r = replay(&arguments, argv + rest, argc - rest, &e);
        code = exit_of_work(r);
    }
    if (r < 0)
        fprintf(stderr, "profgate replay: %s\n", e.text[0] ? e.text : "out of memory");
    vec_release(&arguments.headers);
    return code;
}

const struct settings_command replay_command = {
    .name = "profgate replay",
    .usage = "[--endpoint URL] [--remove] FILE|FOLDER...",
    .doc = "send dead letters and captured requests again",
    .text =
        "Sends what an exporter kept as dead letters (sending_queue.dead_letters: STORAGE/NAME.dead), or captured\n"
        "requests as profgate count reads them, one after the other, and stops at the first that is not taken.\n",
    .flags = &flags,
    .run = run,
};
