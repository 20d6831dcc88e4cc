/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Allocation failures on purpose. In ASan builds every allocation of our own code goes through here (the
 * linker's --wrap), and those of shared libraries that they make for our code (library_oom.h); unit_oom.c
 * runs each case again and again, each time with another one failing, and sweep.c each scenario.
 *
 * A place is a call chain: the innermost frames, since most memory comes through a few helpers.
 */
#ifndef TESTS_LIB_OOM_H
#define TESTS_LIB_OOM_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/library_oom.h"

#define OOM_PLACES_MAX 16384u

/* In memory that forked children write, too. */
struct oom_places {
    uint32_t n;
    uint64_t seen[4 * OOM_PLACES_MAX]; /* a hash set of what is in place */
    uint64_t place[OOM_PLACES_MAX];
    int8_t library[OOM_PLACES_MAX]; /* whose place[i] is (library_oom_of); -1: ours */
};

struct oom_places *oom_places_new(void);
bool oom_places_has(const struct oom_places *p, uint64_t place);
/* Whether it was new, and there was room. */
bool oom_places_add(struct oom_places *p, uint64_t place, int library);

/* Whether what libraries take is looked at, too (their places, and for_good): unwinding costs several times
 * as much as all the rest of it. From the start it is not. */
void oom_look_at_libraries(bool look);

/* From here on this process's allocations are noted in p. */
void oom_record(struct oom_places *p);

/* From here on the first allocation at this place fails, and, if the machine is to stay without memory, all
 * that come after it. */
void oom_fail(uint64_t place, bool for_good);

/* From here on the n-th allocation (1 is the next) and those after it fail, how_many in all. */
void oom_fail_nth(uint64_t n, uint64_t how_many);

/* While paused the n-th is not counted towards, and nothing fails. */
void oom_pause(bool pause);

/* How many have failed. Any thread. */
uint32_t oom_failures(void);

/* No failures any more. */
void oom_stop(void);

#endif
