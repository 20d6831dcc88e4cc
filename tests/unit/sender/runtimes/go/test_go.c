/* SPDX-License-Identifier: Apache-2.0 */
/* Heads of .go.buildinfo as Go's linker writes them. */
#include "tests/lib/unit.h"

#include <stdio.h>
#include <string.h>

#include "sender/runtimes/go/go.h"

/* The minor version that is told of a head with these flags, and a version of which `n` bytes are there. */
static uint32_t minor_of(const char *version, uint8_t flags, size_t n)
{
    uint8_t bytes[33 + 64] = "\xff Go buildinf:\x08";
    bytes[15] = flags;
    bytes[32] = (uint8_t)strlen(version);
    memcpy(bytes + 33, version, strlen(version));
    struct source s = source_memory(bytes_of(bytes, 33 + n));
    return go_minor(&s, &(struct elf){.go_build = {.size = 33 + n}});
}

UNIT(a_release_is_known_by_its_minor_version)
{
    ck_assert_uint_eq(minor_of("go1.27.0", 2, 8), 27);
    ck_assert_uint_eq(minor_of("go1.18", 2, 6), 18);
    ck_assert_uint_eq(minor_of("go1.24.3 X:nocoverageredesign", 2, 29), 24);
    ck_assert_uint_eq(minor_of("go1.30rc1", 2, 9), 30);
}

UNIT(what_is_none_is_0)
{
    ck_assert_uint_eq(minor_of("devel go1.28-abcdef", 2, 19), 0);
    ck_assert_uint_eq(minor_of("go2.1", 2, 5), 0);
    ck_assert_uint_eq(minor_of("go1.27.0", 0, 8), 0); /* as Go 1.17 has it: two pointers */
    ck_assert_uint_eq(minor_of("go1.", 2, 4), 0);
    ck_assert_uint_eq(minor_of("go1.27.0", 2, 0), 0);
    ck_assert_uint_lt(minor_of("go1.99999999999999999999", 2, 24), 10000);
    struct source nothing = source_memory(bytes_of(NULL, 0));
    ck_assert_uint_eq(go_minor(&nothing, &(struct elf){.go_build = {.offset = UINT64_MAX, .size = 1}}), 0);
    ck_assert_uint_eq(go_minor(&nothing, &(struct elf){.n_segments = 0}), 0);
}
