/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/admin.h"
#include "gateway/admin/ready.h"
#include "gateway/admin/scrape.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/base/budget.h"
#include "proto/base/clock.h"
#include "proto/coding/coding.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

/* The whole server over real sockets; client and server share this thread and its loop. */

static struct io_loop *loop;
static struct admin *admin;

/* ---- whoever has metrics: lines that say what was asked for, as many and as large as a case wants ---- */

static struct scrapes *scrapes;
static struct {
    struct budget budget;
    uint32_t pieces; /* of each page */
    size_t piece_bytes;
    int open_result, next_result; /* next_result: of the second piece */
    atomic_bool held;             /* no piece is made */
    bool stale;                   /* who waits goes on waiting */
    LIST_HEAD(, scrape_wait) waiting;
    uint32_t n_open, n_opened, n_receipts, n_read;
} metrics;

struct page {
    struct admin_metrics wanted;
    uint32_t next;
};

static void freshen(void *context, struct scrape_wait *w)
{
    LIST_INSERT_HEAD(&metrics.waiting, w, others);
}

static void forget(void *context, struct scrape_wait *w)
{
    LIST_REMOVE(w, others);
}

static int open_page(void *context, const struct admin_metrics *wanted, void **ret)
{
    struct page *page = metrics.open_result < 0 ? NULL : calloc(1, sizeof *page);
    if (!page)
        return -ENOMEM;
    page->wanted = *wanted;
    metrics.n_open++;
    metrics.n_opened++;
    *ret = page;
    return 0;
}

static int next_piece(void *page, struct buffer *out)
{
    struct page *p = page;
    const unsigned what = p->wanted.what;
    while (metrics.held)
        usleep(1000);
    if (p->next == 1 && metrics.next_result < 0)
        return metrics.next_result;
    int r = buffer_printf(out, "format %d escaping %d%s%s\n", p->wanted.format, p->wanted.escaping,
                          what & ADMIN_METRICS_SELF ? " self" : "",
                          what & ADMIN_METRICS_PROFILES ? " profiles" : "");
    while (r == 0 && out->n < metrics.piece_bytes)
        r = buffer_add_str(out, "metric 1\n");
    return r < 0 ? r : ++p->next >= metrics.pieces ? SCRAPE_ENDS : 0;
}

static void close_page(void *page)
{
    free(page);
    metrics.n_open--;
}

static void settle(struct admin_receipt *receipt, bool was_read)
{
    free(receipt);
    metrics.n_receipts--;
    metrics.n_read += was_read;
}

static struct admin_receipt *receipt_of(void *page)
{
    struct admin_receipt *r = calloc(1, sizeof *r);
    if (r) {
        r->fn = settle;
        metrics.n_receipts++;
    }
    return r;
}

static uint32_t n_waiting(void)
{
    const struct scrape_wait *w;
    uint32_t n = 0;
    LIST_FOREACH (w, &metrics.waiting, others)
        n++;
    return n;
}

static void turn(void)
{
    while (!LIST_EMPTY(&metrics.waiting) && !metrics.stale) {
        struct scrape_wait *w = LIST_FIRST(&metrics.waiting);
        LIST_REMOVE(w, others);
        w->fn(w->user);
    }
    io_loop_run_once(loop, 1000000);
}

static void start_with(uint64_t stall_ns)
{
    static struct admin_ready ready;
    metrics.budget = (struct budget)BUDGET_INIT((size_t)64 << 20, NULL);
    metrics.pieces = 1;
    metrics.piece_bytes = 0;
    metrics.open_result = metrics.next_result = 0;
    metrics.held = metrics.stale = false;
    metrics.n_read = metrics.n_opened = 0;
    loop = unit_made(io_loop_new());
    const struct scrape_source source = {freshen,    forget,     open_page, next_piece,
                                         close_page, receipt_of, &metrics,  &metrics.budget};
    scrapes = unit_made(scrapes_new(loop, &source));
    const struct admin_page pages[] = {scrapes_page(scrapes), admin_health_page(), admin_ready_page(&ready)};
    struct admin_options options = {
        .endpoint = "127.0.0.1:0", .pages = pages, .n_pages = 3, .stall_ns = stall_ns};
    struct error e = {""};
    admin = unit_made(admin_new(&options, loop, &e));
    ck_assert_uint_gt(admin_port(admin), 0);
}

