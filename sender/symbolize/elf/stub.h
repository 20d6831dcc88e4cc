/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stubs that linkers make to call a function of another file (.plt, .plt.got, .plt.sec), which are in no
 * symbol table: called as the function is, with "@plt" behind, as debuggers do.
 *
 * x86-64, as GNU ld, gold, lld and mold make them. Everything in the file is untrusted.
 */
#ifndef SENDER_SYMBOLIZE_ELF_STUB_H
#define SENDER_SYMBOLIZE_ELF_STUB_H

#include <stdbool.h>

#include "sender/symbolize/elf/elf.h"

/* Relocations looked through for one: clang has 6,000 functions of others. */
#define STUB_RELOCATIONS_MAX 65536u

/* The stub an address is in: [*start, *end). False: it is in none. */
bool stub_bounds(const struct source *s, const struct elf *elf, uint64_t address, uint64_t *start,
                 uint64_t *end);

/* What the stub that begins at `start` is called; ".plt" where the file does not say whom it calls (as of
 * functions that a static program chooses by the CPU). Its length. */
size_t stub_name(const struct source *s, uint64_t start, char *to, size_t room);

#endif
