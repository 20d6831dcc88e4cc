/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/blocks.h"

#include "proto/base/macros.h"

void blocks_begin(struct blocks *b)
{
    memset(b->of, 0, sizeof b->of);
}

/* The block that begins at an offset: each has a place, so neighbours never drive each other out. */
static struct bytes block_of(void *of, uint64_t at)
{
    const struct blocks_reader *r = of;
    struct blocks *b = r->blocks;
    uint32_t i = (uint32_t)(at / BLOCKS_SIZE % BLOCKS);
    if (b->of[i] != r || b->at[i] != at) {
        b->n[i] = source_read_some(&r->source, at, b->bytes[i], BLOCKS_SIZE);
        b->of[i] = b->n[i] ? r : NULL;
        b->at[i] = at;
    }
    return bytes_of(b->bytes[i], b->n[i]);
}

static size_t read_of(void *of, uint64_t offset, void *to, size_t n)
{
    const struct blocks_reader *r = of;
    return n > BLOCKS_SIZE ? source_read_some(&r->source, offset, to, n)
                           : source_read_pages(block_of, of, BLOCKS_SIZE, offset, to, n);
}

struct source blocks_source(struct blocks *b, struct blocks_reader *reader, const struct source *of)
{
    struct source by = *of;
    if (!b || of->fd < 0 || of->read)
        return by;
    *reader = (struct blocks_reader){.source = by, .blocks = b};
    by.read = read_of;
    by.of = reader;
    return by;
}
