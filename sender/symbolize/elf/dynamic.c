/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/dynamic.h"

#include <string.h>

#include "proto/base/macros.h"

bool dynamic_read(const struct dynamic *d, uint64_t address, void *to, size_t n)
{
    for (uint32_t i = 0; i < d->n_program; i++) {
        const Elf64_Phdr *p = &d->program[i];
        uint64_t into = address - p->p_vaddr;
        if (p->p_type == PT_LOAD && address >= p->p_vaddr && into < p->p_filesz)
            return n <= p->p_filesz - into && source_read(d->source, p->p_offset + into, to, n);
    }
    return false;
}

static bool read_u32(const struct dynamic *d, uint64_t address, uint32_t *to)
{
    return dynamic_read(d, address, to, sizeof *to);
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
    case DT_RELACOUNT: d->n_relative = value; break;
    case DT_JMPREL: d->plt = value; break;
    case DT_PLTRELSZ: d->plt_size = value; break;
    case DT_FLAGS_1: d->flags = value; break;
    case DT_NEEDED:
        if (d->n_needed < DYNAMIC_NEEDED_MAX)
            d->needed[d->n_needed++] = value;
        break;
    default: break;
    }
}

const Elf64_Phdr *dynamic_header(const struct dynamic *d, uint32_t type)
{
    for (uint32_t i = 0; i < d->n_program; i++)
        if (d->program[i].p_type == type)
            return &d->program[i];
    return NULL;
}

bool dynamic_open(struct dynamic *d, const struct source *s)
{
    *d = (struct dynamic){.source = s};
    const Elf64_Ehdr *h = &d->header;
    if (!source_read(s, 0, &d->header, sizeof d->header) || memcmp(h->e_ident, ELFMAG, SELFMAG) != 0 ||
        h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_machine != EM_X86_64 ||
        h->e_phentsize != sizeof(Elf64_Phdr) || h->e_phoff > s->size)
        return false;
    uint32_t n_program = min_of((uint32_t)h->e_phnum, DYNAMIC_HEADERS_MAX);
    if (!source_read(s, h->e_phoff, d->program, n_program * sizeof *d->program))
        return false;
    d->n_program = n_program;
    Elf64_Dyn entry[DYNAMIC_ENTRIES_MAX];
    const Elf64_Phdr *dynamic = dynamic_header(d, PT_DYNAMIC);
    size_t n = 0;
    if (dynamic)
        n = source_read_some(s, dynamic->p_offset, entry,
                             (size_t)min_of(dynamic->p_filesz, (uint64_t)sizeof entry)) /
            sizeof *entry;
    for (size_t i = 0; i < n && entry[i].d_tag != DT_NULL; i++)
        take_entry(d, &entry[i]);
    return d->symbols && d->strings;
}

/* What is looked for. */
struct sought {
    const char *name;
    size_t n; /* of the name, its NUL included */
    unsigned type;
};

/* Whether symbol i is the one, defined here. */
static bool is_it(const struct dynamic *d, uint32_t i, const struct sought *of, Elf64_Sym *ret)
{
    char name[DYNAMIC_NAME_MAX];
    return dynamic_read(d, d->symbols + (uint64_t)i * sizeof *ret, ret, sizeof *ret) &&
           ELF64_ST_TYPE(ret->st_info) == of->type && ret->st_shndx != SHN_UNDEF &&
           ret->st_name < d->strings_size && dynamic_read(d, d->strings + ret->st_name, name, of->n) &&
           memcmp(name, of->name, of->n) == 0;
}

/* DT_HASH (gABI, "Hash Table"): numbers of buckets and of chains; the buckets' first symbols; each symbol's
 * next. */
static bool find_by_old_hash(const struct dynamic *d, const struct sought *of, uint32_t *ret,
                             Elf64_Sym *symbol)
{
    uint32_t head[2], hash = 0, i;
    for (const char *c = of->name; *c; c++) {
        hash = (hash << 4) + (uint8_t)*c;
        uint32_t high = hash & 0xf0000000u;
        hash = (hash ^ high >> 24) & ~high;
    }
    if (!d->hash || !dynamic_read(d, d->hash, head, sizeof head) || head[0] == 0)
        return false;
    uint64_t buckets = d->hash + sizeof head, chains = buckets + 4 * (uint64_t)head[0];
    uint64_t next = buckets + 4 * (uint64_t)(hash % head[0]);
    for (uint32_t n = 0; n < DYNAMIC_CHAIN_MAX && read_u32(d, next, &i) && i != 0; n++) {
        *ret = i;
        if (is_it(d, i, of, symbol))
            return true;
        next = chains + 4 * (uint64_t)i;
    }
    return false;
}

/* DT_GNU_HASH: buckets, first symbol, words of the filter, shift; filter, buckets, then a value for each
 * symbol from the first, of which an odd one ends its chain. */
static bool find_by_hash(const struct dynamic *d, const struct sought *of, uint32_t *ret, Elf64_Sym *symbol)
{
    uint32_t head[4], hash = 5381, i, value;
    for (const char *c = of->name; *c; c++)
        hash = hash * 33 + (uint8_t)*c;
    if (!dynamic_read(d, d->gnu_hash, head, sizeof head) || head[0] == 0)
        return false;
    uint64_t buckets = d->gnu_hash + sizeof head + 8 * (uint64_t)head[2];
    uint64_t values = buckets + 4 * (uint64_t)head[0];
    if (!read_u32(d, buckets + 4 * (uint64_t)(hash % head[0]), &i) || i < head[1] || i == 0)
        return false;
    for (uint32_t n = 0; n < DYNAMIC_CHAIN_MAX; n++, i++) {
        if (!read_u32(d, values + 4 * (uint64_t)(i - head[1]), &value))
            return false;
        *ret = i;
        if ((value | 1) == (hash | 1) && is_it(d, i, of, symbol))
            return true;
        if ((value & 1) || i == UINT32_MAX)
            return false;
    }
    return false;
}

bool dynamic_find(const struct dynamic *d, const char *name, unsigned type, Elf64_Sym *ret, uint32_t *number)
{
    uint32_t ignored;
    struct sought of = {name, strlen(name) + 1, type};
    if (of.n > DYNAMIC_NAME_MAX)
        return false;
    return (d->gnu_hash ? find_by_hash : find_by_old_hash)(d, &of, number ? number : &ignored, ret);
}
