/* SPDX-License-Identifier: Apache-2.0 */
/* Call frame information written by hand, as compilers write it. */
#include "tests/lib/unit.h"

#include <errno.h>

#include "sender/unwind/cfi.h"
#include "sender/unwind/expression.h"

#define AT 0x2000 /* the section's address */

/* CIE (24 bytes: "zR", code 1, data -8, ra 16, pcrel sdata4; CFA rsp+8, ra at CFA-8), then one FDE of
 * [0x1000, 0x1020) with the program given. */
struct built {
    uint8_t bytes[256];
    struct source source;
    struct cfi_section section;
};

static void put32(uint8_t *to, uint32_t value)
{
    memcpy(to, &value, 4);
}

static void build(struct built *b, const char *augmentation, const uint8_t *program, size_t n)
{
    uint8_t *p = b->bytes;
    size_t letters = strlen(augmentation) + 1;
    *b = (struct built){0};
    p[8] = 1;
    memcpy(p + 9, augmentation, letters);
    size_t at = 9 + letters;
    static const uint8_t rest[] = {1, 0x78, 16, 1, 0x1b, 0x0c, 7, 8, 0x90, 1};
    memcpy(p + at, rest, sizeof rest);
    at += sizeof rest;
    put32(p, (uint32_t)at - 4);
    size_t fde = at;
    put32(p + fde + 4, (uint32_t)fde + 4);
    put32(p + fde + 8, (uint32_t)(0x1000 - (AT + fde + 8)));
    put32(p + fde + 12, 0x20);
    p[fde + 16] = 0;
    memcpy(p + fde + 17, program, n);
    put32(p + fde, (uint32_t)(13 + n));
    b->source = source_memory(bytes_of(p, fde + 17 + n + 4));
    b->section = (struct cfi_section){.source = &b->source, .size = b->source.size, .address = AT};
}

struct seen {
    uint64_t address[32];
    struct unwind_rule rule[32];
    int n;
};

static void keep(void *user, uint64_t address, const struct unwind_rule *rule)
{
    struct seen *s = user;
    ck_assert_int_lt(s->n, 32);
    s->address[s->n] = address;
    s->rule[s->n++] = *rule;
}

static int run(const char *augmentation, const uint8_t *program, size_t n, struct seen *seen)
{
    struct built b;
    struct cfi_common common = {.at = SIZE_MAX};
    struct cfi_function f;
    size_t at = 0;
    build(&b, augmentation, program, n);
    ck_assert_int_eq(cfi_next(&b.section, &at, &common, &f), 2); /* the CIE */
    ck_assert_int_eq(cfi_next(&b.section, &at, &common, &f), 1);
    ck_assert_uint_eq(f.start, 0x1000);
    ck_assert_uint_eq(f.size, 0x20);
    *seen = (struct seen){0};
    return cfi_run(&common, &f, keep, seen);
}

#define CHECK_ROW(i, at, ...)                                                                    \
    do {                                                                                         \
        struct unwind_rule want_ = __VA_ARGS__;                                                  \
        ck_assert_uint_eq(s.address[i], at);                                                     \
        ck_assert_msg(memcmp(&s.rule[i], &want_, sizeof want_) == 0, "row %d: %u %u %d %d", i,   \
                      s.rule[i].cfa, s.rule[i].rbp, s.rule[i].rbp_offset, s.rule[i].cfa_offset); \
    } while (0)

UNIT(push_rbp_and_mov)
{
    struct seen s;
    static const uint8_t program[] = {0x41, 0x0e, 16, 0x86, 2, 0x43, 0x0d, 6, 0x5a, 0x0c, 7, 8, 0xc6};
    ck_assert_int_eq(run("zR", program, sizeof program, &s), 0);
    ck_assert_int_eq(s.n, 4);
    CHECK_ROW(0, 0x1000, {UNWIND_CFA_RSP, UNWIND_RBP_SAME, 0, 8});
    CHECK_ROW(1, 0x1001, {UNWIND_CFA_RSP, UNWIND_RBP_AT_CFA, -16, 16});
    CHECK_ROW(2, 0x1004, {UNWIND_CFA_RBP, UNWIND_RBP_AT_CFA, -16, 16});
    CHECK_ROW(3, 0x101e, {UNWIND_CFA_RSP, UNWIND_RBP_SAME, 0, 8});
}

