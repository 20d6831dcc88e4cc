/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function of Lua is called, read out of the memory of the process it is in, which goes on meanwhile.
 */
#ifndef SENDER_RUNTIMES_LUAJIT_FUNCTION_H
#define SENDER_RUNTIMES_LUAJIT_FUNCTION_H

#include <stdbool.h>

#include "bpf/luajit.h"
#include "bpf/sample.h"
#include "sender/runtimes/runtime.h"

/* Bytes of a name, and of a chunk's name, that are read. */
#define LUAJIT_NAME_MAX 512u

/* Names a word. False: it cannot be said, or something else is there by now. */
bool luajit_function_name(const struct source *memory, const struct sample_frame *word, struct arena *text,
                          struct runtime_name *ret);

#endif
