/* SPDX-License-Identifier: Apache-2.0 */
/* Switches of stacks as compilers have left them in files: known by their instructions, each with its rule.
 */
#include "tests/lib/unit.h"

#include "sender/unwind/switches.h"

static struct {
    uint64_t at;
    struct unwind_rule rule;
} row[32];
static uint32_t n_rows;

static void on_row(void *user, uint64_t at, const struct unwind_rule *rule)
{
    at += *(size_t *)user;
    ck_assert_uint_lt(n_rows, 32);
    ck_assert(n_rows == 0 || row[n_rows - 1].at <= at);
    row[n_rows].at = at;
    row[n_rows++].rule = *rule;
}

/* Those from `first` on in code that begins `at` bytes behind a multiple of 16: how long they are. */
static size_t run_from(struct bytes code, uint32_t at, size_t first)
{
    n_rows = 0;
    return switches_run(bytes_from(code, first), at + (uint32_t)first, on_row, &first);
}

/* Where what is known ends; 0: nothing is. */
static size_t run(struct bytes code)
{
    size_t first;
    n_rows = 0;
    if (!switches_find(code, 0, &first))
        return 0;
    size_t end = first + run_from(code, 0, first);
    ck_assert(row[n_rows - 1].at == end && row[n_rows - 1].rule.cfa == UNWIND_CFA_NONE);
    return end;
}

static void check(uint64_t at, struct unwind_rule want)
{
    struct unwind_rule is = {0};
    for (uint32_t i = 0; i < n_rows && row[i].at <= at; i++)
        is = row[i].rule;
    ck_assert_int_eq(is.cfa, want.cfa);
    ck_assert_int_eq(is.cfa_offset, want.cfa_offset);
    ck_assert_int_eq(is.rbp, want.rbp);
    ck_assert_int_eq(is.rbp_offset, want.rbp_offset);
}

static struct unwind_rule saved(uint8_t cfa, int32_t depth)
{
    return (struct unwind_rule){cfa, UNWIND_RBP_AT_CFA, -16, depth};
}

#define PUSHED  "\x55\x53\x41\x54\x41\x55\x41\x56\x41\x57"
#define TURNED  "\x48\x89\x27\x48\x8b\x26"
#define POPPED  "\x41\x5f\x41\x5e\x41\x5d\x41\x5c\x5b\x5d"
#define AT_HAND "\x90\x90\x90"

#define JUMP    "\xff\x25\x4a\x22\x00\x00"
#define LANDING "\xf3\x0f\x1e\xfa"
#define PUSH    "\x68\x01\x00\x00\x00"
#define TO_HEAD "\xe9\xd0\xff\xff\xff"

UNIT(linkers_stubs)
{
    static const struct unwind_rule called = {.cfa = UNWIND_CFA_RSP, .cfa_offset = 8},
                                    pushed = {.cfa = UNWIND_CFA_RSP, .cfa_offset = 16};
    /* lld's, two of them; behind a landing place; its first half there; mold's */
    ck_assert_uint_eq(run(BYTES_LIT(JUMP PUSH TO_HEAD JUMP PUSH TO_HEAD "\x90")), 32);
    for (uint64_t at = 0; at < 32; at++)
        check(at, at % 16 < 11 ? called : pushed);
    ck_assert_uint_eq(run(BYTES_LIT(LANDING JUMP "\x66\x0f\x1f\x44\x00\x00")), 16);
    check(4, called);
    ck_assert_uint_eq(run(BYTES_LIT(LANDING PUSH TO_HEAD "\x66\x90")), 16);
    check(8, called);
    check(9, pushed);
    ck_assert_uint_eq(run(BYTES_LIT(LANDING "\x41\xbb\x01\x00\x00\x00" JUMP)), 16);
    check(10, called);
    /* not where stubs begin, and not all of one */
    ck_assert_uint_eq(run(BYTES_LIT("\x90" JUMP PUSH TO_HEAD)), 0);
    ck_assert_uint_eq(run(BYTES_LIT(JUMP PUSH)), 0);
}

