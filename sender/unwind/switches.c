/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/switches.h"

#include "proto/base/macros.h"
#include "sender/symbolize/elf/instruction.h"

#define RAX 0
#define RCX 2

/* In both the caller's rbp is right below the return address. */
static const struct unwind_rule with_rbp = {.rbp = UNWIND_RBP_AT_CFA, .rbp_offset = -16};

struct output {
    cfi_row_fn on_row;
    void *user;
};

static void say(const struct output *to, uint64_t at, struct unwind_rule rule)
{
    to->on_row(to->user, at, &rule);
}

/* libcoro: push rbp, rbx, r12 … r15; mov %rsp, (%rdi); mov (%rsi), %rsp; pop them; then perhaps
 * pop %rcx; jmp *%rcx. The frame is alike on both stacks. */
static const uint8_t coro[] = {0x55, 0x53, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, 0x48, 0x89, 0x27,
                               0x48, 0x8b, 0x26, 0x41, 0x5f, 0x41, 0x5e, 0x41, 0x5d, 0x41, 0x5c, 0x5b, 0x5d};
static const uint8_t coro_leaves[] = {0x59, 0xff, 0xe1};
/* Where the next instruction begins, and how much is on the stack by then. */
static const struct {
    uint8_t at, depth;
} coro_depths[] = {{1, 16},  {2, 24},  {4, 32},  {6, 40},  {8, 48}, {10, 56},
                   {18, 48}, {20, 40}, {22, 32}, {24, 24}, {25, 16}};

static size_t run_coro(struct bytes code, uint64_t at, const struct output *to)
{
    struct unwind_rule rule = {.cfa = UNWIND_CFA_RSP, .cfa_offset = 8};
    say(to, at, rule);
    for (size_t i = 0; i < sizeof coro_depths / sizeof *coro_depths; i++) {
        rule = with_rbp;
        rule.cfa = UNWIND_CFA_RSP;
        rule.cfa_offset = coro_depths[i].depth;
        say(to, at + coro_depths[i].at, rule);
    }
    uint64_t end = at + sizeof coro;
    say(to, end, (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 8});
    if (memmem(code.p + end, min_of(code.n - end, sizeof coro_leaves), coro_leaves, sizeof coro_leaves)) {
        rule = (struct unwind_rule){UNWIND_CFA_RSP, UNWIND_RBP_RA_IN_REG, RCX, 0};
        say(to, end + 1, rule);
    }
    return end + 4; /* the other leaves by mov %rdi, %rax; ret */
}

/* Boost.Context: lea -n(%rsp), %rsp; stmxcsr (%rsp); fnstcw 4(%rsp); the registers are stored;
 * mov %rsp, %rax; mov %rdi, %rsp; they are loaded; jmp *%r8. What has called it is told until it has ended:
 * who keeps a list of frames of his own (PHP) changes that one afterwards. */
static const uint8_t boost[] = {0x48, 0x8d, 0x64, 0x24},
                     boost_stores[] = {0x0f, 0xae, 0x1c, 0x24, 0xd9, 0x7c, 0x24, 0x04};
static const uint8_t boost_turns[] = {0x48, 0x89, 0xe0, 0x48, 0x89, 0xfc},
                     boost_leaves[] = {0x41, 0xff, 0xe0};
#define BOOST_STORES (sizeof boost + 1) /* behind n, a byte */

static size_t run_boost(struct bytes code, uint64_t at, const struct output *to)
{
    struct bytes rest = bytes_of(code.p + at, min_of(code.n - at, (size_t)SWITCH_MAX));
    const uint8_t *turns = memmem(rest.p, rest.n, boost_turns, sizeof boost_turns);
    const uint8_t *leaves = memmem(rest.p, rest.n, boost_leaves, sizeof boost_leaves);
    int32_t depth = 8 - (int8_t)rest.p[sizeof boost];
    if (!turns || !leaves || leaves < turns)
        return 0;
    struct unwind_rule rule = {.cfa = UNWIND_CFA_RSP, .cfa_offset = 8};
    say(to, at, rule);
    rule.cfa_offset = depth;
    say(to, at + BOOST_STORES, rule);
    rule = with_rbp;
    rule.cfa = UNWIND_CFA_REGISTER + RAX;
    rule.cfa_offset = depth;
    say(to, (uint64_t)(turns - (const uint8_t *)code.p) + 3, rule);
    return (size_t)(leaves - (const uint8_t *)code.p) + sizeof boost_leaves;
}

