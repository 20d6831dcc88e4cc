/* SPDX-License-Identifier: Apache-2.0 */
/* needs: testlib dep_nghttp2 dep_deflate */
/*
 * Attacks on a gateway, one kind at a time, and what it said to them as one line of JSON.
 *
 *   attack KIND --port P [--from ADDRESS] [--seconds S] [--until-ended M]
 *          [--connections C] [--connects N] [--blocks B] [FILE…]
 *   attack --list                       every kind: what it does, where it is described, what should happen
 *
 * To loopback only, from 127.0.0.1 or another address of it, so that whom it attacks can tell it from others.
 * Ends after S seconds (default 2), or with --until-ended M as soon as the server has ended a connection
 * besides, M seconds at most, and at SIGTERM in any case; C connections at once (default 20), each opened
 * again when the server ends it, N times altogether at most (default 20000), B blocks on each (default: no
 * end). One thread, as fast as the sockets take it unless a kind has a pace. Frames are made by hand
 * (tests/lib/attack_wire.h): no library sends these.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "tests/lib/attack_heard.h"
#include "tests/lib/attack_kind.h"
#include "tests/lib/attack_wire.h"

#define CONNECTIONS_MAX 4096u
#define SECONDS_MAX     3600.0
#define BLOCK_BYTES     (32u << 10) /* a fast kind queues at least so much before it asks the socket again */
#define WINDOW          65535u      /* HTTP/2's initial window, RFC 9113 §6.9.2 */

static struct {
    const struct attack_kind *kind;
    int port, epoll;
    struct in_addr from;
    double seconds, until_ended;
    uint32_t n_peers;
    uint64_t connects_max, blocks_max;
    struct attack_peer *peers;
    struct heard_counts counts;
    uint64_t connects, failed, closed, broken, blocks, sent;
} run = {.seconds = 2, .n_peers = 20, .connects_max = 20000, .blocks_max = UINT64_MAX};

static void die(const char *what)
{
    fprintf(stderr, "attack: %s: %s\n", what, strerror(errno));
    exit(1);
}

static uint64_t now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000u + (uint64_t)t.tv_nsec / 1000000u;
}

/* ---- moving bytes ---- */

static void watch(struct attack_peer *p, int operation)
{
    unsigned events = run.kind->flags & ATTACK_DEAF ? 0 : EPOLLIN;
    if (p->out.at < p->out.n || run.kind->flags & ATTACK_LEAVES || (!p->finished && run.kind->pace_ms == 0))
        events |= EPOLLOUT;
    struct epoll_event event = {.events = events, .data.ptr = p};
    epoll_ctl(run.epoll, operation, p->fd, &event);
}

static void hang_up(struct attack_peer *p)
{
    struct linger reset = {1, 0}; /* no TIME_WAIT: ports of the attacker's are not to run out */
    setsockopt(p->fd, SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
    close(p->fd);
    heard_end(&p->heard);
    p->fd = -1;
    p->due = now_ms();
}

static void dial(struct attack_peer *p)
{
    const struct attack_kind *k = run.kind;
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)run.port)};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    p->due = UINT64_MAX;
    if (run.connects == run.connects_max)
        return;
    run.connects++;
    p->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (p->fd < 0)
        die("socket");
    int on = 1;
    setsockopt(p->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr = run.from};
    /* The port is chosen when it connects: bound ones would soon be used up. */
    setsockopt(p->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on);
    if (bind(p->fd, (struct sockaddr *)&from, sizeof from) < 0)
        die("bind");
    if (connect(p->fd, (struct sockaddr *)&to, sizeof to) < 0 && errno != EINPROGRESS) {
        run.failed++;
        close(p->fd);
        p->fd = -1;
        p->due = now_ms() + 10;
        return;
    }
    p->out.n = p->out.at = 0;
    p->stream = 1;
    p->blocks = p->sent_blocks = 0;
    p->finished = !k->more || k->flags & ATTACK_QUIET;
    heard_begin(&p->heard, k->flags & ATTACK_H2);
    if (k->flags & ATTACK_H2)
        wire_preface(&p->out, k->flags & ATTACK_STARVED ? 0 : WINDOW);
    if (k->open)
        k->open(p);
    p->due = k->pace_ms > 0 && !p->finished ? now_ms() : UINT64_MAX;
    watch(p, EPOLL_CTL_ADD);
}

/* false: the connection is over. */
static bool listen_to(struct attack_peer *p)
{
    uint8_t in[65536];
    for (;;) {
        ssize_t n = recv(p->fd, in, sizeof in, 0);
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n <= 0) {
            run.closed += n == 0;
            run.broken += n < 0;
            return false;
        }
        heard_feed(&p->heard, &run.counts, in, (size_t)n);
        if (n < (ssize_t)sizeof in)
            return true;
    }
}

static void queue_block(struct attack_peer *p)
{
    p->finished = !run.kind->more(p) || ++p->sent_blocks >= run.blocks_max;
    p->blocks++;
    run.blocks++;
}

/* false: the connection is over. */
static bool say(struct attack_peer *p)
{
    struct wire *w = &p->out;
    while (run.kind->pace_ms == 0 && !p->finished && w->n - w->at < BLOCK_BYTES)
        queue_block(p);
    while (w->at < w->n) {
        ssize_t n = send(p->fd, w->p + w->at, w->n - w->at, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN)
            return true;
        if (n < 0)
            return false;
        w->at += (size_t)n;
        run.sent += (uint64_t)n;
    }
    return !(run.kind->flags & ATTACK_LEAVES);
}

