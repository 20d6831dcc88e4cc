/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/io/channel.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include <uv.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/io/connector.h"
#include "proto/io/idle.h"
#include "proto/io/listener.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "tests/lib/unit.h"

#define PATIENCE unit_patience(5 * (uint64_t)NSEC_PER_SEC)

struct end {
    struct io_channel *c;
    struct buffer in;
    int n_eof, n_drain, n_error, n_close, error;
    bool echo;
};

static void on_read(void *user, struct bytes in)
{
    struct end *e = user;
    ck_assert_uint_gt(in.n, 0);
    if (e->echo)
        ck_assert_int_eq(io_channel_write(e->c, in), 0);
    ck_assert_int_eq(buffer_add_bytes(&e->in, in), 0);
}

static void on_eof(void *user)
{
    ((struct end *)user)->n_eof++;
}

static void on_drain(void *user)
{
    ((struct end *)user)->n_drain++;
}

static void on_error(void *user, int error)
{
    struct end *e = user;
    e->n_error++;
    e->error = error;
}

static void on_close(void *user)
{
    ((struct end *)user)->n_close++;
}

static const struct io_channel_events events = {on_read, on_eof, on_drain, on_error, on_close};

struct world {
    struct io_loop *loop;
    struct io_listener *listener;
    struct end a, b; /* the connector's, the listener's */
    int n_connected, error;
    char message[256];
};

static void on_accept(void *user, struct io_channel *c)
{
    struct world *w = user;
    w->b.c = c;
    io_channel_start(c, &events, &w->b);
}

static void on_connected(void *user, struct io_channel *c, int error, const char *message)
{
    struct world *w = user;
    w->n_connected++;
    w->error = error;
    snprintf(w->message, sizeof w->message, "%s", message);
    w->a.c = c;
    if (c)
        io_channel_start(c, &events, &w->a);
}

/* Runs the loop until a condition holds. */
#define UNTIL(loop, condition) unit_until(condition, io_loop_run_once(loop, NSEC_PER_SEC / 10))

static void world_open(struct world *w, const char *address, const char *host)
{
    struct error e = {""};
    w->loop = unit_made(io_loop_new());
    ck_assert_msg(io_listener_new(&w->listener, w->loop, address, IO_PORT_ALONE, &e) == 0, "%s", e.text);
    ck_assert_int_eq(io_listener_start(w->listener, on_accept, w, &e), 0);
    ck_assert_ptr_nonnull(
        io_connect(w->loop, host, io_listener_port(w->listener), PATIENCE, on_connected, w));
    ck_assert_int_eq(w->n_connected, 0);
    UNTIL(w->loop, w->n_connected && w->b.c);
    ck_assert_msg(w->a.c, "%s", w->message);
}

static void world_close(struct world *w)
{
    io_listener_free(w->listener);
    io_loop_free(w->loop);
    buffer_release(&w->a.in);
    buffer_release(&w->b.in);
}

static void fill(struct buffer *b, size_t n)
{
    uint8_t *p = unit_made(buffer_cursor(b, n));
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)(i * 7 + i / 1000);
    b->n = n;
}

UNIT(bytes_arrive_as_they_were_sent_and_come_back)
{
    const char *places[][2] = {
        {"127.0.0.1:0", "127.0.0.1"}, {"localhost:0", "localhost"}, {":0", "127.0.0.1"}};
    for (int i = 0; i < 3; i++) {
        cleanup(world_close) struct world w = {.b = {.echo = true}};
        cleanup(buffer_release) struct buffer big = BUFFER_INIT(0);
        world_open(&w, places[i][0], places[i][1]);
        fill(&big, 3 << 20);
        ck_assert_int_eq(io_channel_write(w.a.c, buffer_bytes(&big)), 0);
        UNTIL(w.loop, w.a.in.n == big.n);
        ck_assert(bytes_eq(buffer_bytes(&w.a.in), buffer_bytes(&big)));
        ck_assert_uint_eq(io_channel_pending(w.a.c), 0);
        ck_assert_ptr_nonnull(strchr(io_channel_peer(w.b.c), ':'));
        io_channel_close(w.a.c);
        UNTIL(w.loop, w.b.n_eof == 1);
        io_channel_close(w.b.c);
        UNTIL(w.loop, w.a.n_close == 1 && w.b.n_close == 1);
    }
}

