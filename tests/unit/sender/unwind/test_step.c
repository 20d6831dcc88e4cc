/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel side's stepping code, over stacks that tests/unwind/record.c recorded, and over hand-made
 * frames. */
#include "tests/lib/unit.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unwind/walk.h"

#define LINE_MAX_BYTES (1 << 18)

struct recording {
    struct unwind_registers start;
    struct unwind_rule rule[UNWIND_FRAMES_MAX];
    uint64_t ip[UNWIND_FRAMES_MAX];
    int n, end;
    struct memory stack;
    uint8_t bytes[LINE_MAX_BYTES / 2];
};

static void read_line(struct recording *r, char *line)
{
    char *at = strchr(line, ' ');
    ck_assert(at != NULL);
    if (strncmp(line, "start", 5) == 0) {
        r->start.ip = strtoull(at, &at, 16);
        r->start.sp = strtoull(at, &at, 16);
        r->start.bp = strtoull(at, &at, 16);
        for (int i = 0; i < 16; i++)
            r->start.all[i] = strtoull(at, &at, 16);
        r->start.has_all = 1;
    } else if (strncmp(line, "frame", 5) == 0) {
        struct unwind_rule *rule = &r->rule[r->n];
        ck_assert_int_lt(r->n, UNWIND_FRAMES_MAX);
        r->ip[r->n++] = strtoull(at, &at, 16);
        rule->cfa = (uint8_t)strtol(at, &at, 10);
        rule->rbp = (uint8_t)strtol(at, &at, 10);
        rule->rbp_offset = (int16_t)strtol(at, &at, 10);
        rule->cfa_offset = (int32_t)strtol(at, &at, 10);
    } else if (strncmp(line, "end", 3) == 0) {
        r->end = (int)strtol(at, NULL, 10);
    } else {
        r->stack.start = strtoull(at, &at, 16);
        for (at++; at[0] && at[1] && at[0] != '\n'; at += 2) {
            char two[3] = {at[0], at[1], 0};
            r->bytes[r->stack.size++] = (uint8_t)strtoul(two, NULL, 16);
        }
        r->stack.bytes = r->bytes;
    }
}

static struct recording *recorded(const char *name)
{
    char path[512];
    static char line[LINE_MAX_BYTES];
    struct recording *r = calloc(1, sizeof *r);
    snprintf(path, sizeof path, PG_SOURCE_DIR "/tests/unwind/recorded/%s.txt", name);
    FILE *f = fopen(path, "r");
    ck_assert_msg(f != NULL, "%s", path);
    while (fgets(line, sizeof line, f))
        read_line(r, line);
    fclose(f);
    ck_assert(r->n > 0 && r->stack.size > 0);
    return r;
}

/* Walks it and compares each frame; returns how often a frame pointer was followed. */
static uint32_t replay(const char *name, int frames_at_least)
{
    struct recording *r = recorded(name);
    struct unwind_registers at = r->start;
    int end = UNWIND_END_NONE, n = 0;
    uint32_t by_pointer = 0;
    for (; end == UNWIND_END_NONE && n < r->n; n++) {
        ck_assert_msg(at.ip == r->ip[n], "%s, frame %d: %" PRIx64 ", recorded %" PRIx64, name, n, at.ip,
                      r->ip[n]);
        end = unwind_step(&r->stack, &at, r->rule[n]);
        by_pointer += end == UNWIND_END_NONE && r->rule[n].cfa == UNWIND_CFA_NONE;
    }
    ck_assert_int_eq(n, r->n);
    ck_assert_int_ge(n, frames_at_least);
    ck_assert_int_eq(end, r->end);
    ck_assert_int_eq(end, UNWIND_END_ROOT);
    free(r);
    return by_pointer;
}

