/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/context/variable.h"

#include <errno.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/dynamic.h"

#define NAME      "otel_thread_ctx_v1"
#define CHUNK     256u        /* relocations read at a time: 6 KB */
#define TLSDESC   36u         /* R_X86_64_TLSDESC */
#define FLAGS_PIE 0x08000000u /* DF_1_PIE */

/* Takes a relocation that says where the variable is: of the symbol itself, or, as linkers make them for
 * symbols that cannot be preempted, of the module. */
static bool take_relocation(const Elf64_Rela *r, uint32_t symbol, uint64_t value, struct variable *ret)
{
    uint32_t type = ELF64_R_TYPE(r->r_info), of = (uint32_t)ELF64_R_SYM(r->r_info);
    if (of != symbol && of != 0)
        return false;
    int64_t rest = of ? -r->r_addend : (int64_t)(value - (uint64_t)r->r_addend);
    if (type == TLSDESC)
        *ret = (struct variable){VARIABLE_DESCRIPTOR, r->r_offset, rest};
    else if (type == R_X86_64_DTPMOD64 && of)
        *ret = (struct variable){VARIABLE_MODULE, r->r_offset, 0};
    else if (type == R_X86_64_DTPMOD64)
        *ret = (struct variable){VARIABLE_OWN_MODULE, r->r_offset, (int64_t)value};
    else if (type == R_X86_64_TPOFF64)
        *ret = (struct variable){VARIABLE_THREAD, r->r_offset, rest};
    else
        return false;
    return true;
}

/* Looks through a table of relocations; one of the symbol goes before one of the module. */
static bool search(const struct dynamic *d, uint64_t at, uint64_t size, uint32_t symbol, uint64_t value,
                   struct variable *ret)
{
    Elf64_Rela chunk[CHUNK];
    bool found = false;
    uint64_t n = min_of(size / sizeof *chunk, (uint64_t)VARIABLE_RELOCATIONS_MAX);
    for (uint64_t i = 0; i < n; i += CHUNK) {
        uint64_t some = min_of(n - i, (uint64_t)CHUNK);
        if (!dynamic_read(d, at + i * sizeof *chunk, chunk, some * sizeof *chunk))
            return found;
        for (uint64_t j = 0; j < some; j++) {
            bool is_own = ELF64_R_SYM(chunk[j].r_info) == symbol;
            if ((is_own || !found) && take_relocation(&chunk[j], symbol, value, ret)) {
                found = true;
                if (is_own)
                    return true;
            }
        }
    }
    return found;
}

/* The executable's own storage ends at the thread pointer, rounded up to its alignment (Drepper, 3.4.6). */
static int in_executable(const struct dynamic *d, const Elf64_Phdr *tls, uint64_t value, struct variable *ret)
{
    uint64_t align = tls->p_align ? tls->p_align : 1;
    bool is_executable = d->header.e_type == ET_EXEC || (d->flags & FLAGS_PIE);
    if (!is_executable || (align & (align - 1)) || align > 1u << 20 || tls->p_memsz > 1u << 30)
        return -ENOTSUP;
    uint64_t size = (tls->p_memsz + align - 1) & ~(align - 1);
    *ret = (struct variable){.access = VARIABLE_EXECUTABLE, .offset = (int64_t)(value - size)};
    return 0;
}

int variable_find(const struct source *s, struct variable *ret)
{
    struct dynamic d;
    Elf64_Sym symbol;
    uint32_t number = 0;
    const Elf64_Phdr *tls = dynamic_open(&d, s) ? dynamic_header(&d, PT_TLS) : NULL;
    if (!tls || !dynamic_find(&d, NAME, STT_TLS, &symbol, &number))
        return VARIABLE_NONE;
    if (symbol.st_value > tls->p_memsz)
        return -ENOTSUP;
    struct variable by_plt = {0}, by_table = {0};
    /* Descriptors are where the linker likes them: among those of the PLT, or with the others. */
    bool in_plt = d.plt && search(&d, d.plt, d.plt_size, number, symbol.st_value, &by_plt);
    if (in_plt || (d.relocations &&
                   search(&d, d.relocations, d.relocations_size, number, symbol.st_value, &by_table))) {
        *ret = in_plt ? by_plt : by_table;
        return 0;
    }
    return in_executable(&d, tls, symbol.st_value, ret);
}
