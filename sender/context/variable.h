/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread-local variable `otel_thread_ctx_v1` in an ELF file: whether it is there, and by which word in
 * the process's memory its place in thread-local storage is known (OTEP 4947, "Thread-Local Variable
 * Resolution"; System V ABI for x86-64, "Thread-Local Storage"; Drepper, "ELF Handling For Thread-Local
 * Storage", 4).
 *
 * By the dynamic section alone: section headers may have been stripped. The file is hostile: every number in
 * it is checked.
 */
#ifndef SENDER_CONTEXT_VARIABLE_H
#define SENDER_CONTEXT_VARIABLE_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

enum variable_access {
    VARIABLE_EXECUTABLE, /* no word: `offset` from the thread pointer, by the rules of static linking */
    VARIABLE_THREAD,     /* the word is the offset from the thread pointer (R_X86_64_TPOFF64) */
    VARIABLE_MODULE,     /* two words: module, offset in it (R_X86_64_DTPMOD64, and DTPOFF64) */
    VARIABLE_OWN_MODULE, /* one word: the module; the variable is at `offset` in it */
    VARIABLE_DESCRIPTOR, /* two words of a TLS descriptor (R_X86_64_TLSDESC): a function, its argument */
};

struct variable {
    enum variable_access access;
    uint64_t slot;  /* ELF address of the word(s) */
    int64_t offset; /* DESCRIPTOR: to be added to what the argument leads to */
};

/* Relocations looked through: libraries with a hundred thousand are known. */
#define VARIABLE_RELOCATIONS_MAX (1u << 20)

/* Condition: it is not there, or the file is none we read. */
#define VARIABLE_NONE 1

/* Looks for it. 0; VARIABLE_NONE; -ENOTSUP: it is there, but in no way known here. */
int variable_find(const struct source *s, struct variable *ret);

#endif
