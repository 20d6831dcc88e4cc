/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cold part of the function that runs bytecode has no exported name. It is where the hot part jumps to,
 * if that is outside of it: of all such jumps (as far as bytes look like one) the one in the middle is in it,
 * and the table of the unwinder (.eh_frame_hdr) says where what is there begins and ends.
 */
#include "sender/runtimes/cpython/binary.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/eh_index.h"

#define EVAL_MAX  (1u << 20)
#define JUMPS_MAX 4096u

/* "…/python3.9", "…/libpython3.9.so.1.0": 9; 0: it does not say. */
static uint32_t minor_of_name(struct bytes path)
{
    static const char word[] = "python3.";
    struct bytes name = bytes_after_last(path, '/');
    uint32_t minor = 0;
    const uint8_t *at = memmem(name.p, name.n, word, sizeof word - 1), *end = name.p + name.n;
    if (!at)
        return 0;
    for (at += sizeof word - 1; at < end && *at >= '0' && *at <= '9' && minor < 100; at++)
        minor = 10 * minor + (*at - '0');
    return minor;
}

bool cpython_binary_find(struct cpython_binary *ret, const struct source *file, struct bytes path)
{
    struct dynamic d;
    Elf64_Sym eval, runtime, version;
    uint64_t hex = 0; /* 0x030b02f0: 3.11.2 */
    if (!dynamic_open(&d, file) || !dynamic_find(&d, "_PyEval_EvalFrameDefault", STT_FUNC, &eval, NULL) ||
        !dynamic_find(&d, "_PyRuntime", STT_OBJECT, &runtime, NULL))
        return false;
    *ret = (struct cpython_binary){.micro = CPYTHON_NO_MICRO,
                                   .eval = eval.st_value,
                                   .eval_size = eval.st_size,
                                   .runtime = runtime.st_value,
                                   .runtime_size = runtime.st_size};
    if (!dynamic_find(&d, "Py_Version", STT_OBJECT, &version, NULL))
        ret->minor = minor_of_name(path); /* before 3.11 */
    else if (dynamic_read(&d, version.st_value, &hex, sizeof hex) && hex >> 24 == 3)
        ret->minor = hex >> 16 & 255, ret->micro = hex >> 8 & 255;
    return ret->minor >= CPYTHON_MINOR_FIRST && ret->minor <= CPYTHON_MINOR_LAST;
}

static int compare(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
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

/* The bounds of what the unwinder's table has at an address. */
static bool bounds_of(const struct dynamic *d, uint64_t address, uint64_t *start, uint64_t *end)
{
    struct eh_index index;
    struct eh_entry entry, next;
    if (!eh_index_open(&index, d))
        return false;
    uint32_t low = 0, high = index.n;
    while (low < high) { /* the first one behind the address */
        uint32_t middle = low + (high - low) / 2;
        if (!eh_index_read(&index, middle, &entry, 1))
            return false;
        if (eh_index_address(&index, entry.start) <= address)
            low = middle + 1;
        else
            high = middle;
    }
    if (low == 0 || low == index.n || !eh_index_read(&index, low - 1, &entry, 1) ||
        !eh_index_read(&index, low, &next, 1))
        return false;
    *start = eh_index_address(&index, entry.start);
    *end = eh_index_address(&index, next.start);
    return *start < *end;
}

void cpython_binary_find_cold(struct cpython_binary *b, const struct source *file)
{
    struct dynamic d;
    uint64_t start, end;
    size_t n = (size_t)min_of(b->eval_size, (uint64_t)EVAL_MAX);
    autofree uint8_t *code = malloc(n + 1);
    autofree uint64_t *jump = malloc(JUMPS_MAX * sizeof *jump);
    if (!code || !jump || !dynamic_open(&d, file) || !dynamic_read(&d, b->eval, code, n))
        return;
    uint32_t n_jumps = jumps_out(code, n, b->eval, jump), n_inside = 0;
    if (n_jumps == 0 || !bounds_of(&d, jump[n_jumps / 2], &start, &end))
        return;
    for (uint32_t i = 0; i < n_jumps; i++)
        n_inside += jump[i] >= start && jump[i] < end;
    if (2 * n_inside <= n_jumps || (start < b->eval + b->eval_size && end > b->eval))
        return;
    b->cold = start;
    b->cold_size = end - start;
}
