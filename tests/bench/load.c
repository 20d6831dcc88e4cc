/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_nghttp2 dep_deflate */
/*
 * A load generator: sends the requests in the files named, in turn, over a number of connections with one
 * request under way on each, and prints one line of JSON: requests, errors, seconds, latency percentiles in
 * microseconds, and how often each file was acknowledged.
 *
 *   load --protocol grpc|http --port N [--connections N] [--requests N] [--gzip LEVEL] [--rate R]
 *        [--until-closed 1] FILE…
 *
 * With --rate, R requests a second fall due at even times whatever the server does, and a latency counts from
 * then on: a server that stands still for a second is seen by all that fell due in it, not by one request
 * alone. With --until-closed, connections that the server ends are no failure, and the run ends with the
 * last: what was acknowledged until then is what the server must have kept.
 *
 * It speaks to nghttp2 and sockets directly and shares no code with the gateway, so that it measures and
 * checks it from outside. Bounded by --requests; ends by itself.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <netinet/tcp.h>
#include <nghttp2/nghttp2.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/bench/whole_file.h"

#define CONNECTIONS_MAX 4096
#define RESPONSE_MAX    16384
#define GRPC_PREFIX     5
#define STALL_MS \
    300000 /* without a word from the gateway: a hang; a busy machine may take a minute over 64 MB */

struct body {
    uint8_t *data; /* as sent; with the gRPC prefix when the protocol is gRPC */
    size_t n;
    uint64_t acknowledged;
};

struct connection {
    int fd;
    nghttp2_session *h2;
    struct body *body; /* being sent */
    size_t sent;
    uint64_t started_ns;
    bool busy, ok, over;
    char head[512];
    size_t head_n, head_sent;
    char response[RESPONSE_MAX];
    size_t response_n;
};

static struct {
    bool grpc, until_closed;
    int port, gzip;
    double rate; /* requests a second; 0: as fast as they are answered */
    uint64_t start_ns;
    uint32_t n_connections;
    uint64_t n_requests, begun, done, errors;
    uint32_t n_over; /* connections that the server ended */
    struct body *bodies;
    uint32_t n_bodies;
    uint32_t *latency_us;
} run = {.grpc = true, .n_connections = 1, .n_requests = 1000};

