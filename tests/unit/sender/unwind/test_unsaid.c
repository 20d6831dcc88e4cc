/* SPDX-License-Identifier: Apache-2.0 */
/* Code as people write it by hand, of which nothing is said: functions' frames by their instructions. */
#include "tests/lib/unit.h"

#include <stdlib.h>

#include "sender/symbolize/elf/instruction.h"
#include "sender/unwind/unsaid.h"

/* Code between two labels, and places in it. */
#define CODE(name, text)                       \
    extern const uint8_t name[], name##_end[]; \
    __asm__(".pushsection .rodata\n.balign 64\n" #name ":\n" text "\n" #name "_end:\n.popsection")
#define PLACE(name) extern const uint8_t name[]

static struct unwind_rule rule[UNSAID_MAX];
static uint64_t entry_at = UINT64_MAX, main_at = UINT64_MAX;

struct filling {
    size_t at, end;
};

static void on_row(void *user, uint64_t at, const struct unwind_rule *of)
{
    struct filling *f = user;
    ck_assert(at >= f->at && at < f->end && of->cfa < UNWIND_CFA_END);
    for (f->at = at; at < f->end; at++)
        rule[at] = *of;
}

static void run(const uint8_t *code, const uint8_t *end, bool is_begin)
{
    struct unsaid *u = unit_made(malloc(sizeof *u));
    struct filling f = {.end = (size_t)(end - code)};
    memset(rule, 0, sizeof rule);
    unsaid_run(u, bytes_of(code, f.end), is_begin, entry_at, main_at, on_row, &f);
    free(u);
}

#define CHECK(at, ...)                                            \
    do {                                                          \
        struct unwind_rule want_ = {__VA_ARGS__}, is_ = rule[at]; \
        ck_assert_int_eq(is_.cfa, want_.cfa);                     \
        ck_assert_int_eq(is_.cfa_offset, want_.cfa_offset);       \
        ck_assert_int_eq(is_.rbp, want_.rbp);                     \
        ck_assert_int_eq(is_.rbp_offset, want_.rbp_offset);       \
    } while (0)
#define DEPTH(n)            .cfa = UNWIND_CFA_RSP, .cfa_offset = (n)
#define DEPTH_RBP(n, saved) DEPTH(n), .rbp = UNWIND_RBP_AT_CFA, .rbp_offset = -(saved)
#define NOTHING             .cfa = UNWIND_CFA_NONE

/* As zstd's decoder of Huffman codes: rbp is not the first, arguments are popped without need; and a loop
 * that is entered in its middle. */
CODE(pushing,
     "push %rax; push %rbx; push %rbp; push %r12; push 0x68(%rax); sub $0x118, %rsp; mov %rbx, (%rsp)\n"
     "test %rdi, %rdi; je 3f; jmp 2f\n"
     "pushing_loop: 1: add $1, %rbp; imul $0x1234567, 8(%rax,%rcx,4), %edx\n"
     "2: vpaddd 0x40(%rsi,%rdi), %ymm1, %ymm2; dec %rcx; jne 1b\n"
     "3: add $0x118, %rsp; pop %rax; pop %r12\n"
     "pushing_popped: pop %rbp\npushing_rbp: pop %rbx; pop %rax; ret");
PLACE(pushing_loop);
PLACE(pushing_popped);
PLACE(pushing_rbp);

UNIT(what_is_pushed_and_popped)
{
    run(pushing, pushing_end, true);
    CHECK(0, DEPTH(8));
    CHECK(1, DEPTH(16));
    CHECK(2, DEPTH(24));
    CHECK(3, DEPTH_RBP(32, 32));
    CHECK(pushing_loop - pushing, DEPTH_RBP(48 + 0x118, 32));
    CHECK(pushing_popped - pushing, DEPTH_RBP(32, 32));
    CHECK(pushing_rbp - pushing, DEPTH(24));
    CHECK(pushing_end - 1 - pushing, DEPTH(8));
}

/* What begins in the middle of a function: nothing is known of that, but of the next one. */
UNIT(what_begins_before_it_is_looked_at)
{
    run(pushing + 5, pushing_end, false);
    CHECK(0, NOTHING);
    CHECK(pushing_end - 1 - pushing - 5, NOTHING);
}

/* The last call of a function does not come back, and another one is behind it; padding, or none. */
CODE(ending,
     "push %rbx; test %edi, %edi; jne 1f; pop %rbx; ret\n1: call *%rax\nending_other: push %r12; push %r13\n"
     "ending_pushed: pop %r13; pop %r12; ret\n"
     ".balign 16, 0x90\nending_third: push %rbp; mov %rsp, %rbp; sub $64, %rsp; leave; ret");
PLACE(ending_other);
PLACE(ending_pushed);
PLACE(ending_third);

UNIT(functions_that_end_with_a_call)
{
    run(ending, ending_end, true);
    CHECK(1, DEPTH(16));
    CHECK(ending_other - 1 - ending, DEPTH(16));
    CHECK(ending_other - ending, DEPTH(8));
    CHECK(ending_pushed - ending, DEPTH(24));
    CHECK(ending_third - ending, DEPTH(8));
    CHECK(ending_third + 1 - ending, DEPTH_RBP(16, 16));
    CHECK(ending_end - 2 - ending, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(ending_end - 1 - ending, DEPTH(8));
}

/* As clang's in Chromium: it traps with a reason, and what a function ends with fails and does not come back;
 * the next one begins right behind that. Both have several ways to there. */
CODE(trapping,
     "push %rbp; mov %rsp, %rbp; push %rbx; push %rax; call 9f; test %eax, %eax; js 2f; jne 1f\n"
     "add $8, %rsp; pop %rbx; pop %rbp; ret; 1: ud1 2(%eax), %eax\ntrapping_fails: 2: call 9f\n"
     "trapping_other: push %rbp; mov %rsp, %rbp; push %r14; push %rbx; call 9f; test %eax, %eax; je 1f\n"
     "call 9f; 1: pop %rbx; pop %r14; pop %rbp; ret\n9: ud1 1(%eax), %eax");
PLACE(trapping_fails);
PLACE(trapping_other);

UNIT(a_function_that_begins_right_behind_a_call_that_does_not_come_back)
{
    run(trapping, trapping_end, true);
    CHECK(trapping_fails - trapping, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(trapping_other - trapping, DEPTH(8));
    CHECK(trapping_other + 1 - trapping, DEPTH_RBP(16, 16));
    CHECK(trapping_other + 4 - trapping, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
}

/* A compiler puts what is rarely needed behind the return, from where it jumps back; the next function may
 * leave by a jump, too, to wherever. */
CODE(jumping,
     "push %rbx; 1: call 9f; test %eax, %eax; jne 2f; pop %rbx; ret; 2: dec %ecx; jmp 1b\n.balign 16, 0xcc\n"
     "jumping_other: push %rbp; mov %rsp, %rbp; test %eax, %eax; je 1f; dec %ecx; jmp 2f\n"
     "1: call 9f; 2: pop %rbp\njumping_on: jmp *%rax; 9: ud2");
PLACE(jumping_other);
PLACE(jumping_on);

UNIT(a_function_behind_one_that_ends_with_a_jump)
{
    run(jumping, jumping_end, true);
    CHECK(1, DEPTH(16));
    CHECK(jumping_other - jumping, DEPTH(8));
    CHECK(jumping_other + 4 - jumping, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(jumping_on - jumping, DEPTH(8));
}

/* Padding of zeros, and a function that goes on for ever, as loops of servers do. */
CODE(forever, "nop; ret; .byte 0, 0, 0\nforever_begin: push %rbp; mov %rdi, %rbp\n"
              "forever_loop: 1: mov %rbp, %rdi; call *%rax; jmp 1b; .byte 0, 0, 0, 0, 0");
PLACE(forever_begin);
PLACE(forever_loop);

/* As vips_cache_trim, without frame information: what its first call is passed comes before its frame, and it
 * ends by a jump to another function far away. A loop is entered in its middle. */
CODE(late_frame,
     "ret; .balign 16, 0x90\nlate_frame_begin: lea 0x1234(%rip), %rdi; sub $0x18, %rsp; call .+0x100000\n"
     "test %rdi, %rdi; jne 2f; jmp 3f\n.balign 8, 0x90\n"
     "1: mov (%rax), %rsi; test %rsi, %rsi; je 3f; late_frame_call: call .+0x100000; test %rdi, %rdi; je 3f\n"
     "2: call .+0x100000; test %rax, %rax; jne 1b\n"
     "3: lea 0x1234(%rip), %rdi; add $0x18, %rsp; late_frame_left: jmp .+0x100000\n"
     ".balign 16, 0x90\nret");
PLACE(late_frame_begin);
PLACE(late_frame_call);
PLACE(late_frame_left);

UNIT(a_function_that_makes_its_frame_late_and_ends_with_a_jump)
{
    run(late_frame, late_frame_end, true);
    CHECK(late_frame_begin - late_frame, DEPTH(8));
    CHECK(late_frame_call - late_frame, DEPTH(0x20));
    CHECK(late_frame_left - late_frame, DEPTH(8));
}

UNIT(a_function_that_never_returns)
{
    run(forever, forever_end, true);
    CHECK(forever_begin - forever, DEPTH(8));
    CHECK(forever_loop - forever, DEPTH_RBP(16, 16));
}

/* As in GMP and dav1d: a jump by a table to blocks that return each by itself. */
CODE(table,
     "push %rbx; push %rbp; lea 0x10(%rip), %rax; movslq (%rax,%rcx,4), %rcx; add %rax, %rcx; jmp *%rcx\n"
     "table_one: nop; pop %rbp; pop %rbx; ret\ntable_two: vzeroupper; pop %rbp; pop %rbx; ret\n"
     "table_next: push %r15; pop %r15; ret");
PLACE(table_one);
PLACE(table_two);
PLACE(table_next);

UNIT(blocks_that_a_table_leads_to)
{
    run(table, table_end, true);
    CHECK(table_one - table, DEPTH_RBP(24, 24));
    CHECK(table_two - table, DEPTH_RBP(24, 24));
    CHECK(table_next - table, DEPTH(8));
    CHECK(table_next + 2 - table, DEPTH(16));
}

/* As x86inc.asm (dav1d, x264, x265, FFmpeg) makes room that is aligned: the caller's rsp is in a register,
 * then on the stack. And as compilers do, by rbp. */
CODE(aligned,
     "push %rbx; mov %rsp, %rax; and $-32, %rsp; sub $0x80, %rsp\naligned_by_register: mov %rax, 0x78(%rsp)\n"
     "aligned_by_slot: xor %eax, %eax; call *%rdx; mov 0x78(%rsp), %rsp\naligned_left: pop %rbx; ret\n"
     "aligned_compiled: push %rbp; mov %rsp, %rbp; push %r12; and $-64, %rsp; sub $0x200, %rsp\n"
     "aligned_by_rbp: lea -8(%rbp), %rsp\naligned_back: pop %r12; pop %rbp; ret");
PLACE(aligned_by_register);
PLACE(aligned_by_slot);
PLACE(aligned_left);
PLACE(aligned_compiled);
PLACE(aligned_by_rbp);
PLACE(aligned_back);

UNIT(stacks_that_are_aligned)
{
    run(aligned, aligned_end, true);
    CHECK(aligned_by_register - aligned, .cfa = UNWIND_CFA_REGISTER + 0, .cfa_offset = 16);
    CHECK(aligned_by_slot - aligned, .cfa = UNWIND_CFA_AT_RSP, .cfa_offset = 0x78 << 8 | 16);
    CHECK(aligned_left - aligned, DEPTH(16));
    CHECK(aligned_compiled - aligned, DEPTH(8));
    CHECK(aligned_by_rbp - aligned, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(aligned_back - aligned, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
}

/* As V8's builtins: what is called takes off the stack what was pushed for it, and more. */
CODE(framed,
     "push %rbp; mov %rsp, %rbp; push %rsi; sub $8, %rsp; call *%rax\nframed_called: mov -8(%rbp), %rcx\n"
     "mov %rbp, %rsp\nframed_left: pop %rbp\nframed_popped: ret $16");
PLACE(framed_called);
PLACE(framed_left);
PLACE(framed_popped);

UNIT(a_frame_pointer_is_what_is_gone_by)
{
    run(framed, framed_end, true);
    CHECK(framed_called - framed, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(framed_left - framed, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(framed_popped - framed, DEPTH(8));
}

/* Ways that leave something on the stack, or meet with different frames; a number where code might be. */
CODE(
    wrong,
    "push %rbx; ret\n.balign 16, 0x90\nwrong_two: push %rbx; test %eax, %eax; jne 1f; push %rcx; 1: pop %rbx; ret\n"
    ".balign 16, 0x90\n.quad 0x1122334455667788, 0x8080808080808080, 0x0606060606060606\n"
    "wrong_good: push %rbx; pop %rbx; ret");
PLACE(wrong_two);
PLACE(wrong_good);

UNIT(what_contradicts_itself_is_not_believed)
{
    run(wrong, wrong_end, true);
    CHECK(0, NOTHING);
    CHECK(1, NOTHING);
    CHECK(wrong_two - wrong, NOTHING);
    CHECK(wrong_two + 5 - wrong, NOTHING);
    CHECK(wrong_good - wrong, DEPTH(8));
    CHECK(wrong_good + 1 - wrong, DEPTH(16));
}

/* As musl's clone: who has taken what is below its return address off never returns; without a frame pointer
 * it is what a thread begins with. */
CODE(child, "test %eax, %eax; jnz 1f; xor %ebp, %ebp; pop %rdi; child_popped: call *%r9; hlt\n1: ret");
PLACE(child_popped);

UNIT(a_stack_that_nobody_returns_on)
{
    run(child, child_end, true);
    CHECK(0, DEPTH(8));
    CHECK(child_popped - child, .cfa = UNWIND_CFA_ROOT);
    CHECK(child_end - 1 - child, DEPTH(8));
}

/* As musl's vfork, which does return. */
CODE(kept, "pop %rdx; kept_popped: syscall; push %rdx; ret\nkept_next: push %rbx; pop %rbx; ret");
PLACE(kept_popped);
PLACE(kept_next);

UNIT(a_return_address_that_is_kept_elsewhere)
{
    run(kept, kept_end, true);
    CHECK(kept_popped - kept, NOTHING);
    CHECK(kept_next + 1 - kept, DEPTH(16));
}

/* As musl's and Free Pascal's first code. */
CODE(program,
     "push %rbx; pop %rbx; ret; .byte 0, 0\nprogram_begin: xor %ebp, %ebp; mov %rsp, %rdi; and $-16, %rsp\n"
     "program_call: call *%rax\nprogram_behind: push %rbx; pop %rbx; ret");
PLACE(program_begin);
PLACE(program_call);
PLACE(program_behind);

UNIT(what_a_program_begins_with_has_no_caller)
{
    entry_at = (uint64_t)(program_begin - program);
    run(program, program_end, true);
    CHECK(1, DEPTH(16));
    CHECK(program_begin - program, .cfa = UNWIND_CFA_ROOT);
    CHECK(program_behind - 1 - program, .cfa = UNWIND_CFA_ROOT);
    CHECK(program_behind - program, DEPTH(8));
    CHECK(program_behind + 1 - program, DEPTH(16));
}

/* As what is compiled for size has it: a call that does not come back, and right behind it another function.
 */
CODE(dense, "push %rbx; call dense_called; call *%rax\n"
            "push %r12; push %rbx; dense_saved: sub $8, %rsp; add $8, %rsp; pop %rbx; pop %r12; ret\n"
            "push %rbx; push %rbx; lea dense_taken(%rip), %rdi; call *%rax\n"
            "dense_taken: xor %eax, %eax; push %rbx; dense_in_taken: pop %rbx; ret\n"
            "push %rbx; push %rbx; call *%rax\n"
            "dense_called: xor %eax, %eax; push %rbx; dense_in_called: pop %rbx; ret\n"
            "push %rbx; push %rbx; call *%rax\n"
            "dense_main: push %rbx; dense_in_main: mov %rsi, %rbx; call *%rax");
PLACE(dense_saved);
PLACE(dense_in_taken);
PLACE(dense_in_called);
PLACE(dense_main);
PLACE(dense_in_main);

UNIT(functions_begin_right_behind_calls_that_do_not_come_back)
{
    main_at = (uint64_t)(dense_main - dense);
    run(dense, dense_end, true);
    CHECK(dense_saved - dense, DEPTH(24));
    CHECK(dense_in_taken - dense, DEPTH(16));
    CHECK(dense_in_called - dense, DEPTH(16));
    CHECK(dense_in_main - dense, DEPTH(16));
    main_at = UINT64_MAX;
}

CODE(glibc_start, "endbr64; xor %ebp, %ebp; lea glibc_main(%rip), %rdi; call *%rax; glibc_main: ret");
PLACE(glibc_main);

UNIT(main_is_where_the_beginning_of_a_program_says)
{
    struct bytes begin = bytes_of(glibc_start, (size_t)(glibc_start_end - glibc_start));
    ck_assert_int_eq(unsaid_main(begin), glibc_main - glibc_start);
    for (size_t n = 0; n < 13; n++)
        ck_assert_int_eq(unsaid_main(bytes_of(glibc_start, n)), 0);
}

/* As musl's qsort: its last call does not come back, and the function behind the padding is one that another
 * has jumped to as its own last call. */
CODE(tailed, "xor %eax, %eax; jmp tailed_other\n.balign 16, 0x90\n"
             "push %rbx; test %edi, %edi; jne 1f; pop %rbx; ret\ntailed_fails: 1: call *%rax; nopl (%rax)\n"
             "tailed_other: push %r12; tailed_loop: 1: call *%rcx; jmp 1b");
PLACE(tailed_fails);
PLACE(tailed_other);
PLACE(tailed_loop);

UNIT(a_function_that_another_one_ends_in_begins_behind_a_call_that_does_not_come_back)
{
    run(tailed, tailed_end, true);
    CHECK(tailed_fails - tailed, DEPTH(16));
    CHECK(tailed_other - tailed, DEPTH(8));
    CHECK(tailed_loop - tailed, DEPTH(16));
}

/* As musl's printf: behind a function's last call, by a jump, is a block of it that a table leads to, a loop
 * entered in its middle. */
CODE(entered,
     "entered_callee: ret\n.balign 16, 0x90\n"
     "push %rbx; push %rbp; test %edi, %edi; jne 1f\nentered_out: 2: pop %rbp; pop %rbx; ret; 1: jmp *%rcx\n"
     "nop; jmp 2b; nop; pop %rbp; pop %rbx; jmp entered_callee; nopl (%rax)\n"
     "entered_block: xor %ecx, %ecx; jmp 4f; 3: dec %ecx\nentered_middle: 4: cmp %al, %cl; jne 3b; jmp 2b");
PLACE(entered_block);
PLACE(entered_middle);

UNIT(a_block_that_a_table_leads_to_behind_a_last_call)
{
    run(entered, entered_end, true);
    CHECK(entered_block - entered, DEPTH_RBP(24, 24));
    CHECK(entered_middle - entered, DEPTH_RBP(24, 24));
}

/* Where room for a variable is made on one of two ways that meet: rbp tells of the frame all the same. */
CODE(roomy,
     "push %rbp; mov %rsp, %rbp; push %rbx; test %eax, %eax; je 1f; sub %rcx, %rsp\n"
     "roomy_made: mov %rsp, %rdi\nroomy_meets: 1: call *%rax; mov -8(%rbp), %rbx; leave\nroomy_left: ret");
PLACE(roomy_made);
PLACE(roomy_meets);
PLACE(roomy_left);

UNIT(room_that_is_made_on_one_way)
{
    run(roomy, roomy_end, true);
    CHECK(roomy_made - roomy, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(roomy_meets - roomy, UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16);
    CHECK(roomy_left - roomy, DEPTH(8));
}

/* As musl's realloc: one of its many ends is a hlt, and behind that is no other function. */
CODE(halting, "push %rbx; test %edi, %edi; je 1f; hlt\n"
              "mov %ecx, %edx; test %dl, %dl; jne 2f; 3: call *%rcx; jmp 3b; nop\n"
              "halting_on: 1: nop; 2: inc %eax; pop %rbx; ret");
PLACE(halting_on);

UNIT(a_function_goes_on_behind_a_halt)
{
    run(halting, halting_end, true);
    CHECK(halting_on - halting, DEPTH(16));
    CHECK(halting_end - 1 - halting, DEPTH(8));
}

/* What one of its calls shows not to come back (a function begins behind it) does not do so elsewhere. */
CODE(final, "push %rbx; test %edi, %edi; jne 1f; pop %rbx; ret; 1: call 9f\n"
            "push %r12; push %r13; pop %r13; pop %r12; ret\n.balign 16, 0x90\n"
            "push %rbx; test %edi, %edi; jne 1f; pop %rbx; ret; 1: call 9f\n"
            "final_other: push %rbx; mov %rdi, %rax\nfinal_loop: 1: call *%rcx; jmp 1b\n9: ud2");
PLACE(final_other);
PLACE(final_loop);

UNIT(what_does_not_come_back_once_never_does)
{
    run(final, final_end, true);
    CHECK(final_other - final, DEPTH(8));
    CHECK(final_loop - final, DEPTH(16));
}

UNIT(instructions_have_their_lengths)
{
    static const struct {
        const char *bytes;
        uint8_t n;
    } each[] = {
        {"\xc3", 1},
        {"\xf3\x0f\x1e\xfa", 4},
        {"\x48\x83\xec\x18", 4},
        {"\x66\x2e\x0f\x1f\x84\0\0\0\0\0", 10},
        {"\x48\xb8\1\2\3\4\5\6\7\x8", 10},
        {"\x66\xb8\1\2", 4},
        {"\xf7\x05\1\2\3\4\5\6\7\x8", 10}, /* test $, x(%rip) */
        {"\xf7\xd8", 2},                   /* neg */
        {"\xf6\x44\x24\x08\x01", 5},
        {"\x8b\x04\x25\1\2\3\4", 7},
        {"\xc5\xf8\x77", 3},                     /* vzeroupper */
        {"\xc4\xe2\xfb\xf6\xc8", 5},             /* mulx */
        {"\xc4\xe3\x75\x0f\xd0\x08", 6},         /* vpalignr */
        {"\x62\xf1\xfe\x48\x6f\x46\x01", 7},     /* vmovdqu64 */
        {"\x66\x0f\x3a\x0f\x44\x24\x10\x04", 8}, /* palignr */
        {"\x0f\x84\1\2\3\4", 6},
        {"\x66\xe9\1\2\3\4", 6},
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        struct instruction is;
        ck_assert(instruction_read(bytes_of(each[i].bytes, each[i].n), 0, &is));
        ck_assert_uint_eq(is.length, each[i].n);
        for (size_t n = 0; n < each[i].n; n++)
            ck_assert(!instruction_read(bytes_of(each[i].bytes, n), 0, &is));
    }
    struct instruction is;
    ck_assert(!instruction_read(BYTES_LIT("\x06"), 0, &is));
    ck_assert(!instruction_read(BYTES_LIT("\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x66\x90"),
                                0, &is));
}
