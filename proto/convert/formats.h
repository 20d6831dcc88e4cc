/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a request may be written as, for whoever lets others choose.
 */
#ifndef PROTO_CONVERT_FORMATS_H
#define PROTO_CONVERT_FORMATS_H

#include "proto/base/arena.h"
#include "proto/convert/to_pprof.h"

/* X(NAME, "word") */
#define CONVERT_FORMATS(X)      \
    X(PPROF, "pprof")           \
    X(OTLP, "otlp")             \
    X(JSON, "json")             \
    X(FOLDED, "folded")         \
    X(SPEEDSCOPE, "speedscope") \
    X(PPROF_EXACT, "pprof-exact") /* with the request in it: original.h */

enum convert_format {
    CONVERT_UNSAID,
#define CONVERT_FORMAT(name, word) CONVERT_##name,
    CONVERT_FORMATS(CONVERT_FORMAT)
#undef CONVERT_FORMAT
};

static inline bool convert_is_pprof(enum convert_format format)
{
    return format == CONVERT_PPROF || format == CONVERT_PPROF_EXACT;
}

/* What a file of profiles is, by its bytes: plain, not gzip. */
enum convert_input {
    CONVERT_IS_OTLP, /* protobuf, or nothing that is known */
    CONVERT_IS_JSON,
    CONVERT_IS_PPROF,
    CONVERT_IS_OLDER_PPROF, /* proto/pprof/legacy.h */
    CONVERT_IS_TEXT,        /* from_text_guess says which */
};
enum convert_input convert_guess(struct bytes body);

/* Appends a request in a format: pprof not compressed; OTLP, which UNSAID is too, of today's layout as it
 * came, of an older one as 1.10 has it. `otlp` is what the view is of, with PROFILES_PADDING readable bytes
 * behind it; `scratch` is used, and emptied before; *ret_lost is set by both pprofs alone. 0, TO_PPROF_TYPES
 * (of these), or what refused: memory, the budget, out->max. */
int convert_write(const struct profiles *view, struct bytes otlp, enum convert_format format,
                  struct arena *scratch, struct budget *budget, struct buffer *out,
                  struct to_pprof_lost *ret_lost);

/* pprof's files are gzip: the same of both pprofs, packed, piece by piece to `put`; what it returns that is
 * negative is returned. max bounds what is packed, in bytes. */
int convert_pack(const struct profiles *view, struct bytes otlp, enum convert_format format,
                 struct arena *scratch, struct budget *budget, size_t max, build_put *put, void *user,
                 struct to_pprof_lost *ret_lost);

#endif
