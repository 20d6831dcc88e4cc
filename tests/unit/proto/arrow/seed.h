/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams of 14 rows that Arrow's Go library wrote (tests/interop/pyroscope/arrow.go): "lz4", "zstd" and
 * "plain".
 */
#ifndef TESTS_UNIT_PROTO_ARROW_SEED_H
#define TESTS_UNIT_PROTO_ARROW_SEED_H

#include <stdio.h>

#include "proto/base/bytes.h"

static uint8_t seed_bytes[1u << 16];

static inline struct bytes seed(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, PG_SOURCE_DIR "/tests/fuzz/corpus/parca/%s", name);
    FILE *f = fopen(path, "re");
    size_t n = f ? fread(seed_bytes, 1, sizeof seed_bytes, f) : 0;
    if (f)
        fclose(f);
    return bytes_of(seed_bytes, n);
}

#endif
