/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where an emulator that runs has its state: by what it tells debuggers of the code it has generated (GDB's
 * JIT interface), and by what its tables look like.
 */
#ifndef SENDER_RUNTIMES_BEAM_STATE_H
#define SENDER_RUNTIMES_BEAM_STATE_H

#include <stdbool.h>

#include "bpf/beam.h"
#include "proto/base/bytes.h"
#include "sender/runtimes/beam/binary.h"

/* Makes a process's place; `bias` is what addresses of the file are more in the process. 0, or -errno:
 * -EAGAIN, it is too early; RUNTIME_NOT_KNOWN, it is another version; -ENOMEM. */
int beam_state(struct beam_place *ret, const struct beam_binary *binary, const struct source *memory,
               uint64_t bias);

/* What a piece of the shared code is called that an address is in, in `name` of `room` bytes; `want`: its
 * name instead, and *start, *size are set. False: there is none. */
struct beam_piece {
    uint64_t start, size;
    char name[96];
};
bool beam_piece_at(const struct source *memory, const struct beam_place *place, uint64_t address,
                   struct beam_piece *ret);
bool beam_piece_named(const struct source *memory, const struct beam_place *place, const char *name,
                      struct beam_piece *ret);

#endif
