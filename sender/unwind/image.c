/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/image.h"

#include <elf.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "bpf/unwind.h"
#include "sender/symbolize/elf/eh_index.h"

static int by_offset(const void *a, const void *b)
{
    const struct image_segment *x = a, *y = b;
    return order_of(x->offset, y->offset);
}

/* Those that are all in the file, sorted; of segments that overlap there the first stays. */
static void take_segments(struct image *image, const struct elf *elf)
{
    struct image_segment all[IMAGE_SEGMENTS_MAX];
    uint32_t n = 0;
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const struct elf_segment *g = &elf->segment[i];
        if (g->file_offset < image->source->size && g->file_size > 0 &&
            g->file_size <= image->source->size - g->file_offset && g->address + g->file_size >= g->address)
            all[n++] = (struct image_segment){g->address, g->file_offset, g->file_size};
    }
    qsort(all, n, sizeof *all, by_offset);
    uint64_t end = 0;
    for (uint32_t i = 0; i < n; i++) {
        if (all[i].offset < end)
            continue;
        image->segment[image->n_segments++] = all[i];
        end = all[i].offset + all[i].size;
    }
}

/* What is at an address, up to the end of its segment: where .eh_frame begins is all that .eh_frame_hdr says.
 */
static struct cfi_section section_at(const struct dynamic *d, uint64_t address)
{
    const uint64_t size = d->source->size;
    for (uint32_t i = 0; i < d->n_program; i++) {
        const Elf64_Phdr *p = &d->program[i];
        const uint64_t into = address - p->p_vaddr;
        if (p->p_type == PT_LOAD && address >= p->p_vaddr && into < p->p_filesz && p->p_offset <= size &&
            p->p_filesz <= size - p->p_offset)
            return (struct cfi_section){.offset = p->p_offset + into,
                                        .size = p->p_filesz - into,
                                        .address = address,
                                        .has_no_end = true};
    }
    return (struct cfi_section){0};
}

/* .eh_frame: by the table that .eh_frame_hdr has of it (LSB Core 5.0, 10.6.2). Without one all of it is read,
 * for which its end has to be known: then by its section's name, and, of files without section headers, by
 * its beginning. */
static void find_frames(struct image *image, const struct dynamic *d, const struct elf *elf)
{
    const Elf64_Phdr *hdr = dynamic_header(d, PT_GNU_EH_FRAME);
    struct eh_index index;
    if (eh_index_open(&index, d) && index.frames)
        image->frames = section_at(d, index.frames);
    if (image->frames.size > 0 && index.n > 0) {
        image->table = hdr->p_offset + EH_INDEX_HEAD;
        image->table_address = hdr->p_vaddr;
        image->n_table = index.n;
    } else if (elf->eh_frame.size > 0) {
        image->frames = (struct cfi_section){
            .offset = elf->eh_frame.offset, .size = elf->eh_frame.size, .address = elf->eh_frame.address};
    }
    image->frames.source = image->source;
    image->frames.size = image->n_segments > 0 ? min_of(image->frames.size, (uint64_t)IMAGE_FRAMES_MAX) : 0;
}

/* Whom the file needs, of what it names as DT_NEEDED (gABI, "Dynamic Section"); who needs nobody has the code
 * that signal handlers return to, who needs the dynamic linker alone is the C library. */
static void read_needed(struct image *image, const struct dynamic *d)
{
    image->is_alone = d->n_needed == 0;
    image->has_c_library = true;
    for (uint32_t i = 0; i < d->n_needed; i++) {
        char what[4] = "";
        (void)dynamic_read(d, d->strings + d->needed[i], what, sizeof what - 1);
        image->has_c_library &= strcmp(what, "ld-") == 0 || strcmp(what, "ld6") == 0;
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

int image_read(struct image *ret, const struct source *of, const struct elf *elf)
{
    struct dynamic d;
    struct image image = {.source = of};
    (void)dynamic_open(&d, of); /* a static program has no symbols, but headers */
    if (d.n_program == 0)
        return IMAGE_NONE;
    take_segments(&image, elf);
    find_frames(&image, &d, elf);
    read_needed(&image, &d);
    uint64_t room;
    if (!elf->entry || !image_offset(&image, elf->entry, &image.entry, &room))
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
