/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/admin.h"
#include "gateway/admin/ready.h"
#include "gateway/admin/scrape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

/* The whole server over real sockets; client and server share this thread and its loop. */

static int metrics(void *context, const struct admin_metrics *wanted, struct buffer *out)
{
    return buffer_add_str(out, "metric 1\n");
}

static struct io_loop *loop;
static struct admin *admin;

static void start(void)
{
    static struct admin_scrape scrape = {metrics, NULL};
    static struct admin_ready ready;
    const struct admin_page pages[] = {admin_scrape_page(&scrape), admin_health_page(),
                                       admin_ready_page(&ready)};
    struct admin_options options = {"127.0.0.1:0", pages, 3};
    struct error e = {""};
    loop = io_loop_new();
    ck_assert_ptr_nonnull(loop);
    admin = unit_made(admin_new(&options, loop, &e));
    ck_assert_msg(admin != NULL, "%s", e.text);
    ck_assert_uint_gt(admin_port(admin), 0);
}

static void stop(void)
{
    admin = admin_free(admin);
    loop = io_loop_free(loop);
}

static int dial(void)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(admin_port(admin))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0); /* the backlog takes it */
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static void tell(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

#define PATIENCE_NS unit_patience(10000000000u) /* a hung server fails the test; a slow machine does not */

/* Runs the loop until what was read ends with `end` (true) or the server closed (false). */
static bool hear(int fd, const char *end, struct buffer *heard)
{
    uint64_t until = clock_monotonic() + PATIENCE_NS;
    for (;;) {
        io_loop_run_once(loop, 10000000);
        ck_assert_int_eq(buffer_reserve(heard, 4096), 0);
        ssize_t n = read(fd, heard->p + heard->n, 4095);
        ck_assert(n >= 0 || errno == EAGAIN || errno == ECONNRESET);
        if (n == 0 || (n < 0 && errno == ECONNRESET))
            return false;
        heard->n += n > 0 ? (size_t)n : 0;
        heard->p[heard->n] = 0;
        size_t len = strlen(end);
        if (heard->n >= len && memcmp(heard->p + heard->n - len, end, len) == 0)
            return true;
        ck_assert_msg(clock_monotonic() < until, "no answer, only: %s", (char *)heard->p);
    }
}

UNIT(answers_several_requests_on_one_connection)
{
    struct buffer heard = {0};
    start();
    int fd = dial();
    tell(fd, "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert(hear(fd, "\r\n\r\nok\n", &heard));
    ck_assert_int_eq(strncmp((char *)heard.p, "HTTP/1.1 200 ", 13), 0);
    heard.n = 0;
    tell(fd, "GET /metrics?collect[]=self HTTP/1.1\r\nHost: x\r\n");
    tell(fd, "\r\nGET /none HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
    ck_assert(!hear(fd, "never", &heard));
    char *first = strstr((char *)heard.p, "\r\n\r\nmetric 1\n"),
         *second = strstr((char *)heard.p, "HTTP/1.1 404 ");
    ck_assert(first && second && first < second);
    close(fd);
    stop();
    buffer_release(&heard);
}

UNIT(a_bad_request_is_answered_and_what_is_no_http_is_closed)
{
    struct buffer heard = {0};
    start();
    int fd = dial();
    tell(fd, "GET / HTTP/1.1\r\nno field\r\n\r\n");
    ck_assert(!hear(fd, "never", &heard));
    ck_assert_int_eq(strncmp((char *)heard.p, "HTTP/1.1 400 ", 13), 0);
    close(fd);
    heard.n = 0;
    fd = dial();
    tell(fd, "what is this\r\n\r\n");
    ck_assert(!hear(fd, "never", &heard));
    ck_assert_uint_eq(heard.n, 0);
    close(fd);
    stop();
    buffer_release(&heard);
}

UNIT(a_connection_above_the_limit_is_closed_and_the_others_stay)
{
    struct buffer heard = {0};
    int fd[65];
    start();
    for (int i = 0; i < 64; i++) {
        heard.n = 0;
        fd[i] = dial();
        tell(fd[i], "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
        ck_assert(hear(fd[i], "ok\n", &heard));
    }
    fd[64] = dial();
    ck_assert(!hear(fd[64], "ok\n", &heard));
    heard.n = 0;
    tell(fd[0], "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n");
    ck_assert(hear(fd[0], "ok\n", &heard));
    for (int i = 0; i < 65; i++)
        close(fd[i]);
    stop(); /* with 64 connections open */
    buffer_release(&heard);
}

UNIT(an_address_in_use_is_said)
{
    char endpoint[32];
    struct error e = {""};
    start();
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%u", admin_port(admin));
    struct admin_options options = {.endpoint = endpoint};
    ck_assert_ptr_null(admin_new(&options, loop, &e));
    ck_assert_ptr_nonnull(strstr(e.text, endpoint));
    options.endpoint = "nonsense";
    ck_assert_ptr_null(admin_new(&options, loop, &e));
    ck_assert_str_ne(e.text, "");
    stop();
}
