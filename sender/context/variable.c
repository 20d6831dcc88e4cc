/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/context/variable.h"

#include <elf.h>
#include <errno.h>
#include <string.h>

#include "proto/base/macros.h"

#define NAME      "otel_thread_ctx_v1"
#define CHUNK     256u        /* relocations read at a time: 6 KB */
#define TLSDESC   36u         /* R_X86_64_TLSDESC */
#define HEADERS   64u         /* program headers looked at */
#define FLAGS_PIE 0x08000000u /* DF_1_PIE */

/* What a dynamic section says, as ELF addresses and sizes. */
struct dynamic {
    uint64_t symbols, strings, hash, gnu_hash;
    uint64_t relocations, relocations_size, plt, plt_size;
    uint64_t strings_size, flags;
};

struct file {
    const struct source *source;
    Elf64_Ehdr header;
    Elf64_Phdr program[HEADERS]; /* read once: each address is looked for in them */
    uint32_t n_program;
    Elf64_Phdr tls;
    struct dynamic dynamic;
};

/* n bytes at an ELF address. */
static bool read_at(const struct file *f, uint64_t address, void *to, size_t n)
{
    for (uint32_t i = 0; i < f->n_program; i++) {
        const Elf64_Phdr *p = &f->program[i];
        uint64_t into = address - p->p_vaddr;
        if (p->p_type == PT_LOAD && address >= p->p_vaddr && into < p->p_filesz)
            return n <= p->p_filesz - into && source_read(f->source, p->p_offset + into, to, n);
    }
    return false;
}

static bool read_u32(const struct file *f, uint64_t address, uint32_t *to)
{
    return read_at(f, address, to, sizeof *to);
}

static void take_entry(struct dynamic *d, const Elf64_Dyn *entry)
{
    uint64_t value = entry->d_un.d_val;
    switch (entry->d_tag) {
    case DT_SYMTAB: d->symbols = value; break;
    case DT_STRTAB: d->strings = value; break;
    case DT_STRSZ: d->strings_size = value; break;
    case DT_HASH: d->hash = value; break;
    case DT_GNU_HASH: d->gnu_hash = value; break;
    case DT_RELA: d->relocations = value; break;
    case DT_RELASZ: d->relocations_size = value; break;
    case DT_JMPREL: d->plt = value; break;
    case DT_PLTRELSZ: d->plt_size = value; break;
    case DT_FLAGS_1: d->flags = value; break;
    default: break;
    }
}

/* The dynamic section, and the segment of thread-local storage. False: one of them is missing. */
static bool read_headers(struct file *f)
{
    Elf64_Phdr dynamic = {0};
    const Elf64_Ehdr *h = &f->header;
    uint32_t n_program = min_of((uint32_t)h->e_phnum, HEADERS);
    if (!source_read(f->source, h->e_phoff, f->program, n_program * sizeof *f->program))
        return false;
    f->n_program = n_program;
    for (uint32_t i = 0; i < n_program; i++) {
        if (f->program[i].p_type == PT_DYNAMIC)
            dynamic = f->program[i];
        else if (f->program[i].p_type == PT_TLS)
            f->tls = f->program[i];
    }
    if (!dynamic.p_filesz || f->tls.p_type != PT_TLS)
        return false;
    uint64_t n = min_of(dynamic.p_filesz / sizeof(Elf64_Dyn), (uint64_t)VARIABLE_DYNAMIC_MAX);
    for (uint64_t i = 0; i < n; i++) {
        Elf64_Dyn entry;
        if (!source_read(f->source, dynamic.p_offset + i * sizeof entry, &entry, sizeof entry) ||
            entry.d_tag == DT_NULL)
            break;
        take_entry(&f->dynamic, &entry);
    }
    return f->dynamic.symbols && f->dynamic.strings;
}

/* Whether symbol i is the one, defined here. */
static bool is_it(const struct file *f, uint32_t i, Elf64_Sym *ret)
{
    char name[sizeof NAME];
    return read_at(f, f->dynamic.symbols + (uint64_t)i * sizeof *ret, ret, sizeof *ret) &&
           ELF64_ST_TYPE(ret->st_info) == STT_TLS && ret->st_shndx != SHN_UNDEF &&
           ret->st_name < f->dynamic.strings_size &&
           read_at(f, f->dynamic.strings + ret->st_name, name, sizeof name) &&
           memcmp(name, NAME, sizeof name) == 0;
}

/* DT_HASH (gABI, "Hash Table"): numbers of buckets and of chains; the buckets' first symbols; each symbol's
 * next. */
