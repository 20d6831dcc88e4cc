/* SPDX-License-Identifier: Apache-2.0 */
/* The line of each instruction, by sender/runtimes/cpython/lines.c: reads lines of "minor first at,at,…
 * table" (hex), writes one each of the lines found. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sender/runtimes/cpython/lines.h"

int main(void)
{
    static char at[1 << 22], hex[1 << 22];
    static uint8_t table[1 << 21];
    unsigned minor, first;
    while (scanf("%u %u %4194303s %4194303s", &minor, &first, at, hex) == 4) {
        size_t n = strlen(hex) / 2;
        for (size_t i = 0; i < n; i++) {
            unsigned byte;
            sscanf(hex + 2 * i, "%2x", &byte);
            table[i] = (uint8_t)byte;
        }
        struct source s = source_memory(bytes_of(table, n));
        for (char *p = strtok(at, ","); p; p = strtok(NULL, ","))
            printf("%u ", cpython_line(&s, 0, n, minor, first, (uint32_t)atoi(p)));
        puts("");
    }
    return 0;
}