UNIT(the_first_are_found_where_they_lie)
{
    size_t first;
    ck_assert(!switches_find(BYTES_LIT("\x90\x90\x90\xc3"), 0, &first));
    /* two stubs, next to each other, behind other code; and a third */
    static const struct bytes code =
        BYTES_LIT("\x90\x90\x90\xc3" JUMP PUSH TO_HEAD JUMP PUSH TO_HEAD "\x90\x90\x90\x90\x90\x90\x90\x90"
                  "\x90\x90\x90\x90\x90\x90\x90\x90" JUMP PUSH TO_HEAD);
    ck_assert(switches_find(code, 12, &first));
    ck_assert(first == 4 && run_from(code, 12, 4) == 32);
    ck_assert(switches_find(bytes_from(code, 4 + 32), 0, &first));
    ck_assert(first == 16 && run_from(code, 12, 4 + 32 + 16) == 16);
    /* not behind the code, where it is cut off in one */
    static const struct bytes cut = BYTES_LIT("\x90\x90\x90" PUSHED TURNED POPPED "\x48");
    ck_assert(switches_find(cut, 0, &first));
    ck_assert(first == 3 && run_from(cut, 0, 3) == cut.n - 3);
}

UNIT(libcoro_s_and_ruby_s)
{
    static const struct unwind_rule leaf = {.cfa = UNWIND_CFA_RSP, .cfa_offset = 8};
    ck_assert_uint_eq(run(BYTES_LIT(AT_HAND PUSHED TURNED POPPED "\x48\x89\xf8\xc3\x90")), 3 + 30);
    check(2, (struct unwind_rule){0});
    check(3, leaf);
    check(4, saved(UNWIND_CFA_RSP, 16));
    check(3 + 10, saved(UNWIND_CFA_RSP, 56)); /* to be turned, … */
    check(3 + 16, saved(UNWIND_CFA_RSP, 56)); /* … and turned */
    check(3 + 18, saved(UNWIND_CFA_RSP, 48));
    check(3 + 25, saved(UNWIND_CFA_RSP, 16));
    check(3 + 26, leaf);
    check(3 + 29, leaf);
    ck_assert_uint_eq(run(BYTES_LIT(PUSHED TURNED POPPED "\x59\xff\xe1\x90")), 30);
    check(26, leaf);
    check(27, (struct unwind_rule){UNWIND_CFA_RSP, UNWIND_RBP_RA_IN_REG, 2, 0});
}

#define BOOST(room)                                                                                        \
    "\x48\x8d\x64\x24" room "\x0f\xae\x1c\x24\xd9\x7c\x24\x04\x48\x89\x6c\x24\x38\x48\x89\xe0\x48\x89\xfc" \
    "\x4c\x8b\x44\x24\x40\x48\x8d\x64\x24\x48\x48\x89\xc7\x41\xff\xe0"

UNIT(boost_s)
{
    ck_assert_uint_eq(run(BYTES_LIT(AT_HAND BOOST("\xc0") "\x66\x90")), 3 + 5 + 8 + 5 + 6 + 5 + 5 + 3 + 3);
    check(3, (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 8});
    check(3 + 5, (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 0x48});
    check(3 + 24, saved(UNWIND_CFA_REGISTER, 0x48)); /* by rax, what was left */
    check(3 + 39, saved(UNWIND_CFA_REGISTER, 0x48));
    run(BYTES_LIT(BOOST("\xc8")));
    check(5, (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 0x40});
}

UNIT(a_context_of_boost_s_has_a_root)
{
    static const struct unwind_rule root = {.cfa = UNWIND_CFA_ROOT};
    ck_assert_uint_eq(
        run(BYTES_LIT(AT_HAND "\x55\xff\xe3\x48\x31\xff\xe8\x5b\x3e\xe5\xff\xf4" BOOST("\xc0"))),
        3 + 12 + 40);
    check(3 + 1, (struct unwind_rule){0});
    check(3 + 2, root);
    check(3 + 11, root);
    check(3 + 12, (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 8});
    /* built with places for indirect jumps to land */
    ck_assert_uint_eq(run(BYTES_LIT(AT_HAND "\xf3\x0f\x1e\xfa\x55\xff\xe3\xf3\x0f\x1e\xfa"
                                            "\x48\x31\xff\xe8\x5b\x3e\xe5\xff\xf4")),
                      3 + 4 + 16);
    check(7 + 1, (struct unwind_rule){0});
    check(7 + 2, root);
    check(7 + 15, root);
}

UNIT(what_is_cut_or_something_else_has_none)
{
    static const char coro[] = PUSHED TURNED POPPED, boost[] = BOOST("\xc0");
    for (size_t n = 0; n < sizeof coro - 1; n++)
        ck_assert(run(bytes_of(coro, n)) == 0 && n_rows == 0);
    for (size_t n = 0; n < sizeof boost - 1; n++)
        ck_assert(run(bytes_of(boost, n)) == 0 && n_rows == 0);
    ck_assert_uint_eq(run(BYTES_LIT(PUSHED "\x48\x89\x26" POPPED)), 0);
}
