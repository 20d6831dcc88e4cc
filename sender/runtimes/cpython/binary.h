/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of CPython by its file: which version it is, where it runs bytecode and where it has
 * its state. An executable, or libpython; stripped ones as well, since all of it is exported.
 */
#ifndef SENDER_RUNTIMES_CPYTHON_BINARY_H
#define SENDER_RUNTIMES_CPYTHON_BINARY_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/cpython.h"
#include "proto/base/bytes.h"
#include "sender/symbolize/elf/source.h"

/* Of Python 3. */
#define CPYTHON_MINOR_FIRST 8u
#define CPYTHON_MINOR_LAST  14u

/* Addresses are ELF virtual addresses. */
struct cpython_binary {
    uint32_t minor, micro;    /* 3.minor.micro; CPYTHON_NO_MICRO: not known */
    uint64_t eval, eval_size; /* _PyEval_EvalFrameDefault … */
    uint64_t cold, cold_size; /* … and what the compiler put apart of it; size 0: nothing */
    uint64_t runtime;         /* _PyRuntime */
    uint64_t code_type;       /* PyCode_Type; 0: it is not said */
};

/* Whether a file has CPython in it, of a version that is known. `path` says which one up to 3.10. All but
 * `cold` is filled in. */
bool cpython_binary_find(struct cpython_binary *ret, const struct source *file, struct bytes path);

/* Finds the part that is kept apart: 50 KB are read. */
void cpython_binary_find_cold(struct cpython_binary *b, const struct source *file);

#endif
