/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/coding/gzip_stream.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define GZIP_WINDOW (15 + 16) /* the largest; + 16: gzip's head and tail (zlib.h, deflateInit2) */
#define MEM_LEVEL   8
#define ROOM        ((size_t)4 << 10)

struct gzip_stream {
    z_stream z;
};

struct gzip_stream *gzip_stream_new(int level)
{
    struct gzip_stream *g = calloc(1, sizeof *g);
    if (g && deflateInit2(&g->z, level, Z_DEFLATED, GZIP_WINDOW, MEM_LEVEL, Z_DEFAULT_STRATEGY) != Z_OK) {
        free(g);
        return NULL;
    }
    return g;
}

struct gzip_stream *gzip_stream_free(struct gzip_stream *g)
{
    if (!g)
        return NULL;
    deflateEnd(&g->z);
    free(g);
    return NULL;
}

int gzip_stream_add(struct gzip_stream *g, struct bytes in, bool is_last, struct buffer *out)
{
    int r, state;
    if (in.n > UINT32_MAX)
        return -ENOBUFS;
    g->z.next_in = (uint8_t *)in.p; /* zlib does not write there */
    g->z.avail_in = (uInt)in.n;
    do {
        r = buffer_reserve(out, ROOM);
        if (r < 0)
            return r;
        g->z.next_out = out->p + out->n;
        g->z.avail_out = ROOM;
        state = deflate(&g->z, is_last ? Z_FINISH : Z_NO_FLUSH);
        out->n += ROOM - g->z.avail_out;
    } while (g->z.avail_out == 0 || (is_last && state == Z_OK));
    return 0;
}
