/* SPDX-License-Identifier: Apache-2.0 */
/*
 * It is where the function jumps to, if that is outside of it: of all such jumps (as far as bytes look like
 * one) the one in the middle is in it, and the table of the unwinder (.eh_frame_hdr) says where what is there
 * begins and ends.
 */
#include "sender/symbolize/elf/cold.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/eh_index.h"

#define CODE_MAX  (1u << 20)
#define JUMPS_MAX 4096u

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return order_of(x, y);
}

/* Where code at `address` seems to jump to that is outside of it, ascending; how many. */
static uint32_t jumps_out(const uint8_t *code, size_t n, uint64_t address, uint64_t *ret)
{
    uint32_t n_found = 0;
    for (size_t i = 0; i + 6 <= n && n_found < JUMPS_MAX; i++) {
        bool is_near = code[i] == 0xe9, is_conditional = code[i] == 0x0f && (code[i + 1] & 0xf0) == 0x80;
        size_t end = i + (is_near ? 5 : 6);
        int32_t distance;
        memcpy(&distance, code + end - 4, sizeof distance);
        uint64_t to = address + end + (uint64_t)(int64_t)distance;
        if ((is_near || is_conditional) && to - address >= n)
            ret[n_found++] = to;
    }
    qsort(ret, n_found, sizeof *ret, compare);
    return n_found;
}

bool cold_find(const struct dynamic *d, uint64_t hot, uint64_t hot_size, uint64_t *ret, uint64_t *ret_size)
{
    uint64_t start, end;
    size_t n = (size_t)min_of(hot_size, (uint64_t)CODE_MAX);
    autofree uint8_t *code = malloc(n + 1);
    autofree uint64_t *jump = malloc(JUMPS_MAX * sizeof *jump);
    if (!code || !jump || !dynamic_read(d, hot, code, n))
        return false;
    uint32_t n_jumps = jumps_out(code, n, hot, jump), n_inside = 0;
    if (n_jumps == 0 || !eh_index_bounds(d, jump[n_jumps / 2], &start, &end))
        return false;
    for (uint32_t i = 0; i < n_jumps; i++)
        n_inside += jump[i] >= start && jump[i] < end;
    if (2 * n_inside <= n_jumps || (start < hot + hot_size && end > hot))
        return false;
    *ret = start;
    *ret_size = end - start;
    return true;
}
