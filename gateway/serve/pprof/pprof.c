/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/pprof/pprof.h"

#include <errno.h>

#include "gateway/serve/otlp/words.h"
#include "proto/coding/coding.h"
#include "proto/coding/room.h"
#include "proto/convert/from_pprof.h"

static enum refusal convert(struct bytes pprof, struct buffer *out, struct budget *budget, struct error *why)
{
    struct from_pprof *converter = from_pprof_new(budget);
    int r = converter ? from_pprof(converter, pprof, &from_pprof_anybody, out, why) : -ENOMEM;
    from_pprof_free(converter);
    return r == 0                      ? REFUSAL_NONE
           : r == PPROF_MALFORMED      ? REFUSAL_MALFORMED
           : r == FROM_PPROF_TOO_LARGE ? REFUSAL_TOO_LARGE
                                       : REFUSAL_BUSY;
}

/* A file of pprof is gzip by itself, whatever codings the request had. */
static enum refusal decode(struct bytes body, struct buffer *out, struct budget *budget,
                           enum profiles_layout *ret_layout, struct error *why)
{
    *ret_layout = PROFILES_LAYOUT_1_10;
    if (!coding_is_gzip(body))
        return convert(body, out, budget, why);
    struct coding_decoder *decoder = coding_decoder_new();
    struct buffer plain = BUFFER_INIT(0);
    enum refusal refusal = REFUSAL_BUSY;
    switch (decoder ? coding_decode(decoder, CODING_GZIP, body, out->max, 0, budget, &plain) : -ENOMEM) {
    case 0: refusal = convert(buffer_bytes(&plain), out, budget, why); break;
    case CODING_CORRUPT:
        error_set(why, 0, "the body is corrupt gzip");
        refusal = REFUSAL_MALFORMED;
        break;
    case CODING_TOO_LARGE: refusal = REFUSAL_TOO_LARGE; break;
    default: break;
    }
    room_release(&plain, budget);
    coding_decoder_free(decoder);
    return refusal;
}

/* gzip ends with the size of its last member (RFC 1952 section 2.3.1), nearly always the only one. */
static size_t size(struct bytes body)
{
    if (body.n < 18 || !coding_is_gzip(body))
        return body.n;
    const uint8_t *end = body.p + body.n - 4;
    return (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
}

const struct intake pprof_http = {
    .protocol = INTAKE_HTTP,
    .method = BYTES_LIT("POST"),
    .path = BYTES_LIT("/v1/pprof"),
    .media = (const char *const[]){"application/octet-stream", "application/x-protobuf", "application/gzip",
                                   "application/x-gzip", "application/vnd.google.protobuf",
                                   "application/x-www-form-urlencoded", NULL},
    .decode = decode,
    .size = size,
    .words = &otlp_words_json,
};
