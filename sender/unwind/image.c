/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "bpf/unwind.h"
#include "sender/symbolize/elf/reader.h"

/* A range of the file that holds frame information. */
struct frames_at {
    uint64_t offset, size, address;
    bool has_no_end;
};

static int by_offset(const void *a, const void *b)
{
    const struct image_segment *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Sorts; of segments that overlap in the file the first stays. */
static void settle_segments(struct image *image)
{
    uint32_t n = 0;
    qsort(image->segment, image->n_segments, sizeof image->segment[0], by_offset);
    for (uint32_t i = 0; i < image->n_segments; i++) {
        const struct image_segment *last = n ? &image->segment[n - 1] : NULL;
        if (!last || image->segment[i].offset >= last->offset + last->size)
            image->segment[n++] = image->segment[i];
    }
    image->n_segments = n;
}

static void read_segment(struct image *image, const struct source *s, const Elf64_Phdr *p)
{
    if (p->p_type != PT_LOAD || !(p->p_flags & PF_X) || image->n_segments == IMAGE_SEGMENTS_MAX)
        return;
    if (p->p_offset >= s->size || p->p_filesz == 0 || p->p_filesz > s->size - p->p_offset ||
        p->p_vaddr + p->p_filesz < p->p_vaddr)
        return;
    image->segment[image->n_segments++] =
        (struct image_segment){.address = p->p_vaddr, .offset = p->p_offset, .size = p->p_filesz};
}

static bool program_header(const struct source *s, const Elf64_Ehdr *h, uint32_t i, Elf64_Phdr *ret)
{
    return i < min_of((uint32_t)h->e_phnum, IMAGE_HEADERS_MAX) && h->e_phoff <= s->size &&
           source_read(s, h->e_phoff + (uint64_t)i * sizeof *ret, ret, sizeof *ret);
}

static bool section_header(const struct source *s, const Elf64_Ehdr *h, uint32_t i, Elf64_Shdr *ret)
{
    return i < min_of((uint32_t)h->e_shnum, IMAGE_HEADERS_MAX) && h->e_shoff <= s->size &&
           source_read(s, h->e_shoff + (uint64_t)i * sizeof *ret, ret, sizeof *ret);
}

/* .eh_frame by its section's name. */
static bool find_section(const struct source *s, const Elf64_Ehdr *h, struct frames_at *ret)
{
    Elf64_Shdr names, one;
    if (h->e_shentsize != sizeof one || !section_header(s, h, h->e_shstrndx, &names))
        return false;
    for (uint32_t i = 0; section_header(s, h, i, &one); i++) {
        char name[16] = "";
        if ((one.sh_type != SHT_PROGBITS && one.sh_type != SHT_X86_64_UNWIND) || one.sh_offset > s->size ||
            one.sh_size > s->size - one.sh_offset || one.sh_size == 0 || names.sh_offset > s->size)
            continue;
        if (!source_string(s, names.sh_offset + one.sh_name, name, sizeof name) ||
            strcmp(name, ".eh_frame") != 0)
            continue;
        *ret = (struct frames_at){one.sh_offset, one.sh_size, one.sh_addr, false};
        return true;
    }
    return false;
}

/* .eh_frame_hdr: where .eh_frame begins, for files without section headers, and the table of functions (LSB
 * Core 5.0, 10.6.2). */
static bool find_by_header(struct image *image, const struct source *s, const Elf64_Ehdr *h,
                           struct frames_at *ret)
{
    enum { PCREL_SDATA4 = 0x1b, UDATA4 = 0x03, DATAREL_SDATA4 = 0x3b };
    Elf64_Phdr p, hdr = {0};
    uint8_t start[12];
    for (uint32_t i = 0; program_header(s, h, i, &p); i++)
        if (p.p_type == PT_GNU_EH_FRAME)
            hdr = p;
    /* version 1, and the pointers as every linker writes them */
    if (hdr.p_type != PT_GNU_EH_FRAME || hdr.p_filesz < sizeof start ||
        !source_read(s, hdr.p_offset, start, sizeof start) || start[0] != 1 || start[1] != PCREL_SDATA4)
        return false;
    struct reader r = reader_of(bytes_of(start + 4, 8));
    uint64_t address = hdr.p_vaddr + 4 + (uint64_t)(int64_t)(int32_t)reader_fixed(&r, 4);
    uint64_t n = reader_fixed(&r, 4);
    if (start[2] == UDATA4 && start[3] == DATAREL_SDATA4 && n <= (hdr.p_filesz - sizeof start) / 8) {
        image->table = hdr.p_offset + sizeof start;
        image->table_address = hdr.p_vaddr;
        image->n_table = (uint32_t)n;
    }
    for (uint32_t i = 0; program_header(s, h, i, &p); i++) {
        uint64_t into = address - p.p_vaddr;
        if (p.p_type != PT_LOAD || address < p.p_vaddr || into >= p.p_filesz || p.p_offset > s->size ||
            p.p_filesz > s->size - p.p_offset)
            continue;
        *ret = (struct frames_at){p.p_offset + into, p.p_filesz - into, address, true};
        return true;
    }
    image->n_table = 0;
    return false;
}

/* Whom the file needs, of what it names as DT_NEEDED (gABI, "Dynamic Section"); who needs nobody has the code
 * that signal handlers return to, who needs the dynamic linker alone is the C library. */
static void read_needed(struct image *image, const struct source *s, const Elf64_Ehdr *h)
{
    Elf64_Phdr p, load;
    uint64_t name[4], strings = 0;
    uint32_t n = 0;
    image->is_alone = image->has_c_library = true;
    for (uint32_t i = 0; program_header(s, h, i, &p); i++) {
        Elf64_Dyn d = {.d_tag = DT_NEEDED + 1};
        if (p.p_type != PT_DYNAMIC)
            continue;
        for (uint64_t at = 0; at < p.p_filesz && d.d_tag != DT_NULL && p.p_offset <= s->size;
             at += sizeof d) {
            if (!source_read(s, p.p_offset + at, &d, sizeof d))
                break;
            if (d.d_tag == DT_STRTAB)
                strings = d.d_un.d_ptr;
            if (d.d_tag == DT_NEEDED && n < ARRAY_LEN(name))
                name[n++] = d.d_un.d_val;
        }
    }
    image->is_alone = n == 0;
    for (uint32_t i = 0; n > 0 && program_header(s, h, i, &load); i++) {
        uint64_t into = strings - load.p_vaddr;
        if (load.p_type != PT_LOAD || strings < load.p_vaddr || into >= load.p_filesz)
            continue;
        for (uint32_t j = 0; j < n; j++) {
            char what[4] = "";
            (void)source_string(s, load.p_offset + into + name[j], what, sizeof what);
            image->has_c_library &= strcmp(what, "ld-") == 0 || strcmp(what, "ld6") == 0;
        }
    }
}

/* mov $15, %rax; syscall: rt_sigreturn, by which a handler's return address leads back into the kernel. */
static const uint8_t restorer_code[IMAGE_RESTORER_SIZE] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

bool image_restorer(const struct source *s, uint64_t from, uint64_t to, uint64_t *ret)
{
    uint8_t part[2 * UNWIND_PAGE_SIZE];
    size_t n = source_read_some(s, from, part, (size_t)min_of(to - from, (uint64_t)sizeof part));
    const uint8_t *found = memmem(part, n, restorer_code, sizeof restorer_code);
    if (found)
        *ret = from + (uint64_t)(found - part);
    return found != NULL;
}

int image_read(struct image *ret, const struct source *of)
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    struct source_near near;
    const struct source pages = source_by_pages(of, &near), *s = &pages;
    struct frames_at at = {0}, by_name = {0};
    struct image image = {.source = of};
    if (!source_read(s, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64 ||
        h.e_phentsize != sizeof p)
        return IMAGE_NONE;
    for (uint32_t i = 0; program_header(s, &h, i, &p); i++)
        read_segment(&image, s, &p);
    settle_segments(&image);
    bool has_header = find_by_header(&image, s, &h, &at);
    /* With a table each function is found by it; without one all are read, and the section's end has to be
     * known. */
    bool has_frames = (has_header && image.n_table > 0) || find_section(s, &h, &by_name);
    if (image.n_segments > 0 && (has_frames || has_header)) {
        if (has_frames && image.n_table == 0)
            at = by_name;
        image.frames = (struct cfi_section){.source = of,
                                            .offset = at.offset,
                                            .size = min_of(at.size, (uint64_t)IMAGE_FRAMES_MAX),
                                            .address = at.address,
                                            .has_no_end = at.has_no_end};
    }
    read_needed(&image, s, &h);
    uint64_t room;
    if (!h.e_entry || !image_offset(&image, h.e_entry, &image.entry, &room))
        image.entry = 0;
    *ret = image;
    return 0;
}

bool image_offset(const struct image *image, uint64_t address, uint64_t *ret, uint64_t *room)
{
    for (uint32_t i = 0; i < image->n_segments; i++) {
        const struct image_segment *g = &image->segment[i];
        uint64_t into = address - g->address;
        if (address < g->address || into >= g->size)
            continue;
        *ret = g->offset + into;
        *room = g->size - into;
        return true;
    }
    return false;
}
