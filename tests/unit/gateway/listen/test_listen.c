/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "gateway/listen/deadlines.h"
#include "proto/base/clock.h"
#include "proto/base/rng.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/http/frames.h"

#define PATIENCE_MS 10000 /* a test that waits longer has failed */

/* A worker that answers every request with "ok"; requests for /later when the test says so. */
struct app {
    struct http_exchange *later;
    atomic_int starts, stops, requests, tasks, slow;
    atomic_bool sent, heard;
    int fail_at; /* worker_start of this index fails; -1: none */
};

static void *app_start(void *context, uint32_t index, struct io_loop *loop, struct error *e)
{
    struct app *a = context;
    (void)loop;
    if ((int)index == a->fail_at) {
        error_set(e, -EINVAL, "worker %u will not", index);
        return NULL;
    }
    a->starts++;
    return a;
}

static void app_stop(void *context, uint32_t index, void *worker)
{
    struct app *a = context;
    (void)index;
    ck_assert_ptr_eq(worker, a);
    a->stops++;
}

static void on_head(void *context, struct http_exchange *x)
{
    struct app *a = context;
    a->requests++;
    if (bytes_is(x->path, "/later"))
        a->later = x;
}

static void on_body(void *context, struct http_exchange *x, struct bytes piece)
{
    (void)context, (void)x, (void)piece;
}

static void await(const atomic_bool *what)
{
    uint64_t until = clock_monotonic() + unit_patience(PATIENCE_MS * (uint64_t)NSEC_PER_MSEC);
    while (!*what && clock_monotonic() < until)
        poll(NULL, 0, 1);
}

/* Requests for /slow take 2 ms, but the third, which takes until the test has heard the answer to another. */
static void on_end(void *context, struct http_exchange *x)
{
    struct app *a = context;
    if (bytes_is(x->path, "/slow") && ++a->slow == 3)
        await(&a->heard);
    else if (bytes_is(x->path, "/slow"))
        poll(NULL, 0, 2);
    if (a->later != x)
        http_reply(x, &(struct http_reply){.status = 200, .body = BYTES_LIT("ok")});
}

static void on_close(void *context, struct http_exchange *x)
{
    struct app *a = context;
    if (a->later == x)
        a->later = NULL;
}

static void answer_later(void *arg, void *worker)
{
    struct app *a = worker;
    (void)arg;
    if (a->later)
        http_reply(a->later, &(struct http_reply){.status = 200, .body = BYTES_LIT("late")});
}

static const struct http_handler handler = {on_head, on_body, on_end, on_close};

static struct listen *start(struct app *a, const char *address, uint32_t workers, uint32_t connections_max)
{
    struct listen_address at = {.address = address};
    struct listen_options o = {.addresses = &at,
                               .n_addresses = 1,
                               .workers = workers,
                               .connections_max = connections_max,
                               .http = HTTP_SERVER_LIMITS_DEFAULT};
    struct listen_factory f = {
        .handler = &handler, .worker_start = app_start, .worker_stop = app_stop, .context = a};
    struct listen *l = NULL;
    struct error e = {""};
    a->fail_at = -1;
    ck_assert_msg(listen_new(&l, &o, &f, &e) == 0, "%s", e.text);
    ck_assert_msg(listen_start(l, &e) == 0, "%s", e.text);
    ck_assert_uint_gt(listen_port(l, 0), 0);
    return l;
}

static int dial(uint16_t port)
{
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    return fd;
}

static void tell(int fd, const char *text)
{
    ck_assert_int_eq(send(fd, text, strlen(text), MSG_NOSIGNAL), (ssize_t)strlen(text));
}

/* Reads until the text holds `word`, or the end if that is NULL. False: the connection ended without it. */
static bool hear(int fd, const char *word)
{
    static char text[1 << 16];
    size_t n = 0;
    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        ck_assert_int_eq(
            poll(&p, 1, (int)(unit_patience(PATIENCE_MS * (uint64_t)NSEC_PER_MSEC) / NSEC_PER_MSEC)), 1);
        ssize_t r = recv(fd, text + n, sizeof text - 1 - n, 0);
        if (r <= 0)
            return !word;
        n += (size_t)r;
        text[n] = '\0';
        if (word && strstr(text, word))
            return true;
    }
}

