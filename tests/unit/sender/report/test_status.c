/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>
#include <uv.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"
#include "sender/report/status.h"

enum { VISITS = 20, AT_ONCE = 8 };

static atomic_bool is_done;
static int answers;

static int write_page(void *user, enum status_page page, struct buffer *out)
{
    return buffer_add_str(out, page == STATUS_METRICS ? "metrics" : "page");
}

/* One after the other, without a pause, until one is not answered. */
static void *visit(void *argument)
{
    const struct sockaddr_in where = {.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t) * (int *)argument),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    static const char ask[] = "GET /metrics HTTP/1.0\r\n\r\n";
    const uint64_t patience = unit_patience(10 * (uint64_t)NSEC_PER_SEC);
    const struct timeval wait = {.tv_sec = (time_t)(patience / NSEC_PER_SEC),
                                 .tv_usec = (suseconds_t)(patience % NSEC_PER_SEC / NSEC_PER_USEC)};
    for (int i = 0; i < VISITS && answers == i; i++) {
        char text[512] = "";
        size_t n = 0;
        autoclose int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
        setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
        if (connect(fd, (const struct sockaddr *)&where, sizeof where) < 0 ||
            write(fd, ask, sizeof ask - 1) != (ssize_t)sizeof ask - 1)
            continue;
        for (ssize_t got; (got = read(fd, text + n, sizeof text - 1 - n)) > 0;)
            n += (size_t)got;
        answers += strstr(text, "\r\n\r\nmetrics") != NULL;
    }
    is_done = true;
    return NULL;
}

UNIT(who_comes_again_and_again_is_answered_ten_times_a_second)
{
    struct error e;
    struct status *s;
    pthread_t visitor;
    struct io_loop *loop = unit_made(io_loop_new());
    ck_assert_msg(status_open(&s, loop, "127.0.0.1:0", write_page, NULL, &e) == 0, "%s", e.text);
    int port = status_port(s);
    uint64_t begun = clock_monotonic();
    ck_assert_int_eq(pthread_create(&visitor, NULL, visit, &port), 0);
    while (!is_done)
        uv_run(io_loop_uv(loop), UV_RUN_NOWAIT);
    pthread_join(visitor, NULL);
    ck_assert_int_eq(answers, VISITS);
    ck_assert_uint_ge(clock_monotonic() - begun, (VISITS - AT_ONCE) * 90 * (uint64_t)NSEC_PER_MSEC);
    status_close(s);
    io_loop_free(loop);
}
