/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel side's step (bpf/hotspot_step.h) in user space: through the copy of a stack that a walk left
 * behind, and what of it names are found by.
 */
#ifndef SENDER_RUNTIMES_HOTSPOT_STEP_H
#define SENDER_RUNTIMES_HOTSPOT_STEP_H

#include <stdbool.h>

#include "bpf/hotspot.h"
#include "sender/runtimes/runtime.h"

/* What is at *blob, the header of an address's code. */
enum hotspot_code {
    HOTSPOT_CODE_NONE,
    HOTSPOT_CODE_METHOD,
    HOTSPOT_CODE_STUB,
};

/* The code at an address: of a method, its number and where it begins. */
struct hotspot_blob {
    uint64_t at, code;
    uint64_t name; /* the address of a string */
    uint32_t id;
};

/* Finds the code that an address is in. */
enum hotspot_code hotspot_blob_find(const struct source *memory, const struct hotspot_place *place,
                                    uint64_t address, struct hotspot_blob *ret);

/* What tells a method from others that were or will be in its memory (see sample_frame.file). 0: there is
 * none. */
uint32_t hotspot_method_cookie(const struct source *memory, const struct hotspot_place *place,
                               uint64_t method);

/* As runtime.step. */
bool hotspot_step(const struct runtime_process *process, const struct runtime_stack *stack,
                  struct unwind_registers *at, struct sample_frame *word);

#endif