/* A connection that found no memory is closed, and its request never comes. */
static void await_requests(struct app *a, int n)
{
    unit_until(a->requests >= n, poll(NULL, 0, 1));
}

#define GET(path) "GET " path " HTTP/1.1\r\nhost: h\r\n\r\n"

UNIT(many_connections_on_several_workers_are_served)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 3, 1000);
    int fds[60];
    for (int i = 0; i < 60; i++)
        fds[i] = dial(listen_port(l, 0));
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < 60; i++)
            tell(fds[i], GET("/"));
        for (int i = 0; i < 60; i++)
            ck_assert(hear(fds[i], "\r\n\r\nok"));
    }
    ck_assert_uint_eq(listen_connections(l), 60);
    for (int i = 0; i < 60; i++)
        close(fds[i]);
    listen_free(l);
    ck_assert_int_eq(a.requests, 180);
    ck_assert_int_eq(a.starts, 3);
    ck_assert_int_eq(a.stops, 3);
}

UNIT(connections_over_the_limit_are_closed)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 1, 2);
    int one = dial(listen_port(l, 0)), two = dial(listen_port(l, 0));
    tell(one, GET("/"));
    tell(two, GET("/"));
    ck_assert(hear(one, "ok"));
    ck_assert(hear(two, "ok"));
    int three = dial(listen_port(l, 0));
    ck_assert(hear(three, NULL));
    close(one);
    int four = -1;
    for (bool served = false; !served;) { /* the server learns of the close in its own time */
        four = dial(listen_port(l, 0));
        tell(four, GET("/"));
        served = hear(four, "ok");
        if (!served)
            close(four);
    }
    close(two);
    close(three);
    close(four);
    listen_free(l);
}

UNIT(shutdown_drains_what_is_under_way)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 1, 10);
    int busy = dial(listen_port(l, 0)), idle = dial(listen_port(l, 0));
    tell(idle, GET("/"));
    ck_assert(hear(idle, "ok"));
    tell(busy, GET("/later"));
    await_requests(&a, 2);
    listen_shutdown(l, clock_monotonic() + unit_patience(60 * (uint64_t)NSEC_PER_SEC));
    ck_assert(hear(idle, NULL)); /* which is not asked to wait for the other */
    ck_assert_int_eq(listen_run_on_worker(l, 0, answer_later, NULL), 0);
    ck_assert(hear(busy, "connection: close"));
    close(busy);
    close(idle);
    uint64_t before = clock_monotonic();
    listen_free(l);
    ck_assert_uint_lt(clock_monotonic() - before, 10 * (uint64_t)NSEC_PER_SEC);
    ck_assert_int_eq(a.stops, 1);
}

static void hold(void *until, void *worker)
{
    ((struct app *)worker)->tasks++;
    await(until);
}

/* What the kernel had of it already was sent to somebody who was there: on a connection that is kept, and on
 * one that nobody has accepted yet. */
UNIT(shutdown_answers_what_was_sent_before_it)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 1, 100);
    int kept = dial(listen_port(l, 0)), fresh[40];
    tell(kept, GET("/"));
    ck_assert(hear(kept, "ok"));
    ck_assert_int_eq(listen_run_on_worker(l, 0, hold, &a.heard), 0);
    unit_until(a.tasks == 1, poll(NULL, 0, 1));
    ck_assert_int_eq(listen_run_on_worker(l, 0, hold, &a.sent), 0);
    listen_shutdown(l, clock_monotonic() +
                           unit_patience(60 * (uint64_t)NSEC_PER_SEC)); /* next, with no look at sockets */
    a.heard = true;
    unit_until(a.tasks == 2, poll(NULL, 0, 1));
    tell(kept, GET("/"));
    for (size_t i = 0; i < ARRAY_LEN(fresh); i++) {
        fresh[i] = dial(listen_port(l, 0));
        tell(fresh[i], GET("/"));
    }
    a.sent = true;
    ck_assert(hear(kept, "connection: close"));
    close(kept);
    for (size_t i = 0; i < ARRAY_LEN(fresh); i++) {
        ck_assert(hear(fresh[i], "connection: close"));
        close(fresh[i]);
    }
    listen_free(l);
    ck_assert_int_eq(a.requests, 2 + (int)ARRAY_LEN(fresh));
}

