/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Publishes a process context (OTEP 4719) and thread contexts (OTEP 4947), and burns CPU in threads that are
 * told apart by their names: `linked`, `other` (each with its own ids, and attributes), `plain` (no record),
 * `invalid` (a record that does not say it is valid), `odd` (a record at an odd address), `gone` (published
 * and taken back), `ids` (one of the two ids only), `late` (a key that is added while it runs).
 *
 *     context SECONDS [LIBRARY]     the variable is ours, or that of a library loaded at run time
 *
 * Until it is killed; with SECONDS below 0 it ends by itself after so many. The key is added at SIGUSR1.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifndef PR_SET_VMA
#define PR_SET_VMA           0x53564d41
#define PR_SET_VMA_ANON_NAME 0
#endif

struct header {
    char signature[8];
    uint32_t version, size;
    uint64_t published, payload;
};

struct __attribute__((packed)) record {
    uint8_t trace_id[16], span_id[8], valid, flags;
    uint16_t size;
    uint8_t attributes[612];
};

static struct header *header;
static uint8_t payload[2][512]; /* the one published, and the next */
static void (*publish)(void *);
static atomic_int stop;

#ifdef LINKED
void context_publish(void *);
#endif

static uint64_t boot_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_BOOTTIME, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* A field of protobuf: number, and bytes (shorter than 16 KiB). */
static size_t field(uint8_t *to, unsigned number, const void *bytes, size_t n)
{
    size_t at = 0;
    to[at++] = (uint8_t)(number << 3 | 2);
    if (n >= 128)
        to[at++] = (uint8_t)(n | 128);
    to[at++] = (uint8_t)(n >= 128 ? n >> 7 : n);
    memcpy(to + at, bytes, n);
    return at + n;
}

static size_t text(uint8_t *to, unsigned number, const char *s)
{
    return field(to, number, s, strlen(s));
}

/* KeyValue { key = 1; value = 2: AnyValue of the given bytes } */
static size_t key_value(uint8_t *to, unsigned number, const char *key, const uint8_t *value, size_t n)
{
    uint8_t both[400];
    size_t at = text(both, 1, key);
    at += field(both + at, 2, value, n);
    return field(to, number, both, at);
}

/* ProcessContext { resource = 1 { attributes = 1 }, attributes = 2 }, the map of keys with n of them. */
static size_t process_context(uint8_t *to, int n)
{
    static const char *const keys[] = {"http.route", "user.tier", "added.later"};
    uint8_t value[200], array[200], list[300], resource[200];
    size_t at, all = 0, n_array = 0;
    at = text(value, 1, "links-service");
    at = key_value(resource, 1, "service.name", value, at);
    all += field(to, 1, resource, at);
    at = text(value, 1, "tlsdesc_v1_dev");
    all += key_value(to + all, 2, "threadlocal.schema_version", value, at);
    for (int i = 0; i < n; i++) {
        at = text(value, 1, keys[i]);
        n_array += field(array + n_array, 1, value, at);
    }
    at = field(list, 5, array, n_array);
    all += key_value(to + all, 2, "threadlocal.attribute_key_map", list, at);
    return all;
}

static void publish_process(int n)
{
    uint8_t *to = payload[n & 1];
    size_t size = process_context(to, n);
    header->published = 0;
    atomic_thread_fence(memory_order_seq_cst);
    header->payload = (uint64_t)(uintptr_t)to;
    header->size = (uint32_t)size;
    header->version = 2;
    memcpy(header->signature, "OTEL_CTX", 8);
    atomic_thread_fence(memory_order_seq_cst);
    header->published = boot_ns();
}

static int make_process_context(void)
{
    header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (header == MAP_FAILED)
        return -1;
    if (prctl(PR_SET_VMA, PR_SET_VMA_ANON_NAME, header, 4096, "OTEL_CTX") != 0) {
        /* a kernel without names for such memory: a memfd has one */
        int fd = memfd_create("OTEL_CTX", MFD_CLOEXEC);
        if (fd < 0 || ftruncate(fd, 4096) < 0)
            return -1;
        header = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0);
        close(fd);
    }
    publish_process(2);
    return header == MAP_FAILED ? -1 : 0;
}

