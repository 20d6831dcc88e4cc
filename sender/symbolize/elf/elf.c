/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/elf.h"

#include <elf.h>
#include <endian.h>
#include <errno.h>
#include <sha2.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/blocks.h"

#define HTL_PART 4096u

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define OUR_DATA ELFDATA2LSB
#else
#define OUR_DATA ELFDATA2MSB
#endif

static void read_segment(struct elf *elf, const Elf64_Phdr *p)
{
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || elf->n_segments == ELF_SEGMENTS_MAX)
        return;
    elf->segment[elf->n_segments++] = (struct elf_segment){.address = p->p_vaddr,
                                                           .file_offset = p->p_offset,
                                                           .file_size = p->p_filesz,
                                                           .memory_size = p->p_memsz};
}

struct bytes elf_note(struct bytes notes, uint64_t align, uint32_t type, const char owner[4])
{
    for (uint64_t at = 0; at + sizeof(Elf64_Nhdr) <= notes.n;) {
        Elf64_Nhdr h;
        memcpy(&h, notes.p + at, sizeof h);
        uint64_t name = at + sizeof h;
        uint64_t description = (name + h.n_namesz + align - 1) & ~(align - 1);
        uint64_t end = description + h.n_descsz;
        if (end > notes.n || name + h.n_namesz > notes.n)
            break;
        if (h.n_type == type && h.n_namesz == 4 && memcmp(notes.p + name, owner, 4) == 0)
            return bytes_of(notes.p + description, h.n_descsz);
        at = (end + align - 1) & ~(align - 1);
    }
    return (struct bytes){0};
}

/* cmd/internal/buildid of Go: owner "Go\0\0", type 4, the id as text */
#define NT_GO_BUILD_ID 4u

static void read_notes(struct elf *elf, const struct source *s, const Elf64_Phdr *p)
{
    size_t size = (size_t)min_of((uint64_t)p->p_filesz, (uint64_t)ELF_NOTES_MAX);
    autofree uint8_t *notes = malloc(size ? size : 1);
    if (!notes || !source_read(s, p->p_offset, notes, size))
        return;
    /* Fields are 4-aligned; in segments with p_align 8 the entries are 8-aligned (gABI "Note Section";
     * property notes) */
    const uint64_t align = p->p_align == 8 ? 8 : 4;
    const struct bytes all = bytes_of(notes, size), id = elf_note(all, align, NT_GNU_BUILD_ID, "GNU"),
                       go_id = elf_note(all, align, NT_GO_BUILD_ID, "Go\0");
    if (elf->build_id_n == 0 && id.n > 0 && id.n <= ELF_BUILD_ID_MAX) {
        memcpy(elf->build_id, id.p, id.n);
        elf->build_id_n = (uint32_t)id.n;
    }
    if (go_id.n > 0 && go_id.n <= ELF_GO_ID_MAX) {
        memcpy(elf->go_id, go_id.p, go_id.n);
        elf->go_id[go_id.n] = 0;
    }
}

static void read_segments(struct elf *elf, const struct source *s, const Elf64_Ehdr *h)
{
    uint32_t n = min_of((uint32_t)h->e_phnum, ELF_HEADERS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        Elf64_Phdr p;
        if (h->e_phoff > s->size || !source_read(s, h->e_phoff + (uint64_t)i * sizeof p, &p, sizeof p))
            return;
        read_segment(elf, &p);
        if (p.p_type == PT_TLS)
            elf->thread_size = p.p_memsz;
        if (p.p_type == PT_NOTE)
            read_notes(elf, s, &p);
    }
}

static bool section_header(const struct source *s, const Elf64_Ehdr *h, uint32_t i, Elf64_Shdr *ret)
{
    return i < h->e_shnum && h->e_shoff <= s->size &&
           source_read(s, h->e_shoff + (uint64_t)i * sizeof *ret, ret, sizeof *ret);
}

