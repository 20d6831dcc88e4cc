/* SPDX-License-Identifier: Apache-2.0 */
/* An exporter while memory fails: each request that was pushed ends exactly once, acknowledged or told as
 * lost; the queue is empty then, and the next request goes its way. */
#include "proto/client/client.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>

#include "proto/grpc/status.h"
#include "tests/lib/sweep.h"
#include "tests/unit/proto/client/fake_server.h"

#define REQUESTS 3

/* ---- the server: a process of its own, with all the memory it wants ---- */

static void answer(struct fake_server *s, struct http_exchange *x, struct bytes body)
{
    if (s->requests % 4 == 2 && x->version == HTTP_VERSION_2)
        fake_grpc(x, "14", BYTES_LIT(""), NULL); /* UNAVAILABLE: to be repeated */
    else if (s->requests % 4 == 2)
        fake_http(x, 503, "text/plain", BYTES_LIT(""));
    else
        fake_answer_ok(s, x, body);
}

static pid_t server_pid;
static char server_address[64];

static void server_stop(void)
{
    kill(server_pid, SIGKILL);
    waitpid(server_pid, NULL, 0);
}

static _Noreturn void serve(int tell)
{
    struct fake_server s = {.answer = answer};
    struct io_loop *loop = unit_made(io_loop_new());
    fake_start(&s, loop, 0);
    ck_assert_int_eq(write(tell, s.address, sizeof s.address), sizeof s.address);
    for (;;)
        io_loop_run_once(loop, NSEC_PER_SEC);
}

static void server_start(void)
{
    int ends[2];
    ck_assert_int_eq(pipe(ends), 0);
    fflush(stdout);
    server_pid = fork();
    ck_assert_int_ge(server_pid, 0);
    if (server_pid == 0)
        serve(ends[1]);
    ck_assert_int_eq(read(ends[0], server_address, sizeof server_address), sizeof server_address);
    close(ends[0]);
    close(ends[1]);
}

/* ---- the scenario ---- */

struct world {
    struct io_loop *loop;
    struct client *client;
    struct client_options options;
    uint64_t ended; /* requests */
    bool done;
};

static void on_event(void *user, const struct client_event *event)
{
    struct world *w = user;
    bool ends =
        event->kind == CLIENT_SENT || event->kind == CLIENT_PARTIAL || client_event_is_loss(event->kind);
    w->ended += ends ? event->requests : 0;
    if (client_event_is_loss(event->kind))
        ck_assert_msg(sweep_failures() > 0, "lost without a reason: %s", event->message);
}

static void on_done(void *user)
{
    ((struct world *)user)->done = true;
}

/* Whether it came. Waits for what must come, whatever fails. */
#define UNTIL(w, condition)                                                               \
    for (uint64_t until_ = clock_monotonic() + 10 * (uint64_t)NSEC_PER_SEC; !(condition); \
         io_loop_run_once((w)->loop, 50 * NSEC_PER_MSEC))                                 \
    ck_assert_msg(clock_monotonic() < until_, "never: " #condition " (%u failed)", sweep_failures())

static void push_all(struct world *w)
{
    uint64_t pushed = 0;
    for (int i = 0; i < REQUESTS; i++) {
        uint8_t *text = (uint8_t *)strdup("hello, this is a request");
        struct client_body *body = client_body_new(text, strlen((char *)text));
        if (!body) /* the text is the body's in any case */
            continue;
        if (send_queue_reserve(client_queue(w->client), 100)) {
            send_queue_offer(client_queue(w->client), body, 100, 1);
            pushed++;
        }
        client_body_unref(body);
        UNTIL(w, w->ended >= pushed);
        ck_assert_uint_eq(w->ended, pushed);
        ck_assert_uint_eq(send_queue_bytes(client_queue(w->client)), 0);
    }
    sweep_over();
    struct client_body *last = unit_made(client_body_new((uint8_t *)strdup("last"), 4));
    ck_assert(send_queue_reserve(client_queue(w->client), 4));
    send_queue_offer(client_queue(w->client), last, 4, 1);
    client_body_unref(last);
    UNTIL(w, w->ended == pushed + 1);
    client_shutdown(w->client, clock_monotonic() + NSEC_PER_SEC, on_done, w);
    UNTIL(w, w->done);
}

static void export_some(enum otlp_protocol protocol, enum client_compression compression)
{
    struct world w = {.options = CLIENT_DEFAULT};
    struct error e = {""};
    w.options.endpoint = server_address;
    w.options.protocol = protocol;
    w.options.compression = compression;
    w.options.timeout_ns = 500 * NSEC_PER_MSEC;
    w.options.retry.initial_interval_ns = NSEC_PER_MSEC;
    w.options.retry.max_interval_ns = 2 * NSEC_PER_MSEC;
    w.loop = io_loop_new();
    if (!w.loop)
        return;
    int r = client_new(&w.client, w.loop, &w.options, on_event, &w, &e);
    ck_assert_msg(r == 0 || (r == -ENOMEM && sweep_failures() > 0), "%d: %s", r, e.text);
    if (r == 0)
        push_all(&w);
    client_free(r == 0 ? w.client : NULL);
    io_loop_free(w.loop);
}

static void grpc_gzip(void)
{
    export_some(OTLP_GRPC, CLIENT_COMPRESS_GZIP);
}

/* Bodies that were made here: gzip. */
static void http_as_received(void)
{
    export_some(OTLP_HTTP, CLIENT_COMPRESS_AS_RECEIVED);
}

static void http_plain(void)
{
    export_some(OTLP_HTTP, CLIENT_COMPRESS_NONE);
}

static void swept(const char *name, void (*scenario)(void))
{
    server_start();
    unit_sweep(name, scenario, SWEEP_ONCE | SWEEP_BURST); /* for good: it would try for five minutes */
    server_stop();
}

UNIT_CASE(each_request_ends_once_over_grpc, true)
{
    swept("grpc", grpc_gzip);
}

UNIT_CASE(each_request_ends_once_over_http, true)
{
    swept("http", http_plain);
    swept("http", http_as_received);
}