static bool find_by_old_hash(const struct file *f, uint32_t *ret, Elf64_Sym *symbol)
{
    uint32_t head[2], hash = 0, i;
    for (const char *c = NAME; *c; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        uint32_t high = hash & 0xf0000000u;
        hash = (hash ^ high >> 24) & ~high;
    }
    if (!f->dynamic.hash || !read_at(f, f->dynamic.hash, head, sizeof head) || head[0] == 0)
        return false;
    uint64_t buckets = f->dynamic.hash + sizeof head, chains = buckets + 4 * (uint64_t)head[0];
    uint64_t next = buckets + 4 * (uint64_t)(hash % head[0]);
    for (uint32_t n = 0; n < VARIABLE_CHAIN_MAX && read_u32(f, next, &i) && i != 0; n++) {
        *ret = i;
        if (is_it(f, i, symbol))
            return true;
        next = chains + 4 * (uint64_t)i;
    }
    return false;
}

/* DT_GNU_HASH: buckets, first symbol, words of the filter, shift; filter, buckets, then a value for each
 * symbol from the first, of which an odd one ends its chain. */
static bool find_by_hash(const struct file *f, uint32_t *ret, Elf64_Sym *symbol)
{
    uint32_t head[4], hash = 5381, i, value;
    for (const char *c = NAME; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    if (!read_at(f, f->dynamic.gnu_hash, head, sizeof head) || head[0] == 0)
        return false;
    uint64_t buckets = f->dynamic.gnu_hash + sizeof head + 8 * (uint64_t)head[2];
    uint64_t values = buckets + 4 * (uint64_t)head[0];
    if (!read_u32(f, buckets + 4 * (uint64_t)(hash % head[0]), &i) || i < head[1] || i == 0)
        return false;
    for (uint32_t n = 0; n < VARIABLE_CHAIN_MAX; n++, i++) {
        if (!read_u32(f, values + 4 * (uint64_t)(i - head[1]), &value))
            return false;
        *ret = i;
        if ((value | 1) == (hash | 1) && is_it(f, i, symbol))
            return true;
        if ((value & 1) || i == UINT32_MAX)
            return false;
    }
    return false;
}

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
static bool search(const struct file *f, uint64_t at, uint64_t size, uint32_t symbol, uint64_t value,
                   struct variable *ret)
{
    Elf64_Rela chunk[CHUNK];
    bool found = false;
    uint64_t n = min_of(size / sizeof *chunk, (uint64_t)VARIABLE_RELOCATIONS_MAX);
    for (uint64_t i = 0; i < n; i += CHUNK) {
        uint64_t some = min_of(n - i, (uint64_t)CHUNK);
        if (!read_at(f, at + i * sizeof *chunk, chunk, some * sizeof *chunk))
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
static int in_executable(const struct file *f, uint64_t value, struct variable *ret)
{
    uint64_t align = f->tls.p_align ? f->tls.p_align : 1;
    bool is_executable = f->header.e_type == ET_EXEC || (f->dynamic.flags & FLAGS_PIE);
    if (!is_executable || (align & (align - 1)) || align > 1u << 20 || f->tls.p_memsz > 1u << 30)
        return -ENOTSUP;
    uint64_t size = (f->tls.p_memsz + align - 1) & ~(align - 1);
    *ret = (struct variable){.access = VARIABLE_EXECUTABLE, .offset = (int64_t)(value - size)};
    return 0;
}

int variable_find(const struct source *s, struct variable *ret)
{
    struct file f = {.source = s};
    Elf64_Sym symbol;
    uint32_t number = 0;
    if (!source_read(s, 0, &f.header, sizeof f.header) || memcmp(f.header.e_ident, ELFMAG, SELFMAG) != 0 ||
        f.header.e_ident[EI_CLASS] != ELFCLASS64 || f.header.e_machine != EM_X86_64 ||
        f.header.e_phentsize != sizeof(Elf64_Phdr) || f.header.e_phoff > s->size)
        return VARIABLE_NONE;
    if (!read_headers(&f))
        return VARIABLE_NONE;
    if (!(f.dynamic.gnu_hash ? find_by_hash(&f, &number, &symbol) : find_by_old_hash(&f, &number, &symbol)))
        return VARIABLE_NONE;
    if (symbol.st_value > f.tls.p_memsz)
        return -ENOTSUP;
    struct variable by_plt = {0}, by_table = {0};
    const struct dynamic *d = &f.dynamic;
    /* Descriptors are where the linker likes them: among those of the PLT, or with the others. */
    bool in_plt = d->plt && search(&f, d->plt, d->plt_size, number, symbol.st_value, &by_plt);
    if (in_plt || (d->relocations &&
                   search(&f, d->relocations, d->relocations_size, number, symbol.st_value, &by_table))) {
        *ret = in_plt ? by_plt : by_table;
        return 0;
    }
    return in_executable(&f, symbol.st_value, ret);
}
