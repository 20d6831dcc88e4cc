/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What one of many may hold of something that all of them share, when nobody knows how many they are: as much
 * as is left free (A. Choudhury, E. Hahne: "Dynamic Queue Length Thresholds for Shared-Memory Packet
 * Switches"). So n that want all there is end with an equal part each, one more of it stays free for whoever
 * comes next, and of those that are there who holds most is refused first. While all others hold little,
 * nobody is in the way.
 */
#ifndef PROTO_BASE_SHARE_H
#define PROTO_BASE_SHARE_H

#include <stdbool.h>
#include <stddef.h>

/* The part of all, in eighths, that the others must hold before anybody has to give way to them. */
#define SHARE_OTHERS_EIGHTHS 3u

/* Whether who holds `held` of the `used` may hold n more; with n = 0, whether to keep what it has. */
static inline bool share_allows(size_t limit, size_t used, size_t held, size_t n)
{
    const size_t others = used > held ? used - held : 0, left = limit > used ? limit - used : 0;
    if (others < limit / 8 * SHARE_OTHERS_EIGHTHS)
        return true;
    return n <= left && held <= left - n && n <= left - n - held;
}

#endif
