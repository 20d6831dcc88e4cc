/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_deflate */
/*
 * The unavoidable: what the same bytes cost at the very least, with no server around them. For the files
 * named, in turn: gunzip with libdeflate, and reading every protobuf tag of the message once. Prints one line
 * of JSON, microseconds per file (median over rounds).
 */
#include <libdeflate.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "proto/base/bytes.h"
#include "tests/bench/whole_file.h"

#define ROUNDS 31

struct file {
    uint8_t *plain, *packed;
    size_t n, n_packed;
};

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static const uint8_t *varint(const uint8_t *p, const uint8_t *end, uint64_t *ret)
{
    uint64_t value = 0;
    for (int shift = 0; p < end && shift < 64; shift += 7) {
        value |= (uint64_t)(*p & 0x7f) << shift;
        if (!(*p++ & 0x80)) {
            *ret = value;
            return p;
        }
    }
    return NULL;
}

/* Walks every field of a request once, into the messages but not into strings and packed lists: like the
 * cheapest decoder there can be. `enter` has a bit for each (depth, field) worth entering. */
static uint64_t scan(struct bytes message)
{
    struct {
        const uint8_t *end;
        uint8_t kind;
    } stack[16];
    enum { REQUEST, DICTIONARY, LEAF, RESOURCE_PROFILES, SCOPE_PROFILES, PROFILE, LOCATION };
    uint64_t fields = 0;
    int depth = 0;
    const uint8_t *p = message.p;
    stack[0].end = p + message.n;
    stack[0].kind = REQUEST;
    while (depth >= 0) {
        if (p == stack[depth].end) {
            depth--;
            continue;
        }
        uint64_t tag, value;
        if (!(p = varint(p, stack[depth].end, &tag)))
            return 0;
        fields++;
        switch (tag & 7) {
        case 0: p = varint(p, stack[depth].end, &value); break;
        case 1: p += 8; break;
        case 5: p += 4; break;
        case 2: {
            if (!(p = varint(p, stack[depth].end, &value)) || value > (size_t)(stack[depth].end - p))
                return 0;
            unsigned field = (unsigned)(tag >> 3), kind = stack[depth].kind;
            int inner = -1;
            if (kind == REQUEST)
                inner = field == 2 ? DICTIONARY : RESOURCE_PROFILES;
            else if (kind == DICTIONARY && field != 5)
                inner = field == 2 ? LOCATION : LEAF;
            else if (kind == LOCATION && field == 3)
                inner = LEAF;
            else if (kind == RESOURCE_PROFILES && field == 2)
                inner = SCOPE_PROFILES;
            else if (kind == SCOPE_PROFILES && field == 2)
                inner = PROFILE;
            else if (kind == PROFILE && field <= 2)
                inner = LEAF;
            if (inner < 0) {
                p += value;
            } else {
                depth++;
                stack[depth].end = p + value;
                stack[depth].kind = (uint8_t)inner;
            }
            break;
        }
        default: return 0;
        }
        if (!p || p > stack[depth].end)
            return 0;
    }
    return fields;
}

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

int main(int argc, char **argv)
{
    int n_files = argc - 1;
    struct file *files = calloc((size_t)n_files + 1, sizeof *files);
    size_t largest = 0, bytes = 0, packed = 0;
    if (n_files < 1 || !files) {
        fprintf(stderr, "usage: floor FILE...\n");
        return 2;
    }
    struct libdeflate_compressor *compressor = libdeflate_alloc_compressor(6);
    for (int i = 0; i < n_files; i++) {
        files[i].plain = whole_file(argv[i + 1], 0, &files[i].n);
        size_t cap = libdeflate_gzip_compress_bound(compressor, files[i].n);
        files[i].packed = malloc(cap);
        if (!files[i].plain || !files[i].packed)
            return 1;
        files[i].n_packed =
            libdeflate_gzip_compress(compressor, files[i].plain, files[i].n, files[i].packed, cap);
        largest = files[i].n > largest ? files[i].n : largest;
        bytes += files[i].n;
        packed += files[i].n_packed;
    }

    uint8_t *out = malloc(largest + 64);
    struct libdeflate_decompressor *decompressor = libdeflate_alloc_decompressor();
    double gunzip[ROUNDS], tags[ROUNDS];
    uint64_t fields = 0;
    for (int round = 0; round < ROUNDS; round++) {
        double t0 = now_us();
        for (int i = 0; i < n_files; i++) {
            size_t n;
            if (libdeflate_gzip_decompress(decompressor, files[i].packed, files[i].n_packed, out, largest,
                                           &n) != 0)
                return 1;
        }
        double t1 = now_us();
        for (int i = 0; i < n_files; i++)
            fields += scan(bytes_of(files[i].plain, files[i].n));
        double t2 = now_us();
        gunzip[round] = (t1 - t0) / n_files;
        tags[round] = (t2 - t1) / n_files;
    }
    if (fields == 0)
        return 1;
    printf("{\"gunzip_us\": %.2f, \"tags_us\": %.2f, \"plain_bytes\": %zu, \"gzip_bytes\": %zu}\n",
           median(gunzip, ROUNDS), median(tags, ROUNDS), bytes / (size_t)n_files, packed / (size_t)n_files);
    return 0;
}
