/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/symbolize sender/runtimes */
/* An ELF file of a profiled process: headers, notes, symbol tables, Go lines, packed sections. */
#include <stdlib.h>
#include <string.h>

#include "sender/runtimes/go/go.h"
#include "sender/symbolize/elf/elf.h"
#include "sender/symbolize/go/pclntab.h"
#include "sender/symbolize/elf/stub.h"
#include "sender/symbolize/elf/symtab.h"
#include "sender/symbolize/elf/unpack.h"
#include "tests/fuzz/fuzz.h"

/* A packed section says the same again, from its marks and in one go. */
static void read_packed(struct packed *p, const struct source *s)
{
    uint8_t one[512], same[512];
    int64_t work = 8 << 20;
    packed_use(p, s, &work);
    for (uint64_t at = 0; at < 1 << 20; at += 100003) {
        size_t n = packed_read(p, at, one, sizeof one);
        if (n && work > 0 && packed_read(p, 0, same, 1) == 1 && packed_read(p, at, same, n) == n &&
            memcmp(one, same, n) != 0)
            __builtin_trap();
    }
    if (work < -(1 << 20))
        __builtin_trap();
    packed_rest(p);
    if (packed_read(p, 0, one, sizeof one))
        __builtin_trap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct elf elf;
    char hash[33], name[SYMTAB_NAME_MAX];
    if (elf_read(&elf, &s) < 0)
        return 0;
    (void)elf_htlhash(&s, hash);
    uint64_t at, addresses[] = {0x100, 0x1000, 0x1040, 0x401000, UINT64_MAX - 1};
    enum { N = sizeof addresses / sizeof *addresses };
    for (int i = 0; i < N; i++)
        (void)elf_address(&elf, addresses[i], &at);
    struct symtab_answer answers[N];
    symtab_begin(answers, addresses, N);
    struct symtab_index index = {0};
    (void)symtab_search(&s, &elf.symbols, &elf.symbol_names, &index, answers, N);
    (void)symtab_search(&s, &elf.dynamic, &elf.dynamic_names, NULL, answers, N);
    symtab_index_release(&index);
    for (int i = 0; i < N; i++) {
        if (answers[i].address < answers[i].start || answers[i].address >= answers[i].end)
            __builtin_trap();
        if (answers[i].name_at)
            (void)source_string(&s, answers[i].name_at, name, sizeof name);
    }
    for (size_t i = 0; i < sizeof elf.plt / sizeof *elf.plt; i++) {
        uint64_t stub = elf.plt[i].address + 17, start, end;
        if (!stub_bounds(&s, &elf, stub, &start, &end))
            continue;
        if (stub < start || stub >= end || stub_name(&s, start, name, sizeof name) >= sizeof name)
            __builtin_trap();
    }
    uint8_t *memory;
    size_t size;
    if (elf.mini_debug.size && unpack_xz(&s, &elf.mini_debug, &memory, &size) == 0)
        free(memory);
    for (int i = 0; i < ELF_DEBUG_N; i++) {
        struct extent extent;
        struct packed *packed = NULL;
        uint64_t left = 1 << 20;
        if (unpack_section(&s, &elf.debug[i], &left, &extent, &memory, &packed) == 0)
            free(memory);
        if (packed)
            read_packed(packed, &s);
        packed_free(packed);
    }
    if (go_minor(&s, &elf) >= 10000)
        __builtin_trap();
    struct pclntab table;
    static struct pclntab_chain chain;
    pclntab_find(&elf, &s);
    if (elf.go_lines.size && pclntab_open(&table, &s, &elf) == 0)
        for (int i = 0; i < N; i++)
            (void)pclntab_chain(&table, addresses[i], &chain);
    return 0;
}