UNIT(states_are_remembered_and_restored)
{
    struct seen s;
    static const uint8_t program[] = {0x0e, 0x30, 0x0a, 0x44, 0x0e, 8, 0x41, 0x0b, 0x41};
    ck_assert_int_eq(run("zR", program, sizeof program, &s), 0);
    ck_assert_int_eq(s.n, 4);
    CHECK_ROW(0, 0x1000, {UNWIND_CFA_RSP, UNWIND_RBP_SAME, 0, 0x30});
    CHECK_ROW(1, 0x1004, {UNWIND_CFA_RSP, UNWIND_RBP_SAME, 0, 8});
    CHECK_ROW(2, 0x1005, {UNWIND_CFA_RSP, UNWIND_RBP_SAME, 0, 0x30});
}

UNIT(a_realigned_stack_keeps_its_cfa_in_memory)
{
    struct seen s;
    static const uint8_t program[] = {0x0c, 10, 0, 0x45, 0x10, 6, 2, 0x76, 0, 0x45, 0x0f, 3, 0x76, 0x78, 6};
    ck_assert_int_eq(run("zR", program, sizeof program, &s), 0);
    CHECK_ROW(0, 0x1000, {UNWIND_CFA_REGISTER + 10, UNWIND_RBP_SAME, 0, 0});
    CHECK_ROW(1, 0x1005, {UNWIND_CFA_REGISTER + 10, UNWIND_RBP_AT_RBP, 0, 0});
    CHECK_ROW(2, 0x100a, {UNWIND_CFA_AT_RBP, UNWIND_RBP_AT_RBP, 0, -8 * 256});
}

UNIT(roots_signals_and_registers_that_hold_the_return_address)
{
    struct seen s;
    ck_assert_int_eq(run("zR", (const uint8_t[]){0x07, 16}, 2, &s), 0);
    CHECK_ROW(0, 0x1000, {.cfa = UNWIND_CFA_ROOT});
    static const uint8_t restorer[] = {0x0f, 4, 0x77, 0xa0, 1, 6, 0x10, 16, 3, 0x77, 0xa8, 1}; /* glibc's */
    ck_assert_int_eq(run("zRS", restorer, sizeof restorer, &s), 0);
    CHECK_ROW(0, 0x1000, {.cfa = UNWIND_CFA_SIGNAL});
    static const uint8_t switches[] = {0x0f, 5, 0x77, 8, 6, 0x23, 8}; /* OCaml's */
    ck_assert_int_eq(run("zRS", switches, sizeof switches, &s), 0);
    CHECK_ROW(0, 0x1000, {UNWIND_CFA_AT_RSP, UNWIND_RBP_SAME, 0, 8 * 256 + 8});
    ck_assert_int_eq(run("zR", (const uint8_t[]){0x0e, 0, 0x09, 16, 5}, 5, &s), 0);
    CHECK_ROW(0, 0x1000, {UNWIND_CFA_RSP, UNWIND_RBP_RA_IN_REG, 5, 0});
    ck_assert_int_eq(run("zR", (const uint8_t[]){0x05, 16, 2}, 3, &s), 0); /* at CFA - 16 */
    CHECK_ROW(0, 0x1000, {.cfa = UNWIND_CFA_UNKNOWN});
}

UNIT(a_damaged_program_is_not_believed_from_there_on)
{
    struct seen s;
    static const uint8_t ops[][4] = {
        {0x41, 0x0b}, {0x41, 0x3f}, {0x41, 0x0e, 0x80, 0x80}, {0x41, 0x0f, 0x7f, 0}};
    for (size_t i = 0; i < sizeof ops / sizeof *ops; i++) {
        ck_assert_int_eq(run("zR", ops[i], 4, &s), -EBADMSG);
        ck_assert_int_ge(s.n, 2);
        CHECK_ROW(0, 0x1000, {UNWIND_CFA_RSP, UNWIND_RBP_SAME, 0, 8});
        CHECK_ROW(s.n - 1, 0x1001, {.cfa = UNWIND_CFA_UNKNOWN});
    }
}