UNIT(parts_arrive_in_order_also_what_has_to_wait)
{
    cleanup(world_close) struct world w = {0};
    cleanup(buffer_release) struct buffer big = BUFFER_INIT(0);
    struct bytes parts[IO_CHANNEL_PARTS_MAX];
    world_open(&w, "127.0.0.1:0", "127.0.0.1");
    fill(&big, 32 << 20); /* more than sockets hold: the kernel takes a part of a part */
    size_t at = 0;
    for (uint32_t i = 0; i < IO_CHANNEL_PARTS_MAX; i++) {
        const size_t n = i + 1 == IO_CHANNEL_PARTS_MAX ? big.n - at : i % 2 ? 1 << 20 : i; /* one is empty */
        parts[i] = bytes_of(big.p + at, n < big.n - at ? n : big.n - at);
        at += parts[i].n;
    }
    ck_assert_int_eq(io_channel_write_parts(w.a.c, parts, IO_CHANNEL_PARTS_MAX), 0);
    ck_assert_uint_gt(io_channel_pending(w.a.c), 0);
    UNTIL(w.loop, w.b.in.n == big.n);
    ck_assert(bytes_eq(buffer_bytes(&w.b.in), buffer_bytes(&big)));
    io_channel_close(w.a.c);
    io_channel_close(w.b.c);
    UNTIL(w.loop, w.a.n_close == 1 && w.b.n_close == 1);
}

UNIT(finish_delivers_everything_even_to_one_who_still_talks)
{
    cleanup(world_close) struct world w = {0};
    cleanup(buffer_release) struct buffer big = BUFFER_INIT(0);
    world_open(&w, "127.0.0.1:0", "127.0.0.1");
    fill(&big, 2 << 20);
    ck_assert_int_eq(
        io_channel_write(w.a.c, BYTES_LIT("something that is never read by the one who finishes")), 0);
    io_channel_write(w.b.c, buffer_bytes(&big));
    io_channel_finish(w.b.c);
    ck_assert_int_eq(w.b.n_close, 0);
    UNTIL(w.loop, w.a.n_eof == 1);
    ck_assert_int_eq(w.a.n_error, 0);
    ck_assert(bytes_eq(buffer_bytes(&w.a.in), buffer_bytes(&big)));
    io_channel_finish(w.a.c);
    UNTIL(w.loop, w.a.n_close == 1 && w.b.n_close == 1);
}

/* One turn of a sender that follows the rule: nothing more while something waits. */
static void send_more(struct world *w, struct bytes *rest)
{
    size_t n = rest->n < 200000 ? rest->n : 200000;
    if (n > 0 && io_channel_pending(w->a.c) == 0) {
        ck_assert_int_eq(io_channel_write(w->a.c, bytes_of(rest->p, n)), 0);
        rest->p += n;
        rest->n -= n;
    }
    io_loop_run_once(w->loop, NSEC_PER_MSEC);
}

UNIT(a_peer_that_does_not_read_is_not_read)
{
    cleanup(world_close) struct world w = {.b = {.echo = true}};
    cleanup(buffer_release) struct buffer big = BUFFER_INIT(0);
    world_open(&w, "127.0.0.1:0", "127.0.0.1");
    io_channel_read_pause(w.a.c, true);
    fill(&big, 32 << 20);
    struct bytes rest = buffer_bytes(&big);
    size_t before = SIZE_MAX;
    while (w.b.in.n != before) { /* until nothing moves */
        before = w.b.in.n;
        for (int i = 0; i < 30; i++)
            send_more(&w, &rest);
    }
    ck_assert_uint_gt(io_channel_pending(w.b.c), IO_CHANNEL_PENDING_MAX);
    ck_assert_uint_le(io_channel_pending(w.b.c), IO_CHANNEL_PENDING_MAX + (256 << 10));
    ck_assert_uint_lt(w.b.in.n, big.n);
    io_channel_read_pause(w.a.c, false);
    unit_until(w.a.in.n >= big.n, send_more(&w, &rest));
    ck_assert(bytes_eq(buffer_bytes(&w.a.in), buffer_bytes(&big)));
    UNTIL(w.loop, w.b.n_drain >= 1);
    io_channel_close(w.a.c);
    io_channel_close(w.b.c);
}

