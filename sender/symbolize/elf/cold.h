/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the compiler has put what of a function is rarely run (GCC's "….cold"): it has no exported name.
 */
#ifndef SENDER_SYMBOLIZE_ELF_COLD_H
#define SENDER_SYMBOLIZE_ELF_COLD_H

#include "sender/symbolize/elf/dynamic.h"

/* Of the function of hot_size bytes at `hot`, which are read, a megabyte at most. False: nothing is apart. */
bool cold_find(const struct dynamic *d, uint64_t hot, uint64_t hot_size, uint64_t *ret, uint64_t *ret_size);

#endif
