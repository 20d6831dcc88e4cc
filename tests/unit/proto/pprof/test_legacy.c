/* SPDX-License-Identifier: Apache-2.0 */
/* What the older formats become is judged by pprof's own library in tests/interop/test_pprof.py; here is what
 * is refused, and failing memory. */
#include <errno.h>

#include "proto/pprof/legacy.h"
#include "proto/pprof/pprof.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

static const char heap[] = "heap profile: 1: 1048 [1: 1048] @ growthz\n"
                           " 1: 1048 [1: 1048] @ 0x4073e9 0x438fc6\n"
                           "MAPPED_LIBRARIES:\nbin=/bin\n0x400000-0xf00000 $bin/x (@FF00) abc\n";

UNIT(what_is_wrong_is_said_by_its_line)
{
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"heap profile: 1: 2 [3: 4] @ heap/2\n\n1: 2 [3: x] @ 0x1\n", "line 3: no"},
        {"heap profile: 1: 2 [3: 4] @ heap/2\n0: 2 [3: 4] @ 0x1\n", "line 2: bytes of no object"},
        {"heap profile: 1: 2 [3: 4] @ heap/2\n1: 2 [3: 4] @ 0x11111111111111111\n",
         "line 2: an address of more"},
        {"goroutine profile: total 1\n1 0x1\n", "line 2: no"},
        {"--- mutex:\ncycles=1\n", "line 2: an unknown setting"},
        {"--- mutex:\ncycles/second=x\n", "line 2: the setting has no number"},
        {"--- mutex:\n1 2 3\n", "line 2: no \"DELAY"},
        {"--- heapz 1 ---\n", "no resolution"},
        {"--- heapz 1 ---\nformat = C\n", "line 2: a format"},
        {"--- heapz 1 ---\ncolour = C\n", "line 2: an unknown"},
        {"--- heapz 1 ---\nresolution = bytes\n7 0 @ 0x1\n", "line 3: bytes of no object"},
        {"--- contentionz 1 ---\nresolution = us\nms since reset = 99999999999999\n", "line 3: the setting"},
        {"hello\n", "no profile"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct buffer out = BUFFER_INIT(0);
        struct error e = {""};
        ck_assert_int_eq(pprof_from_legacy(bytes_str(cases[i].text), NULL, &out, &e), PPROF_MALFORMED);
        ck_assert_msg(strstr(e.text, cases[i].says), "%zu: %s", i, e.text);
        ck_assert_uint_eq(out.n, 0);
    }
}

UNIT(they_are_told_by_how_they_begin)
{
    ck_assert(pprof_is_legacy(bytes_str(heap)));
    ck_assert(pprof_is_legacy(BYTES_LIT("# comment\n\nthreadcreate profile: total 4\n")));
    ck_assert(!pprof_is_legacy(BYTES_LIT("main;profile: total 4\n")));
    ck_assert(!pprof_is_legacy(BYTES_LIT("")));
}

static const char java[] = "--- heapz 1 ---\nformat = java\nresolution = bytes\n7048 1 @ 0x3 0x4\n"
                           "0x3 a.b (C.java:1)\n0x4 c.d (E.java:2)\n";

static void read_or_out_of_memory(struct bytes text)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    struct error e = {""};
    int r = pprof_from_legacy(text, NULL, &out, &e);
    ck_assert_msg(r == 0 || (r == -ENOMEM && out.n == 0), "%d %s", r, e.text);
}

OOM_SWEEP(an_older_profile_or_memory_is_out)
{
    read_or_out_of_memory(BYTES_LIT(heap));
}

OOM_SWEEP(an_older_profile_of_java_or_memory_is_out)
{
    read_or_out_of_memory(BYTES_LIT(java));
}
