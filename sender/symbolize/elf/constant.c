/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/constant.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

#define SEARCH_MAX     (16u << 20)
#define SEARCH_AT_ONCE (64u << 10)

static bool search(const struct dynamic *d, const Elf64_Phdr *segment, struct bytes text,
                   bool (*read)(const char *behind, void *user), void *user)
{
    const size_t overlap = text.n + CONSTANT_BEHIND;
    autofree char *piece = calloc(1, SEARCH_AT_ONCE + 1);
    uint64_t end = segment->p_offset + min_of(segment->p_filesz, (uint64_t)SEARCH_MAX);
    if (!piece || end < segment->p_offset)
        return false;
    for (uint64_t at = segment->p_offset; at < end; at += SEARCH_AT_ONCE - overlap) {
        size_t n = source_read_some(d->source, at, piece, (size_t)min_of(end - at, (uint64_t)SEARCH_AT_ONCE));
        const char *found = memmem(piece, n, text.p, text.n);
        piece[n] = 0;
        if (found &&
            ((size_t)(piece + n - found) >= overlap || at + n >= end)) /* else the next has all of it */
            return read(found + text.n, user);
        if (n <= overlap)
            break;
    }
    return false;
}

bool constant_find(const struct dynamic *d, struct bytes text, bool (*read)(const char *behind, void *user),
                   void *user)
{
    for (uint32_t i = d->n_program; i-- > 0;)
        if (d->program[i].p_type == PT_LOAD && !(d->program[i].p_flags & PF_W) &&
            search(d, &d->program[i], text, read, user))
            return true;
    return false;
}
