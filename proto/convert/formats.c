/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/formats.h"

#include <errno.h>

#include "proto/coding/gzip_stream.h"
#include "proto/convert/from_text.h"
#include "proto/convert/original.h"
#include "proto/convert/to_folded.h"
#include "proto/convert/to_speedscope.h"
#include "proto/otlp/json/write.h"
#include "proto/otlp/write/subset.h"
#include "proto/pprof/legacy.h"
#include "proto/pprof/pprof.h"

enum convert_input convert_guess(struct bytes body)
{
    return bytes_starts(from_text_without_mark(body), "{")
               ? CONVERT_IS_JSON /* as protobuf a group: OTLP has none */
           : pprof_is_legacy(body)                   ? CONVERT_IS_OLDER_PPROF
           : from_text_guess(body) != FROM_TEXT_NONE ? CONVERT_IS_TEXT
           : pprof_is_likely(body)                   ? CONVERT_IS_PPROF
                                                     : CONVERT_IS_OTLP;
}

/* What is kept of the scratch for the next request. */
#define KEEP_BYTES ((size_t)1 << 30)

/* In today's layout, with what no sample needs where it was in another. */
static int write_otlp(const struct profiles *view, struct arena *scratch, struct buffer *out)
{
    arena_reset(scratch, KEEP_BYTES);
    return profiles_subset(view, NULL, NULL, scratch, out);
}

/* *otlp in today's layout: as it is, or in `translated`. */
static int translate(const struct profiles *view, struct arena *scratch, struct buffer *translated,
                     struct bytes *otlp)
{
    if (view->layout == PROFILES_LAYOUT_1_10)
        return 0;
    int r = write_otlp(view, scratch, translated);
    *otlp = buffer_bytes(translated);
    return r;
}

static int write_json(const struct profiles *view, struct bytes otlp, struct arena *scratch,
                      struct buffer *out)
{
    cleanup(buffer_release) struct buffer translated = BUFFER_INIT(out->max);
    int r = translate(view, scratch, &translated, &otlp);
    r = r != 0 ? r : profiles_json_write(otlp, out);
    return r;
}

static int write_exact(const struct profiles *view, struct bytes otlp, struct arena *scratch,
                       struct budget *budget, struct buffer *out, struct to_pprof_lost *ret_lost)
{
    struct buffer translated = BUFFER_INIT(out->max);
    const size_t begun = out->n;
    int r = to_pprof(view, budget, out, ret_lost);
    r = r != 0 ? r : translate(view, scratch, &translated, &otlp);
    r = r != 0 ? r : original_append(out, begun, otlp);
    buffer_release(&translated);
    *ret_lost = (struct to_pprof_lost){0}; /* it is all there */
    return r;
}

int convert_write(const struct profiles *view, struct bytes otlp, enum convert_format format,
                  struct arena *scratch, struct budget *budget, struct buffer *out,
                  struct to_pprof_lost *ret_lost)
{
    switch (format) {
    case CONVERT_PPROF: return to_pprof(view, budget, out, ret_lost);
    case CONVERT_PPROF_EXACT: return write_exact(view, otlp, scratch, budget, out, ret_lost);
    case CONVERT_JSON: return write_json(view, otlp, scratch, out);
    case CONVERT_FOLDED: return to_folded(view, out);
    case CONVERT_SPEEDSCOPE: return to_speedscope(view, budget, out);
    case CONVERT_OTLP:
    case CONVERT_UNSAID: break;
    }
    return view->layout == PROFILES_LAYOUT_1_10 ? buffer_add_bytes(out, otlp)
                                                : write_otlp(view, scratch, out);
}

struct packing {
    struct gzip_stream *gzip;
    struct buffer packed;
    size_t left; /* bytes that may still come */
    build_put *put;
    void *user;
};

static int pack(struct packing *p, struct bytes piece, bool is_last)
{
    if (piece.n > p->left)
        return -ENOBUFS;
    p->left -= piece.n;
    p->packed.n = 0;
    int r = gzip_stream_add(p->gzip, piece, is_last, &p->packed);
    return r < 0 || p->packed.n == 0 ? r : p->put(p->user, buffer_bytes(&p->packed));
}

static int pack_piece(void *user, struct bytes piece)
{
    return pack(user, piece, false);
}

/* Its request stands behind a hash of all before it: it is made whole. */
static int pack_exact(struct packing *p, const struct profiles *view, struct bytes otlp,
                      struct arena *scratch, struct budget *budget, struct to_pprof_lost *ret_lost)
{
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(p->left);
    int r = write_exact(view, otlp, scratch, budget, &plain, ret_lost);
    r = r != 0 ? r : pack(p, buffer_bytes(&plain), false);
    return r;
}

int convert_pack(const struct profiles *view, struct bytes otlp, enum convert_format format,
                 struct arena *scratch, struct budget *budget, size_t max, build_put *put, void *user,
                 struct to_pprof_lost *ret_lost)
{
    struct packing p = {.gzip = gzip_stream_new(), .left = max, .put = put, .user = user};
    int r = !p.gzip                         ? -ENOMEM
            : format == CONVERT_PPROF_EXACT ? pack_exact(&p, view, otlp, scratch, budget, ret_lost)
                                            : to_pprof_pieces(view, budget, pack_piece, &p, ret_lost);
    r = r != 0 ? r : pack(&p, (struct bytes){0}, true);
    gzip_stream_free(p.gzip);
    buffer_release(&p.packed);
    return r;
}