static void add_attribute(struct record *r, uint8_t key, const char *value)
{
    size_t n = strlen(value);
    r->attributes[r->size] = key;
    r->attributes[r->size + 1] = (uint8_t)n;
    memcpy(r->attributes + r->size + 2, value, n);
    r->size = (uint16_t)(r->size + 2 + n);
}

static struct record new_record(uint8_t id)
{
    struct record r = {.valid = 1, .flags = 1};
    memset(r.trace_id, id, sizeof r.trace_id);
    memset(r.span_id, id + 0x10, sizeof r.span_id);
    return r;
}

static volatile unsigned long sink;

static void burn(double seconds)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double end = (double)t.tv_sec + (double)t.tv_nsec / 1e9 + seconds;
    do {
        for (int i = 0; i < 20000; i++)
            sink += (unsigned long)i;
        clock_gettime(CLOCK_MONOTONIC, &t);
    } while ((double)t.tv_sec + (double)t.tv_nsec / 1e9 < end);
}

static volatile sig_atomic_t is_told;

static void on_signal(int number)
{
    is_told = number;
}

static void *run(void *argument)
{
    const char *name = argument;
    static _Alignas(16) struct record record[8];
    static _Alignas(16) uint8_t odd[sizeof(struct record) + 1];
    prctl(PR_SET_NAME, "begins"); /* nobody's who is told apart: others may be seen to be linked already */
    if (strcmp(name, "linked") == 0) {
        record[0] = new_record(0xa1);
        add_attribute(&record[0], 0, "/first");
        add_attribute(&record[0], 1, "gold");
        add_attribute(&record[0], 0, "/cart"); /* the last one counts */
        publish(&record[0]);
    } else if (strcmp(name, "other") == 0) {
        record[1] = new_record(0xb2);
        add_attribute(&record[1], 200, "no such key");
        record[1].attributes[record[1].size] = 1; /* an entry that is not whole */
        record[1].attributes[record[1].size + 1] = 250;
        record[1].size = (uint16_t)(record[1].size + 5);
        publish(&record[1]);
    } else if (strcmp(name, "invalid") == 0) {
        record[2] = new_record(0xc3);
        record[2].valid = 2;
        publish(&record[2]);
    } else if (strcmp(name, "odd") == 0) {
        struct record r = new_record(0xc4);
        memcpy(odd + 1, &r, sizeof r);
        publish(odd + 1);
    } else if (strcmp(name, "gone") == 0) {
        record[3] = new_record(0xc5);
        publish(&record[3]);
        publish(NULL);
    } else if (strcmp(name, "ids") == 0) {
        record[4] = new_record(0xc6);
        memset(record[4].span_id, 0, sizeof record[4].span_id);
        publish(&record[4]);
    } else if (strcmp(name, "late") == 0) {
        record[5] = new_record(0xd7);
        publish(&record[5]);
        prctl(PR_SET_NAME, name);
        while (!is_told && !stop)
            burn(0.02);
        publish_process(3);
        record[5].valid = 0;
        atomic_signal_fence(memory_order_seq_cst);
        add_attribute(&record[5], 2, "seen");
        atomic_signal_fence(memory_order_seq_cst);
        record[5].valid = 1;
    }
    prctl(PR_SET_NAME, name);
    while (!stop)
        burn(0.02);
    return NULL;
}

int main(int argc, char **argv)
{
    static char *const names[] = {"linked", "other", "plain", "invalid", "odd", "gone", "ids", "late"};
    enum { N = sizeof names / sizeof *names };
    pthread_t thread[N];
    double length = argc > 1 ? atof(argv[1]) : 0;
    signal(SIGUSR1, on_signal);
#ifdef LINKED
    publish = context_publish;
#else
    void *library = argc > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
    publish = library ? (void (*)(void *))dlsym(library, "context_publish") : NULL;
#endif
    if (!publish || make_process_context() < 0)
        return 1;
    for (int i = 0; i < N; i++)
        if (pthread_create(&thread[i], NULL, run, names[i]) != 0)
            return 1;
    burn(length < 0 ? -length : 1e9); /* the first thread is one without a record */
    stop = 1;
    for (int i = 0; i < N; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
