/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was read of files lately, in blocks: for who reads words, entries and texts here and there of a few
 * files for a moment. It then is a call a block, and not one a word.
 *
 *     blocks_begin(blocks);
 *     struct source by = blocks_source(blocks, &reader, &source);
 */
#ifndef SENDER_SYMBOLIZE_ELF_BLOCKS_H
#define SENDER_SYMBOLIZE_ELF_BLOCKS_H

#include "sender/symbolize/elf/source.h"

/* A call is worth some 2 KiB (ALLOWANCE_CALL); 64 blocks are a quarter of a megabyte, and with 32 a third
 * more is read again. */
#define BLOCKS_SIZE SOURCE_PAGE
#define BLOCKS      64u

/* A file that is read by blocks. */
struct blocks_reader {
    struct source source;
    struct blocks *blocks;
};

struct blocks {
    const struct blocks_reader *of[BLOCKS]; /* NULL: nothing is there */
    uint64_t at[BLOCKS];
    size_t n[BLOCKS];
    uint8_t bytes[BLOCKS][BLOCKS_SIZE];
};

/* Forgets all: before what is read is to be as it is then, and before a reader becomes another file's. */
void blocks_begin(struct blocks *b);

/* A source of what `of` has, which is copied, with its owner and allowance; `reader` must stay. Of memory, of
 * what is read by blocks already, and if b is NULL, it is `of` as it is. */
struct source blocks_source(struct blocks *b, struct blocks_reader *reader, const struct source *of);

#endif
