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

/* A piece of the shared code: the one of a name; NULL: that an address is in. False: there is none. */
struct beam_piece {
    uint64_t start, size;
    char name[96];
};
bool beam_piece(const struct source *memory, const struct beam_place *place, const char *name,
                uint64_t address, struct beam_piece *ret);

#endif
