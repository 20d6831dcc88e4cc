/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/foreign/answering.h"
#include "sender/foreign/open.h"

/* What does not answer is tried with a real server that is stopped: tests/e2e/test_profsend_hostile.py. */
UNIT(what_answers_is_asked_once_in_a_while)
{
    autoclose int memory = memfd_create("x", 0), place = open("/proc/self/exe", O_PATH);
    uint64_t begun = clock_monotonic();
    for (int i = 0; i < 1000; i++) {
        ck_assert(foreign_answers(memory));
        ck_assert(foreign_answers(place));
    }
    ck_assert_uint_lt(clock_monotonic() - begun, unit_patience(NSEC_PER_SEC));
    autoclose int again = foreign_open_link("/proc/self/exe", getuid()); /* our descriptors are still ours */
    ck_assert_int_ge(again, 0);
    ck_assert_int_eq(ftruncate(memory, 1), 0);
}
