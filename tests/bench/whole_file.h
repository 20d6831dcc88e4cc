/* SPDX-License-Identifier: Apache-2.0 */
/* A file's bytes at once, as all programs here want them. */
#ifndef TESTS_BENCH_WHOLE_FILE_H
#define TESTS_BENCH_WHOLE_FILE_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

/* The bytes of a file, with `padding` zero bytes (and one) behind them; to be freed. NULL with errno when it
 * cannot be read. */
static inline uint8_t *whole_file(const char *path, size_t padding, size_t *ret_n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        return NULL;
    uint8_t *p = NULL;
    long n = fseek(f, 0, SEEK_END) == 0 ? ftell(f) : -1;
    if (n >= 0 && fseek(f, 0, SEEK_SET) == 0)
        p = calloc(1, (size_t)n + padding + 1);
    if (p && fread(p, 1, (size_t)n, f) != (size_t)n) {
        free(p);
        p = NULL;
    }
    fclose(f);
    *ret_n = p ? (size_t)n : 0;
    return p;
}

#endif