/* A section whose bytes are all in the file; else one of size 0. */
static struct elf_section section(const struct source *s, const Elf64_Shdr *h)
{
    if (h->sh_type == SHT_NOBITS || h->sh_offset > s->size || h->sh_size > s->size - h->sh_offset)
        return (struct elf_section){0};
    return (struct elf_section){.address = h->sh_addr,
                                .offset = h->sh_offset,
                                .size = h->sh_size,
                                .is_packed = h->sh_flags & SHF_COMPRESSED};
}

static struct elf_section plain_section(const struct source *s, const Elf64_Shdr *h)
{
    struct elf_section found = section(s, h);
    return found.is_packed ? (struct elf_section){0} : found;
}

/* Sections known by name. Only those of DWARF may be packed. */
static const struct {
    const char *name;
    size_t at;
    bool may_be_packed;
} named[] = {
    {".text", offsetof(struct elf, text), false},
    {".plt", offsetof(struct elf, plt[0]), false},
    {".plt.got", offsetof(struct elf, plt[1]), false},
    {".plt.sec", offsetof(struct elf, plt[2]), false},
    {".gopclntab", offsetof(struct elf, go_lines), false},
    {".data.rel.ro.gopclntab", offsetof(struct elf, go_lines), false},
    {".go.module", offsetof(struct elf, go_module), false},
    {".go.buildinfo", offsetof(struct elf, go_build), false},
    {".noptrdata", offsetof(struct elf, go_data), false},
    {".data.rel.ro", offsetof(struct elf, fixed_data), false},
    {".eh_frame", offsetof(struct elf, eh_frame), false},
    {".debug_frame", offsetof(struct elf, debug_frame), false},
    {".gnu_debuglink", offsetof(struct elf, debug_link), false},
    {".gnu_debugdata", offsetof(struct elf, mini_debug), false},
    {".gnu_debugaltlink", offsetof(struct elf, debug_alt), false},
    {".debug_sup", offsetof(struct elf, debug_sup), false},
    {".debug_info", offsetof(struct elf, debug[ELF_DEBUG_INFO]), true},
    {".debug_abbrev", offsetof(struct elf, debug[ELF_DEBUG_ABBREV]), true},
    {".debug_line", offsetof(struct elf, debug[ELF_DEBUG_LINE]), true},
    {".debug_str", offsetof(struct elf, debug[ELF_DEBUG_STR]), true},
    {".debug_line_str", offsetof(struct elf, debug[ELF_DEBUG_LINE_STR]), true},
    {".debug_ranges", offsetof(struct elf, debug[ELF_DEBUG_RANGES]), true},
    {".debug_rnglists", offsetof(struct elf, debug[ELF_DEBUG_RNGLISTS]), true},
    {".debug_addr", offsetof(struct elf, debug[ELF_DEBUG_ADDR]), true},
    {".debug_str_offsets", offsetof(struct elf, debug[ELF_DEBUG_STR_OFFSETS]), true},
    {".debug_aranges", offsetof(struct elf, debug[ELF_DEBUG_ARANGES]), true},
};

static void read_named(struct elf *elf, const struct source *s, const char *name, const Elf64_Shdr *h)
{
    for (size_t i = 0; i < ARRAY_LEN(named); i++) {
        if (strcmp(name, named[i].name) != 0)
            continue;
        *(struct elf_section *)((char *)elf + named[i].at) =
            named[i].may_be_packed ? section(s, h) : plain_section(s, h);
        return;
    }
}

