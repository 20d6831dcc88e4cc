/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize */
/* Go's line table, as the section's bytes. */
#include <stddef.h>
#include <stdint.h>

#include "sender/symbolize/go/pclntab.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct elf elf = {.go_lines = {.size = len}, .text = {.address = 0x401000, .size = 0x60}};
    struct pclntab table;
    struct pclntab_line line;
    static struct pclntab_chain chain;
    if (pclntab_open(&table, &s, &elf) < 0)
        return 0;
    if (table.version >= 118)
        table.function_data = len / 2 + 1; /* inline trees: some bytes of it */
    for (uint64_t address = 0x400ff0; address < 0x401070; address += 8) {
        if (pclntab_find(&table, address, &line) < 0)
            continue;
        if (address < line.start || address >= line.end || line.name[0] == 0)
            __builtin_trap();
        if (pclntab_chain(&table, address, &chain) == 0 &&
            (chain.n == 0 || chain.n > PCLNTAB_DEPTH_MAX || address < chain.start || address >= chain.end))
            __builtin_trap();
    }
    (void)pclntab_find(&table, UINT64_MAX, &line);
    (void)pclntab_find(&table, 0, &line);
    return 0;
}
