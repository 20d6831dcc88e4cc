/* SPDX-License-Identifier: Apache-2.0 */
/* Which Go a program was built with. */
#ifndef SENDER_RUNTIMES_GO_GO_H
#define SENDER_RUNTIMES_GO_GO_H

#include <stdint.h>

#include "sender/symbolize/elf/elf.h"

/* The n of Go 1.n; 0: it is no Go program, one older than Go 1.18, or of no release. */
uint32_t go_minor(const struct source *file, const struct elf *elf);

#endif