UNIT(shutdown_closes_what_does_not_end_by_the_deadline)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 2, 10);
    int stuck = dial(listen_port(l, 0));
    tell(stuck, GET("/later"));
    await_requests(&a, 1);
    listen_shutdown(l, clock_monotonic() + NSEC_PER_SEC / 10);
    ck_assert(hear(stuck, NULL));
    close(stuck);
    listen_free(l);
    ck_assert_ptr_null(a.later);
}

static void count_task(void *arg, void *worker)
{
    struct app *a = worker;
    ck_assert_ptr_eq(arg, a);
    a->tasks++;
}

UNIT(tasks_run_on_their_worker_until_it_is_gone)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 2, 10);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(listen_run_on_worker(l, (uint32_t)i % 2, count_task, &a), 0);
    ck_assert_int_eq(listen_run_on_worker(l, 2, count_task, &a), -EINVAL);
    listen_shutdown(l, 0);
    int accepted = 100;
    while (listen_run_on_worker(l, 0, count_task, &a) == 0)
        accepted++;
    listen_free(l);
    ck_assert_int_eq(a.tasks, accepted);
}

static void await_sent(void *arg, void *worker)
{
    struct app *a = worker;
    (void)arg;
    await(&a->sent);
}

/* Answers of one turn of the loop go out together, but not when that would take long. */
UNIT(answers_do_not_wait_for_all_that_others_asked_for)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 1, 10);
    struct pollfd p[4];
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        p[i] = (struct pollfd){.fd = dial(listen_port(l, 0)), .events = POLLIN};
        tell(p[i].fd, GET("/"));
        ck_assert(hear(p[i].fd, "ok"));
    }
    ck_assert_int_eq(listen_run_on_worker(l, 0, await_sent, NULL), 0);
    for (size_t i = 0; i < ARRAY_LEN(p); i++)
        tell(p[i].fd, GET("/slow"));
    a.sent = true;
    int patience = (int)(unit_patience(PATIENCE_MS * (uint64_t)NSEC_PER_MSEC) / NSEC_PER_MSEC / 2);
    ck_assert_int_ge(poll(p, ARRAY_LEN(p), patience), 1);
    ck_assert_int_le(a.slow, 3);
    a.heard = true;
    for (size_t i = 0; i < ARRAY_LEN(p); i++) {
        ck_assert(hear(p[i].fd, "ok"));
        close(p[i].fd);
    }
    listen_free(l);
}

UNIT(an_address_in_use_is_said_in_words)
{
    for (uint32_t workers = 1; workers <= 2; workers++) {
        struct app a = {0}, b = {.fail_at = -1};
        struct listen *l = start(&a, "127.0.0.1:0", workers, 10), *second = NULL;
        char address[32];
        snprintf(address, sizeof address, "127.0.0.1:%u", listen_port(l, 0));
        struct listen_address at = {.address = address};
        struct listen_options o = {.addresses = &at,
                                   .n_addresses = 1,
                                   .workers = workers,
                                   .connections_max = 1,
                                   .http = HTTP_SERVER_LIMITS_DEFAULT};
        struct listen_factory f = {.handler = &handler, .worker_start = app_start, .context = &b};
        struct error e = {""};
        ck_assert_int_eq(listen_new(&second, &o, &f, &e), -EADDRINUSE);
        ck_assert_ptr_nonnull(strstr(e.text, address));
        ck_assert_ptr_nonnull(strstr(e.text, "another process listens there"));
        listen_free(l);
    }
}

