/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/unpack.h"

#include <elf.h>
#include <errno.h>
#include <lzma.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <zstd.h>

#include "proto/base/library/library.h"
#include "proto/base/macros.h"
#include "sender/foreign/open.h"
#include "sender/symbolize/elf/packed.h"

/* glibc's elf.h has it since 2.37. */
#define COMPRESS_ZSTD 2u
/* Packed bytes read at a time. */
#define CHUNK 65536u

uint64_t unpack_allowed(const struct source *s, uint64_t max)
{
    struct stat st;
    bool is_others = s->fd >= 0 && (foreign_stat(s->fd, &st) < 0 || st.st_uid != 0);
    return is_others ? min_of(max, (uint64_t)UNPACK_OTHERS_MAX) : max;
}

static int unpack_zstd(const struct source *s, uint64_t at, uint64_t n, uint8_t *to, size_t size)
{
    int r = library_load(&library_zstd, NULL);
    if (r < 0)
        return r;
    if (n > ZSTD_compressBound(size)) /* more than what cannot be packed takes */
        return -EBADMSG;
    autofree uint8_t *packed = malloc((size_t)n + 1);
    if (!packed)
        return -ENOMEM;
    if (!source_read(s, at, packed, (size_t)n))
        return -EBADMSG;
    return ZSTD_decompress(to, size, packed, (size_t)n) == size ? 0 : -EBADMSG;
}

/* Of zlib: through what was kept of it, if that is of the same bytes. */
static int open_packed(const struct source *s, uint64_t at, uint64_t n, uint64_t size, struct packed **packed)
{
    if (*packed && packed_size(*packed) == size)
        return 0;
    *packed = packed_free(*packed);
    return packed_new(s, at, n, size, packed);
}

int unpack_section(const struct source *s, const struct elf_section *section, uint64_t *left,
                   struct extent *ret, uint8_t **ret_memory, struct packed **packed)
{
    Elf64_Chdr h;
    *ret_memory = NULL;
    if (!section->is_packed || section->size == 0) {
        *ret = (struct extent){.source = *s, .at = section->offset, .size = section->size};
        return 0;
    }
    if (section->size < sizeof h || !source_read(s, section->offset, &h, sizeof h))
        return -EBADMSG;
    uint64_t at = section->offset + sizeof h, n = section->size - sizeof h;
    if (h.ch_type == ELFCOMPRESS_ZLIB) {
        int r = open_packed(s, at, n, h.ch_size, packed);
        if (r == 0)
            *ret = (struct extent){.source = packed_source(*packed), .size = h.ch_size};
        return r;
    }
    if (h.ch_type != COMPRESS_ZSTD)
        return -EBADMSG;
    if (h.ch_size > *left || h.ch_size == 0)
        return -EFBIG;
    autofree uint8_t *memory = malloc((size_t)h.ch_size);
    if (!memory)
        return -ENOMEM;
    int r = unpack_zstd(s, at, n, memory, (size_t)h.ch_size);
    if (r < 0)
        return r;
    *left -= h.ch_size;
    *ret = (struct extent){.source = source_memory(bytes_of(memory, (size_t)h.ch_size)), .size = h.ch_size};
    *ret_memory = take_ptr(memory);
    return 0;
}

/* Room for more output: doubled up to the limit. */
static int grow(lzma_stream *x, uint8_t **out, size_t *cap, size_t max)
{
    size_t filled = *cap, more = min_of(*cap ? *cap * 2 : 4 * (size_t)CHUNK, max);
    if (more == filled)
        return -EFBIG;
    uint8_t *bigger = realloc(*out, more);
    if (!bigger)
        return -ENOMEM;
    *out = bigger;
    *cap = more;
    x->next_out = bigger + filled;
    x->avail_out = more - filled;
    return 0;
}

int unpack_xz(const struct source *s, const struct elf_section *section, uint8_t **ret, size_t *ret_n)
{
    cleanup(lzma_end) lzma_stream x = LZMA_STREAM_INIT;
    autofree uint8_t *chunk = malloc(CHUNK), *out = NULL;
    size_t cap = 0, max = (size_t)unpack_allowed(s, UNPACK_XZ_MAX);
    uint64_t at = section->offset, n = section->size;
    if (!chunk || lzma_stream_decoder(&x, UNPACK_XZ_MEMORY_MAX, 0) != LZMA_OK)
        return -ENOMEM;
    for (lzma_ret state = LZMA_OK; state != LZMA_STREAM_END;) {
        int r = x.avail_out == 0 ? grow(&x, &out, &cap, max) : 0;
        if (r < 0)
            return r;
        if (x.avail_in == 0) {
            size_t got = n ? source_read_some(s, at, chunk, (size_t)min_of(n, (uint64_t)CHUNK)) : 0;
            if (got == 0)
                return -EBADMSG;
            at += got;
            n -= got;
            x.next_in = chunk;
            x.avail_in = got;
        }
        state = lzma_code(&x, LZMA_RUN);
        if (state == LZMA_MEM_ERROR || state == LZMA_MEMLIMIT_ERROR)
            return -ENOMEM;
        if (state != LZMA_OK && state != LZMA_STREAM_END)
            return -EBADMSG;
    }
    *ret_n = (size_t)x.total_out;
    *ret = take_ptr(out);
    return 0;
}
