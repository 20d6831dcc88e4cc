/* SPDX-License-Identifier: Apache-2.0 */
/*
 * iseq.c, struct succ_index_table: of the first 54 instructions, 7 bits each, nine to a word; of the others,
 * in blocks of 512, how many there were before the block, then before each but the first of its words, 9 bits
 * each, then a bit an instruction, set where an entry begins.
 */
#include "sender/runtimes/ruby/lines.h"

#define FIRST_ONES   54u
#define FIRST_A_WORD 9u
#define BLOCK_BITS   512u
#define BLOCK_AT     (8 * FIRST_ONES / FIRST_A_WORD)
struct block {
    uint32_t before, zero;
    uint64_t words_before;
    uint64_t bits[BLOCK_BITS / 64];
};

/* How many entries begin at instruction `at` or before. */
static bool count(const struct source *memory, uint64_t table, uint32_t at, uint32_t *ret)
{
    uint64_t word;
    struct block b;
    if (at < FIRST_ONES) {
        if (!source_read(memory, table + 8 * (at / FIRST_A_WORD), &word, sizeof word))
            return false;
        *ret = (uint32_t)(word >> 7 * (at % FIRST_A_WORD)) & 0x7f;
        return true;
    }
    at -= FIRST_ONES;
    if (!source_read(memory, table + BLOCK_AT + at / BLOCK_BITS * sizeof b, &b, sizeof b))
        return false;
    uint32_t i = at % BLOCK_BITS / 64;
    uint32_t before = i ? (uint32_t)(b.words_before >> 9 * (i - 1)) & 0x1ff : 0;
    *ret = b.before + before + (uint32_t)__builtin_popcountll(b.bits[i] << (63 - at % 64));
    return true;
}

uint32_t ruby_line(const struct source *memory, const struct ruby_lines *lines, uint32_t size, uint32_t at)
{
    uint32_t n = 1, line = 0;
    if (lines->n == 0 || (lines->n > 1 && (!lines->table || !count(memory, lines->table, at, &n))) ||
        n > lines->n)
        return 0;
    /* 2.7 has entries without a line for what ends a block: they are in that of the one before. */
    for (uint32_t i = 0; i < 2 && n > i && line == 0; i++)
        if (!source_read(memory, lines->entries + (uint64_t)(n - 1 - i) * size, &line, sizeof line))
            return 0;
    return line;
}