UNIT(recorded_stacks_lead_to_the_root)
{
    ck_assert_uint_eq(replay("plain", 8), 0);
    ck_assert_uint_eq(replay("realign", 10), 0);
    ck_assert_uint_eq(replay("deep", 300), 0);
    ck_assert_uint_eq(replay("coroutine", 6), 0);
}

UNIT(a_recorded_signal_leads_to_what_it_interrupted)
{
    ck_assert_uint_eq(replay("signal", 11), 0);
}

UNIT(recorded_frame_pointers_lead_on_where_there_are_no_rows)
{
    ck_assert_uint_ge(replay("pointer", 7), 4);
}

/* A stack that lacks its end is unreadable, not over. */
UNIT(a_recorded_stack_cut_short_says_so)
{
    struct recording *r = recorded("plain");
    struct unwind_registers at = r->start;
    int end = UNWIND_END_NONE;
    r->stack.size = 128 + 24;
    for (int n = 0; end == UNWIND_END_NONE && n < r->n; n++)
        end = unwind_step(&r->stack, &at, r->rule[n]);
    ck_assert_int_eq(end, UNWIND_END_UNREADABLE);
    free(r);
}

/* Eight words at 0x1000, each a step of its own. */
static uint64_t words[8];
static const struct memory small = {.start = 0x1000, .size = sizeof words, .bytes = (const uint8_t *)words};

static struct unwind_registers registers(uint64_t sp, uint64_t bp)
{
    return (struct unwind_registers){.ip = 0x400010, .sp = sp, .bp = bp};
}

UNIT(rsp_and_rbp_rules)
{
    words[1] = 0x77;     /* rbp */
    words[2] = 0x400123; /* return address */
    struct unwind_registers r = registers(0x1000, 5);
    ck_assert_int_eq(
        unwind_step(&small, &r, (struct unwind_rule){UNWIND_CFA_RSP, UNWIND_RBP_AT_CFA, -16, 24}), 0);
    ck_assert(r.ip == 0x400123 && r.sp == 0x1018 && r.bp == 0x77 && r.is_return);
    r = registers(0x1000, 0x1008);
    ck_assert_int_eq(unwind_step(&small, &r, (struct unwind_rule){UNWIND_CFA_RBP, UNWIND_RBP_AT_RBP, 0, 16}),
                     0);
    ck_assert(r.ip == 0x400123 && r.sp == 0x1018 && r.bp == 0x77);
}

UNIT(a_cfa_kept_in_memory)
{
    words[0] = 0x1018; /* of which the CFA is 8 more */
    words[3] = 0x400456;
    struct unwind_registers r = registers(0x1000, 0x1010);
    struct unwind_rule rule = {UNWIND_CFA_AT_RBP, UNWIND_RBP_SAME, 0, (-16 * 256) | 8};
    ck_assert_int_eq(unwind_step(&small, &r, rule), 0);
    ck_assert(r.ip == 0x400456 && r.sp == 0x1020 && r.bp == 0x1010);
    /* OCaml 5.3: where the stack below is, which may be lower in memory, is in what this one points at */
    words[6] = 0x1010;
    words[2] = 0x1008;
    words[1] = 0x400457;
    r = registers(0x1028, 0);
    rule = (struct unwind_rule){UNWIND_CFA_AT_RSP_TWICE, UNWIND_RBP_SAME, 0, (8 * 256) | 8};
    ck_assert_int_eq(unwind_step(&small, &r, rule), 0);
    ck_assert(r.ip == 0x400457 && r.sp == 0x1010);
    words[6] = 0x9000;
    r = registers(0x1028, 0);
    ck_assert_int_eq(unwind_step(&small, &r, rule), UNWIND_END_UNREADABLE);
}

