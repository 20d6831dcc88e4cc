/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The section is a list of entries, each with its length before it: CIEs, which hold what functions have in
 * common (how pointers are written, factors, the first instructions), and FDEs, one a function, which name
 * their CIE by its distance. Which of both an entry is, and how the CIE is named, differs between .eh_frame
 * (0 is a CIE, else the distance back from the field itself) and .debug_frame (all ones is a CIE, else an
 * offset).
 *
 * The list is walked in order; the CIE last parsed is kept, as neighbours mostly share it. Pointers are
 * decoded as the CIE's augmentation says, relative to their own address where that is asked. An entry that
 * makes no sense is skipped by its length and counted; only a length that leads out of the section ends the
 * walk.
 */
#include "sender/unwind/cfi.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/reader.h"

/* DW_EH_PE_…: how a pointer is written (LSB Core 5.0, section 10.5). */
enum {
    PE_ABSPTR = 0x00,
    PE_UDATA2 = 0x02,
    PE_UDATA4 = 0x03,
    PE_UDATA8 = 0x04,
    PE_SDATA2 = 0x0a,
    PE_SDATA4 = 0x0b,
    PE_SDATA8 = 0x0c,
    PE_FORMAT = 0x0f,
    PE_PCREL = 0x10,
    PE_BASE = 0x70,
    PE_INDIRECT = 0x80,
};

static uint64_t read_format(struct reader *r, uint8_t encoding)
{
    switch (encoding & PE_FORMAT) {
    case PE_ABSPTR:
    case PE_UDATA8:
    case PE_SDATA8: return reader_fixed(r, 8);
    case PE_UDATA2: return reader_fixed(r, 2);
    case PE_SDATA2: return (uint64_t)(int64_t)(int16_t)reader_fixed(r, 2);
    case PE_UDATA4: return reader_fixed(r, 4);
    case PE_SDATA4: return (uint64_t)(int64_t)(int32_t)reader_fixed(r, 4);
    default: r->is_bad = true; return 0;
    }
}

/* A part read at once: neighbouring functions have their entries side by side, and those of a page of code
 * take one KB or two. */
#define WINDOW_BYTES 4096u

void cfi_release(struct cfi_section *section)
{
    free(section->function.bytes);
    free(section->common.bytes);
    section->function = section->common = (struct cfi_window){0};
}

/* The n bytes at an offset of the section, or fewer at its end, through a window. .p NULL: out of memory. */
static struct bytes part(struct cfi_section *section, struct cfi_window *w, uint64_t at, size_t n)
{
    n = (size_t)min_of((uint64_t)n, at < section->size ? section->size - at : 0);
    if (source_is_memory(section->source)) {
        struct bytes all = section->source->memory;
        uint64_t from = section->offset + at;
        return from > all.n ? bytes_of(all.p, 0) : bytes_of(all.p + from, min_of(n, (size_t)(all.n - from)));
    }
    if (at < w->at || at - w->at > w->n || w->n - (at - w->at) < n) {
        size_t want = (size_t)min_of((uint64_t)max_of(n, (size_t)WINDOW_BYTES), section->size - at);
        if (want > w->room) {
            uint8_t *grown = realloc(w->bytes, want);
            if (!grown)
                return (struct bytes){0};
            w->bytes = grown;
            w->room = want;
        }
        w->at = at;
        w->n = source_read_some(section->source, section->offset + at, w->bytes, want);
    }
    return bytes_of(w->bytes + (at - w->at), min_of(n, w->n - (size_t)(at - w->at)));
}

/* The body of the entry at *at, which moves behind it; the offset of the body's begin in *body_at. False at
 * the section's end. */
static bool entry(struct cfi_section *section, struct cfi_window *w, size_t *at, struct reader *body,
                  size_t *body_at, bool *is_64)
{
    struct reader r = reader_of(part(section, w, *at, 12));
    size_t had = reader_left(&r);
    uint64_t length = reader_fixed(&r, 4);
    *is_64 = length == UINT32_MAX;
    if (*is_64)
        length = reader_fixed(&r, 8);
    if (r.is_bad || (length == 0 && section->has_no_end))
        return false;
    *body_at = *at + (had - reader_left(&r));
    if (length > section->size - *body_at)
        return false;
    *at = *body_at + (size_t)length;
    struct bytes b = part(section, w, *body_at, (size_t)min_of(length, (uint64_t)CFI_ENTRY_MAX));
    *body = reader_of(b);
    body->is_bad = b.n < length; /* the file is shorter than it says, or there is no memory: skipped */
    return true;
}

