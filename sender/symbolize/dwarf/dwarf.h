/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What DWARF says of addresses: the function, the functions inlined there, and the source line of each.
 *
 * An address is answered with the whole function it is in (of a long one, with what is near), cut into pieces
 * of equal answers, so that a function is asked for once.
 */
#ifndef SENDER_SYMBOLIZE_DWARF_DWARF_H
#define SENDER_SYMBOLIZE_DWARF_DWARF_H

#include "sender/symbolize/dwarf/answer.h"
#include "sender/symbolize/dwarf/file.h"

struct dwarf_piece {
    uint64_t start, end;
    const struct dwarf_frame *frame;
    uint32_t n_frames;
};

/* Takes a piece; slices are valid during the call. Of one query they come ascending and apart. */
typedef void (*dwarf_piece_fn)(void *user, const struct dwarf_piece *piece);

/* Answers n queries, sorted by address; puts them into another order. 0; DWARF_LEFT: the work allowed ran
 * out before all were tried; -ENOMEM. */
#define DWARF_LEFT 1
int dwarf_find(struct dwarf_file *f, struct dwarf_query *queries, uint32_t n, dwarf_piece_fn fn, void *user);

#endif
