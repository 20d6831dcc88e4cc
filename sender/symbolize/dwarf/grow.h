/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An array that doubles, up to a limit that what a file can make us hold has everywhere.
 */
#ifndef SENDER_SYMBOLIZE_DWARF_GROW_H
#define SENDER_SYMBOLIZE_DWARF_GROW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Room in an array for one more of `size` bytes; false when memory or the limit is out. */
bool dwarf_grow(void **array, uint32_t n, uint32_t *cap, uint32_t max, size_t size);

#endif