/* ---- how much is read in a turn ---- */

struct turns {
    uv_check_t check;      /* the end of a turn: timers and sockets were looked at */
    size_t now, most, all; /* bytes: in this turn of the loop, in any, altogether */
};

static void on_turn(uv_check_t *check)
{
    struct turns *t = check->data;
    t->most = t->now > t->most ? t->now : t->most;
    t->now = 0;
}

static void count_read(void *user, struct bytes in)
{
    struct turns *t = user;
    t->now += in.n;
    t->all += in.n;
}

static const struct io_channel_events counting = {
    .on_read = count_read, .on_eof = on_eof, .on_error = on_error};

struct counted {
    struct turns turns; /* first: the events' user is that */
    struct io_channel *c;
};

static void on_accept_counted(void *user, struct io_channel *c)
{
    struct counted *w = user;
    w->c = c;
    io_channel_start(c, &counting, &w->turns);
    io_channel_read_pause(c, true);
}

/* Sends without waiting for a reader, as much as the kernel keeps. */
static size_t send_ahead(int fd)
{
    static const uint8_t zeros[16 << 10];
    size_t sent = 0;
    for (ssize_t n; (n = send(fd, zeros, sizeof zeros, MSG_DONTWAIT)) > 0;)
        sent += (size_t)n;
    return sent;
}

UNIT(a_stream_that_is_always_ready_has_one_room_a_turn)
{
    struct counted w = {0};
    struct error e = {""};
    struct io_listener *listener = NULL;
    char address[UNIT_PATH_MAX + 8], folder[UNIT_PATH_MAX];
    unit_new_folder(folder);
    snprintf(address, sizeof address, "unix:%s/s", folder);
    struct io_loop *loop = unit_made(io_loop_new());
    ck_assert_msg(io_listener_new_unix(&listener, loop, address, IO_UNIX_MODE, &e) == 0, "%s", e.text);
    ck_assert_int_eq(io_listener_start(listener, on_accept_counted, &w, &e), 0);
    uv_check_init(io_loop_uv(loop), &w.turns.check);
    w.turns.check.data = &w.turns;
    uv_check_start(&w.turns.check, on_turn);

    struct sockaddr_un to = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", address + strlen("unix:"));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){1 << 20}, sizeof(int)); /* or as much as the system allows */
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    UNTIL(loop, w.c);
    size_t sent = send_ahead(fd);
    ck_assert_uint_gt(sent, IO_CHANNEL_TURN_BYTES + (16 << 10)); /* else one turn could have it all */
    io_channel_read_pause(w.c, false);
    UNTIL(loop, w.turns.all == sent);
    on_turn(&w.turns.check);
    ck_assert_uint_le(w.turns.most, IO_CHANNEL_TURN_BYTES);
    ck_assert_uint_gt(w.turns.most, IO_CHANNEL_TURN_BYTES / 2);

    close(fd);
    io_channel_close(w.c);
    uv_close((uv_handle_t *)&w.turns.check, NULL);
    io_listener_free(listener);
    io_loop_free(loop);
}

/* ---- how many are accepted in a turn ---- */

static void close_accepted(void *user, struct io_channel *c)
{
    struct turns *t = user;
    t->now++;
    t->all++;
    io_channel_close(c);
}

