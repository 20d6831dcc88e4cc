/* SPDX-License-Identifier: Apache-2.0 */
/* A native load: sorts, hashes, copies through a pipe; some calls deep, built without frame pointers. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int by_value(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

__attribute__((noinline)) uint32_t hash(const char *text)
{
    uint32_t h = 2166136261u;
    while (*text)
        h = (h ^ (uint8_t)*text++) * 16777619u;
    return h;
}

__attribute__((noinline)) uint32_t round_of_work(uint32_t seed, int depth, const int pipe_fd[2])
{
    static uint32_t number[4096];
    if (depth > 0)
        return round_of_work(seed * 1103515245 + 12345, depth - 1, pipe_fd) + 1;
    char text[64];
    for (size_t i = 0; i < 4096; i++) {
        seed = seed * 1103515245 + 12345;
        snprintf(text, sizeof text, "%u/%zu", seed, i);
        number[i] = hash(text);
    }
    qsort(number, 4096, sizeof *number, by_value);
    if (write(pipe_fd[1], number, sizeof number) != sizeof number ||
        read(pipe_fd[0], number, sizeof number) != sizeof number)
        abort();
    return number[7];
}

int main(void)
{
    int pipe_fd[2];
    uint32_t seed = 1;
    if (pipe(pipe_fd) < 0)
        return 1;
    for (int depth = 0;; depth = (depth + 1) % 24)
        seed = round_of_work(seed, depth, pipe_fd);
}
