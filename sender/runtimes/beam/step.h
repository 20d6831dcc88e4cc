/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel side's step (bpf/beam_step.h) in user space: past the Erlang stack, whose words were told ahead.
 */
#ifndef SENDER_RUNTIMES_BEAM_STEP_H
#define SENDER_RUNTIMES_BEAM_STEP_H

#include <stdbool.h>

#include "sender/runtimes/runtime.h"

/* As runtime.step. */
bool beam_step(const struct runtime_process *process, const struct runtime_stack *stack,
               struct unwind_registers *at, struct sample_frame *word);

#endif