UNIT(a_flood_of_connections_is_taken_a_few_a_turn)
{
    struct turns t = {.now = 0};
    struct error e = {""};
    struct io_listener *listener = NULL;
    int fds[5 * IO_LISTENER_TURN_MAX];
    struct io_loop *loop = unit_made(io_loop_new());
    ck_assert_msg(io_listener_new(&listener, loop, "127.0.0.1:0", IO_PORT_ALONE, &e) == 0, "%s", e.text);
    ck_assert_msg(io_listener_start(listener, close_accepted, &t, &e) == 0, "%s", e.text);
    uv_check_init(io_loop_uv(loop), &t.check);
    t.check.data = &t;
    uv_check_start(&t.check, on_turn);
    struct sockaddr_in to = {.sin_family = AF_INET,
                             .sin_port = htons(io_listener_port(listener)),
                             .sin_addr = {htonl(INADDR_LOOPBACK)}};
    const size_t n = sizeof fds / sizeof *fds;
    for (size_t i = 0; i < n; i++) { /* the kernel answers for us */
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&to, sizeof to), 0);
    }
    UNTIL(loop, t.all == n);
    on_turn(&t.check);
    ck_assert_uint_le(t.most, IO_LISTENER_TURN_MAX);
    ck_assert_uint_gt(t.most, 1);

    /* One that waits for its turn when the listener goes is closed with it. */
    for (size_t i = 0; i < n; i++) {
        close(fds[i]);
        fds[i] = socket(AF_INET, SOCK_STREAM, 0);
        ck_assert_int_eq(connect(fds[i], (struct sockaddr *)&to, sizeof to), 0);
    }
    io_loop_run_once(loop, NSEC_PER_SEC);
    ck_assert_uint_lt(t.all, 2 * n);
    uv_close((uv_handle_t *)&t.check, NULL);
    io_listener_free(listener);
    io_loop_free(loop);
    for (size_t i = 0; i < n; i++)
        close(fds[i]);
}

/* ---- work for every turn ---- */

static void count_turn(void *user)
{
    struct turns *t = user;
    t->now++;
    t->all++;
}

UNIT(what_is_left_for_the_next_turn_comes_once_a_turn)
{
    struct turns t = {.now = 0};
    struct io_loop *loop = unit_made(io_loop_new());
    struct io_idle *idle = unit_made(io_idle_new(loop, count_turn, &t));
    uv_check_init(io_loop_uv(loop), &t.check);
    t.check.data = &t;
    uv_check_start(&t.check, on_turn);
    for (size_t i = 1; i <= 10; i++) {
        io_idle_start(idle); /* again and again: it stays one */
        io_loop_run_once(loop, 0);
        ck_assert_uint_eq(t.all, i);
    }
    ck_assert_uint_eq(t.most, 1);
    io_idle_stop(idle);
    io_loop_run_once(loop, 0);
    ck_assert_uint_eq(t.all, 10);
    io_idle_free(idle);
    uv_close((uv_handle_t *)&t.check, NULL);
    io_loop_free(loop);
}

UNIT(a_broken_connection_is_told_once)
{
    struct world w = {0};
    static uint8_t much[8 << 20];
    world_open(&w, "127.0.0.1:0", "127.0.0.1");
    io_channel_read_pause(w.b.c, true);
    io_channel_write(w.a.c, bytes_of(much, sizeof much));
    io_channel_close(w.b.c); /* with unread bytes: a reset */
    UNTIL(w.loop, w.a.n_error == 1);
    ck_assert(w.a.error == -ECONNRESET || w.a.error == -EPIPE);
    ck_assert_int_eq(io_channel_write(w.a.c, BYTES_LIT("x")), 0);
    for (int i = 0; i < 5; i++)
        io_loop_run_once(w.loop, NSEC_PER_MSEC);
    ck_assert_int_eq(w.a.n_error, 1);
    io_channel_close(w.a.c);
    world_close(&w);
    ck_assert_int_eq(w.a.n_close, 1);
}

UNIT(failing_to_connect_is_explained)
{
    cleanup(world_close) struct world w = {.loop = unit_made(io_loop_new())};
    ck_assert_ptr_nonnull(w.loop);
    struct error e;
    /* A port that was free a moment ago, and that nobody listens on: bound, not started. */
    ck_assert_int_eq(io_listener_new(&w.listener, w.loop, "127.0.0.1:0", IO_PORT_ALONE, &e), 0);
    io_connect(w.loop, "127.0.0.1", io_listener_port(w.listener), PATIENCE, on_connected, &w);
    UNTIL(w.loop, w.n_connected == 1);
    ck_assert_ptr_null(w.a.c);
    ck_assert_int_eq(w.error, -ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(w.message, "connecting to 127.0.0.1:"));
    io_connect(w.loop, "no-such-name.invalid", 1, PATIENCE, on_connected, &w);
    UNTIL(w.loop, w.n_connected == 2);
    ck_assert_int_eq(w.error, -EHOSTUNREACH);
    io_connect(w.loop, "unix:/no/such/socket", 0, PATIENCE, on_connected, &w);
    UNTIL(w.loop, w.n_connected == 3);
    ck_assert_int_eq(w.error, -ENOENT);
    io_connector_cancel(io_connect(w.loop, "127.0.0.1", 1, PATIENCE, on_connected, &w));
    for (int i = 0; i < 5; i++)
        io_loop_run_once(w.loop, NSEC_PER_MSEC);
    ck_assert_int_eq(w.n_connected, 3);
}

