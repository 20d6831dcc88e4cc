/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/finish.h"

#include <errno.h>

#include "proto/base/room.h"
#include "proto/otlp/view/profiles.h"
#include "proto/wire/wire.h"

/* A writer asks for room for two numbers of ten bytes before it writes shorter ones. */
#define WRITER_SLACK (2 * WIRE_VARINT_MAX)

/* Of a sample: tags, lengths, a stack, a link, a value of ten bytes. */
#define SAMPLE_BYTES    48u
#define REFERENCE_BYTES 5u

size_t finish_bound(uint64_t samples, uint64_t attributes)
{
    return SAMPLE_BYTES * samples + REFERENCE_BYTES * attributes;
}

/* What a request has once: profiles' heads, the scope. More than that is charged when it is there. */
#define HEAD_BYTES 4096u

int finish_begin(struct finish *f, struct build *b, struct budget *budget, size_t bound, struct buffer *out)
{
    *f = (struct finish){.budget = budget, .out = out, .was = out->n, .max = out->max};
    int r = room_make(out, bound + build_size(b) + HEAD_BYTES + PROFILES_PADDING + WRITER_SLACK, budget);
    f->charged = out->cap;
    out->max = 0; /* of room, of which the writer asks for more than it fills */
    build_into(b, out);
    return r != 0 ? -ENOMEM : 0;
}

int finish_end(struct finish *f, struct build *b, int r)
{
    struct buffer *out = f->out;
    int built = build_finish(b, out);
    r = r != 0 ? r : built;
    r = r != 0 ? r : buffer_reserve(out, PROFILES_PADDING);
    out->max = f->max;
    if (r == 0 && out->max && out->n > out->max)
        r = FINISH_TOO_LARGE;
    if (out->cap > f->charged && !budget_charge(f->budget, out->cap - f->charged)) {
        out->cap = f->charged; /* what is not charged is not said to be there */
        r = -ENOMEM;
    }
    if (r != 0)
        out->n = f->was;
    else
        memset(out->p + out->n, 0, PROFILES_PADDING);
    return r;
}

int finish_pieces(struct finish *f, struct build *b, int r, build_put *put, void *user)
{
    r = r != 0 ? r : build_finish_pieces(b, f->out, put, user);
    if (f->out->cap > f->charged)
        f->out->cap = f->charged;
    room_release(f->out, f->budget);
    return r;
}

int finish_request(struct build *b, struct budget *budget, struct buffer *out)
{
    size_t size = build_size(b);
    if (buffer_is_short_of(out, size))
        return FINISH_TOO_LARGE;
    int r = room_make(out, size + PROFILES_PADDING + WRITER_SLACK, budget);
    r = r != 0 ? -ENOMEM : build_finish(b, out);
    if (r == 0)
        memset(out->p + out->n, 0, PROFILES_PADDING);
    return r;
}
