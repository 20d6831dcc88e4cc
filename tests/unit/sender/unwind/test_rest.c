/* SPDX-License-Identifier: Apache-2.0 */
/* Walks that go on in the copy of a stack. */
#include "tests/lib/unit.h"

#include "sender/unwind/rest.h"

#define CODE  UINT64_C(0x400000)
#define STACK UINT64_C(0x7fff00000ff0) /* the last words of a page */

static struct unwind_rest rest;
static uint64_t far;

/* What a walk met. */
struct walked {
    uint64_t address[16];
    int n, most;
    uint64_t missing; /* rows of this address are not to be had */
};

/* Each function has a frame of 4,096 bytes, but the root. */
static int rule(void *user, uint64_t address, struct unwind_rule *ret)
{
    const struct walked *w = user;
    if (address < CODE)
        return -1;
    *ret = (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 4096};
    if (address == CODE + 0x3000 - 1)
        *ret = (struct unwind_rule){.cfa = UNWIND_CFA_ROOT};
    return address == w->missing;
}

static bool frame(void *user, uint64_t address, uint8_t cfa)
{
    struct walked *w = user;
    if (w->n == w->most)
        return false;
    w->address[w->n++] = address;
    return true;
}

/* Return addresses at the end of three frames. */
static enum unwind_end walk(struct walked *w, uint64_t has)
{
    struct rest_walk with = {rule, frame, w};
    rest = (struct unwind_rest){
        .has = has, .end = (STACK & ~UINT64_C(4095)) + 0x10000, .at = {.ip = CODE, .sp = STACK}};
    for (uint32_t i = 0; i < 3; i++)
        rest.stack[i + 1][(STACK & 4095) / 8 - 1] = CODE + (i + 1) * 0x1000;
    return rest_walk(&rest, &with, &far);
}

UNIT(a_walk_goes_on_to_the_root)
{
    struct walked w = {.most = 16};
    ck_assert_int_eq(walk(&w, 0xff), UNWIND_END_ROOT);
    ck_assert_int_eq(w.n, 4);
    ck_assert_uint_eq(w.address[0], CODE); /* where it was, again */
    ck_assert_uint_eq(w.address[1], CODE + 0x1000 - 1);
    ck_assert_uint_eq(w.address[3], CODE + 0x3000 - 1);
}

/* Large arrays are often not touched: there a stack has holes. */
UNIT(memory_that_is_not_there_does_no_harm_where_nothing_is_read)
{
    struct walked w = {.most = 16};
    ck_assert_int_eq(walk(&w, 0xff & ~1u), UNWIND_END_ROOT);
    w = (struct walked){.most = 16};
    ck_assert_int_eq(walk(&w, 0xff & ~4u), UNWIND_END_MISSING); /* and is not taken for zeros, a root */
    ck_assert_int_eq(w.n, 2);
}

/* A frame of half a megabyte, and the root above it. */
static int large_rule(void *user, uint64_t address, struct unwind_rule *ret)
{
    *ret = (struct unwind_rule){.cfa = address == CODE ? UNWIND_CFA_RSP : UNWIND_CFA_ROOT,
                                .cfa_offset = 0x80000};
    return 0;
}

UNIT(the_end_of_a_long_stack_is_there)
{
    struct walked w = {.most = 16};
    struct rest_walk with = {large_rule, frame, &w};
    uint64_t above = STACK + 0x80000;
    rest = (struct unwind_rest){
        .has = UINT64_MAX, .end = (above & ~UINT64_C(4095)) + 0x3000, .at = {.ip = CODE, .sp = STACK}};
    rest.stack[UNWIND_REST_PAGES - 3][(above - 8) % 4096 / 8] =
        CODE + 0x1000; /* the third page from the end */
    ck_assert_int_eq(rest_walk(&rest, &with, &far), UNWIND_END_ROOT);
    ck_assert_uint_eq(w.address[1], CODE + 0x1000 - 1);
    w.n = 0;
    ck_assert_uint_eq(far, 0);
    rest.end += 0x10000; /* now it is in between */
    ck_assert_int_eq(rest_walk(&rest, &with, &far), UNWIND_END_MISSING);
    ck_assert_uint_eq(far, above - 8);
    ck_assert_int_eq(w.n, 1);
}

UNIT(what_cannot_be_had_ends_it)
{
    struct walked w = {.most = 16, .missing = CODE + 0x2000 - 1};
    ck_assert_int_eq(walk(&w, 0xff), UNWIND_END_MISSING);
    ck_assert_int_eq(w.n, 3); /* the frame is there; what called it is not known */
    w = (struct walked){.most = 2};
    ck_assert_int_eq(walk(&w, 0xff), UNWIND_END_DEPTH);
    w = (struct walked){.most = 16};
    struct rest_walk with = {rule, frame, &w};
    rest = (struct unwind_rest){.has = 1, .end = STACK + 16, .at = {.ip = 5, .sp = STACK}};
    ck_assert_int_eq(rest_walk(&rest, &with, &far), UNWIND_END_NOT_CODE);
}

/* A step of a frame of two words, of the first function: what rows say of that is something else. */
static int step(void *user, struct unwind_registers *at, bool has_rule, rest_load_fn load, void *of)
{
    uint64_t caller;
    ck_assert(has_rule);
    if (at->ip != CODE || load(of, at->sp + 8, &caller) != 0)
        return 1;
    ck_assert(frame(user, 0, 0));
    *at = (struct unwind_registers){.ip = caller, .sp = at->sp + 16, .is_return = 1};
    return 0;
}

UNIT(who_has_code_of_his_own_is_asked_before_the_rows)
{
    struct walked w = {.most = 16};
    struct rest_walk with = {rule, frame, &w, step};
    rest = (struct unwind_rest){
        .has = 1, .end = (STACK & ~UINT64_C(4095)) + 4096, .at = {.ip = CODE, .sp = STACK - 8}};
    rest.stack[0][STACK % 4096 / 8] = CODE + 0x3000;
    ck_assert_int_eq(rest_walk(&rest, &with, &far), UNWIND_END_ROOT);
    ck_assert_int_eq(w.n, 2);
    ck_assert_uint_eq(w.address[0], 0);
    ck_assert_uint_eq(w.address[1], CODE + 0x3000 - 1);
}

static void begin(void *user, uint64_t ip)
{
    struct walked *w = user;
    w->address[w->n++] = ip;
}

/* Whether a stack was made by hand is asked where there is a 0 behind its first function, and nowhere else.
 */
UNIT(who_begins_a_stack_is_looked_at_again)
{
    struct walked w = {.most = 16};
    struct rest_walk with = {rule, frame, &w, .begin = begin};
    rest = (struct unwind_rest){
        .has = 3, .end = (STACK & ~UINT64_C(4095)) + 0x10000, .at = {.ip = CODE, .sp = STACK}};
    rest.stack[1][(STACK & 4095) / 8 - 1] = CODE + 0x1000;
    rest.has |= 4; /* where there is nothing but zeros */
    ck_assert_int_eq(rest_walk(&rest, &with, &far), UNWIND_END_ROOT);
    ck_assert_int_eq(w.n, 3);
    ck_assert_uint_eq(w.address[2], CODE + 0x1000);
    w.n = 0;
    rest.stack[2][(STACK & 4095) / 8 - 1] = CODE + 0x3000; /* whose rule says that it is the root */
    ck_assert_int_eq(rest_walk(&rest, &with, &far), UNWIND_END_ROOT);
    ck_assert_int_eq(w.n, 3);
    ck_assert_uint_eq(w.address[2], CODE + 0x3000 - 1);
}