/* A chroot or a container may have no /etc/hosts, and DNS has no such name. */
UNIT(localhost_is_known_without_asking_anybody)
{
    cleanup(world_close) struct world w = {.loop = unit_made(io_loop_new())};
    struct error e;
    ck_assert_int_eq(io_listener_new(&w.listener, w.loop, "127.0.0.1:0", IO_PORT_ALONE, &e), 0);
    const uint16_t port = io_listener_port(w.listener);
    ck_assert_ptr_nonnull(io_connect(w.loop, "localhost", port, PATIENCE, on_connected, &w));
    ck_assert(!io_loop_is_resolving(w.loop) && w.n_connected == 0);
    UNTIL(w.loop, w.n_connected == 1);
    ck_assert_int_eq(w.error, -ECONNREFUSED);
    ck_assert_ptr_nonnull(strstr(w.message, "connecting to 127.0.0.1:"));
    ck_assert_int_eq(io_listener_start(w.listener, on_accept, &w, &e), 0);
    ck_assert_ptr_nonnull(io_connect(w.loop, "localhost", port, PATIENCE, on_connected, &w));
    UNTIL(w.loop, w.n_connected == 2 && w.b.c);
    ck_assert_msg(w.a.c, "%s", w.message);
    io_channel_close(w.a.c);
    io_channel_close(w.b.c);
    UNTIL(w.loop, w.a.n_close == 1 && w.b.n_close == 1);
    io_connector_cancel(io_connect(w.loop, "localhost", port, PATIENCE, on_connected, &w));
    for (int i = 0; i < 5; i++)
        io_loop_run_once(w.loop, NSEC_PER_MSEC);
    ck_assert_int_eq(w.n_connected, 2);
}

