/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sender/symbolize/jit/perfmap.h"

static struct bytes find(struct bytes text, uint64_t address, struct arena *arena)
{
    struct source s = source_memory(text);
    struct perfmap_answer a = {.address = address};
    ck_assert_int_eq(perfmap_search(&s, &a, 1, arena), 0);
    return a.name;
}

UNIT(the_last_line_that_covers_an_address_wins)
{
    cleanup(arena_release) struct arena arena = {0};
    struct bytes text = BYTES_LIT("1000 10 first one\n0x1010 0x10 second\n1008 4 moved here\n");
    ck_assert(bytes_is(find(text, 0x1000, &arena), "first one"));
    ck_assert(bytes_is(find(text, 0x100b, &arena), "moved here"));
    ck_assert(bytes_is(find(text, 0x100c, &arena), "first one"));
    ck_assert(bytes_is(find(text, 0x101f, &arena), "second"));
    ck_assert_ptr_null(find(text, 0x1020, &arena).p);
    ck_assert_ptr_null(find(text, 0xfff, &arena).p);
}

UNIT(malformed_lines_are_skipped)
{
    cleanup(arena_release) struct arena arena = {0};
    struct bytes text =
        BYTES_LIT("\n \nx 10 a\n1000\n1000 10\n1000 zz b\nffffffffffffffff 10 c\n11111111111111111 1 d\n"
                  "1000 10 good\n1000 10 half written");
    ck_assert(bytes_is(find(text, 0x1001, &arena), "good"));
    ck_assert_ptr_null(find(text, UINT64_MAX, &arena).p);
}

UNIT(many_addresses_in_one_pass_over_a_large_file)
{
    enum { LINES = 20000 };
    cleanup(arena_release) struct arena arena = {0};
    autofree char *text = malloc(LINES * 40);
    size_t n = 0;
    for (int i = 0; i < LINES; i++)
        n += (size_t)sprintf(text + n, "%x 10 function_%d\n", 0x10000 + i * 16, i);
    struct perfmap_answer a[100];
    for (int i = 0; i < 100; i++)
        a[i] = (struct perfmap_answer){.address = 0x10000u + (unsigned)i * 199 * 16 + 3};
    struct source s = source_memory(bytes_of(text, n));
    ck_assert_int_eq(perfmap_search(&s, a, 100, &arena), 0);
    for (int i = 0; i < 100; i++) {
        char want[32];
        sprintf(want, "function_%d", i * 199);
        ck_assert(bytes_is(a[i].name, want));
    }
}

UNIT(frame_types)
{
    ck_assert_str_eq(perfmap_frame_type(BYTES_LIT("JS:*fib /x.js:1:2")), "v8js");
    ck_assert_str_eq(perfmap_frame_type(BYTES_LIT("py::main:/x.py")), "cpython");
    ck_assert_str_eq(perfmap_frame_type(BYTES_LIT("Ljava/lang/String;::hashCode")), "jvm");
    ck_assert_str_eq(perfmap_frame_type(BYTES_LIT("Builtin:Load")), "native");
}
