/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view dep_deflate Threads::Threads */
/*
 * The limit of a request: what its bytes cost where nothing is done but what must be, each part by itself.
 * Prints one line of JSON, microseconds of CPU a request:
 *
 *   socket_us   an epoll server that reads as many bytes as the files have on average and answers ANSWER
 *   send_us     its client, which sends them: what forwarding them must cost at least
 *   gunzip_us   libdeflate, the files in turn, median of rounds; 0 with --gzip 0
 *   decode_us   our decoder, likewise
 *
 *   floor [--connections N] [--requests N] [--gzip LEVEL] [--cpus SERVER,CLIENT] FILE…
 *
 * Server and client are threads, each on a core of its own; a connection has one request under way, as those
 * of `load` have. The first fifth of the requests is not counted.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <libdeflate.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "proto/otlp/view/profiles.h"
#include "tests/bench/whole_file.h"

#define CONNECTIONS_MAX 64
#define ANSWER          35u          /* bytes, as many as gRPC's headers and trailers are */
#define READ_BYTES      (128u << 10) /* at a time, as the gateway reads */
#define ROUNDS          15

struct file {
    uint8_t *plain, *packed;
    size_t n, n_packed;
};

static struct {
    uint32_t n_connections;
    uint64_t n_requests;
    int gzip, server_cpu, client_cpu;
    struct file *files;
    int n_files;
    size_t plain_bytes, sent_bytes; /* of a file on average */
    int client_fd[CONNECTIONS_MAX], server_fd[CONNECTIONS_MAX];
    double client_us; /* a request */
} run = {.n_connections = 1, .n_requests = 1000, .server_cpu = -1, .client_cpu = -1};

static void die(const char *what)
{
    fprintf(stderr, "floor: %s: %s\n", what, strerror(errno));
    exit(1);
}

static double now_us(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(cpu, &set);
    if (cpu >= 0 && sched_setaffinity(0, sizeof set, &set) < 0)
        die("sched_setaffinity");
}

/* ---- the socket ---- */

static int watch(const int *fds, uint32_t events)
{
    int epoll = epoll_create1(0);
    for (uint32_t i = 0; i < run.n_connections; i++) {
        struct epoll_event e = {.events = events, .data.u32 = i};
        if (epoll < 0 || epoll_ctl(epoll, EPOLL_CTL_ADD, fds[i], &e) < 0)
            die("epoll");
    }
    return epoll;
}

static int wait_for(int epoll, struct epoll_event *ready)
{
    int n = epoll_wait(epoll, ready, CONNECTIONS_MAX, 30000);
    if (n <= 0)
        die("no bytes");
    return n;
}

/* CPU time of this thread since the first fifth was done; called once a request. */
static void account(uint64_t done, double *from)
{
    if (done == run.n_requests / 5)
        *from = now_us(CLOCK_THREAD_CPUTIME_ID);
}

static double a_request(double from)
{
    return (now_us(CLOCK_THREAD_CPUTIME_ID) - from) / (double)(run.n_requests - run.n_requests / 5);
}

/* Sends what fits and reads the answers that came, until the socket has nothing to do. */
static void client_turn(int fd, size_t *sent, uint64_t *begun, uint64_t *done, const uint8_t *body,
                        double *from)
{
    for (;;) {
        ssize_t n = 1;
        while (*sent < run.sent_bytes && n > 0) {
            n = send(fd, body + *sent, run.sent_bytes - *sent, MSG_NOSIGNAL);
            *sent += n > 0 ? (size_t)n : 0;
        }
        if (n < 0)
            return;
        uint8_t answer[ANSWER];
        if (*done == run.n_requests || recv(fd, answer, sizeof answer, 0) <= 0)
            return;
        account(++*done, from);
        if (*begun == run.n_requests)
            return;
        ++*begun;
        *sent = 0;
    }
}

static void *client(void *unused)
{
    pin(run.client_cpu);
    size_t sent[CONNECTIONS_MAX] = {0};
    uint64_t begun = run.n_connections, done = 0;
    double from = 0;
    uint8_t *body = calloc(1, run.sent_bytes);
    int epoll = watch(run.client_fd, EPOLLIN | EPOLLOUT | EPOLLET);
    while (body && done < run.n_requests) {
        struct epoll_event ready[CONNECTIONS_MAX];
        int n = wait_for(epoll, ready);
        for (int i = 0; i < n; i++) {
            uint32_t c = ready[i].data.u32;
            client_turn(run.client_fd[c], &sent[c], &begun, &done, body, &from);
        }
    }
    run.client_us = a_request(from);
    free(body);
    close(epoll);
    return NULL;
}

static double serve(void)
{
    pin(run.server_cpu);
    static uint8_t in[READ_BYTES];
    const uint8_t answer[ANSWER] = {0};
    size_t received[CONNECTIONS_MAX] = {0};
    uint64_t done = 0;
    double from = 0;
    int epoll = watch(run.server_fd, EPOLLIN);
    while (done < run.n_requests) {
        struct epoll_event ready[CONNECTIONS_MAX];
        int n = wait_for(epoll, ready);
        for (int i = 0; i < n; i++) {
            uint32_t c = ready[i].data.u32;
            ssize_t got = recv(run.server_fd[c], in, sizeof in, 0);
            if (got <= 0 && errno != EAGAIN)
                die("recv");
            received[c] += got > 0 ? (size_t)got : 0;
            if (received[c] < run.sent_bytes)
                continue;
            received[c] = 0;
            account(++done, &from);
            if (send(run.server_fd[c], answer, sizeof answer, MSG_NOSIGNAL) != (ssize_t)sizeof answer)
                die("send");
        }
    }
    close(epoll);
    return a_request(from);
}

