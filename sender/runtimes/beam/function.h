/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an Erlang function is called, read out of the memory of the process it is in, which goes on meanwhile.
 */
#ifndef SENDER_RUNTIMES_BEAM_FUNCTION_H
#define SENDER_RUNTIMES_BEAM_FUNCTION_H

#include <stdbool.h>

#include "bpf/beam.h"
#include "bpf/sample.h"
#include "sender/runtimes/runtime.h"

/* Names a word. False: it cannot be said, or other code is there by now. */
bool beam_function_name(const struct source *memory, const struct beam_place *place,
                        const struct sample_frame *word, struct arena *text, struct runtime_name *ret);

/* Whether what a name was read from says something else by now: another module is there. */
bool beam_function_has_changed(const struct source *memory, const struct runtime_mark *mark);

#endif