static void start(void)
{
    start_with(0);
}

static void stop(void)
{
    admin = admin_free(admin);
    scrapes = scrapes_free(scrapes);
    metrics.held = false;
    loop = io_loop_free(loop);
    ck_assert_uint_eq(metrics.n_open, 0);
    ck_assert_uint_eq(metrics.n_receipts, 0);
    ck_assert_uint_eq(metrics.budget.used, 0);
    ck_assert(LIST_EMPTY(&metrics.waiting));
}

/* From 127.0.0.N; room: bytes that its kernel keeps for it, 0: as many as usual. */
static int dial_with(uint32_t n, int room)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons(admin_port(admin))},
                       from = {.sin_family = AF_INET};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    from.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~0xffu) + n);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ck_assert_int_ge(fd, 0);
    if (room > 0)
        ck_assert_int_eq(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &room, sizeof room), 0);
    ck_assert_int_eq(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
    ck_assert_int_eq(connect(fd, (struct sockaddr *)&to, sizeof to), 0); /* the backlog takes it */
    ck_assert_int_eq(fcntl(fd, F_SETFL, O_NONBLOCK), 0);
    return fd;
}

static int dial_from(uint32_t n)
{
    return dial_with(n, 0);
}

static int dial(void)
{
    return dial_from(1);
}

static void hang_up(const int *fd, uint32_t n)
{
    while (n > 0)
        close(fd[--n]);
}

static void tell(int fd, const char *text)
{
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
}

#define HEALTH     "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define SCRAPE     "GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"
#define LAST_CHUNK "\r\n0\r\n\r\n"

#define PATIENCE_NS unit_patience(10000000000u) /* a hung server fails the test; a slow machine does not */

#define HEAR_BYTES ((size_t)64 << 10)