/* The augmentation data's part of a CIE (LSB 10.6.1.1.1). */
static void read_augmentation(struct reader *r, struct bytes letters, struct cfi_common *c)
{
    struct reader data = reader_of(reader_take(r, reader_uleb(r)));
    c->has_augmentation = true;
    for (size_t i = 1; i < letters.n && !r->is_bad; i++) {
        switch (letters.p[i]) {
        case 'L': (void)reader_u8(&data); break;
        case 'P': (void)read_format(&data, reader_u8(&data)); break;
        case 'R': c->pointer_encoding = reader_u8(&data); break;
        case 'S': c->is_signal = true; break;
        case 'B': break; /* aarch64: pointer authentication */
        default: return; /* what follows is not known, but its length is */
        }
    }
}

int cfi_common(struct cfi_section *section, size_t at, struct cfi_common *ret)
{
    struct reader r;
    size_t body_at;
    bool is_64;
    struct cfi_common c = {.at = at, .pointer_encoding = PE_ABSPTR};
    if (!entry(section, &section->common, &at, &r, &body_at, &is_64))
        return -EBADMSG;
    uint64_t id = reader_fixed(&r, section->is_debug && is_64 ? 8 : 4);
    uint64_t wanted = !section->is_debug ? 0 : is_64 ? UINT64_MAX : UINT32_MAX;
    uint8_t version = reader_u8(&r);
    const uint8_t *end = r.is_bad ? NULL : memchr(r.p, 0, reader_left(&r));
    if (!end || id != wanted || (version != 1 && version != 3 && version != 4))
        return -EBADMSG;
    struct bytes letters = reader_take(&r, (uint64_t)(end - r.p));
    (void)reader_u8(&r);
    if (version == 4) { /* address size, segment selector size */
        uint8_t address_size = reader_u8(&r);
        if (address_size != 8 || reader_u8(&r) != 0)
            return -EBADMSG;
    }
    c.code_factor = reader_uleb(&r);
    c.data_factor = reader_sleb(&r);
    c.ra_register = version == 1 ? reader_u8(&r) : reader_uleb(&r);
    if (letters.n > 0 && letters.p[0] == 'z')
        read_augmentation(&r, letters, &c);
    else if (letters.n > 0)
        return -EBADMSG; /* GCC 2's "eh": no length tells where its program begins */
    if (r.is_bad)
        return -EBADMSG;
    c.program = bytes_of(r.p, reader_left(&r));
    *ret = c;
    return 0;
}

int cfi_next(struct cfi_section *section, size_t *at, struct cfi_common *common, struct cfi_function *ret)
{
    struct reader r;
    size_t body_at;
    bool is_64;
    if (!entry(section, &section->function, at, &r, &body_at, &is_64))
        return 0;
    if (reader_left(&r) == 0)
        return 2; /* a terminator within the section: the linker joined several */
    unsigned id_size = section->is_debug && is_64 ? 8 : 4;
    uint64_t id = reader_fixed(&r, id_size);
    uint64_t of_common = !section->is_debug ? 0 : is_64 ? UINT64_MAX : UINT32_MAX;
    if (r.is_bad || id == of_common)
        return 2;
    /* .eh_frame counts back from the field itself, .debug_frame from the section's begin. */
    uint64_t to = section->is_debug ? id : (uint64_t)body_at - id;
    if (to >= section->size || (!section->is_debug && id > body_at))
        return 2;
    if (common->at != to) {
        common->at = SIZE_MAX; /* what it names is overwritten, also by one that makes no sense */
        if (cfi_common(section, (size_t)to, common) < 0)
            return 2;
    }
    uint8_t encoding = section->is_debug ? PE_ABSPTR : common->pointer_encoding;
    uint64_t field = section->address + body_at + id_size;
    struct cfi_function f = {.common = (size_t)to};
    f.start = read_format(&r, encoding);
    f.size = read_format(&r, encoding & 7 /* unsigned, not relative */);
    if ((encoding & PE_BASE) == PE_PCREL)
        f.start += field;
    else if ((encoding & PE_BASE) != 0)
        return 2;
    if (common->has_augmentation)
        (void)reader_take(&r, reader_uleb(&r));
    if (r.is_bad || (encoding & PE_INDIRECT) || f.size == 0 || f.start + f.size < f.start)
        return 2;
    f.program = bytes_of(r.p, reader_left(&r));
    *ret = f;
    return 1;
}
