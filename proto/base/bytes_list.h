/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A list of slices that is kept in one piece with what they are of: memory for the slices and bytes_total()
 * behind them, in one allocation that frees both.
 */
#ifndef PROTO_BASE_BYTES_LIST_H
#define PROTO_BASE_BYTES_LIST_H

#include "proto/base/bytes.h"

static inline size_t bytes_total(const struct bytes *list, uint32_t n)
{
    size_t total = 0;
    for (uint32_t i = 0; i < n; i++)
        total += list[i].n;
    return total;
}

/* Copies the slices to `to`, and their bytes to `at`; a .p of NULL stays. Returns where the bytes end. */
static inline uint8_t *bytes_copy_list(struct bytes *to, const struct bytes *list, uint32_t n, uint8_t *at)
{
    for (uint32_t i = 0; i < n; i++) {
        to[i] = bytes_of(list[i].p ? at : NULL, list[i].n);
        if (list[i].n > 0)
            memcpy(at, list[i].p, list[i].n);
        at += list[i].n;
    }
    return at;
}

#endif