static void die(const char *what)
{
    fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static struct body load_body(const char *path)
{
    size_t n;
    uint8_t *plain = whole_file(path, 0, &n);
    if (!plain)
        die(path);

    size_t prefix = run.grpc ? GRPC_PREFIX : 0, cap = n + n / 4 + 1024;
    struct body b = {malloc(prefix + cap), n, 0};
    if (!b.data)
        die("memory");
    if (run.gzip > 0) {
        struct libdeflate_compressor *c = libdeflate_alloc_compressor(run.gzip);
        b.n = libdeflate_gzip_compress(c, plain, n, b.data + prefix, cap);
        libdeflate_free_compressor(c);
    } else {
        memcpy(b.data + prefix, plain, n);
    }
    free(plain);
    if (run.grpc) {
        uint32_t length = htonl((uint32_t)b.n);
        b.data[0] = run.gzip > 0;
        memcpy(b.data + 1, &length, 4);
        b.n += GRPC_PREFIX;
    }
    return b;
}

static void begin(struct connection *c);

static void finish(struct connection *c)
{
    run.latency_us[run.done++] = (uint32_t)((now_ns() - c->started_ns) / 1000);
    run.errors += !c->ok;
    c->body->acknowledged += c->ok;
    c->busy = false;
    begin(c);
}

/* The server ended it: as announced, or a failure. */
static void end(struct connection *c, const char *how)
{
    if (!run.until_closed)
        die(how);
    run.n_over += !c->over;
    c->over = true;
    c->busy = false;
    close(c->fd);
}

/* When the request to be begun next falls due; 0: at once. */
static uint64_t next_due(void)
{
    return run.rate > 0 ? run.start_ns + (uint64_t)((double)run.begun * 1e9 / run.rate) : 0;
}

/* ---- gRPC ---------------------------------------------------------------------------------- */

static ssize_t read_body(nghttp2_session *h2, int32_t stream, uint8_t *to, size_t room, uint32_t *flags,
                         nghttp2_data_source *source, void *user)
{
    struct connection *c = user;
    size_t n = c->body->n - c->sent;
    if (n > room)
        n = room;
    memcpy(to, c->body->data + c->sent, n);
    c->sent += n;
    if (c->sent == c->body->n)
        *flags |= NGHTTP2_DATA_FLAG_EOF;
    return (ssize_t)n;
}

static int on_header(nghttp2_session *h2, const nghttp2_frame *frame, const uint8_t *name, size_t name_n,
                     const uint8_t *value, size_t value_n, uint8_t flags, void *user)
{
    struct connection *c = user;
    if (name_n == 11 && memcmp(name, "grpc-status", 11) == 0)
        c->ok = value_n == 1 && value[0] == '0';
    return 0;
}

static int on_stream_close(nghttp2_session *h2, int32_t stream, uint32_t code, void *user)
{
    finish(user);
    return 0;
}

static void begin_grpc(struct connection *c)
{
#define NV(name, value) {(uint8_t *)name, (uint8_t *)value, sizeof(name) - 1, sizeof(value) - 1, 0}
    nghttp2_nv headers[] = {
        NV(":method", "POST"),
        NV(":scheme", "http"),
        NV(":path", "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export"),
        NV(":authority", "localhost"),
        NV("content-type", "application/grpc"),
        NV("user-agent", "profgate-load"),
        NV("te", "trailers"),
        NV("grpc-encoding", "gzip"),
    };
    nghttp2_data_provider provider = {.read_callback = read_body};
    nghttp2_submit_request(c->h2, NULL, headers, run.gzip > 0 ? 8 : 7, &provider, NULL);
}

static void start_h2(struct connection *c)
{
    nghttp2_session_callbacks *callbacks;
    nghttp2_session_callbacks_new(&callbacks);
    nghttp2_session_callbacks_set_on_header_callback(callbacks, on_header);
    nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, on_stream_close);
    nghttp2_session_client_new(&c->h2, callbacks, c);
    nghttp2_session_callbacks_del(callbacks);
    nghttp2_submit_settings(c->h2, 0, NULL, 0);
}

/* ---- HTTP/1.1 ------------------------------------------------------------------------------ */

static void begin_http(struct connection *c)
{
    c->head_n = (size_t)snprintf(c->head, sizeof c->head,
                                 "POST /v1development/profiles HTTP/1.1\r\nHost: localhost\r\n"
                                 "Content-Type: application/x-protobuf\r\n%sContent-Length: %zu\r\n\r\n",
                                 run.gzip > 0 ? "Content-Encoding: gzip\r\n" : "", c->body->n);
    c->head_sent = 0;
    c->response_n = 0;
}

/* Whether the response is complete; the servers we measure send Content-Length. */
static bool http_complete(struct connection *c)
{
    c->response[c->response_n] = 0;
    char *end = strstr(c->response, "\r\n\r\n");
    if (!end)
        return false;
    char *length = strcasestr(c->response, "content-length:");
    size_t body = length && length < end ? strtoul(length + 15, NULL, 10) : 0;
    if (c->response_n < (size_t)(end + 4 - c->response) + body)
        return false;
    c->ok = strncmp(c->response, "HTTP/1.1 200", 12) == 0;
    return true;
}

/* ---- both ---------------------------------------------------------------------------------- */

static void begin(struct connection *c)
{
    uint64_t due = next_due(), now = now_ns();
    if (c->over || run.begun == run.n_requests || due > now)
        return;
    c->body = &run.bodies[run.begun++ % run.n_bodies];
    c->sent = 0;
    c->ok = false;
    c->busy = true;
    c->started_ns = run.rate > 0 ? due : now;
    if (run.grpc)
        begin_grpc(c);
    else
        begin_http(c);
}

