/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a code object is called, read out of the memory of the process it is in, which goes on meanwhile.
 */
#ifndef SENDER_RUNTIMES_CPYTHON_CODE_H
#define SENDER_RUNTIMES_CPYTHON_CODE_H

#include <stdbool.h>

#include "bpf/cpython.h"
#include "bpf/sample.h"
#include "sender/runtimes/runtime.h"

/* Characters of a name, and of a file's name, that are read. */
#define CPYTHON_NAME_MAX 512u

/* Names a word. False: it cannot be said, or another code object is there by now. */
bool cpython_code_name(const struct source *memory, const struct cpython_place *place,
                       const struct sample_frame *word, struct arena *text, struct runtime_name *ret);

#endif