/* What is put where an indirect jump or a return may come to, if the compiler is asked to. */
static const uint8_t landing[] = {0xf3, 0x0f, 0x1e, 0xfa};

/* Boost.Context: push %rbp; jmp *%rbx begins a context, with the next instruction as the return address,
 * where it ends: perhaps a landing place; xor %rdi, %rdi; call _exit; hlt. */
static const uint8_t boost_root[] = {0x55, 0xff, 0xe3}, boost_exits[] = {0x48, 0x31, 0xff, 0xe8};

/* Where it ends; 0: there is none. */
static size_t run_boost_root(struct bytes code, size_t at, const struct output *to)
{
    size_t end = at + sizeof boost_root;
    if (!code_has(code, at, boost_root, sizeof boost_root))
        return 0;
    if (code_has(code, end, landing, sizeof landing))
        end += sizeof landing;
    if (!code_has(code, end, boost_exits, sizeof boost_exits))
        return 0;
    say(to, at + 2,
        (struct unwind_rule){.cfa = UNWIND_CFA_ROOT}); /* a return address is looked up one before */
    return end + sizeof boost_exits + 5;
}

/* A stub: perhaps a landing place for indirect jumps and mold's mov $number, %r11d, then jmp *x(%rip), whose
 * target finds the stack as the caller left it; or, and behind lld's, push $number and a jump to what looks
 * the function up. */
#define STUB_SIZE 16u

static size_t run_stub(struct bytes code, uint64_t at, const struct output *to)
{
    const uint8_t *stub = (const uint8_t *)code.p + at;
    size_t i = 0;
    if (code.n - at < STUB_SIZE)
        return 0;
    if (memcmp(stub, landing, sizeof landing) == 0)
        i += sizeof landing;
    if (stub[i] == 0x41 && stub[i + 1] == 0xbb)
        i += 6;
    bool jumps = i + 6 <= STUB_SIZE && stub[i] == 0xff && stub[i + 1] == 0x25;
    if (jumps)
        i += 6;
    bool pushes = i + 10 <= STUB_SIZE && stub[i] == 0x68 && stub[i + 5] == 0xe9;
    if (!jumps && !pushes)
        return 0;
    say(to, at, (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 8});
    if (pushes)
        say(to, at + i + 5, (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 16});
    return at + STUB_SIZE;
}

/* What is at a place: where it ends, 0: nothing. */
static size_t run_at(struct bytes code, size_t at, bool is_aligned, const struct output *to)
{
    size_t stub_end = is_aligned ? run_stub(code, at, to) : 0;
    if (stub_end > 0)
        return stub_end;
    if (code_has(code, at, coro, sizeof coro))
        return run_coro(code, at, to);
    size_t root_end = run_boost_root(code, at, to);
    if (root_end > 0)
        return root_end;
    if (code_has(code, at, boost, sizeof boost) &&
        code_has(code, at + BOOST_STORES, boost_stores, sizeof boost_stores))
        return run_boost(code, at, to);
    return 0;
}

static void say_nothing(void *user, uint64_t at, const struct unwind_rule *rule)
{
    (void)user;
    (void)at;
    (void)rule;
}

bool switches_find(struct bytes code, uint32_t at, size_t *ret_first)
{
    const struct output to = {say_nothing, NULL};
    size_t first = 0;
    while (first < code.n && run_at(code, first, (at + first) % STUB_SIZE == 0, &to) == 0)
        first++;
    *ret_first = first;
    return first < code.n;
}

size_t switches_run(struct bytes code, uint32_t at, cfi_row_fn on_row, void *user)
{
    const struct output to = {on_row, user};
    size_t end = 0;
    for (size_t next; end < code.n; end = next)
        if ((next = run_at(code, end, (at + end) % STUB_SIZE == 0, &to)) == 0)
            break;
    end = min_of(end, code.n); /* the rest of one may be behind what was read */
    if (end > 0)
        say(&to, end, (struct unwind_rule){0});
    return end;
}