/* Sends some bytes; false when the socket takes no more now, or ever. */
static bool put(struct connection *c, const void *p, size_t n, size_t *at)
{
    while (*at < n) {
        ssize_t sent = send(c->fd, (const uint8_t *)p + *at, n - *at, MSG_NOSIGNAL);
        if (sent < 0 && errno == EAGAIN)
            return false;
        if (sent < 0 && run.until_closed)
            return false; /* pull says how it ended, after what there is to read */
        if (sent < 0)
            die("send");
        *at += (size_t)sent;
    }
    return true;
}

static bool push(struct connection *c)
{
    static uint8_t pending[CONNECTIONS_MAX][1 << 17];
    static size_t pending_n[CONNECTIONS_MAX], pending_at[CONNECTIONS_MAX];
    if (!run.grpc)
        return !c->busy ||
               (put(c, c->head, c->head_n, &c->head_sent) && put(c, c->body->data, c->body->n, &c->sent));

    uint32_t i = (uint32_t)c->fd;
    for (;;) {
        if (!put(c, pending[i], pending_n[i], &pending_at[i]))
            return false;
        pending_n[i] = pending_at[i] = 0;
        const uint8_t *out;
        ssize_t n;
        while (pending_n[i] < sizeof pending[i] / 2 && (n = nghttp2_session_mem_send(c->h2, &out)) > 0) {
            memcpy(pending[i] + pending_n[i], out, (size_t)n);
            pending_n[i] += (size_t)n;
        }
        if (pending_n[i] == 0)
            return true;
    }
}

static void pull(struct connection *c)
{
    uint8_t in[65536];
    for (;;) {
        ssize_t n = recv(c->fd, in, sizeof in, 0);
        if (n < 0 && errno == EAGAIN)
            return;
        if (n <= 0) {
            end(c, n == 0 ? "the server closed a connection" : "recv");
            return;
        }
        if (run.grpc) {
            if (nghttp2_session_mem_recv(c->h2, in, (size_t)n) < 0)
                die("not HTTP/2");
            continue;
        }
        if (c->response_n + (size_t)n >= sizeof c->response)
            die("a response too long");
        memcpy(c->response + c->response_n, in, (size_t)n);
        c->response_n += (size_t)n;
        if (http_complete(c)) {
            finish(c);
            return;
        }
    }
}

static void dial(struct connection *c)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)run.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    c->fd = socket(AF_INET, SOCK_STREAM, 0);
    int on = 1;
    setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (c->fd < 0 || c->fd >= CONNECTIONS_MAX || connect(c->fd, (struct sockaddr *)&to, sizeof to) < 0)
        die("connect");
    fcntl(c->fd, F_SETFL, O_NONBLOCK);
    if (run.grpc)
        start_h2(c);
}

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

static void parse_arguments(int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--protocol") == 0)
            run.grpc = strcmp(value, "grpc") == 0;
        else if (strcmp(argv[i], "--port") == 0)
            run.port = atoi(value);
        else if (strcmp(argv[i], "--connections") == 0)
            run.n_connections = (uint32_t)atoi(value);
        else if (strcmp(argv[i], "--requests") == 0)
            run.n_requests = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--gzip") == 0)
            run.gzip = atoi(value);
        else if (strcmp(argv[i], "--rate") == 0)
            run.rate = atof(value);
        else if (strcmp(argv[i], "--until-closed") == 0)
            run.until_closed = atoi(value) != 0;
        else
            break;
    }
    run.n_bodies = (uint32_t)(argc - i);
    if (run.n_bodies == 0 || run.port == 0 || run.n_connections == 0 ||
        run.n_connections > CONNECTIONS_MAX / 2) {
        fprintf(stderr,
                "usage: load --protocol grpc|http --port N [--connections N] [--requests N] [--gzip LEVEL]\n"
                "            [--rate R] [--until-closed 1] FILE...\n");
        exit(2);
    }
    run.bodies = calloc(run.n_bodies, sizeof *run.bodies);
    run.latency_us = calloc(run.n_requests + 1, sizeof *run.latency_us);
    if (!run.bodies || !run.latency_us)
        die("memory");
    for (uint32_t b = 0; b < run.n_bodies; b++)
        run.bodies[b] = load_body(argv[i + (int)b]);
}