UNIT(registers_other_than_rsp_and_rbp_are_known_in_leaves_only)
{
    struct unwind_rule rule = {UNWIND_CFA_REGISTER + 10, UNWIND_RBP_SAME, 0, 8};
    words[2] = 0x400789;
    struct unwind_registers r = registers(0x1000, 0);
    ck_assert_int_eq(unwind_step(&small, &r, rule), UNWIND_END_NO_RULE);
    r.has_all = 1;
    r.all[10] = 0x1010;
    ck_assert_int_eq(unwind_step(&small, &r, rule), 0);
    ck_assert(r.ip == 0x400789 && r.sp == 0x1018 && !r.has_all);
    /* … and right behind a call of such a leaf that leaves it alone */
    words[2] = 0x400abd;
    words[5] = 0x400abe;
    const struct unwind_rule leaf = {.cfa = UNWIND_CFA_UNSAID, .cfa_offset = 24},
                             kept = {.cfa = UNWIND_CFA_KEPT + 10, .cfa_offset = 8};
    r = registers(0x1000, 0);
    r.has_all = 1;
    r.all[10] = 0x1028;
    ck_assert_int_eq(unwind_step(&small, &r, leaf), 0);
    struct unwind_registers behind = r;
    ck_assert_int_eq(unwind_step(&small, &r, rule), UNWIND_END_NO_RULE);
    ck_assert_int_eq(unwind_step(&small, &behind, kept), 0);
    ck_assert(behind.ip == 0x400abe && behind.sp == 0x1030);
    ck_assert_int_eq(unwind_step(&small, &behind, kept), UNWIND_END_NO_RULE);
    /* vfork(2): the return address is in a register, nothing is on the stack */
    r = registers(0x1000, 0);
    r.has_all = 1;
    r.all[5] = 0x400abc;
    rule = (struct unwind_rule){UNWIND_CFA_RSP, UNWIND_RBP_RA_IN_REG, 5, 0};
    ck_assert_int_eq(unwind_step(&small, &r, rule), 0);
    ck_assert(r.ip == 0x400abc && r.sp == 0x1000);
}

UNIT(a_plt_entry_that_has_pushed_and_one_that_has_not)
{
    struct unwind_rule rule = {UNWIND_CFA_PLT, UNWIND_RBP_SAME, 0, 11};
    words[0] = 0x400111;
    words[1] = 0x400222;
    struct unwind_registers r = registers(0x1000, 0);
    r.ip = 0x401026;
    ck_assert_int_eq(unwind_step(&small, &r, rule), 0);
    ck_assert(r.ip == 0x400111 && r.sp == 0x1008);
    r = registers(0x1000, 0);
    r.ip = 0x40102b;
    ck_assert_int_eq(unwind_step(&small, &r, rule), 0);
    ck_assert(r.ip == 0x400222 && r.sp == 0x1010);
}

