/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A stub jumps to where a word of the file points, and a relocation says whose address the dynamic linker
 * puts there (psABI, "Procedure Linkage Table"). Where it is in two parts, the one that is for the first call
 * pushes the relocation's number.
 */
#include "sender/symbolize/elf/stub.h"

#include <stdio.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/dynamic.h"

#define STUB_SIZE 16u
#define CHUNK     256u /* relocations read at a time: 6 KB */

/* Those of .plt.got may be half as long: jmp *x(%rip); xchg %ax, %ax. */
static bool is_half(const uint8_t *code)
{
    return code[0] == 0xff && code[1] == 0x25 && code[6] == 0x66 && code[7] == 0x90;
}

bool stub_bounds(const struct source *s, const struct elf *elf, uint64_t address, uint64_t *start,
                 uint64_t *end)
{
    uint64_t offset, room;
    uint8_t code[STUB_SIZE];
    for (size_t i = 0; i < ARRAY_LEN(elf->plt); i++) {
        const struct elf_section *plt = &elf->plt[i];
        uint64_t into = address - plt->address;
        if (into >= plt->size)
            continue;
        uint64_t size = STUB_SIZE, from = plt->address + into / size * size;
        if (elf_file_offset(s, from, &offset, &room) && source_read(s, offset, code, sizeof code) &&
            is_half(code)) {
            size /= 2;
            from = plt->address + into / size * size;
        }
        *start = from;
        *end = min_of(from + size, plt->address + plt->size);
        return from <= address && *end > address; /* a file may say that it goes round */
    }
    return false;
}

/* Whom a stub calls: by the address of a word, or by the number of a relocation. */
struct called {
    bool by_number;
    uint64_t word;
    uint32_t number;
};

static bool read_stub(const struct dynamic *d, uint64_t start, struct called *ret)
{
    static const uint8_t landing[] = {0xf3, 0x0f, 0x1e, 0xfa}; /* endbr64 */
    uint8_t code[STUB_SIZE + 8] = {0};
    size_t i = 0;
    int32_t operand;
    if (!dynamic_read(d, start, code, STUB_SIZE) && !dynamic_read(d, start, code, STUB_SIZE / 2))
        return false;
    if (memcmp(code, landing, sizeof landing) == 0)
        i += sizeof landing;
    if (code[i] == 0x41 && code[i + 1] == 0xbb) /* mold's: mov $number, %r11d */
        i += 6;
    i += code[i] == 0xf2;  /* bnd */
    if (code[i] == 0x68) { /* push $number */
        ret->by_number = true;
        memcpy(&ret->number, code + i + 1, sizeof ret->number);
        return true;
    }
    if (code[i] != 0xff || code[i + 1] != 0x25)
        return false;
    memcpy(&operand, code + i + 2, sizeof operand);
    ret->by_number = false;
    ret->word = start + i + 6 + (uint64_t)(int64_t)operand;
    return true;
}

/* The relocation of a word among `size` bytes of them, from number `first` on. */
static bool find_by_word(const struct dynamic *d, uint64_t at, uint64_t size, uint64_t first, uint64_t word,
                         Elf64_Rela *ret)
{
    Elf64_Rela chunk[CHUNK];
    uint64_t n = size / sizeof *chunk;
    n = n > first ? min_of(n, first + STUB_RELOCATIONS_MAX) : first;
    for (uint64_t i = first; i < n; i += CHUNK) {
        size_t count = (size_t)min_of(n - i, (uint64_t)CHUNK);
        if (!dynamic_read(d, at + i * sizeof *chunk, chunk, count * sizeof *chunk))
            return false;
        for (size_t k = 0; k < count; k++) {
            if (chunk[k].r_offset == word) {
                *ret = chunk[k];
                return true;
            }
        }
    }
    return false;
}

static bool find_relocation(const struct dynamic *d, const struct called *called, Elf64_Rela *ret)
{
    if (called->by_number)
        return called->number < d->plt_size / sizeof *ret &&
               dynamic_read(d, d->plt + (uint64_t)called->number * sizeof *ret, ret, sizeof *ret);
    return find_by_word(d, d->plt, d->plt_size, 0, called->word, ret) ||
           find_by_word(d, d->relocations, d->relocations_size, d->n_relative, called->word, ret);
}

size_t stub_name(const struct source *s, uint64_t start, char *to, size_t room)
{
    static const char behind[] = "@plt";
    struct dynamic d;
    struct called called;
    Elf64_Rela relocation;
    Elf64_Sym symbol;
    uint64_t offset, left;
    if (room > sizeof behind && dynamic_open(&d, s) && read_stub(&d, start, &called) &&
        find_relocation(&d, &called, &relocation) && ELF64_R_SYM(relocation.r_info) != 0 &&
        dynamic_read(&d, d.symbols + ELF64_R_SYM(relocation.r_info) * sizeof symbol, &symbol,
                     sizeof symbol) &&
        symbol.st_name < d.strings_size && elf_file_offset(s, d.strings + symbol.st_name, &offset, &left)) {
        size_t n = source_string(s, offset, to, room - sizeof behind + 1);
        if (n > 0) {
            memcpy(to + n, behind, sizeof behind);
            return n + sizeof behind - 1;
        }
    }
    return (size_t)snprintf(to, room, ".plt");
}