UNIT(each_cut_of_a_section_is_survived)
{
    struct built b;
    static const uint8_t program[] = {0x41, 0x0e, 16, 0x86, 2};
    build(&b, "zR", program, sizeof program);
    size_t whole = b.section.size;
    for (size_t n = 0; n < whole; n++) {
        struct cfi_common common = {.at = SIZE_MAX};
        struct cfi_function f;
        size_t at = 0;
        int r, functions = 0;
        b.section.size = n;
        while ((r = cfi_next(&b.section, &at, &common, &f)) != 0)
            functions += r == 1;
        ck_assert_int_eq(functions, n >= whole - 4);
    }
}

static size_t read_part(void *of, uint64_t offset, void *to, size_t n)
{
    const struct built *b = of;
    memcpy(to, b->bytes + offset, n);
    return n;
}

UNIT(a_section_is_read_in_parts)
{
    struct built b;
    struct cfi_common common = {.at = SIZE_MAX};
    struct cfi_function f;
    size_t at = 0;
    static const uint8_t program[] = {0x41, 0x0e, 16, 0x86, 2};
    build(&b, "zR", program, sizeof program);
    struct source parts = source_read_by(read_part, &b, b.section.size);
    b.section.source = &parts;
    int r = cfi_next(&b.section, &at, &common, &f), second = cfi_next(&b.section, &at, &common, &f);
    ck_assert_int_eq(r, 2);
    ck_assert_int_eq(second, 1);
    ck_assert_uint_eq(f.start, 0x1000);
    ck_assert_uint_eq(f.program.n, sizeof program);
    ck_assert_int_eq(memcmp(f.program.p, program, sizeof program), 0);
    cfi_release(&b.section);
}

UNIT(expressions_that_occur)
{
    static const uint8_t plt[] = {0x77, 8, 0x80, 0, 0x3f, 0x1a, 0x3b, 0x2a, 0x33, 0x24, 0x22};
    struct expression e = expression_read(bytes_of(plt, sizeof plt));
    ck_assert(e.kind == EXPRESSION_PLT && e.offset == 11);
    static const uint8_t plus[] = {0x77, 0xd8, 0, 0x06, 0x23, 8}; /* OpenSSL's: *(rsp + 88) + 8 */
    e = expression_read(bytes_of(plus, sizeof plus));
    ck_assert(e.kind == EXPRESSION_MEMORY && e.reg == DWARF_RSP && e.offset == 88 && e.plus == 8);
    static const uint8_t other[] = {0x77, 8, 0x12};
    static const uint8_t twice[] = {0x77, 56,   0x06, 0x23,
                                    0,    0x06, 0x23, 8}; /* OCaml 5.3's: **(rsp + 56) + 8 */
    e = expression_read(bytes_of(twice, sizeof twice));
    ck_assert(e.kind == EXPRESSION_MEMORY_TWICE && e.reg == DWARF_RSP && e.offset == 56 && e.plus == 8);
    for (size_t n = 6; n < sizeof twice; n++)
        ck_assert(expression_read(bytes_of(twice, n)).kind == EXPRESSION_OTHER);
    static const uint8_t negated[] = {0x77, 56, 0x06, 0x23, 0, 0x20};
    ck_assert(expression_read(bytes_of(negated, sizeof negated)).kind == EXPRESSION_OTHER);
    ck_assert(expression_read(bytes_of(other, sizeof other)).kind == EXPRESSION_OTHER);
    ck_assert(expression_read(bytes_of(plt, 1)).kind == EXPRESSION_OTHER);
    ck_assert(expression_read(bytes_of(plt, 0)).kind == EXPRESSION_OTHER);
}
