/* SPDX-License-Identifier: Apache-2.0 */
/* A worker's connections, on a loop of the test's own. */
#include "gateway/listen/connections.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/io/listener.h"
#include "tests/lib/unit.h"

#define PATIENCE_NS unit_patience(10 * (uint64_t)NSEC_PER_SEC)

static struct io_loop *loop;
static struct io_listener *listener;
static struct connections all;
static struct certificates certificates;
static atomic_uint of_all;

static void on_head(void *context, struct http_exchange *x)
{
    http_reply(x, &(struct http_reply){.status = 200, .body = BYTES_LIT("ok")});
}

static void on_body(void *context, struct http_exchange *x, struct bytes piece) {}

static void on_rest(void *context, struct http_exchange *x) {}

static void is_empty(void *user) {}

static void on_accept(void *user, struct io_channel *channel)
{
    connections_accept(&all, channel, &(struct connection_origin){.certificates = &certificates});
}

static void start(void)
{
    static const struct http_handler handler = {on_head, on_body, on_rest, on_rest, NULL};
    static const struct listen_factory factory = {.handler = &handler};
    static const struct http_server_limits limits = HTTP_SERVER_LIMITS_DEFAULT;
    static struct balance_told told;
    struct error e = {""};
    certificates_init(&certificates);
    loop = unit_made(io_loop_new());
    all = (struct connections){.host = {.loop = loop,
                                        .factory = &factory,
                                        .http = &limits,
                                        .patience_ns = limits.body_ns,
                                        .balance = {.all = &told, .n = 1}},
                               .of_all = &of_all,
                               .of_all_max = 10,
                               .is_empty = is_empty};
    ck_assert_int_eq(connections_init(&all), 0);
    ck_assert_msg(io_listener_new(&listener, loop, "127.0.0.1:0", IO_PORT_ALONE, &e) == 0, "%s", e.text);
    ck_assert_msg(io_listener_start(listener, on_accept, NULL, &e) == 0, "%s", e.text);
}

static void stop(void)
{
    io_listener_free(listener);
    connections_close(&all);
    io_loop_run_once(loop, 0);
    connections_release(&all);
    loop = io_loop_free(loop);
    certificates_release(&certificates);
}

static int dial(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET,
                            .sin_port = htons(io_listener_port(listener)),
                            .sin_addr = {htonl(INADDR_LOOPBACK)}};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&a, sizeof a), 0);
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

/* Until the other side has said all that it will. */
static void hear_all(int fd)
{
    char text[1024];
    const uint64_t until = clock_monotonic() + PATIENCE_NS;
    ssize_t n;
    while ((n = read(fd, text, sizeof text)) != 0) {
        ck_assert(n > 0 || errno == EAGAIN);
        ck_assert_uint_lt(clock_monotonic(), until);
        io_loop_run_once(loop, NSEC_PER_MSEC);
    }
}

UNIT(what_comes_after_the_end_is_on_its_address)
{
    static const char request[] = "GET / HTTP/1.1\r\nhost: h\r\nconnection: close\r\n\r\n";
    static const char more[4096];
    start();
    int fd = dial();
    ck_assert_int_eq(write(fd, request, sizeof request - 1), sizeof request - 1);
    hear_all(fd);
    struct usage *used = &all.host.turns.usage[turns_address(turns_host("127.0.0.1:1"))];
    used->debt = 0;
    ck_assert_int_eq(write(fd, more, sizeof more), sizeof more);
    close(fd);
    for (const uint64_t until = clock_monotonic() + PATIENCE_NS; all.n > 0;) {
        ck_assert_uint_lt(clock_monotonic(), until);
        io_loop_run_once(loop, NSEC_PER_MSEC);
    }
    ck_assert_uint_gt(used->debt, 0);
    stop();
}