/* Runs the loop until what was read ends with `end` (true) or the server closed (false). */
static bool hear(int fd, const char *end, struct buffer *heard)
{
    uint64_t until = clock_monotonic() + PATIENCE_NS;
    for (;;) {
        turn();
        ck_assert_int_eq(buffer_reserve(heard, HEAR_BYTES + 1), 0);
        ssize_t n = read(fd, heard->p + heard->n, HEAR_BYTES);
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
    cleanup(buffer_release) struct buffer heard = {0};
    start();
    int fd = dial();
    tell(fd, HEALTH);
    ck_assert(hear(fd, "\r\n\r\nok\n", &heard));
    ck_assert_int_eq(strncmp((char *)heard.p, "HTTP/1.1 200 ", 13), 0);
    heard.n = 0;
    tell(fd, "GET /metrics?collect[]=self HTTP/1.1\r\nHost: localhost\r\n");
    tell(fd, "\r\nGET /none HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ck_assert(!hear(fd, "never", &heard));
    char *first = strstr((char *)heard.p, "format 0 escaping 0 self\n"),
         *second = strstr((char *)heard.p, "HTTP/1.1 404 ");
    ck_assert(first && second && first < second);
    close(fd);
    stop();
}

UNIT(a_bad_request_is_answered_and_what_is_no_http_is_closed)
{
    cleanup(buffer_release) struct buffer heard = {0};
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
}

static void expect(int fd, const char *request, const char *end)
{
    cleanup(buffer_release) struct buffer heard = {0};
    tell(fd, request);
    ck_assert(hear(fd, end, &heard));
}

static void expect_health(int fd)
{
    expect(fd, HEALTH, "\r\n\r\nok\n");
}

static void expect_page(int fd)
{
    expect(fd, SCRAPE, LAST_CHUNK);
}

static void expect_closed(int fd)
{
    cleanup(buffer_release) struct buffer heard = {0};
    ck_assert(!hear(fd, "never", &heard));
    ck_assert_uint_eq(heard.n, 0);
}

UNIT(who_wants_nothing_makes_room_the_longest_idle_first)
{
    int fd[66];
    start();
    for (int i = 0; i < 64; i++) {
        fd[i] = dial();
        expect_health(fd[i]);
    }
    expect_health(fd[0]); /* the second is idle for longest */
    for (int i = 64; i < 66; i++) {
        fd[i] = dial();
        expect_health(fd[i]);
        expect_closed(fd[i - 63]);
    }
    expect_health(fd[0]);
    expect_health(fd[3]);
    hang_up(fd, 66);
    stop(); /* with 64 connections open */
}

/* Whose connection has ended and who leaves it open holds a place like others, and no more than that. */
UNIT(who_lingers_makes_room)
{
    cleanup(buffer_release) struct buffer heard = {0};
    int fd[65];
    start();
    for (int i = 0; i < 64; i++) {
        fd[i] = dial();
        tell(fd[i], "GET /healthz HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
        ck_assert(!hear(fd[i], "never", &heard));
    }
    fd[64] = dial();
    expect_health(fd[64]);
    int is_gone = 0; /* there is nobody any more who reads on */
    tell(fd[0], "more");
    unit_until(is_gone, (turn(), is_gone = send(fd[0], "?", 1, MSG_NOSIGNAL) < 0 && errno != EAGAIN));
    hang_up(fd, 65);
    stop();
}

UNIT(half_a_request_holds_no_place)
{
    int fd[65];
    start();
    for (int i = 0; i < 64; i++) {
        fd[i] = dial();
        tell(fd[i], "GET /healthz HTT");
    }
    fd[64] = dial();
    expect_health(fd[64]);
    expect_closed(fd[0]);
    hang_up(fd, 65);
    stop();
}

UNIT(nor_half_a_body_that_nobody_waits_for)
{
    cleanup(buffer_release) struct buffer heard = {0};
    int fd[65];
    start();
    for (int i = 0; i < 64; i++) {
        heard.n = 0;
        fd[i] = dial();
        tell(fd[i], "POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n\r\n1234");
        ck_assert(hear(fd[i], "\n", &heard));
        ck_assert_int_eq(strncmp((char *)heard.p, "HTTP/1.1 405 ", 13), 0);
    }
    fd[64] = dial();
    expect_health(fd[64]);
    expect_closed(fd[0]);
    hang_up(fd, 65);
    stop();
}

/* Those who wait for a page of metrics, first come, and as many others as there is room for. */
static void crowd(uint64_t stall_ns, int fd[static 65])
{
    start_with(stall_ns);
    metrics.stale = true;
    for (int i = 0; i < 4; i++) {
        fd[i] = dial();
        tell(fd[i], SCRAPE);
        unit_until(n_waiting() > (uint32_t)i, turn());
    }
    for (int i = 4; i < 65; i++) {
        fd[i] = dial();
        expect_health(fd[i]);
    }
}

UNIT(who_waits_for_an_answer_stays)
{
    cleanup(buffer_release) struct buffer heard = {0};
    int fd[65];
    crowd(0, fd);
    expect_closed(fd[4]);
    metrics.stale = false;
    for (int i = 0; i < 4; i++) {
        heard.n = 0;
        ck_assert(hear(fd[i], LAST_CHUNK, &heard));
    }
    hang_up(fd, 65);
    stop();
}

UNIT(but_not_for_ever)
{
    int fd[65];
    crowd(1, fd);
    expect_closed(fd[0]);
    hang_up(fd, 65);
    stop();
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

/* ---- /metrics ---- */

/* Asks on a connection of its own; the whole answer, which is gone at the next call. */
static const char *scrape(const char *target, const char *fields)
{
    static struct buffer heard;
    char request[500];
    int fd = dial();
    snprintf(request, sizeof request, "GET %s HTTP/1.1\r\nHost: localhost\r\n%sConnection: close\r\n\r\n",
             target, fields);
    tell(fd, request);
    buffer_release(&heard);
    ck_assert(!hear(fd, "never", &heard));
    close(fd);
    return (char *)heard.p;
}

UNIT(metrics_are_both_kinds_unless_one_is_asked_for)
{
    start();
    const char *text = scrape("/metrics", "");
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 200 "));
    ck_assert_ptr_nonnull(strstr(text, "content-type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    ck_assert_ptr_nonnull(strstr(text, "vary: accept, accept-encoding\r\n"));
    ck_assert_ptr_nonnull(strstr(text, " self profiles\n"));
    text = scrape("/metrics?x=y&collect%5B%5D=self", "");
    ck_assert(strstr(text, " self\n") && !strstr(text, "profiles"));
    text = scrape("/metrics?collect[]=profiles", "");
    ck_assert(strstr(text, " profiles\n") && !strstr(text, "self"));
    ck_assert_ptr_nonnull(strstr(scrape("/metrics?collect[]=everything", ""), "HTTP/1.1 400 "));
    text = scrape("/metrics?collect[]=profiles",
                  "Accept: application/openmetrics-text;version=1.0.0;escaping=allow-utf-8\r\n");
    ck_assert_ptr_nonnull(strstr(text, "format 3 escaping 1 profiles\n"));
    ck_assert_ptr_nonnull(strstr(text, "content-type: application/openmetrics-text; version=1.0.0; "
                                       "charset=utf-8; escaping=allow-utf-8\r\n"));
    scrape("/metrics", "");
    stop();
}

UNIT(a_page_of_any_size_takes_the_memory_of_a_piece)
{
    struct buffer heard = BUFFER_INIT(0);
    start();
    metrics.pieces = 500;
    metrics.piece_bytes = 32000;
    int fd = dial();
    tell(fd, SCRAPE);
    ck_assert(hear(fd, LAST_CHUNK, &heard));
    ck_assert_uint_ge(heard.n, 500 * 32000);
    close(fd);
    buffer_release(&heard);
    stop();
}

UNIT(metrics_are_gzipped_when_that_is_accepted)
{
    struct buffer heard = BUFFER_INIT(0), packed = BUFFER_INIT(0), plain = BUFFER_INIT(0);
    start();
    metrics.pieces = 30;
    metrics.piece_bytes = 30000;
    int fd = dial(); /* of 1.0: not in chunks */
    tell(fd, "GET /metrics HTTP/1.0\r\nHost: localhost\r\nAccept-Encoding: deflate, gzip;q=0.5\r\n\r\n");
    ck_assert(!hear(fd, "never", &heard));
    ck_assert_ptr_nonnull(strstr((char *)heard.p, "content-encoding: gzip\r\n"));
    uint8_t *body = memmem(heard.p, heard.n, "\r\n\r\n", 4);
    ck_assert_ptr_nonnull(body);
    body += 4;
    ck_assert_int_eq(buffer_add(&packed, body, heard.n - (size_t)(body - heard.p)), 0);
    struct coding_decoder *d = unit_made(coding_decoder_new());
    ck_assert_int_eq(coding_decode(d, CODING_GZIP, buffer_bytes(&packed), (size_t)1 << 20, 0, NULL, &plain),
                     0);
    ck_assert_uint_ge(plain.n, 30 * 30000);
    ck_assert_ptr_null(strstr(scrape("/metrics", "Accept-Encoding: gzip;q=0\r\n"), "content-encoding"));
    coding_decoder_free(d);
    close(fd);
    buffer_release(&heard);
    buffer_release(&packed);
    buffer_release(&plain);
    stop();
}

/* As many as there are places; one more is asked to come back. */
static void fill_places(uint32_t n)
{
    cleanup(buffer_release) struct buffer heard = BUFFER_INIT(0);
    int fd[4];
    metrics.held = true;
    for (uint32_t i = 0; i < n; i++) {
        fd[i] = dial();
        tell(fd[i], SCRAPE);
    }
    unit_until(metrics.n_open >= n, turn());
    ck_assert_ptr_nonnull(strstr(scrape("/healthz", ""), "\r\n\r\nok\n"));
    const char *text = scrape("/metrics", "");
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 503 "));
    ck_assert_ptr_nonnull(strstr(text, "retry-after: 1\r\n"));
    close(fd[n - 1]); /* gone while its piece is being made */
    turn();
    metrics.held = false;
    for (uint32_t i = 0; i < n - 1; i++) {
        heard.n = 0;
        ck_assert(hear(fd[i], LAST_CHUNK, &heard));
        close(fd[i]);
    }
}

UNIT(health_is_told_while_pages_are_made_and_a_fifth_is_asked_to_come_back)
{
    start();
    fill_places(4);
    stop();
}

UNIT(where_memory_is_in_use_a_third_is_asked_to_come_back)
{
    start();
    const size_t much = metrics.budget.limit / 4 + 1;
    ck_assert(budget_charge(&metrics.budget, much));
    fill_places(2);
    budget_refund(&metrics.budget, much);
    stop();
}

UNIT(metrics_wait_for_what_was_acknowledged)
{
    struct buffer heard = BUFFER_INIT(0);
    start();
    metrics.stale = true;
    int fd = dial(), other = dial();
    tell(fd, SCRAPE);
    tell(other, SCRAPE);
    unit_until(n_waiting() == 2, turn());
    ck_assert_ptr_nonnull(strstr(scrape("/healthz", ""), "\r\n\r\nok\n"));
    ck_assert_uint_eq(metrics.n_open, 0);
    /* Without a word: who only says that it sends no more may still want its answer. */
    ck_assert_int_eq(setsockopt(other, SOL_SOCKET, SO_LINGER, &(struct linger){1, 0}, sizeof(struct linger)),
                     0);
    close(other);
    unit_until(n_waiting() == 1, turn());
    metrics.stale = false;
    ck_assert(hear(fd, LAST_CHUNK, &heard));
    close(fd);
    buffer_release(&heard);
    stop();
}

UNIT(metrics_that_cannot_be_collected_are_503_and_half_a_page_is_cut_short)
{
    start();
    metrics.open_result = -ENOMEM;
    ck_assert_ptr_nonnull(strstr(scrape("/metrics", ""), "HTTP/1.1 503 "));
    metrics.open_result = 0;
    metrics.pieces = 3;
    metrics.next_result = -ENOMEM;
    const char *text = scrape("/metrics", "");
    ck_assert_ptr_nonnull(strstr(text, "HTTP/1.1 200 "));
    ck_assert_ptr_null(strstr(text, LAST_CHUNK));
    metrics.budget.limit = 1000;
    ck_assert_ptr_nonnull(strstr(scrape("/metrics", ""), "HTTP/1.1 503 "));
    scrape("/healthz", "");
    stop();
}

UNIT(an_answer_that_nobody_reads_ends)
{
    start_with(100000000);
    metrics.pieces = 10000;
    metrics.piece_bytes = 32000;
    int fd = dial();
    tell(fd, SCRAPE);
    unit_until(metrics.n_open > 0, turn());
    unit_until(metrics.n_open == 0, turn());
    close(fd);
    stop();
}

/* ---- whether a page was read ---- */

static void turn_until_settled(void)
{
    unit_until(metrics.n_receipts == 0 && metrics.n_open == 0, turn());
}

UNIT(a_page_is_read_when_its_reader_asks_again_or_ends_in_order)
{
    start();
    metrics.piece_bytes = 3000;
    int fd = dial();
    expect_page(fd);
    ck_assert_uint_eq(metrics.n_read, 0);
    expect_health(fd);
    ck_assert_uint_eq(metrics.n_read, 1);
    expect_page(fd);
    ck_assert_uint_eq(metrics.n_receipts, 1);
    close(fd);
    turn_until_settled();
    ck_assert_uint_eq(metrics.n_read, 2);
    scrape("/metrics", "");
    turn_until_settled();
    ck_assert_uint_eq(metrics.n_read, 3);
    stop();
}

/* Who asks every few minutes leaves the connection open, and says nothing more. */
UNIT(a_page_that_was_taken_has_been_read_after_a_while)
{
    start_with(NSEC_PER_MSEC);
    metrics.piece_bytes = 3000;
    int fd = dial();
    expect_page(fd);
    turn_until_settled();
    ck_assert_uint_eq(metrics.n_read, 1);
    expect_health(fd);
    ck_assert_uint_eq(metrics.n_read, 1);
    close(fd);
    stop();
}

UNIT(a_page_that_was_left_lying_is_not)
{
    static const char *const asked[] = {
        SCRAPE,
        "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
    };
    start();
    for (int i = 0; i < 2; i++) {
        int fd = dial(); /* it may all be in our own socket by now, and nobody has looked at it */
        tell(fd, asked[i]);
        unit_until(metrics.n_receipts > 0, turn());
        char first[16];
        unit_until(read(fd, first, sizeof first) > 0, turn());
        close(fd);
        turn_until_settled();
        fd = dial(); /* before the answer */
        tell(fd, asked[i]);
        close(fd);
        unit_until(metrics.n_opened == 2u * (uint32_t)i + 2, turn());
        turn_until_settled();
    }
    ck_assert_uint_eq(metrics.n_read, 0);
    stop();
}

UNIT(what_was_read_or_not_is_settled_at_the_end)
{
    cleanup(buffer_release) struct buffer heard = BUFFER_INIT(0);
    start();
    autoclose int fd = dial(), other = dial();
    expect_page(fd);
    tell(other, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
    ck_assert(!hear(other, "never", &heard)); /* but it stays open */
    ck_assert_uint_eq(metrics.n_receipts, 2);
    stop();
}

/* ---- those who do not read ---- */

/* HTTP/2's preface, settings with a window of 0, and GET /metrics on stream 1 (RFC 7541: the static table).
 */
static const char http2_without_window[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
                                           "\0\0\6\4\0\0\0\0\0\0\4\0\0\0\0"
                                           "\0\0\x17\1\5\0\0\0\1\x82\x86\x04\x08/metrics\x01\x09localhost";

/* By four of 127.0.0.N. */
static void take_all_places(uint32_t n, bool http2, int fd[4])
{
    for (int i = 0; i < 4; i++) {
        fd[i] = dial_from(n);
        if (http2)
            ck_assert_int_gt(write(fd[i], http2_without_window, sizeof http2_without_window - 1), 0);
        else
            tell(fd[i], SCRAPE);
    }
    unit_until(metrics.n_open >= 4, turn());
}

static void turn_as_far_as_the_kernel_takes_it(void)
{
    for (int i = 0; i < 50; i++)
        turn();
}

static void scrape_beside_those_who_do_not_read(bool http2)
{
    int fd[4];
    struct buffer heard = BUFFER_INIT(0);
    start();
    metrics.pieces = http2 ? 1 : 1000;
    metrics.piece_bytes = http2 ? 3000 : 32000;
    take_all_places(1, http2, fd);
    turn_as_far_as_the_kernel_takes_it();
    metrics.pieces = 1;
    int other = dial();
    uint64_t began = clock_monotonic();
    tell(other, SCRAPE);
    ck_assert(hear(other, LAST_CHUNK, &heard));
    ck_assert_ptr_nonnull(strstr((char *)heard.p, "HTTP/1.1 200 "));
    ck_assert_uint_lt(clock_monotonic() - began, unit_patience(1000000000u));
    close(other);
    hang_up(fd, 4);
    buffer_release(&heard);
    stop();
}

/* An address that takes all places there are: the others, though idle for longer, keep theirs, and whoever
 * comes from elsewhere gets one of its. */
UNIT(no_address_keeps_another_one_out)
{
    int other[2], fd[65];
    start();
    other[0] = dial_from(3);
    expect_health(other[0]);
    for (int i = 0; i < 65; i++) {
        fd[i] = dial_from(2);
        expect_health(fd[i]);
    }
    expect_closed(fd[0]);
    expect_closed(fd[1]);
    other[1] = dial_from(4);
    expect_health(other[1]);
    expect_closed(fd[2]);
    for (int i = 0; i < 2; i++) {
        expect_health(other[i]);
        close(other[i]);
    }
    hang_up(fd, 65);
    stop();
}

/* As many addresses as there are places, and none of them reads what it asked for. */
UNIT(nor_do_many_who_do_not_read)
{
    enum { ASKED = 500 };
    static const char request[] = HEALTH;
    int fd[64], other;
    struct buffer all = BUFFER_INIT(0);
    start();
    for (int i = 0; i < ASKED; i++)
        ck_assert_int_eq(buffer_add_str(&all, request), 0);
    for (uint32_t i = 0; i < 64; i++) {
        fd[i] = dial_with(2 + i, 1);
        int arrived = 0;
        ck_assert_int_eq(write(fd[i], all.p, all.n), (ssize_t)all.n);
        for (uint64_t until = clock_monotonic() + PATIENCE_NS; arrived == 0;) {
            ck_assert(clock_monotonic() < until);
            turn();
            ck_assert_int_eq(ioctl(fd[i], FIONREAD, &arrived), 0);
        }
    }
    other = dial_from(100);
    expect_health(other);
    expect_page(other);
    close(other);
    hang_up(fd, 64);
    buffer_release(&all);
    stop();
}

/* Four readers who read, of one address, and pages without end: a reader of another address has one all the
 * same. */
UNIT(nor_by_reading_all_the_time)
{
    int fd[4], other;
    static char sink[64 << 10], heard[4096];
    start();
    metrics.pieces = UINT32_MAX;
    metrics.piece_bytes = 32000;
    take_all_places(2, false, fd);
    other = dial_from(3);
    tell(other, SCRAPE);
    for (uint64_t until = clock_monotonic() + PATIENCE_NS; strncmp(heard, "HTTP/1.1 200 ", 13) != 0;) {
        ck_assert(clock_monotonic() < until);
        for (int i = 0; i < 4; i++)
            if (read(fd[i], sink, sizeof sink) < 0)
                continue;
        turn();
        ssize_t n = read(other, heard, sizeof heard - 1);
        if (n > 0 && strncmp(heard, "HTTP/1.1 503 ", 13) == 0) /* the machine took too long */
            tell(other, SCRAPE);
    }
    close(other);
    hang_up(fd, 4);
    stop();
}

/* One from 127.0.0.N asks until its page begins; false: it was turned away at once. */
static bool page_begins(uint32_t n)
{
    char heard[4096] = "";
    bool is_heard = true;
    const int fd = dial_from(n);
    const uint64_t until = clock_monotonic() + PATIENCE_NS;
    uint64_t asked = clock_monotonic();
    tell(fd, SCRAPE);
    while (is_heard && strncmp(heard, "HTTP/1.1 200 ", 13) != 0) {
        ck_assert(clock_monotonic() < until);
        turn();
        if (read(fd, heard, sizeof heard - 1) <= 0 || strncmp(heard, "HTTP/1.1 503 ", 13) != 0)
            continue;
        is_heard = clock_monotonic() - asked > 450 * (uint64_t)NSEC_PER_MSEC; /* the machine took too long */
        asked = clock_monotonic();
        tell(fd, SCRAPE);
    }
    close(fd);
    return is_heard;
}

/* Four of 127.0.0.N do not read, and one of them is cut off for who comes. */
static void be_cut_off(uint32_t n)
{
    int fd[4];
    take_all_places(n, false, fd);
    ck_assert(page_begins(4));
    hang_up(fd, 4);
    unit_until(metrics.n_open == 0, turn());
}

/* As many as can wait, of two addresses of which one was cut off: who comes from elsewhere is not turned away
 * for them. */
UNIT(who_was_cut_off_fills_no_queue)
{
    enum { OF_ONE = 10 };
    int fd[2 * OF_ONE];
    start();
    metrics.pieces = UINT32_MAX;
    metrics.piece_bytes = 32000;
    be_cut_off(2);
    be_cut_off(3);
    for (uint32_t i = 0; i < 2 * OF_ONE; i++) {
        fd[i] = dial_from(2 + i % 2);
        tell(fd[i], SCRAPE);
        for (int k = 0; k < 3; k++)
            turn();
    }
    ck_assert(page_begins(5));
    hang_up(fd, 2 * OF_ONE);
    stop();
}

UNIT(who_does_not_read_makes_room_for_who_waits)
{
    scrape_beside_those_who_do_not_read(false);
}

UNIT(also_over_http2_and_after_all_of_it_was_written)
{
    scrape_beside_those_who_do_not_read(true);
}

/* It may be us who were slow: on a machine with much to do a page's first piece takes long. */
UNIT(who_had_nothing_to_read_until_now_is_not_taken_for_one_who_does_not_read)
{
    enum { LOOK_MS = 250, ROUNDING_MS = 10 };
    int fd[4], other;
    bool is_open = true;
    static char sink[64 << 10];
    start();
    metrics.piece_bytes = 3000;
    metrics.held = true;
    take_all_places(1, true, fd);
    turn_as_far_as_the_kernel_takes_it();
    other = dial();
    tell(other, SCRAPE); /* from now on it is looked */
    const uint64_t asked = clock_monotonic();
    while (clock_monotonic() - asked < LOOK_MS / 2 * NSEC_PER_MSEC)
        turn();
    const uint64_t made = clock_monotonic();
    metrics.held = false;
    while (is_open) {
        ck_assert_uint_lt(clock_monotonic() - made, PATIENCE_NS);
        turn();
        for (int i = 0; i < 4 && is_open; i++) {
            ssize_t n = read(fd[i], sink, sizeof sink);
            is_open = n > 0 || (n < 0 && errno == EAGAIN);
        }
    }
    ck_assert_uint_ge(clock_monotonic() - made, (LOOK_MS - ROUNDING_MS) * NSEC_PER_MSEC);
    close(other);
    hang_up(fd, 4);
    stop();
}
