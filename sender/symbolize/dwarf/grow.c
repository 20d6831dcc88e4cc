/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/dwarf/grow.h"

#include <stdlib.h>

bool dwarf_grow(void **array, uint32_t n, uint32_t *cap, uint32_t max, size_t size)
{
    if (n < *cap)
        return true;
    uint32_t more = *cap ? 2 * *cap : 64;
    void *bigger = more <= max ? realloc(*array, more * size) : NULL;
    if (!bigger)
        return false;
    *array = bigger;
    *cap = more;
    return true;
}
