/* SPDX-License-Identifier: Apache-2.0 */
/* Segments made by hand: the first is written to, two are only read. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "sender/symbolize/elf/constant.h"

#define SEGMENT (200u << 10)
#define SAYS    "This is version "

static uint8_t *file;

static struct dynamic begin(struct source *source)
{
    struct dynamic d = {.source = source, .n_program = 3};
    file = calloc(3, SEGMENT);
    unit_made(file);
    *source = source_memory(bytes_of(file, 3 * (size_t)SEGMENT));
    for (uint32_t i = 0; i < 3; i++)
        d.program[i] = (Elf64_Phdr){.p_type = PT_LOAD,
                                    .p_flags = i == 0 ? PF_R | PF_W : PF_R,
                                    .p_offset = i * SEGMENT,
                                    .p_filesz = SEGMENT};
    return d;
}

static void put(uint32_t at, const char *text)
{
    memcpy(file + at, text, strlen(text));
}

/* A number, of one digit. */
static bool read_digit(const char *behind, void *user)
{
    *(int *)user = *behind - '0';
    return *behind >= '0' && *behind <= '9';
}

static int find(const struct dynamic *d)
{
    int digit = -1;
    return constant_find(d, BYTES_LIT(SAYS), read_digit, &digit) ? digit : -1;
}

UNIT(it_is_found_wherever_it_stands)
{
    struct source source;
    struct dynamic d = begin(&source);
    const uint32_t n = sizeof SAYS; /* with the digit */
    for (uint32_t at = 0; at + n <= SEGMENT; at += at < SEGMENT - 2000 && at % 65536 < 65000 ? 997 : 1) {
        put(SEGMENT + at, SAYS "7");
        ck_assert_msg(find(&d) == 7, "at %u", at);
        memset(file + SEGMENT + at, 0, n);
    }
    free(file);
}

UNIT(what_is_written_to_is_no_constant_and_the_last_one_that_is_right_counts)
{
    struct source source;
    struct dynamic d = begin(&source);
    put(5, SAYS "1");
    ck_assert_int_eq(find(&d), -1);
    put(SEGMENT + 5, SAYS "2");
    ck_assert_int_eq(find(&d), 2);
    put(2 * SEGMENT + 5, SAYS "x");
    ck_assert_int_eq(find(&d), 2);
    put(2 * SEGMENT + 5, SAYS "3");
    ck_assert_int_eq(find(&d), 3);
    d.program[2].p_offset = UINT64_MAX - 10; /* no such bytes */
    ck_assert_int_eq(find(&d), 2);
    free(file);
}