UNIT(what_ends_a_walk)
{
    static const struct unwind_rule none = {0}, root = {.cfa = UNWIND_CFA_ROOT},
                                    padding = {.cfa = UNWIND_CFA_PADDING};
    struct unwind_registers r = registers(0x1000, 0);
    ck_assert_int_eq(unwind_step(&small, &r, none),
                     UNWIND_END_NO_RULE); /* a leaf keeps what it likes in rbp */
    r.is_return = 1;
    ck_assert_int_eq(unwind_step(&small, &r, none), UNWIND_END_ROOT);
    ck_assert_int_eq(unwind_step(&small, &r, root), UNWIND_END_ROOT);
    r.bp_lost = 1;
    ck_assert_int_eq(unwind_step(&small, &r, none), UNWIND_END_NO_RULE);
    r = registers(0x1010, 0x1000); /* below the stack pointer */
    ck_assert_int_eq(unwind_step(&small, &r, none), UNWIND_END_BAD_FRAME);
    r = registers(0x1000, 0x1001);
    ck_assert_int_eq(unwind_step(&small, &r, none), UNWIND_END_BAD_FRAME);
    r = registers(0x1000, 0x9000);
    ck_assert_int_eq(unwind_step(&small, &r, none), UNWIND_END_BAD_FRAME);
    /* a CFA that is no higher than the stack pointer would go round for ever */
    words[1] = 0x400333;
    r = registers(0x1010, 0);
    ck_assert_int_eq(unwind_step(&small, &r, (struct unwind_rule){UNWIND_CFA_RSP, UNWIND_RBP_SAME, 0, 0}),
                     UNWIND_END_BAD_FRAME);
    /* … but for one that was left for another stack, where all registers are known, once */
    const struct unwind_rule left = {UNWIND_CFA_REGISTER, UNWIND_RBP_SAME, 0, 0x10};
    r = registers(0x2000, 0);
    r.all[0] = 0x1000;
    r.has_all = 1;
    ck_assert_int_eq(unwind_step(&small, &r, left), 0);
    ck_assert(r.ip == 0x400333 && r.sp == 0x1010);
    ck_assert_int_eq(unwind_step(&small, &r, left), UNWIND_END_NO_RULE);
    r = registers(0x1000, 0);
    words[0] = 0x400444;
    ck_assert_int_eq(unwind_step(&small, &r, padding), 0); /* a stub, as a leaf */
    r.is_return = 1;
    ck_assert_int_eq(unwind_step(&small, &r, padding), UNWIND_END_ROOT); /* nobody called from there */
    words[0] = 0;
    const struct unwind_rule said = {.cfa = UNWIND_CFA_RSP, .cfa_offset = 8},
                             unsaid = {.cfa = UNWIND_CFA_UNSAID, .cfa_offset = 8};
    r = registers(0x1000, 0);
    ck_assert_int_eq(unwind_step(&small, &r, unsaid), UNWIND_END_NO_RULE); /* it may be no return address */
    ck_assert_int_eq(unwind_step(&small, &r, said), UNWIND_END_ROOT);
    r.is_return = 1;
    ck_assert_int_eq(unwind_step(&small, &r, unsaid), UNWIND_END_ROOT);
    const struct unwind_rule stored = {.cfa = UNWIND_CFA_AT_RSP, .cfa_offset = 8 << 8 | 8};
    r = registers(0x1010, 0);
    words[3] = 0x1000; /* a stack below */
    words[0] = 0x400555;
    ck_assert_int_eq(unwind_step(&small, &r, stored), 0);
    ck_assert(r.ip == 0x400555 && r.sp == 0x1008);
}

UNIT(a_call_is_known_by_its_last_bytes)
{
    static const char call[][9] = {
        "\x90\x90\x90\xe8\x01\x02\x03\x04", /* call */
        "\x90\x90\x90\x90\x90\x90\xff\xd0", /* call *%rax */
        "\x90\x90\x90\x90\x90\x41\xff\xd4", /* call *%r12 */
        "\x90\x90\x90\x90\x90\xff\x50\x18", /* call *0x18(%rax) */
        "\x90\x90\x90\x90\xff\x54\x24\x08", /* call *8(%rsp) */
        "\x90\x90\xff\x15\x01\x02\x03\x04", /* call *x(%rip) */
        "\x90\xff\x94\xc8\x01\x02\x03\x04", /* call *x(%rax, %rcx, 8) */
    };
    static const char other[][9] = {
        "\x0f\x1f\x84\x00\x00\x00\x00\x00", /* padding */
        "\xe9\x01\x02\x03\x04\x5d\xc3\x90", /* ret */
        "\x90\x90\x90\xe9\x01\x02\x03\x04", /* jmp */
        "\x90\x90\x90\x90\x90\x90\xff\xe0", /* jmp *%rax */
    };
    bpf_u64 before;
    for (size_t i = 0; i < sizeof call / sizeof *call; i++) {
        memcpy(&before, call[i], 8);
        ck_assert_msg(unwind_ends_in_call(before), "%zu", i);
    }
    for (size_t i = 0; i < sizeof other / sizeof *other; i++) {
        memcpy(&before, other[i], 8);
        ck_assert_msg(!unwind_ends_in_call(before), "%zu", i);
    }
}