UNIT(addresses_are_parsed_strictly)
{
    const struct {
        const char *address, *host;
        int port;
    } cases[] = {
        {"localhost:4317", "localhost", 4317},
        {"[::1]:0", "::1", 0},
        {":80", "", 80},
        {"*:65535", "", 65535},
        {"1.2.3.4:1", "1.2.3.4", 1},
        {"host", NULL, 0},
        {"host:", NULL, 0},
        {"host:65536", NULL, 0},
        {"::1:80", NULL, 0},
        {"host:8a", NULL, 0},
        {"[::1:80", NULL, 0},
        {"host:-1", NULL, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char host[32];
        uint16_t port;
        struct error e = {""};
        int r = io_address_parse(cases[i].address, host, sizeof host, &port, &e);
        ck_assert_msg((r == 0) == (cases[i].host != NULL), "%s", cases[i].address);
        if (r == 0) {
            ck_assert_str_eq(host, cases[i].host);
            ck_assert_int_eq(port, cases[i].port);
        } else {
            ck_assert_ptr_nonnull(strstr(e.text, cases[i].address));
        }
    }
}

UNIT(an_address_in_use_is_found_out)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct io_listener *first, *more, *second;
    struct error e = {""};
    char address[32];
    ck_assert_int_eq(io_listener_new(&first, loop, "127.0.0.1:0", IO_PORT_FIRST, &e), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", io_listener_port(first));
    ck_assert_int_eq(io_listener_start(first, on_accept, NULL, &e), 0);
    ck_assert_msg(io_listener_new(&more, loop, address, IO_PORT_MORE, &e) == 0, "%s", e.text);
    ck_assert_int_eq(io_listener_start(more, on_accept, NULL, &e), 0);
    ck_assert_int_eq(io_listener_new(&second, loop, address, IO_PORT_FIRST, &e), -EADDRINUSE);
    ck_assert_ptr_nonnull(strstr(e.text, "another process listens there"));
    ck_assert_int_eq(io_listener_new(&second, loop, "192.0.2.1:0", IO_PORT_ALONE, &e), -EADDRNOTAVAIL);
    io_listener_free(first);
    io_listener_free(more);
    io_loop_free(loop);
}

/* An IPv4 address in IPv6's clothes is that address, and in use where that is. */
UNIT(an_ipv4_address_written_as_ipv6)
{
    struct io_loop *loop = unit_made(io_loop_new());
    struct io_listener *mapped, *again;
    struct error e = {""};
    char address[32];
    ck_assert_msg(io_listener_new(&mapped, loop, "[::ffff:127.0.0.1]:0", IO_PORT_ALONE, &e) == 0, "%s",
                  e.text);
    ck_assert_int_eq(io_listener_start(mapped, on_accept, NULL, &e), 0);
    snprintf(address, sizeof address, "127.0.0.1:%u", io_listener_port(mapped));
    ck_assert_int_eq(io_listener_new(&again, loop, address, IO_PORT_ALONE, &e), -EADDRINUSE);
    io_listener_free(mapped);
    io_loop_free(loop);
}

struct count {
    struct io_loop *loop;
    int posted, fired;
    atomic_int sent;
    atomic_bool done;
    uint64_t at;
};

static void on_post(void *arg)
{
    ((struct count *)arg)->posted++;
}

static void on_fire(void *user)
{
    struct count *c = user;
    c->fired++;
    c->at = io_loop_now(c->loop);
}

static void *poster(void *arg)
{
    struct count *c = arg;
    for (int i = 0; i < 1000; i++)
        c->sent += io_loop_post(c->loop, on_post, c) == 0;
    c->done = true;
    return NULL;
}

UNIT(functions_posted_by_other_threads_run_on_the_loop)
{
    struct count c = {.loop = unit_made(io_loop_new())};
    ck_assert_ptr_nonnull(c.loop);
    pthread_t t;
    ck_assert_int_eq(pthread_create(&t, NULL, poster, &c), 0);
    UNTIL(c.loop, c.done && c.posted == c.sent);
    pthread_join(t, NULL);
    int sent = c.sent + (io_loop_post(c.loop, on_post, &c) == 0);
    io_loop_free(c.loop);
    ck_assert_int_eq(c.posted, sent);
    ck_assert_int_eq(sent, 1001);
}

struct again {
    struct io_loop *loop;
    struct io_post post;
    int runs, wanted;
};

static void on_again(void *arg)
{
    struct again *a = arg;
    if (++a->runs < a->wanted)
        io_loop_post_in(a->loop, &a->post);
}

UNIT(a_post_of_the_callers_own_runs_once_for_each_time_it_waited)
{
    struct again a = {.loop = unit_made(io_loop_new()), .wanted = 3}, other = {0};
    ck_assert_ptr_nonnull(a.loop);
    a.post = (struct io_post){.fn = on_again, .arg = &a};
    other = (struct again){.loop = a.loop, .wanted = 1, .post = {.fn = on_again, .arg = &other}};
    io_loop_post_in(a.loop, &a.post);
    io_loop_post_in(a.loop, &other.post);
    io_loop_post_in(a.loop, &a.post); /* it waits already */
    ck_assert_int_eq(a.runs, 0);
    UNTIL(a.loop, a.runs == 3);
    ck_assert_int_eq(other.runs, 1);
    io_loop_run_once(a.loop, NSEC_PER_MSEC);
    ck_assert_int_eq(a.runs, 3);
    io_loop_post_in(a.loop, &a.post); /* what waits is not lost when the loop goes */
    io_loop_free(a.loop);
    ck_assert_int_eq(a.runs, 4);
}

UNIT(a_timer_fires_once_and_not_early)
{
    struct count c = {.loop = unit_made(io_loop_new())};
    ck_assert_ptr_nonnull(c.loop);
    struct io_timer *t = unit_made(io_timer_new(c.loop, on_fire, &c));
    uint64_t at = io_loop_now(c.loop) + 30 * NSEC_PER_MSEC + 1;
    io_timer_set(t, at);
    UNTIL(c.loop, c.fired == 1);
    ck_assert_uint_ge(c.at, at);
    io_timer_set(t, at + NSEC_PER_SEC);
    io_timer_set(t, UINT64_MAX);
    io_loop_run_once(c.loop, NSEC_PER_MSEC);
    ck_assert_int_eq(c.fired, 1);
    io_timer_free(t);
    io_loop_free(c.loop);
}