/* Moves one connection on as far as its socket allows, and asks epoll for what it waits for. */
static void turn(int epoll, struct connection *c, bool readable)
{
    if (readable)
        pull(c);
    if (c->over)
        return;
    bool drained = push(c);
    struct epoll_event event = {.events = EPOLLIN | (drained ? 0 : EPOLLOUT), .data.ptr = c};
    epoll_ctl(epoll, EPOLL_CTL_MOD, c->fd, &event);
}

static uint32_t percentile(double share)
{
    if (run.done == 0)
        return 0;
    return run.latency_us[(uint64_t)((double)(run.done - 1) * share)];
}

static void report(uint64_t ns)
{
    qsort(run.latency_us, run.done, sizeof *run.latency_us, by_value);
    size_t bytes = 0;
    for (uint32_t b = 0; b < run.n_bodies; b++)
        bytes += run.bodies[b].n;
    printf("{\"requests\": %llu, \"errors\": %llu, \"seconds\": %.6f, \"p50_us\": %u, \"p99_us\": %u, "
           "\"p999_us\": %u, \"max_us\": %u, \"mean_body_bytes\": %zu, \"acknowledged\": [",
           (unsigned long long)run.done, (unsigned long long)run.errors, (double)ns / 1e9, percentile(0.5),
           percentile(0.99), percentile(0.999), percentile(1), bytes / run.n_bodies);
    for (uint32_t b = 0; b < run.n_bodies; b++)
        printf("%s%llu", b ? ", " : "", (unsigned long long)run.bodies[b].acknowledged);
    printf("]}\n");
}

/* Requests that fell due, on connections that have nothing to do, in turn. */
static void begin_due(int epoll, struct connection *all)
{
    static uint32_t next;
    if (run.rate == 0)
        return;
    for (uint32_t tried = 0; tried < run.n_connections && next_due() <= now_ns(); tried++) {
        struct connection *c = &all[next++ % run.n_connections];
        if (c->busy || c->over)
            continue;
        begin(c);
        turn(epoll, c, false);
    }
}

/* How long to wait for the sockets: until the next request falls due, or until nothing will come any more. */
static struct timespec patience(void)
{
    uint64_t due = next_due(), now = now_ns();
    bool all_busy = run.begun - run.done >= run.n_connections - run.n_over;
    if (run.rate == 0 || run.begun == run.n_requests || all_busy)
        return (struct timespec){.tv_sec = STALL_MS / 1000};
    if (due <= now)
        return (struct timespec){0};
    uint64_t ns = due - now < 900000000u ? due - now : 900000000u;
    return (struct timespec){.tv_nsec = (long)ns};
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    struct connection *all = calloc(run.n_connections, sizeof *all);
    int epoll = epoll_create1(0);
    if (!all || epoll < 0)
        die("memory");
    for (uint32_t i = 0; i < run.n_connections; i++) {
        dial(&all[i]);
        struct epoll_event event = {.events = EPOLLIN, .data.ptr = &all[i]};
        epoll_ctl(epoll, EPOLL_CTL_ADD, all[i].fd, &event);
    }

    run.start_ns = now_ns();
    for (uint32_t i = 0; i < run.n_connections; i++) {
        begin(&all[i]);
        turn(epoll, &all[i], false);
    }
    while (run.done < run.n_requests && run.n_over < run.n_connections) {
        struct epoll_event ready[64];
        struct timespec wait = patience();
        int n = epoll_pwait2(epoll, ready, 64, &wait, NULL);
        if (n == 0 && wait.tv_sec > 0) {
            errno = ETIMEDOUT;
            die("no answer");
        }
        for (int i = 0; i < n; i++)
            turn(epoll, ready[i].data.ptr, ready[i].events & (EPOLLIN | EPOLLHUP | EPOLLERR));
        begin_due(epoll, all);
    }
    report(now_ns() - run.start_ns);
    free(all);
    close(epoll);
    return run.errors > 0;
}
