/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize */
/* Go's line table, as the section's bytes. */
#include "sender/symbolize/go/pclntab.h"
#include "tests/fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct elf elf = {.go_lines = {.size = len}, .text = {.address = 0x401000, .size = 0x60}};
    struct pclntab table;
    static struct pclntab_chain chain;
    if (pclntab_open(&table, &s, &elf) < 0)
        return 0;
    if (table.version >= 118)
        table.function_data = len / 2 + 1; /* inline trees: some bytes of it */
    for (uint64_t address = 0x400ff0; address < 0x401070; address += 8) {
        if (pclntab_chain(&table, address, &chain) == 0 &&
            (chain.n == 0 || chain.n > PCLNTAB_DEPTH_MAX || address < chain.start || address >= chain.end ||
             (chain.n < PCLNTAB_DEPTH_MAX && chain.frame[chain.n - 1].name[0] == 0)))
            __builtin_trap();
    }
    (void)pclntab_chain(&table, UINT64_MAX, &chain);
    (void)pclntab_chain(&table, 0, &chain);
    return 0;
}
