/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where CPython keeps what in its structures, by version: tables up to 3.12, from 3.13 on what it says of
 * itself (_Py_DebugOffsets, Include/internal/pycore_debug_offsets.h).
 */
#ifndef SENDER_RUNTIMES_CPYTHON_LAYOUT_H
#define SENDER_RUNTIMES_CPYTHON_LAYOUT_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/cpython.h"
#include "sender/symbolize/elf/source.h"

/* Fills the offsets of a place, and its key's as if _PyRuntime were at 0. `runtime` is where that is in
 * `memory`. 0; RUNTIME_NOT_KNOWN: this one is not known. */
int cpython_layout(struct cpython_place *ret, uint32_t minor, const struct source *memory, uint64_t runtime);

#endif