UNIT(a_worker_that_cannot_start_stops_them_all)
{
    struct app a = {.fail_at = 1};
    struct listen_address at = {.address = "localhost:0"};
    struct listen_options o = {.addresses = &at,
                               .n_addresses = 1,
                               .workers = 3,
                               .connections_max = 10,
                               .http = HTTP_SERVER_LIMITS_DEFAULT};
    struct listen_factory f = {
        .handler = &handler, .worker_start = app_start, .worker_stop = app_stop, .context = &a};
    struct listen *l = NULL;
    struct error e = {""};
    ck_assert_int_eq(listen_new(&l, &o, &f, &e), 0);
    ck_assert_int_lt(listen_start(l, &e), 0);
    ck_assert_str_eq(e.text, "worker 1 will not");
    listen_free(l);
    ck_assert_int_eq(a.starts, 1);
    ck_assert_int_eq(a.stops, 1);
}

UNIT(bad_options_are_refused)
{
    struct app a = {0};
    struct listen_address at = {.address = "nonsense"};
    struct listen_options o = {.addresses = &at,
                               .n_addresses = 1,
                               .workers = 1,
                               .connections_max = 10,
                               .http = HTTP_SERVER_LIMITS_DEFAULT};
    struct listen_factory f = {.handler = &handler, .worker_start = app_start, .context = &a};
    struct listen *l = NULL;
    struct error e;
    ck_assert_int_eq(listen_new(&l, &o, &f, &e), -EINVAL);
    o.workers = 0;
    ck_assert_int_eq(listen_new(&l, &o, &f, &e), -EINVAL);
    o.workers = 1;
    o.n_addresses = 0;
    ck_assert_int_eq(listen_new(&l, &o, &f, &e), -EINVAL);
}

/* ---- work that is dealt out ---- */

#define DEALT      8
#define UNIT_OF_NS (100u * 1000)

/* Each worker works as long as the path says, and says which worker it is. */
struct dealt {
    struct dealt_worker {
        uint32_t index;
        atomic_ullong units;
    } workers[2];
};

static void *dealt_start(void *context, uint32_t index, struct io_loop *loop, struct error *e)
{
    struct dealt *d = context;
    (void)loop, (void)e;
    d->workers[index].index = index;
    return &d->workers[index];
}

static void dealt_head(void *context, struct http_exchange *x)
{
    (void)context, (void)x;
}

static void dealt_end(void *context, struct http_exchange *x)
{
    struct dealt_worker *w = context;
    uint32_t units = x->path.n > 1 ? (uint32_t)(x->path.p[1] - '0') : 0;
    for (uint64_t until = clock_monotonic() + units * UNIT_OF_NS; clock_monotonic() < until;)
        ;
    w->units += units;
    http_reply(x, &(struct http_reply){.status = 200,
                                       .body = w->index == 0 ? BYTES_LIT("worker0") : BYTES_LIT("worker1")});
}

static const struct http_handler dealt_handler = {dealt_head, on_body, dealt_end, dealt_head};

static uint32_t who_answers(int fd)
{
    tell(fd, GET("/0"));
    char text[1024] = "";
    for (size_t n = 0; !strstr(text, "worker0") && !strstr(text, "worker1");) {
        ssize_t r = recv(fd, text + n, sizeof text - 1 - n, 0);
        ck_assert_int_gt(r, 0);
        n += (size_t)r;
        text[n] = '\0';
    }
    return strstr(text, "worker1") != NULL;
}

/* As many connections of each worker as asked for, wherever the kernel puts them. */
static void dial_both(uint16_t port, const uint32_t want[2], int *fds)
{
    uint32_t got[2] = {0};
    for (int tries = 0; got[0] + got[1] < want[0] + want[1]; tries++) {
        ck_assert_int_lt(tries, 1000);
        int fd = dial(port);
        uint32_t at = who_answers(fd);
        if (got[at] < want[at])
            fds[at == 0 ? got[0]++ : want[0] + got[1]++] = fd;
        else
            close(fd);
    }
}

/* Requests on all connections at once, of so many units each, until the workers have worked evenly for a
 * while; the first connections are the first worker's. */
