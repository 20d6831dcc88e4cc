/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of Erlang's emulator by its file; stripped ones as well, since it exports what
 * extensions (NIFs) are made with.
 */
#ifndef SENDER_RUNTIMES_BEAM_BINARY_H
#define SENDER_RUNTIMES_BEAM_BINARY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "sender/symbolize/elf/source.h"

#define BEAM_DATA_MAX 4u

/* Addresses are ELF virtual addresses. */
struct beam_binary {
    uint16_t version[4];      /* of the runtime system (ERTS): 13.1.5 */
    uint64_t start, end;      /* of all of it */
    uint64_t text, text_size; /* its code */
    uint64_t main;            /* process_main; 0: it is not exported */
    struct {
        uint64_t start, size;
    } data[BEAM_DATA_MAX]; /* what it writes to */
    uint32_t n_data;
};

/* Whether a file has the emulator in it, one that generates code on the native stack (BeamAsm). */
bool beam_binary_find(struct beam_binary *ret, const struct source *file);

/* Whether a file of this name is memory that asmjit has its code in. */
bool beam_is_code(struct bytes path);

#endif
