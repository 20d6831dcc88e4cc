/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/reader.h"

/* A range of the file that holds frame information. */
struct frames_at {
    uint64_t offset, size, address;
    bool is_debug, has_no_end;
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

/* .eh_frame, else .debug_frame, by section name. */
static bool find_section(const struct source *s, const Elf64_Ehdr *h, struct frames_at *ret)
{
    Elf64_Shdr names, one;
    bool found = false;
    if (h->e_shentsize != sizeof one || !section_header(s, h, h->e_shstrndx, &names))
        return false;
    for (uint32_t i = 0; section_header(s, h, i, &one); i++) {
        char name[16] = "";
        if ((one.sh_type != SHT_PROGBITS && one.sh_type != SHT_X86_64_UNWIND) ||
            (one.sh_flags & SHF_COMPRESSED) || one.sh_offset > s->size ||
            one.sh_size > s->size - one.sh_offset || one.sh_size == 0 || names.sh_offset > s->size)
            continue;
        if (!source_string(s, names.sh_offset + one.sh_name, name, sizeof name))
            continue;
        bool is_eh = strcmp(name, ".eh_frame") == 0;
        if (!is_eh && (found || strcmp(name, ".debug_frame") != 0))
            continue;
        *ret = (struct frames_at){one.sh_offset, one.sh_size, one.sh_addr, !is_eh, false};
        if (is_eh)
            return true;
        found = true;
    }
    return found;
}

/* Where .eh_frame_hdr says that .eh_frame begins: files without section headers (LSB Core 5.0, 10.6.2). */
static bool find_by_header(const struct source *s, const Elf64_Ehdr *h, struct frames_at *ret)
{
    Elf64_Phdr p, hdr = {0};
    uint8_t start[8];
    for (uint32_t i = 0; program_header(s, h, i, &p); i++)
        if (p.p_type == PT_GNU_EH_FRAME)
            hdr = p;
    /* version 1, and the pointer pcrel sdata4, as every linker writes it */
    if (hdr.p_type != PT_GNU_EH_FRAME || !source_read(s, hdr.p_offset, start, sizeof start) ||
        start[0] != 1 || start[1] != 0x1b)
        return false;
    struct reader r = reader_of(bytes_of(start + 4, 4));
    uint64_t address = hdr.p_vaddr + 4 + (uint64_t)(int64_t)(int32_t)reader_fixed(&r, 4);
    for (uint32_t i = 0; program_header(s, h, i, &p); i++) {
        uint64_t into = address - p.p_vaddr;
        if (p.p_type != PT_LOAD || address < p.p_vaddr || into >= p.p_filesz || p.p_offset > s->size ||
            p.p_filesz > s->size - p.p_offset)
            continue;
        *ret = (struct frames_at){p.p_offset + into, p.p_filesz - into, address, false, true};
        return true;
    }
    return false;
}

static int read_frames(struct image *image, const struct source *s, const struct frames_at *at)
{
    size_t size = (size_t)min_of(at->size, (uint64_t)IMAGE_FRAMES_MAX);
    image->memory = malloc(size);
    if (!image->memory)
        return -ENOMEM;
    image->frames = (struct cfi_section){
        .bytes = bytes_of(image->memory, source_read_some(s, at->offset, image->memory, size)),
        .address = at->address,
        .is_debug = at->is_debug,
        .has_no_end = at->has_no_end,
    };
    return 0;
}

/* Whether the file names libraries it needs (gABI, "Dynamic Section"): then it leaves signals to them. */
static bool needs_library(const struct source *s, const Elf64_Ehdr *h)
{
    Elf64_Phdr p;
    for (uint32_t i = 0; program_header(s, h, i, &p); i++) {
        Elf64_Dyn d = {.d_tag = DT_NEEDED + 1};
        if (p.p_type != PT_DYNAMIC)
            continue;
        for (uint64_t at = 0; at < p.p_filesz && d.d_tag != DT_NULL && p.p_offset <= s->size;
             at += sizeof d) {
            if (!source_read(s, p.p_offset + at, &d, sizeof d))
                return false;
            if (d.d_tag == DT_NEEDED)
                return true;
        }
    }
    return false;
}

/* mov $15, %rax; syscall: rt_sigreturn, by which a handler's return address leads back into the kernel. */
static const uint8_t restorer_code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};

static int find_restorers(struct image *image, const struct source *s)
{
    enum { PART = 256 * 1024 };
    uint64_t searched = 0;
    autofree uint8_t *part = malloc(PART);
    if (!part)
        return -ENOMEM;
    for (uint32_t i = 0; i < image->n_segments; i++) {
        const struct image_segment *g = &image->segment[i];
        for (uint64_t at = 0; at < g->size && searched < IMAGE_SEARCH_MAX;
             at += PART - sizeof restorer_code) {
            size_t n =
                source_read_some(s, g->offset + at, part, (size_t)min_of((uint64_t)PART, g->size - at));
            const uint8_t *found = memmem(part, n, restorer_code, sizeof restorer_code);
            if (found && image->n_restorers < IMAGE_RESTORERS_MAX)
                image->restorer[image->n_restorers++] = g->offset + at + (uint64_t)(found - part);
            searched += n;
        }
    }
    return 0;
}

int image_read(struct image *ret, const struct source *s)
{
    Elf64_Ehdr h;
    Elf64_Phdr p;
    struct frames_at at;
    struct image image = {0};
    if (!source_read(s, 0, &h, sizeof h) || memcmp(h.e_ident, ELFMAG, SELFMAG) != 0 ||
        h.e_ident[EI_CLASS] != ELFCLASS64 || h.e_ident[EI_DATA] != ELFDATA2LSB || h.e_machine != EM_X86_64 ||
        h.e_phentsize != sizeof p)
        return IMAGE_NONE;
    for (uint32_t i = 0; program_header(s, &h, i, &p); i++)
        read_segment(&image, s, &p);
    settle_segments(&image);
    if (image.n_segments > 0 && (find_section(s, &h, &at) || find_by_header(s, &h, &at))) {
        int r = read_frames(&image, s, &at);
        if (r < 0)
            return r;
    }
    if (!needs_library(s, &h)) {
        int r = find_restorers(&image, s);
        if (r < 0) {
            image_release(&image);
            return r;
        }
    }
    *ret = image;
    return 0;
}

void image_release(struct image *image)
{
    free(image->memory);
    *image = (struct image){0};
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