static void work_until_even(const uint32_t want[2], const char *units)
{
    struct dealt d = {0};
    struct listen_address at = {.address = "127.0.0.1:0"};
    struct listen_options o = {.addresses = &at,
                               .n_addresses = 1,
                               .workers = 2,
                               .connections_max = 2000,
                               .http = HTTP_SERVER_LIMITS_DEFAULT};
    struct listen_factory f = {.handler = &dealt_handler, .worker_start = dealt_start, .context = &d};
    struct listen *l = NULL;
    struct error e = {""};
    int fds[DEALT];
    ck_assert_int_eq(listen_new(&l, &o, &f, &e), 0);
    ck_assert_int_eq(listen_start(l, &e), 0);
    dial_both(listen_port(l, 0), want, fds);

    uint64_t until = clock_monotonic() + unit_patience(PATIENCE_MS * (uint64_t)NSEC_PER_MSEC);
    for (bool even = false; !even;) {
        unsigned long long before[2] = {d.workers[0].units, d.workers[1].units}, worked[2];
        for (int round = 0; round < 20; round++) {
            for (int i = 0; i < DEALT; i++) {
                char request[64];
                snprintf(request, sizeof request, GET("/%c"), units[i]);
                tell(fds[i], request);
            }
            for (int i = 0; i < DEALT; i++)
                ck_assert(hear(fds[i], "worker"));
        }
        for (int i = 0; i < 2; i++)
            worked[i] = d.workers[i].units - before[i];
        even = 10 * worked[0] >= 8 * worked[1] && 10 * worked[1] >= 8 * worked[0];
        ck_assert_msg(even || clock_monotonic() < until, "the workers did %llu and %llu", worked[0],
                      worked[1]);
    }
    for (int i = 0; i < DEALT; i++)
        close(fds[i]);
    listen_free(l);
}

UNIT(connections_that_are_unevenly_dealt_out_move)
{
    work_until_even((uint32_t[]){6, 2}, "55555555");
    work_until_even((uint32_t[]){1, 7}, "44444444");
}

UNIT(connections_of_very_different_loads_are_dealt_out_by_load)
{
    work_until_even((uint32_t[]){6, 2}, "84221111");
    work_until_even((uint32_t[]){4, 4}, "99991111");
}

/* How many requests are begun for who resets them all, until he is thrown out. */
static int requests_until_thrown_out(struct app *a, uint16_t port)
{
    struct buffer in = BUFFER_INIT(0);
    const int before = a->requests;
    preface(&in);
    for (uint32_t i = 0; i < 300; i++) {
        frame(&in, 1, 5, 2 * i + 1, POST_HEAD);
        frame(&in, 3, 0, 2 * i + 1, BYTES_LIT("\0\0\0\x8"));
    }
    int fd = dial(port);
    ck_assert_int_eq(send(fd, in.p, in.n, MSG_NOSIGNAL), (ssize_t)in.n);
    ck_assert(hear(fd, NULL));
    close(fd);
    buffer_release(&in);
    return a->requests - before;
}

UNIT(who_was_thrown_out_is_heard_warily)
{
    struct app a = {0};
    struct listen *l = start(&a, "127.0.0.1:0", 1, 8);
    ck_assert_int_gt(requests_until_thrown_out(&a, listen_port(l, 0)), 100);
    for (int i = 0; i < 2; i++) {
        const int n = requests_until_thrown_out(&a, listen_port(l, 0));
        ck_assert_msg(n > 0 && n <= 20, "%d", n);
    }
    listen_free(l);
}

UNIT(deadlines_come_in_order)
{
    cleanup(deadlines_release) struct deadlines h = {0};
    struct deadline d[500] = {0};
    struct rng rng;
    rng_seed(&rng, 7);
    for (int i = 0; i < 500; i++)
        ck_assert_int_eq(deadlines_add(&h, &d[i], rng_next(&rng) % 1000), 0);
    for (int i = 0; i < 500; i += 3)
        deadlines_set(&h, &d[i], rng_next(&rng) % 1000);
    for (int i = 0; i < 500; i += 5)
        deadlines_remove(&h, &d[i]);
    deadlines_remove(&h, &d[0]);
    uint64_t last = 0;
    int n = 0;
    for (struct deadline *first; (first = deadlines_first(&h)); n++) {
        ck_assert_uint_ge(first->at, last);
        last = first->at;
        deadlines_remove(&h, first);
    }
    ck_assert_int_eq(n, 400);
}