static void read_sections(struct elf *elf, const struct source *s, const Elf64_Ehdr *h)
{
    Elf64_Shdr names, strings, one;
    if (h->e_shentsize != sizeof one || !section_header(s, h, h->e_shstrndx, &names))
        return; /* stripped of section headers: segments and notes are what there is */
    uint32_t n = min_of((uint32_t)h->e_shnum, ELF_HEADERS_MAX);
    for (uint32_t i = 0; i < n && section_header(s, h, i, &one); i++) {
        char name[32];
        if (one.sh_type == SHT_SYMTAB && section_header(s, h, one.sh_link, &strings)) {
            elf->symbols = plain_section(s, &one);
            elf->symbol_names = plain_section(s, &strings);
        } else if (one.sh_type == SHT_DYNSYM && section_header(s, h, one.sh_link, &strings)) {
            elf->dynamic = plain_section(s, &one);
            elf->dynamic_names = plain_section(s, &strings);
        } else if (one.sh_type == SHT_NOTE && h->e_phnum == 0) {
            read_notes(elf, s,
                       &(Elf64_Phdr){
                           .p_offset = one.sh_offset, .p_filesz = one.sh_size, .p_align = one.sh_addralign});
        } else if ((one.sh_type == SHT_PROGBITS || one.sh_type == SHT_X86_64_UNWIND) &&
                   names.sh_offset <= s->size) {
            if (source_string(s, names.sh_offset + one.sh_name, name, sizeof name))
                read_named(elf, s, name, &one);
        }
    }
}

int elf_read(struct elf *ret, const struct source *of)
{
    Elf64_Ehdr h;
    struct blocks_reader reader;
    autofree struct blocks *blocks = of->fd >= 0 && !of->read ? malloc(sizeof *blocks) : NULL;
    if (blocks)
        blocks_begin(blocks);
    const struct source by = blocks_source(blocks, &reader, of), *s = &by;
    if (!source_read(s, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0)
        return -ENOEXEC;
    /* What dwz takes out of debug files has no segments. */
    if (h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != OUR_DATA ||
        (h.e_phnum != 0 && h.e_phentsize != sizeof(Elf64_Phdr)))
        return -ENOEXEC;
    struct elf elf = {.entry = h.e_entry};
    read_segments(&elf, s, &h);
    read_sections(&elf, s, &h);
    *ret = elf;
    return 0;
}

const struct elf_segment *elf_address(const struct elf *elf, uint64_t file_offset, uint64_t *ret)
{
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const struct elf_segment *g = &elf->segment[i];
        if (file_offset >= g->file_offset && file_offset - g->file_offset < g->file_size) {
            *ret = file_offset - g->file_offset + g->address;
            return g;
        }
    }
    return NULL;
}

bool elf_bias(const struct source *file, uint64_t offset, uint64_t start, uint64_t *ret)
{
    struct elf elf;
    uint64_t address;
    if (elf_read(&elf, file) < 0 || !elf_address(&elf, offset, &address))
        return false;
    *ret = start - address;
    return true;
}

bool elf_file_offset(const struct source *s, uint64_t address, uint64_t *ret, uint64_t *room)
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    if (!source_read(s, 0, &h, sizeof h) || h.e_phentsize != sizeof p || h.e_phoff > s->size)
        return false;
    for (uint32_t i = 0; i < min_of((uint32_t)h.e_phnum, ELF_HEADERS_MAX); i++) {
        if (!source_read(s, h.e_phoff + (uint64_t)i * sizeof p, &p, sizeof p))
            return false;
        if (p.p_type != PT_LOAD || address < p.p_vaddr || address - p.p_vaddr >= p.p_filesz)
            continue;
        *ret = p.p_offset + (address - p.p_vaddr);
        *room = p.p_filesz - (address - p.p_vaddr);
        return *ret >= p.p_offset && *ret < s->size;
    }
    return false;
}

void elf_htlhash(const struct source *s, char ret[33])
{
    uint8_t text[2 * HTL_PART + 8], digest[SHA256_DIGEST_LENGTH];
    SHA2_CTX sha;
    uint64_t length = htobe64(s->size);
    size_t n = source_read_some(s, 0, text, HTL_PART);
    n += source_read_some(s, s->size > HTL_PART ? s->size - HTL_PART : 0, text + n, HTL_PART);
    memcpy(text + n, &length, sizeof length);
    SHA256Init(&sha);
    SHA256Update(&sha, text, n + sizeof length);
    SHA256Final(digest, &sha);
    for (int i = 0; i < 16; i++)
        snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}