static void turn(struct attack_peer *p, unsigned events)
{
    bool open = true;
    if (events & (EPOLLIN | EPOLLHUP | EPOLLERR))
        open = listen_to(p); /* also of a deaf one: only how it ended */
    if (open && !say(p)) {
        if (!(run.kind->flags & ATTACK_LEAVES)) {
            listen_to(p); /* its last words */
            run.broken++;
        }
        open = false;
    }
    if (open)
        watch(p, EPOLL_CTL_MOD);
    else
        hang_up(p);
}

/* What is due by time: blocks of a pace, and connections to be opened again. Returns how long to wait. */
static int turn_due(uint64_t now)
{
    uint64_t next = now + 100;
    for (uint32_t i = 0; i < run.n_peers; i++) {
        struct attack_peer *p = &run.peers[i];
        if (p->due <= now && p->fd < 0) {
            dial(p);
        } else if (p->due <= now) {
            queue_block(p);
            p->due = now + run.kind->pace_ms;
            turn(p, 0);
        }
        if (p->due < next)
            next = p->due;
    }
    return next > now ? (int)(next - now) : 0;
}

static volatile sig_atomic_t told_to_end;

static void on_term(int number)
{
    told_to_end = 1;
}

static bool is_over(uint64_t began, uint64_t now)
{
    bool wants_more = run.closed + run.broken == 0 && now < began + (uint64_t)(run.until_ended * 1000);
    return told_to_end || (now >= began + (uint64_t)(run.seconds * 1000) && !wants_more);
}

static void attack(void)
{
    uint64_t began = now_ms();
    for (uint64_t now = began; !is_over(began, now); now = now_ms()) {
        int wait = turn_due(now);
        struct epoll_event ready[64];
        int n = epoll_wait(run.epoll, ready, 64, wait);
        for (int i = 0; i < n; i++)
            turn(ready[i].data.ptr, ready[i].events);
    }
    for (uint32_t i = 0; i < run.n_peers; i++)
        if (run.peers[i].fd >= 0) {
            if (!(run.kind->flags & ATTACK_DEAF))
                listen_to(&run.peers[i]);
            hang_up(&run.peers[i]);
        }
}

/* ---- the program ---- */

/* Number i of all kinds, or NULL behind the last. */
static const struct attack_kind *kind_at(size_t i)
{
    const struct {
        const struct attack_kind *first;
        size_t n;
    } table[] = {
        {attack_http1, attack_http1_n}, {attack_http2, attack_http2_n}, {attack_body, attack_body_n}};
    for (size_t t = 0; t < sizeof table / sizeof *table; i -= table[t++].n)
        if (i < table[t].n)
            return &table[t].first[i];
    return NULL;
}

static void list_kinds(void)
{
    const struct attack_kind *k;
    for (size_t i = 0; (k = kind_at(i)); i++)
        printf("%s\t%s\t%s\t%s\n", k->name, k->what, k->source, k->expect);
}

static int parse_arguments(int argc, char **argv)
{
    int i = 2;
    const struct attack_kind *k;
    for (size_t n = 0; argc > 1 && (k = kind_at(n)); n++)
        if (strcmp(argv[1], k->name) == 0)
            run.kind = k;
    run.from.s_addr = htonl(INADDR_LOOPBACK);
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        if (strcmp(argv[i], "--port") == 0)
            run.port = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--from") == 0) {
            if (inet_pton(AF_INET, argv[i + 1], &run.from) != 1)
                return 0;
        } else if (strcmp(argv[i], "--seconds") == 0)
            run.seconds = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--until-ended") == 0)
            run.until_ended = atof(argv[i + 1]);
        else if (strcmp(argv[i], "--connections") == 0)
            run.n_peers = (uint32_t)atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--connects") == 0)
            run.connects_max = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--blocks") == 0)
            run.blocks_max = strtoull(argv[i + 1], NULL, 10);
        else
            return 0;
    }
    if (run.kind && run.kind->flags & ATTACK_FILES && i >= argc)
        return 0;
    return run.kind && run.port > 0 && run.port < 65536 && run.n_peers > 0 &&
                   run.n_peers <= CONNECTIONS_MAX && run.seconds > 0 && run.seconds <= SECONDS_MAX &&
                   run.until_ended >= 0 && run.until_ended <= SECONDS_MAX
               ? i
               : 0;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "--list") == 0) {
        list_kinds();
        return 0;
    }
    int files = parse_arguments(argc, argv);
    if (files == 0) {
        fprintf(
            stderr,
            "usage: attack KIND --port P [--from ADDRESS] [--seconds S] [--until-ended M] [--connections C] "
            "[--connects N] [--blocks B] [FILE...]\n"
            "       attack --list\n");
        return 2;
    }
    if (files < argc)
        attack_body_load(argv + files, argc - files);
    else if (run.kind->make)
        attack_body_prepare(run.kind);
    run.peers = calloc(run.n_peers, sizeof *run.peers);
    run.epoll = epoll_create1(EPOLL_CLOEXEC);
    if (!run.peers || run.epoll < 0)
        die("memory");
    for (uint32_t i = 0; i < run.n_peers; i++) {
        run.peers[i].fd = -1;
        run.peers[i].index = i;
    }
    signal(SIGTERM, on_term);
    attack();
    printf("{\"kind\": \"%s\", \"connects\": %llu, \"failed\": %llu, \"closed\": %llu, \"broken\": %llu, "
           "\"blocks\": %llu, \"bytes_sent\": %llu, ",
           run.kind->name, (unsigned long long)run.connects, (unsigned long long)run.failed,
           (unsigned long long)run.closed, (unsigned long long)run.broken, (unsigned long long)run.blocks,
           (unsigned long long)run.sent);
    heard_print(&run.counts, stdout);
    printf("}\n");
    for (uint32_t i = 0; i < run.n_peers; i++)
        wire_release(&run.peers[i].out);
    attack_body_release();
    free(run.peers);
    return 0;
}
