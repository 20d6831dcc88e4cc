/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that call nobody, and leave a register as their caller has it though they need not: parts of
 * functions, in assembly.
 */
#ifndef SENDER_UNWIND_LEAF_H
#define SENDER_UNWIND_LEAF_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* Code looked at: OpenSSL's for six blocks of AES-GCM is 1,400 bytes. */
#define LEAF_MAX 2048u

/* Whether what begins with `code` returns, calls nobody, and at no place may write register `reg` (by its
 * DWARF number: rax, r8 to r11; of others false). What is not known to leave it alone may. */
bool leaf_leaves(struct bytes code, uint8_t reg);

#endif