static int ready_socket(int fd)
{
    int on = 1;
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0 ||
        fcntl(fd, F_SETFL, O_NONBLOCK) < 0)
        die("socket");
    return fd;
}

static double measure_socket(void)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    int listener = socket(AF_INET, SOCK_STREAM, 0);
    if (listener < 0 || bind(listener, (struct sockaddr *)&a, n) < 0 ||
        listen(listener, CONNECTIONS_MAX) < 0 || getsockname(listener, (struct sockaddr *)&a, &n) < 0)
        die("listen");
    for (uint32_t i = 0; i < run.n_connections; i++) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        if (fd < 0 || connect(fd, (struct sockaddr *)&a, sizeof a) < 0)
            die("connect");
        run.client_fd[i] = ready_socket(fd);
        run.server_fd[i] = ready_socket(accept(listener, NULL, NULL));
    }
    pthread_t thread;
    if ((errno = pthread_create(&thread, NULL, client, NULL)) != 0)
        die("thread");
    double us = serve();
    pthread_join(thread, NULL);
    return us;
}

/* ---- gunzip and decode ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static double median(double *values, int n)
{
    qsort(values, (size_t)n, sizeof *values, by_value);
    return values[n / 2];
}

/* The files in turn, since one alone again and again is learnt by the branch predictor. */
static double measure_gunzip(void)
{
    double took[ROUNDS];
    size_t largest = 0;
    for (int i = 0; i < run.n_files; i++)
        largest = run.files[i].n > largest ? run.files[i].n : largest;
    uint8_t *out = malloc(largest);
    struct libdeflate_decompressor *d = libdeflate_alloc_decompressor();
    for (int round = 0; round < ROUNDS; round++) {
        double from = now_us(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < run.n_files; i++) {
            size_t n;
            if (libdeflate_gzip_decompress(d, run.files[i].packed, run.files[i].n_packed, out, largest, &n) !=
                0)
                die("gunzip");
        }
        took[round] = (now_us(CLOCK_THREAD_CPUTIME_ID) - from) / run.n_files;
    }
    libdeflate_free_decompressor(d);
    free(out);
    return median(took, ROUNDS);
}

static double measure_decode(void)
{
    double took[ROUNDS];
    struct profiles view;
    if (profiles_init(&view, NULL) < 0)
        die("memory");
    for (int round = 0; round < ROUNDS; round++) {
        double from = now_us(CLOCK_THREAD_CPUTIME_ID);
        for (int i = 0; i < run.n_files; i++) {
            struct error e = {""};
            if (profiles_decode(&view, bytes_of(run.files[i].plain, run.files[i].n), &profiles_limits_default,
                                &e) != 0)
                die(e.text);
        }
        took[round] = (now_us(CLOCK_THREAD_CPUTIME_ID) - from) / run.n_files;
    }
    profiles_release(&view);
    return median(took, ROUNDS);
}

/* ---- beginning ---- */

static void read_files(char **paths)
{
    size_t plain = 0, packed = 0;
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(run.gzip > 0 ? run.gzip : 1);
    for (int i = 0; i < run.n_files; i++) {
        struct file *f = &run.files[i];
        if (!(f->plain = whole_file(paths[i], PROFILES_PADDING, &f->n)))
            die(paths[i]);
        plain += f->n;
        if (run.gzip == 0)
            continue;
        size_t cap = libdeflate_gzip_compress_bound(compressor, f->n);
        if (!(f->packed = malloc(cap)))
            die("memory");
        f->n_packed = libdeflate_gzip_compress(compressor, f->plain, f->n, f->packed, cap);
        packed += f->n_packed;
    }
    libdeflate_free_compressor(compressor);
    run.plain_bytes = plain / (size_t)run.n_files;
    run.sent_bytes = run.gzip > 0 ? packed / (size_t)run.n_files : run.plain_bytes;
}

static void parse_arguments(int argc, char **argv)
{
    int i = 1;
    for (; i + 1 < argc && strncmp(argv[i], "--", 2) == 0; i += 2) {
        const char *value = argv[i + 1];
        if (strcmp(argv[i], "--connections") == 0)
            run.n_connections = (uint32_t)atoi(value);
        else if (strcmp(argv[i], "--requests") == 0)
            run.n_requests = strtoull(value, NULL, 10);
        else if (strcmp(argv[i], "--gzip") == 0)
            run.gzip = atoi(value);
        else if (strcmp(argv[i], "--cpus") != 0 ||
                 sscanf(value, "%d,%d", &run.server_cpu, &run.client_cpu) != 2)
            break;
    }
    run.n_files = argc - i;
    if (run.n_files < 1 || run.n_connections < 1 || run.n_connections > CONNECTIONS_MAX ||
        run.n_requests < run.n_connections) {
        fprintf(
            stderr,
            "usage: floor [--connections N] [--requests N] [--gzip LEVEL] [--cpus SERVER,CLIENT] FILE...\n");
        exit(2);
    }
    run.files = calloc((size_t)run.n_files, sizeof *run.files);
    if (!run.files)
        die("memory");
    read_files(argv + i);
}

int main(int argc, char **argv)
{
    parse_arguments(argc, argv);
    double socket_us = measure_socket();
    double gunzip_us = run.gzip > 0 ? measure_gunzip() : 0, decode_us = measure_decode();
    printf("{\"socket_us\": %.2f, \"send_us\": %.2f, \"gunzip_us\": %.2f, \"decode_us\": %.2f, "
           "\"plain_bytes\": %zu, \"sent_bytes\": %zu}\n",
           socket_us, run.client_us, gunzip_us, decode_us, run.plain_bytes, run.sent_bytes);
    return 0;
}
