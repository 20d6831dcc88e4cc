/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of Perl by its file: which version it is, where its loop is and where it has its
 * state. An executable, or libperl; stripped ones as well, since all of it is exported to extensions.
 */
#ifndef SENDER_RUNTIMES_PERL_BINARY_H
#define SENDER_RUNTIMES_PERL_BINARY_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* Addresses are ELF virtual addresses. */
struct perl_binary {
    uint64_t loop[2], loop_size[2];   /* Perl_runops_standard, Perl_runops_debug */
    uint64_t key;                     /* PL_thr_key; 0: there are no threads, and one interpreter: */
    uint64_t op, cop, stack, catches; /* PL_op, PL_curcop, PL_curstackinfo, PL_top_env */
};

/* Whether a file has Perl in it. */
bool perl_binary_find(struct perl_binary *ret, const struct source *file);

/* Reads up to some megabytes. False: it does not say which version it is. */
bool perl_binary_version(uint16_t ret[3], const struct source *file);

#endif
