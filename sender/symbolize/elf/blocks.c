/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/blocks.h"

#include "proto/base/macros.h"

void blocks_begin(struct blocks *b)
{
    memset(b->of, 0, sizeof b->of);
}

/* The place of the block that begins at an offset: each has one, so neighbours never drive each other out. */
static uint32_t place_of(const struct blocks_reader *r, uint64_t at)
{
    struct blocks *b = r->blocks;
    uint32_t i = (uint32_t)(at / BLOCKS_SIZE % BLOCKS);
    if (b->of[i] != r || b->at[i] != at) {
        b->n[i] = source_read_some(&r->source, at, b->bytes[i], BLOCKS_SIZE);
        b->of[i] = b->n[i] ? r : NULL;
        b->at[i] = at;
    }
    return i;
}

static size_t read_of(void *of, uint64_t offset, void *to, size_t n)
{
    const struct blocks_reader *r = of;
    size_t done = 0;
    if (n > BLOCKS_SIZE)
        return source_read_some(&r->source, offset, to, n);
    while (done < n) {
        uint64_t in = (offset + done) % BLOCKS_SIZE;
        uint32_t i = place_of(r, offset + done - in);
        size_t there = r->blocks->n[i], part = there > in ? min_of(n - done, (size_t)(there - in)) : 0;
        if (part == 0)
            break;
        memcpy((uint8_t *)to + done, r->blocks->bytes[i] + in, part);
        done += part;
    }
    return done;
}

struct source blocks_source(struct blocks *b, struct blocks_reader *reader, const struct source *of)
{
    struct source by = *of;
    if (!b || of->fd < 0)
        return by;
    *reader = (struct blocks_reader){.source = by, .blocks = b};
    by.read = read_of;
    by.of = reader;
    return by;
}
