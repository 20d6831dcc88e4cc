/* SPDX-License-Identifier: Apache-2.0 */
/* Go's stack depths, from a table written by hand: three functions, as Go 1.20 and later lays them out. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "sender/unwind/go.h"

#define TEXT      0x401000
#define FUNCTIONS 16
#define PCS       512

static uint8_t table[1024];

static void put32(size_t at, uint32_t value)
{
    memcpy(table + at, &value, 4);
}

/* Function i at TEXT + start; its details (struct _func) 64 bytes apart. */
static void function(uint32_t i, uint32_t start, uint32_t program, uint8_t flags)
{
    uint32_t details = 64 + 64 * i;
    put32(FUNCTIONS + 8 * i, start);
    put32(FUNCTIONS + 8 * i + 4, details);
    put32(FUNCTIONS + details + 16, program);
    table[FUNCTIONS + details + 41] = flags;
}

static struct go_frames frames(void)
{
    memset(table, 0, sizeof table);
    /* depth 0 for 4 bytes, 24 for 16, 0 for 1: deltas zigzag from -1, then how many bytes */
    static const uint8_t program[] = {2, 4, 48, 16, 47, 1, 0};
    memcpy(table + PCS + 1, program, sizeof program);
    function(0, 0, 1, 0);
    function(1, 0x20, 1, 2); /* writes the stack pointer */
    function(2, 0x40, 1, 1); /* the top frame */
    put32(FUNCTIONS + 24, 0x60);
    struct go_frames g = {.n = 3};
    g.table = (struct pclntab){.source = source_memory(bytes_of(table, sizeof table)),
                               .size = sizeof table,
                               .version = 120,
                               .quantum = 1,
                               .pointer = 8,
                               .n_functions = 3,
                               .text = TEXT,
                               .pcs = PCS,
                               .functions = FUNCTIONS};
    g.functions.bytes = malloc(65536);
    g.details.bytes = malloc(65536);
    g.programs.bytes = malloc(65536);
    return g;
}

struct seen {
    uint64_t address[8];
    struct unwind_rule rule[8];
    int n;
};

static void keep(void *user, uint64_t address, const struct unwind_rule *rule)
{
    struct seen *s = user;
    ck_assert_int_lt(s->n, 8);
    s->address[s->n] = address;
    s->rule[s->n++] = *rule;
}

UNIT(depths_become_rules)
{
    struct go_frames g = frames();
    struct seen s = {0};
    uint64_t start, size;
    ck_assert(go_function(&g, 0, &start, &size) && start == TEXT && size == 0x20);
    ck_assert_int_eq(go_run(&g, 0, keep, &s), 0);
    ck_assert_int_eq(s.n, 3);
    ck_assert(s.address[0] == TEXT && s.rule[0].cfa == UNWIND_CFA_RSP && s.rule[0].cfa_offset == 8);
    ck_assert_int_eq(s.rule[0].rbp, UNWIND_RBP_SAME);
    ck_assert(s.address[1] == TEXT + 4 && s.rule[1].cfa_offset == 32);
    ck_assert(s.rule[1].rbp == UNWIND_RBP_AT_CFA && s.rule[1].rbp_offset == -16);
    ck_assert(s.address[2] == TEXT + 20 && s.rule[2].cfa_offset == 8);
    go_close(&g);
}

UNIT(stack_switches_go_by_frame_pointer_and_top_frames_end)
{
    struct go_frames g = frames();
    struct seen s = {0};
    ck_assert_int_eq(go_run(&g, 1, keep, &s), 0);
    ck_assert(s.n == 1 && s.address[0] == TEXT + 0x20 && s.rule[0].cfa == UNWIND_CFA_POINTER);
    ck_assert_int_eq(go_run(&g, 2, keep, &s), 0);
    ck_assert(s.n == 2 && s.address[1] == TEXT + 0x40 && s.rule[1].cfa == UNWIND_CFA_ROOT);
    go_close(&g);
}

UNIT(a_damaged_table_is_survived)
{
    struct go_frames g = frames();
    struct seen s = {0};
    uint64_t start, size;
    put32(FUNCTIONS + 4, 100000); /* details outside the table */
    ck_assert_int_eq(go_run(&g, 0, keep, &s), -EBADMSG);
    function(0, 0, 480, 0); /* a program that runs out of it */
    memset(table + PCS + 480, 0xff, sizeof table - PCS - 480);
    ck_assert_int_eq(go_run(&g, 0, keep, &s), -EBADMSG);
    put32(FUNCTIONS + 8, 0); /* a function that ends where it begins */
    go_close(&g);
    g = frames();
    put32(FUNCTIONS + 8, 0);
    ck_assert(!go_function(&g, 0, &start, &size));
    ck_assert(!go_function(&g, 100, &start, &size) || size > 0);
    go_close(&g);
}
