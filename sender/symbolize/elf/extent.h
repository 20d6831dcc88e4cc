/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a function ends that does not say so: written in assembly, without .size. The next exported one may
 * be far, with functions in between that have no name in a stripped file.
 *
 * x86-64. The code is read from its beginning on: what returns or jumps away ends it, unless something before
 * led behind that. Where this cannot be told (a jump by a table) it is as long as it may be.
 */
#ifndef SENDER_SYMBOLIZE_ELF_EXTENT_H
#define SENDER_SYMBOLIZE_ELF_EXTENT_H

#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* Code looked at. */
#define EXTENT_MAX 1024u

/* The end of the one that begins at `start`, no further than `end`; `end` where it is not known. */
uint64_t extent_end(const struct source *s, uint64_t start, uint64_t end);

#endif
