/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of LuaJIT by its file: where the interpreter is, and where it has its state. An
 * executable, or a library; stripped ones as well.
 */
#ifndef SENDER_RUNTIMES_LUAJIT_BINARY_H
#define SENDER_RUNTIMES_LUAJIT_BINARY_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* The interpreter has about 16 KiB of code. */
#define LUAJIT_CODE_MIN (8u << 10)
#define LUAJIT_CODE_MAX (64u << 10)

/* `start` is an ELF virtual address; the others are as in struct luajit_place. */
struct luajit_binary {
    uint64_t start, size;
    uint32_t dispatch, trace_base;
};

/* Whether a file has LuaJIT in it, with 64-bit references. */
bool luajit_binary_find(struct luajit_binary *ret, const struct source *file);

/* The version, as "2.1.0-beta3" or "2.1.1703358377"; reads up to some megabytes. False: it does not say. */
bool luajit_binary_version(char ret[24], const struct source *file);

#endif
