/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function is called, read out of the memory of the process it is in, which goes on meanwhile.
 */
#ifndef SENDER_RUNTIMES_V8_FUNCTION_H
#define SENDER_RUNTIMES_V8_FUNCTION_H

#include <stdbool.h>

#include "bpf/sample.h"
#include "bpf/v8.h"
#include "sender/runtimes/runtime.h"

/* Names a word. False: it cannot be said, or another function is there by now. */
bool v8_function_name(const struct source *memory, const struct v8_place *place,
                      const struct sample_frame *word, struct arena *text, struct runtime_name *ret);

#endif
