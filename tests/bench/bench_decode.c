/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view */
/*
 * What a decode costs: bench_decode ROUNDS FILE…
 *
 * Rotates over the files, because the same one again and again flatters by a third (the branch predictor
 * learns it), and prints for each file and for all the median of its rounds.
 */
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/otlp/view/profiles.h"
#include "tests/bench/whole_file.h"

struct input {
    const char *name;
    uint8_t *p;
    size_t n;
    uint64_t *took; /* nanoseconds, one a round */
};

static int by_time(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

static int input_read(struct input *in, const char *name, size_t rounds)
{
    in->name = name;
    in->p = whole_file(name, PROFILES_PADDING, &in->n);
    in->took = calloc(rounds, sizeof *in->took);
    return in->p && in->took ? 0 : -1;
}

int main(int argc, char **argv)
{
    size_t rounds = argc > 2 ? strtoul(argv[1], NULL, 10) : 0, n_inputs = argc > 2 ? (size_t)argc - 2 : 0;
    if (rounds == 0) {
        fprintf(stderr, "usage: %s ROUNDS FILE...\n", argv[0]);
        return 2;
    }
    struct input *in = calloc(n_inputs, sizeof *in);
    struct profiles v;
    if (!in || profiles_init(&v, NULL) < 0)
        return 1;
    for (size_t i = 0; i < n_inputs; i++)
        if (input_read(&in[i], argv[i + 2], rounds) < 0) {
            fprintf(stderr, "%s: cannot read\n", argv[i + 2]);
            return 1;
        }
    for (size_t round = 0; round < rounds; round++)
        for (size_t i = 0; i < n_inputs; i++) {
            struct error e = {""};
            uint64_t from = clock_monotonic();
            int r = profiles_decode(&v, bytes_of(in[i].p, in[i].n), &profiles_limits_default, &e);
            in[i].took[round] = clock_monotonic() - from;
            if (r != 0) {
                fprintf(stderr, "%s: condition %d: %s\n", in[i].name, r, e.text);
                return 1;
            }
        }
    double total_ns = 0, total_bytes = 0;
    for (size_t i = 0; i < n_inputs; i++) {
        qsort(in[i].took, rounds, sizeof *in[i].took, by_time);
        uint64_t median = in[i].took[rounds / 2];
        total_ns += (double)median;
        total_bytes += (double)in[i].n;
        printf("%9zu bytes %9.1f us %7.0f MB/s  %s\n", in[i].n, (double)median / 1e3,
               (double)in[i].n * 1e3 / (double)median, in[i].name);
    }
    printf("%zu files, %.0f bytes on average: median %.1f us a request, %.0f MB/s, columns %zu bytes\n",
           n_inputs, total_bytes / (double)n_inputs, total_ns / 1e3 / (double)n_inputs,
           total_bytes * 1e3 / total_ns, profiles_memory_used(&v));
    for (size_t i = 0; i < n_inputs; i++) {
        free(in[i].p);
        free(in[i].took);
    }
    free(in);
    profiles_release(&v);
    return 0;
}
