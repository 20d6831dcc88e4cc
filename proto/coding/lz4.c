/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A context is made for each body. It holds two of the largest blocks that a frame announces, which is on the
 * budget while it is there. What comes out goes on where it ended when there is more room, so nothing is
 * decoded twice.
 */
#include "proto/coding/lz4.h"

#include <errno.h>
#include <lz4frame.h>
#include <string.h>

#include "proto/base/library/library.h"

/* A body on its way. */
struct unpacking {
    struct job *job;
    struct bytes in; /* what is left */
    LZ4F_dctx *context;
    size_t charged; /* for it */
    uint32_t parts;
};

/* What the context takes for a frame: "Block Maximum Size" of its head, behind the magic number and FLG, is
 * of 4 to 7, 64 KiB to 4 MiB. */
static size_t context_bytes(struct bytes frame)
{
    const uint32_t size = frame.n > 5 ? frame.p[5] >> 4 & 7 : 7;
    return ((size_t)2 << (8 + 2 * size)) + (128u << 10);
}

/* Before a frame's first byte. */
static int begin_frame(struct unpacking *u)
{
    const size_t needs = context_bytes(u->in);
    if (needs <= u->charged)
        return 0;
    if (!budget_charge(u->job->budget, needs - u->charged))
        return CODING_OVER_BUDGET;
    u->charged = needs;
    return 0;
}

static int failure(size_t error)
{
    return strcmp(LZ4F_getErrorName(error), "ERROR_allocation_failed") == 0 ? -ENOMEM : CODING_CORRUPT;
}

static int decode(struct unpacking *u)
{
    struct job *j = u->job;
    int r = begin_frame(u);
    if (r == 0)
        r = job_reserve(j, job_guess(u->in.n));
    while (r == 0) {
        const size_t room = job_room(j);
        size_t made = room, took = u->in.n;
        const size_t hint = LZ4F_decompress(u->context, j->out->p + j->out->n, &made, u->in.p, &took, NULL);
        if (LZ4F_isError(hint))
            return failure(hint);
        j->out->n += made;
        u->in = bytes_from(u->in, took);
        if (hint != 0 && made < room)
            return CODING_CORRUPT; /* cut */
        if (hint != 0) {
            r = job_grow(j);
            continue;
        }
        u->parts++;
        if (u->in.n == 0)
            return 0;
        r = u->parts < JOB_PARTS_MAX ? begin_frame(u) : CODING_CORRUPT;
    }
    return r;
}

int lz4_decode(struct job *j, uint32_t *ret_parts)
{
    struct unpacking u = {.job = j, .in = j->in};
    int r = library_load(&library_lz4, NULL);
    if (r < 0)
        return r;
    if (LZ4F_isError(LZ4F_createDecompressionContext(&u.context, LZ4F_VERSION)))
        return -ENOMEM;
    r = j->in.n > 0 ? decode(&u) : CODING_CORRUPT;
    LZ4F_freeDecompressionContext(u.context);
    budget_refund(j->budget, u.charged);
    *ret_parts = u.parts;
    return r;
}

int lz4_encode(struct bytes in, struct buffer *out)
{
    const LZ4F_preferences_t preferences = {.frameInfo = {.contentSize = in.n}};
    int r = library_load(&library_lz4, NULL);
    if (r < 0)
        return r;
    const size_t bound = LZ4F_compressFrameBound(in.n, &preferences);
    r = buffer_reserve(out, bound);
    if (r < 0)
        return r;
    const size_t n = LZ4F_compressFrame(out->p + out->n, bound, in.p, in.n, &preferences);
    if (LZ4F_isError(n))
        return -ENOMEM; /* the bound was kept, so nothing but memory can be missing */
    out->n += n;
    return 0;
}
