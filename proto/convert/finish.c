/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/finish.h"

#include <errno.h>

#include "proto/coding/room.h"
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
