/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/pprof/taking.h"

#include "proto/coding/coding.h"
#include "proto/base/room.h"
#include "proto/base/macros.h"
#include "proto/otlp/view/profiles.h"
#include "proto/pprof/legacy.h"

static enum refusal refusal_of(int r)
{
    return r == 0                      ? REFUSAL_NONE
           : r == PPROF_MALFORMED      ? REFUSAL_MALFORMED
           : r == FROM_PPROF_TOO_LARGE ? REFUSAL_TOO_LARGE
                                       : REFUSAL_BUSY;
}

enum refusal pprof_taking_init(struct pprof_taking *t, size_t max, struct budget *budget)
{
    *t = (struct pprof_taking){.budget = budget, .max = max, .left = max};
    t->converter = from_pprof_new(budget);
    t->decoder = coding_decoder_new();
    if (!t->converter || !t->decoder)
        return REFUSAL_BUSY;
    from_pprof_begin(t->converter);
    return REFUSAL_NONE;
}

void pprof_taking_release(struct pprof_taking *t)
{
    room_release(&t->plain, t->budget);
    room_release(&t->newer, t->budget);
    coding_decoder_free(t->decoder);
    from_pprof_free(t->converter);
}

/* What pprof is longer than what it was before it was protobuf: addresses of a few bytes in the binary one.
 */
#define NEWER_LONGER 8u

/* Writers do not charge what they write: a bound of it is charged beforehand. */
static enum refusal read_older(struct pprof_taking *t, struct bytes *file, struct error *why)
{
    const size_t bound = min_of(t->max, file->n * NEWER_LONGER + ROOM_MIN);
    room_release(&t->newer, t->budget);
    if (!budget_charge(t->budget, bound))
        return REFUSAL_BUSY;
    t->newer.max = bound;
    const int r = pprof_from_legacy(*file, t->budget, &t->newer, why);
    budget_refund(t->budget, bound - t->newer.cap);
    *file = buffer_bytes(&t->newer);
    return r == 0                 ? REFUSAL_NONE
           : r == PPROF_MALFORMED ? REFUSAL_MALFORMED
           : bound == t->max      ? REFUSAL_TOO_LARGE
                                  : REFUSAL_BUSY;
}

/* A file of pprof is gzip by itself, whatever codings the request had. */
enum refusal pprof_unpack(struct pprof_taking *t, struct bytes *file, struct error *why)
{
    int r = 0;
    if (coding_is_gzip(*file)) {
        t->plain.n = 0;
        r = coding_decode(t->decoder, CODING_GZIP, *file, t->left, PROFILES_PADDING, t->budget, &t->plain);
        *file = buffer_bytes(&t->plain);
    }
    if (r == CODING_CORRUPT) {
        error_set(why, 0, "the profile is corrupt gzip");
        return REFUSAL_MALFORMED;
    }
    if (r == CODING_TOO_LARGE || (r == 0 && file->n > t->left))
        return REFUSAL_TOO_LARGE;
    if (r != 0)
        return REFUSAL_BUSY;
    t->left -= file->n;
    return pprof_is_legacy(*file) ? read_older(t, file, why) : REFUSAL_NONE;
}

enum refusal pprof_take(struct pprof_taking *t, struct bytes file, const struct from_pprof_origin *origin,
                        struct error *why)
{
    enum refusal refusal = pprof_unpack(t, &file, why);
    return refusal == REFUSAL_NONE ? refusal_of(from_pprof_add(t->converter, file, origin, t->max, why))
                                   : refusal;
}

enum refusal pprof_taking_end(struct pprof_taking *t, struct buffer *out)
{
    return refusal_of(from_pprof_end(t->converter, out));
}

/* gzip ends with the size of its last member (RFC 1952 section 2.3.1), nearly always the only one. */
size_t pprof_plain_size(struct bytes file)
{
    if (file.n < 18 || !coding_is_gzip(file))
        return file.n;
    const uint8_t *end = file.p + file.n - 4;
    return (size_t)end[0] | (size_t)end[1] << 8 | (size_t)end[2] << 16 | (size_t)end[3] << 24;
}
