/* SPDX-License-Identifier: Apache-2.0 */
/* Code that calls nobody, and which registers it may write. */
#include "tests/lib/unit.h"

#include "sender/unwind/leaf.h"

static bool leaves(const char *code, size_t n, uint8_t reg)
{
    return leaf_leaves(bytes_of(code, n), reg);
}
#define LEAVES(code, reg) leaves(code, sizeof code - 1, reg)

#define RET "\xc3"

UNIT(what_writes_a_register_and_what_does_not)
{
    static const struct {
        const char *code;
        uint8_t n;
        bool rax, r8;
    } each[] = {
#define ROW(code, rax, r8) {code, sizeof code - 1, rax, r8}
        ROW("\x90", true, true),
        ROW("\x48\x89\x44\x24\x08", true, true),     /* mov %rax, 8(%rsp) */
        ROW("\x48\x8b\x44\x24\x08", false, true),    /* mov 8(%rsp), %rax */
        ROW("\x4c\x8b\x44\x24\x08", true, false),    /* mov 8(%rsp), %r8 */
        ROW("\x8a\x64\x24\x08", false, true),        /* mov 8(%rsp), %ah */
        ROW("\x88\xc4", false, true),                /* mov %al, %ah */
        ROW("\x48\x85\xc0", true, true),             /* test %rax, %rax */
        ROW("\x48\x83\xf8\x01", true, true),         /* cmp $1, %rax */
        ROW("\x49\x83\xc0\x01", true, false),        /* add $1, %r8 */
        ROW("\x48\x83\xc2\x01", true, true),         /* add $1, %rdx */
        ROW("\x05\1\0\0\0", false, true),            /* add $1, %eax */
        ROW("\xb8\1\0\0\0", false, true),            /* mov $1, %eax */
        ROW("\x41\x58", true, false),                /* pop %r8 */
        ROW("\x48\x93", false, false),               /* xchg %rbx, %rax */
        ROW("\x48\xf7\xe3", false, true),            /* mul %rbx */
        ROW("\x48\x99", false, true),                /* cqto is not told from those that write it */
        ROW("\x41\x0f\x93\xc4", true, true),         /* setae %r12b */
        ROW("\x0f\x93\xc0", false, true),            /* setae %al */
        ROW("\x0f\x44\xc3", false, true),            /* cmove %ebx, %eax */
        ROW("\x0f\xa2", false, false),               /* cpuid */
        ROW("\x0f\x05", false, false),               /* syscall */
        ROW("\x0f\x28\xc1", true, true),             /* movaps %xmm1, %xmm0 */
        ROW("\x66\x0f\xd7\xc1", false, true),        /* pmovmskb %xmm1, %eax */
        ROW("\x4d\x0f\x38\xf0\x6e\x08", true, true), /* movbe 8(%r14), %r13 */
        ROW("\x49\x0f\x38\xf0\x46\x08", false,
            false), /* movbe 8(%r14), %rax; of vectors' maps the low bits count */
        ROW("\xc4\xe2\x71\xdc\xc0", true, true),   /* vaesenc */
        ROW("\xc4\xe2\xfb\xf6\xc8", false, false), /* mulx */
    };
    for (size_t i = 0; i < sizeof each / sizeof *each; i++) {
        char code[16];
        memcpy(code, each[i].code, each[i].n);
        code[each[i].n] = RET[0];
        ck_assert_msg(leaves(code, each[i].n + 1u, 0) == each[i].rax, "rax, %zu", i);
        ck_assert_msg(leaves(code, each[i].n + 1u, 8) == each[i].r8, "r8, %zu", i);
        ck_assert(!leaves(code, each[i].n, 0)); /* it goes on where nobody looks */
    }
}

UNIT(a_leaf_returns_and_calls_nobody)
{
    ck_assert(LEAVES(RET, 0));
    ck_assert(LEAVES("\xf3" RET, 11));
    ck_assert(!LEAVES(RET, 3) && !LEAVES(RET, 2) && !LEAVES(RET, 12)); /* others' */
    ck_assert(!LEAVES("", 0));
    ck_assert(!LEAVES("\xe8\0\0\0\0" RET, 0));
    ck_assert(!LEAVES("\xff\xd3" RET, 0) && !LEAVES("\xff\xe3" RET, 0));
    ck_assert(LEAVES("\x72\x01" RET "\xeb\xfb", 0));          /* what is behind the return jumps back */
    ck_assert(!LEAVES("\x72\x01" RET "\x31\xc0\xeb\xf9", 0)); /* xor %eax, %eax is on the way */
    ck_assert(!LEAVES("\xeb\xfe", 0));                        /* it never returns */
    ck_assert(!LEAVES("\x72\x10" RET, 0) && !LEAVES("\xeb\xf0" RET, 0)); /* out of it */
}
