/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A linker writes a table of (start, FDE) into .eh_frame_hdr, sorted, for exceptions to be thrown fast; Go's
 * table is sorted as well. Both are searched with pread(2): a few reads of a KB, where
 * to read librustc_driver's whole table would be 1.5 MB. .debug_frame, and what a linker wrote no table for,
 * are read once from front to back.
 */
#include "sender/unwind/functions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

/* Looks at where a function should be, before the rest is halved. */
#define LOOKS 6

static int by_offset(const void *a, const void *b)
{
    const struct function *x = a, *y = b;
    return order_of(x->offset, y->offset) ?: order_of(x->source, y->source) ?: order_of(x->entry, y->entry);
}

/* Every function of a section. 0 or -ENOMEM. */
static int add_to_list(struct functions *f, struct cfi_section *section, enum function_source source)
{
    struct cfi_common common = {.at = SIZE_MAX};
    struct cfi_function one;
    uint64_t offset, room;
    int r;
    for (size_t at = 0, entry = 0; section->size > 0 && (r = cfi_next(section, &at, &common, &one)) != 0;
         entry = at) {
        /* functions that the linker discarded begin at 0: no damage */
        if (r != 1 || !one.start || !image_offset(&f->image, one.start, &offset, &room) || one.size > room)
            continue;
        if (f->listed.n == FUNCTIONS_LISTED_MAX)
            break;
        struct function function = {.offset = offset, .entry = entry, .source = source};
        if (vec_append(&f->listed, function) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int make_list(struct functions *f)
{
    int r = f->image.n_table == 0 ? add_to_list(f, &f->image.frames, FUNCTION_FRAMES) : 0;
    if (r == 0)
        r = add_to_list(f, &f->debug, FUNCTION_DEBUG);
    if (f->listed.n > 1)
        qsort(f->listed.p, f->listed.n, sizeof *f->listed.p, by_offset);
    return r;
}

int functions_open(struct functions *ret, const struct source *s)
{
    struct functions f = {0};
    struct elf elf;
    int r = elf_read(&elf, s) == 0 ? image_read(&f.image, s, &elf) : IMAGE_NONE;
    if (r != 0)
        return r;
    r = go_open(&f.go, s, &elf);
    if (r == GO_NONE) /* else it is all in there */
        f.debug = (struct cfi_section){.source = s,
                                       .offset = elf.debug_frame.offset,
                                       .size = min_of(elf.debug_frame.size, (uint64_t)IMAGE_FRAMES_MAX),
                                       .is_debug = true};
    if (r >= 0)
        r = make_list(&f);
    if (r < 0)
        functions_close(&f);
    else
        *ret = f;
    return r;
}

void functions_close(struct functions *f)
{
    cfi_release(&f->image.frames);
    cfi_release(&f->debug);
    go_close(&f->go);
    vec_release(&f->fences);
    vec_release(&f->listed);
    *f = (struct functions){0};
}

/* The functions of one source, which are numbered in four bytes in every table. */
struct search {
    struct functions *f;
    const struct image_segment *segment;
    /* Function i. False: it is damaged, or in another segment. */
    bool (*at)(struct search *s, uint32_t i, struct function *ret);
    uint32_t n;
    bool has_fences; /* else it is all in memory */
};

/* Where a file offset of a segment is; of one that in_segment refused, likewise. */
static uint64_t address_at(const struct image_segment *segment, uint64_t offset)
{
    return offset - segment->offset + segment->address;
}

static bool in_segment(const struct image_segment *segment, uint64_t address, uint64_t *ret)
{
    *ret = address - segment->address + segment->offset;
    return address >= segment->address && address - segment->address < segment->size;
}

/* Entry i of the linker's table. NULL: the file is shorter than it says. */
static const int32_t *table_entry(struct functions *f, uint32_t i)
{
    uint32_t part = i / FUNCTIONS_PART, at = i % FUNCTIONS_PART;
    if (f->n_part == 0 || f->part != part) {
        size_t n = min_of(f->image.n_table - part * FUNCTIONS_PART, FUNCTIONS_PART) * sizeof *f->entry;
        uint64_t from = f->image.table + (uint64_t)part * sizeof f->entry;
        f->n_part = (uint32_t)(source_read_some(f->image.source, from, f->entry, n) / sizeof *f->entry);
        f->part = part;
    }
    return at < f->n_part ? f->entry[at] : NULL;
}

static bool table_at(struct search *s, uint32_t i, struct function *ret)
{
    const struct image *image = &s->f->image;
    const int32_t *entry = table_entry(s->f, i);
    *ret = (struct function){.source = FUNCTION_FRAMES};
    if (!entry)
        return false;
    ret->entry = image->table_address + (uint64_t)(int64_t)entry[1] - image->frames.address;
    return in_segment(s->segment, image->table_address + (uint64_t)(int64_t)entry[0], &ret->offset) &&
           ret->entry < image->frames.size;
}

static bool list_at(struct search *s, uint32_t i, struct function *ret)
{
    *ret = s->f->listed.p[i];
    return ret->offset - s->segment->offset < s->segment->size;
}

static bool go_at(struct search *s, uint32_t i, struct function *ret)
{
    uint64_t start, size;
    *ret = (struct function){.entry = i, .source = FUNCTION_GO};
    return go_function(&s->f->go, i, &start, &size) && in_segment(s->segment, start, &ret->offset);
}

/* Whether function i begins before an offset; of one that is elsewhere, by where that is. */
static bool is_before(struct search *s, uint32_t i, uint64_t offset)
{
    struct function one;
    if (s->at(s, i, &one))
        return one.offset < offset;
    /* in_segment's difference wraps for what lies before */
    return (int64_t)(one.offset - s->segment->offset) < 0;
}

/* The first fence that is not before an address. */
static uint32_t fence_at(const struct functions *f, uint64_t address)
{
    return first_where(f->fences.n, i, f->fences.p[i].address >= address);
}

/* Remembers where function i begins, unless that contradicts what is remembered: a damaged table. */
static void put_fence(struct search *s, uint32_t i)
{
    struct functions *f = s->f;
    struct function one;
    if (!s->has_fences || f->fences.n >= FUNCTIONS_FENCES || !s->at(s, i, &one))
        return;
    struct function_fence fence = {i, address_at(s->segment, one.offset)};
    uint32_t at = fence_at(f, fence.address);
    if ((at > 0 && f->fences.p[at - 1].i >= i) || (at < f->fences.n && f->fences.p[at].i <= i) ||
        vec_append(&f->fences, fence) < 0)
        return;
    memmove(&f->fences.p[at + 1], &f->fences.p[at], (f->fences.n - 1 - at) * sizeof fence);
    f->fences.p[at] = fence;
}

/* Narrows the first function that does not begin before an offset down to [*from, *to]: to what is between
 * two fences; and there functions lie about evenly, so a look at where it should be says more than one at the
 * middle. Each look is one read. */
static void approach(struct search *s, uint64_t offset, uint32_t *from, uint32_t *to)
{
    const uint64_t address = address_at(s->segment, offset);
    uint64_t low = s->segment->address, high = low + s->segment->size;
    const uint32_t fence = s->has_fences ? fence_at(s->f, address) : 0;
    if (fence > 0) {
        *from = s->f->fences.p[fence - 1].i + 1;
        low = max_of(low, s->f->fences.p[fence - 1].address);
    }
    if (s->has_fences && fence < s->f->fences.n) {
        *to = s->f->fences.p[fence].i;
        high = min_of(high, s->f->fences.p[fence].address);
    }
    for (int i = 0; i<LOOKS && * to - *from> FUNCTIONS_PART && address > low && address < high; i++) {
        uint32_t n = *to - *from - 1;
        uint32_t at = *from + (uint32_t)((double)n * (double)(address - low) / (double)(high - low));
        uint32_t first = max_of(at / FUNCTIONS_PART * FUNCTIONS_PART, *from);
        uint32_t last = min_of(at / FUNCTIONS_PART * FUNCTIONS_PART + FUNCTIONS_PART, *to) - 1;
        struct function one;
        put_fence(s, first);
        put_fence(s, last);
        if (!is_before(s, first, offset)) {
            *to = first;
            high = s->at(s, first, &one) ? address_at(s->segment, one.offset) : high;
        } else if (is_before(s, last, offset)) {
            *from = last + 1;
            low = s->at(s, last, &one) ? address_at(s->segment, one.offset) : low;
        } else {
            *from = first;
            *to = last;
        }
    }
}

static uint32_t take(struct search *s, uint64_t from, uint64_t to, struct function *ret, uint32_t max)
{
    uint32_t low = 0, high = s->n;
    approach(s, from, &low, &high);
    const uint32_t first = low + first_where(high - low, i, !is_before(s, low + i, from));
    uint32_t n = 0;
    for (uint32_t i = first > 0 ? first - 1 : 0; i < s->n && n < max; i++) {
        if (s->at(s, i, &ret[n]) && ret[n++].offset >= to)
            break;
        if (i > (uint64_t)first + max)
            break; /* one broken entry after the other */
    }
    return n;
}

uint32_t functions_around(struct functions *f, const struct image_segment *segment, uint64_t from,
                          uint64_t to, struct function *ret, uint32_t max)
{
    const bool is_go = f->go.n > f->image.n_table;
    struct search frames = {f, segment, table_at, f->image.n_table, !is_go},
                  list = {f, segment, list_at, f->listed.n, false}, go = {f, segment, go_at, f->go.n, is_go};
    uint32_t n = take(&frames, from, to, ret, max - 1);
    uint64_t restorer, end = segment->offset + segment->size;
    n += take(&list, from, to, ret + n, max - 1 - n);
    n += take(&go, from, to, ret + n, max - 1 - n);
    if (f->image.is_alone &&
        image_restorer(f->image.source,
                       max_of(segment->offset, from - min_of(from, (uint64_t)IMAGE_RESTORER_SIZE)),
                       min_of(end, to + IMAGE_RESTORER_SIZE), &restorer) &&
        restorer > 0)
        ret[n++] = (struct function){.offset = restorer - 1, .source = FUNCTION_RESTORER};
    for (uint32_t i = 1; i < n; i++) {
        if (by_offset(&ret[i - 1], &ret[i]) > 0) {
            qsort(ret, n, sizeof *ret, by_offset);
            break;
        }
    }
    return n;
}
