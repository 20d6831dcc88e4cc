/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of Ruby by its file, libruby or an executable that has it in it: which version it is,
 * where it runs methods and where it has its state. Of the latter little is exported; what is not is found by
 * the code of small functions which are (gems with C extensions use them).
 */
#ifndef SENDER_RUNTIMES_RUBY_BINARY_H
#define SENDER_RUNTIMES_RUBY_BINARY_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* 10 * major + minor. */
#define RUBY_FIRST 27u
#define RUBY_LAST  33u

/* Where a thread has the pointer to its execution context. */
enum ruby_access {
    RUBY_SHARED, /* at `at`, that of the thread that has the lock (2.7) */
    RUBY_MODULE, /* two words at `at`: module, offset in it, as __tls_get_addr takes them */
    RUBY_STATIC, /* `at` from the thread pointer on */
};

/* Addresses are ELF virtual addresses. */
struct ruby_binary {
    uint32_t version, patch;  /* 31 and 7: 3.1.7 */
    uint64_t exec, exec_size; /* rb_vm_exec */
    uint64_t core, core_size; /* vm_exec_core, which it calls; size 0: it is a part of it */
    enum ruby_access access;
    uint64_t at;
    uint64_t symbols; /* the table of symbols; 0: not found */
    /* What rb_during_gc looks at: the virtual machine is what a word points at, or, `vm_is_far`, what the
     * word does that it points at. 0: not found. */
    uint64_t vm;
    bool vm_is_far;
    uint32_t heap, collects, collects_bit; /* as in struct ruby_place */
};

/* Whether a file has a Ruby in it that is known; of *ret, version and patch are filled in. */
bool ruby_binary_is(struct ruby_binary *ret, const struct source *file);

/* All of it. Some 10 KB are read. */
bool ruby_binary_find(struct ruby_binary *ret, const struct source *file);

#endif
