/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/coding.h"

#include <errno.h>
#include <libdeflate.h>
#include <stdlib.h>
#include <zstd.h>

#include "proto/base/library/library.h"
#include "proto/base/macros.h"
#include "proto/coding/lz4.h"
#include "proto/coding/snappy.h"

struct coding_encoder {
    enum coding coding;
    int level;
    struct libdeflate_compressor *deflate;
    ZSTD_CCtx *zstd;
};

static int level_cut(int level, int usual, int most)
{
    if (level == 0)
        return usual;
    return level < 1 ? 1 : min_of(level, most);
}

struct coding_encoder *coding_encoder_new(enum coding c, int level)
{
    if (c >= CODING_UNKNOWN)
        return NULL;
    struct coding_encoder *e = calloc(1, sizeof *e);
    if (!e)
        return NULL;
    e->coding = c;
    bool made = true;
    if (c == CODING_GZIP || c == CODING_DEFLATE) {
        made = library_load(&library_deflate, NULL) == 0 &&
               (e->deflate = libdeflate_alloc_compressor(level_cut(level, 6, 12)));
    } else if (c == CODING_ZSTD) {
        e->level = level_cut(level, 3, 19);
        made = library_load(&library_zstd, NULL) == 0 && (e->zstd = ZSTD_createCCtx());
    }
    return made ? e : coding_encoder_free(e);
}

struct coding_encoder *coding_encoder_free(struct coding_encoder *e)
{
    if (!e)
        return NULL;
    if (e->deflate)
        libdeflate_free_compressor(e->deflate);
    if (e->zstd)
        ZSTD_freeCCtx(e->zstd);
    free(e);
    return NULL;
}

enum coding coding_encoder_coding(const struct coding_encoder *e)
{
    return e->coding;
}

static size_t encode_bound(struct coding_encoder *e, size_t n)
{
    switch (e->coding) {
    case CODING_GZIP: return libdeflate_gzip_compress_bound(e->deflate, n);
    case CODING_DEFLATE: return libdeflate_zlib_compress_bound(e->deflate, n);
    case CODING_ZSTD: return ZSTD_compressBound(n);
    default: return n;
    }
}

int coding_encode(struct coding_encoder *e, struct bytes in, struct buffer *out)
{
    if (e->coding == CODING_IDENTITY)
        return buffer_add_bytes(out, in);
    if (e->coding == CODING_SNAPPY)
        return snappy_encode(in, out);
    if (e->coding == CODING_LZ4)
        return lz4_encode(in, out);
    size_t bound = encode_bound(e, in.n), made;
    if (bound < in.n || (e->coding == CODING_ZSTD && ZSTD_isError(bound)))
        return -ENOMEM;
    int r = buffer_reserve(out, bound);
    if (r < 0)
        return r;
    uint8_t *to = out->p + out->n;
    if (e->coding == CODING_GZIP)
        made = libdeflate_gzip_compress(e->deflate, in.p, in.n, to, bound);
    else if (e->coding == CODING_DEFLATE)
        made = libdeflate_zlib_compress(e->deflate, in.p, in.n, to, bound);
    else
        made = ZSTD_compressCCtx(e->zstd, to, bound, in.p, in.n, e->level);
    if (made == 0 || (e->coding == CODING_ZSTD && ZSTD_isError(made)))
        return -ENOMEM; /* the bound was kept, so nothing but memory can be missing */
    out->n += made;
    return 0;
}
