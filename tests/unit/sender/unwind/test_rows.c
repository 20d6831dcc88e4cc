/* SPDX-License-Identifier: Apache-2.0 */
/* Files compiled into rows: this very program, and damaged copies of it. */
#include "tests/lib/unit.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <unistd.h>

#include "sender/unwind/image.h"
#include "sender/unwind/rows.h"
#include "tests/unit/sender/symbolize/built.h"

static struct bytes own_file(void)
{
    struct source s;
    int fd = open("/proc/self/exe", O_RDONLY);
    ck_assert_int_eq(source_file(&s, fd), 0);
    uint8_t *copy = malloc(s.size);
    ck_assert(copy && source_read(&s, 0, copy, s.size));
    close(fd);
    return bytes_of(copy, s.size);
}

/* Where a function of this program is in its file. */
static uint64_t offset_of(struct bytes file, void (*function)(void))
{
    extern const char __ehdr_start[];
    struct image image;
    struct source s = source_memory(file);
    uint64_t address = (uint64_t)(uintptr_t)function - (uint64_t)(uintptr_t)__ehdr_start, offset, room;
    struct elf elf;
    ck_assert_int_eq(elf_read(&elf, &s), 0);
    ck_assert_int_eq(image_read(&image, &s, &elf), 0);
    ck_assert(image_offset(&image, address, &offset, &room));
    cfi_release(&image.frames);
    return offset;
}

/* Its program is `push rbp; mov rbp, rsp; … leave; ret`, by hand so that no compiler's choice matters. */
void framed(void);
__asm__(".text\n.globl framed\n.type framed, @function\nframed:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset %rbp, -16\n"
        "mov %rsp, %rbp\n.cfi_def_cfa_register %rbp\n"
        "nop\nleave\n.cfi_def_cfa %rsp, 8\nret\n.cfi_endproc\n.size framed, .-framed\n"
        ".skip 64, 0x90\n");

/* The rule for an offset of a file, by its page compiled alone. */
static struct unwind_rule find(struct rows_file *f, uint64_t offset)
{
    static struct rows rows;
    rows_page(f, (uint32_t)(offset >> UNWIND_PAGE_BITS), &rows);
    ck_assert_uint_eq(rows.n_damaged, 0);
    return rows_find(&rows, offset & (UNWIND_PAGE_SIZE - 1));
}

static void check_framed(struct rows_file *rows, uint64_t at)
{
    struct unwind_rule r = find(rows, at);
    ck_assert(r.cfa == UNWIND_CFA_RSP && r.cfa_offset == 8 && r.rbp == UNWIND_RBP_SAME);
    r = find(rows, at + 1);
    ck_assert(r.cfa == UNWIND_CFA_RSP && r.cfa_offset == 16 && r.rbp == UNWIND_RBP_AT_CFA &&
              r.rbp_offset == -16);
    r = find(rows, at + 4);
    ck_assert(r.cfa == UNWIND_CFA_RBP && r.cfa_offset == 16);
    r = find(rows, at + 5);
    ck_assert(r.cfa == UNWIND_CFA_RBP && r.cfa_offset == 16);
    r = find(rows, at + 6);
    ck_assert(r.cfa == UNWIND_CFA_RSP && r.cfa_offset == 8);
    ck_assert(find(rows, at + 7 + 32).cfa == UNWIND_CFA_NONE); /* code that nothing is said of */
}

static struct rows_file *opened(const struct source *s)
{
    struct rows_file *f = NULL;
    ck_assert_int_eq(rows_open(&f, s), 0);
    return f;
}

UNIT(each_instruction_of_a_function_has_its_rule)
{
    struct bytes file = own_file();
    struct source s = source_memory(file);
    struct rows_file *f = opened(&s);
    static struct rows rows;
    uint32_t n = 0;
    check_framed(f, offset_of(file, framed));
    for (uint32_t p = 0; p < rows_pages(f); p++) {
        rows_page(f, p, &rows);
        n += rows.n;
        ck_assert_uint_eq(rows.n_damaged, 0);
        for (uint32_t i = 0; i < rows.n; i++) {
            ck_assert_uint_lt(rows.row[i].rule, rows.n_rules);
            if (i == 0)
                ck_assert_uint_eq(rows.row[i].low, 0);
            else
                ck_assert_uint_gt(rows.row[i].low, rows.row[i - 1].low);
        }
    }
    ck_assert_uint_gt(n, 50);
    rows_page(f, rows_pages(f), &rows); /* behind the last */
    ck_assert_uint_eq(rows.n, 0);
    rows_close(f);
    free((void *)file.p);
}

/* As glibc's _dl_runtime_resolve: its frame is found by rbx, which what it calls has put into its own. */
void by_rbx(void);
__asm__(".text\n.globl by_rbx\n.type by_rbx, @function\nby_rbx:\n.cfi_startproc\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbx, 0\n"
        "mov %rsp, %rbx\n.cfi_def_cfa_register %rbx\n"
        "and $-64, %rsp\ncall 1f\ncall framed\nmov %rbx, %rsp\n.cfi_def_cfa_register %rsp\n"
        "pop %rbx\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
        "1:\n.cfi_startproc\npush %r12\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %r12, 0\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset %rbx, 0\nxor %ebx, %ebx\n"
        "pop %rbx\n.cfi_adjust_cfa_offset -8\npop %r12\n.cfi_adjust_cfa_offset -8\nret\n.cfi_endproc\n"
        ".size by_rbx, .-by_rbx\n");

UNIT(a_frame_found_by_a_register_is_found_where_what_was_called_has_saved_it)
{
    struct bytes file = own_file();
    struct source s = source_memory(file);
    struct rows_file *f = opened(&s);
    const uint8_t rbx = UNWIND_CFA_REGISTER + 3;
    const uint64_t at = offset_of(file, by_rbx), before = at + 4, call = before + 4, behind = call + 5;
    struct unwind_rule r = find(f, call);
    ck_assert(r.cfa == rbx && r.cfa_offset == 16);
    ck_assert_int_eq(find(f, before).cfa, rbx);
    r = find(f, behind - 1); /* as what was called returns */
    ck_assert(r.cfa == UNWIND_CFA_AT_RSP && r.cfa_offset == -24 * 256 + 16 && r.rbp == UNWIND_RBP_SAME);
    ck_assert_int_eq(find(f, behind).cfa, rbx);
    ck_assert_int_eq(find(f, behind + 4).cfa, rbx); /* the other saves nothing but rbp */
    ck_assert_int_eq(find(f, behind + 5 + 3).cfa, UNWIND_CFA_RSP);
    rows_close(f);
    free((void *)file.p);
}

/* As OpenSSL's AES-GCM: its frame is found by rax, which a part of it that it calls leaves alone, and another
 * does not. */
void by_rax(void);
__asm__(".text\n.globl by_rax\n.type by_rax, @function\nby_rax:\n.cfi_startproc\n"
        "lea (%rsp), %rax\n.cfi_def_cfa_register %rax\n"
        "and $-128, %rsp\ncall 1f\ncall 2f\nlea (%rax), %rsp\n.cfi_def_cfa_register %rsp\nret\n.cfi_endproc\n"
        "1: vaesenc %xmm1, %xmm0, %xmm0\nmovbe 8(%r14), %r13\nsetae %r12b\njc 3f\nret\n3: jmp 1b\n"
        "2: mov (%r14), %rax\nret\n"
        ".size by_rax, .-by_rax\n");

UNIT(a_frame_found_by_a_register_is_found_behind_a_call_that_leaves_it_alone)
{
    struct bytes file = own_file();
    struct source s = source_memory(file);
    struct rows_file *f = opened(&s);
    const uint8_t rax = UNWIND_CFA_REGISTER, kept = UNWIND_CFA_KEPT;
    const uint64_t call = offset_of(file, by_rax) + 4 + 4, behind = call + 5;
    struct unwind_rule r = find(f, behind - 1);
    ck_assert(r.cfa == kept && r.cfa_offset == 8);
    ck_assert_int_eq(find(f, call).cfa, rax);
    ck_assert_int_eq(find(f, behind).cfa, rax);
    ck_assert_int_eq(find(f, behind + 4).cfa, rax);
    rows_close(f);
    free((void *)file.p);
}

/* As in glibc's dynamic linker, which says nothing of its first instructions. */
UNIT(what_a_program_begins_with_is_its_root)
{
    struct bytes file = own_file();
    struct source s = source_memory(file);
    uint64_t at = offset_of(file, framed);
    extern const char __ehdr_start[];
    ((Elf64_Ehdr *)file.p)->e_entry = (uint64_t)(uintptr_t)framed - (uint64_t)(uintptr_t)__ehdr_start + 7 + 8;
    struct rows_file *f = opened(&s);
    ck_assert(find(f, at + 7 + 7).cfa != UNWIND_CFA_ROOT);
    ck_assert_int_eq(find(f, at + 7 + 8).cfa, UNWIND_CFA_ROOT);
    ck_assert_int_eq(find(f, at + 7 + 32).cfa, UNWIND_CFA_ROOT);
    rows_close(f);
    free((void *)file.p);
}

static struct {
    struct bytes file;
    uint32_t reads;
} counted;

static size_t counted_read(void *of, uint64_t offset, void *to, size_t n)
{
    counted.reads++;
    memcpy(to, counted.file.p + offset, n);
    return n;
}

/* Each read is a system call: the functions of a page are not asked for one by one. */
UNIT(a_page_takes_few_reads)
{
    static struct rows rows;
    struct rows_file *f;
    counted.file = own_file();
    struct source s = source_read_by(counted_read, NULL, counted.file.n);
    ck_assert_int_eq(rows_open(&f, &s), 0);
    uint32_t page = (uint32_t)(offset_of(counted.file, framed) >> UNWIND_PAGE_BITS), most = 0;
    uint32_t other = (uint32_t)(offset_of(counted.file, by_rbx) >> UNWIND_PAGE_BITS);
    for (uint32_t at = page; at < rows_pages(f); at++) {
        counted.reads = 0;
        rows_page(f, at, &rows);
        if (at != other) /* what by_rbx calls is looked for elsewhere */
            most = counted.reads > most ? counted.reads : most;
    }
    ck_assert_uint_gt(most, 0);
    ck_assert_uint_le(most, 12);
    check_framed(f, offset_of(counted.file, framed));
    rows_close(f);
    free((void *)counted.file.p);
}

UNIT(a_file_without_section_headers_is_found_by_its_frame_header)
{
    struct bytes file = own_file();
    struct source s = source_memory(file);
    uint64_t at = offset_of(file, framed);
    Elf64_Ehdr *h = (Elf64_Ehdr *)file.p;
    h->e_shoff = h->e_shnum = h->e_shstrndx = 0;
    struct rows_file *f = opened(&s);
    check_framed(f, at);
    rows_close(f);
    free((void *)file.p);
}

/* What no table leads to, because a linker could not make one, is read from front to back. */
UNIT(a_file_without_a_table_is_listed)
{
    struct bytes file = own_file();
    struct source s = source_memory(file);
    uint64_t at = offset_of(file, framed);
    const Elf64_Ehdr *h = (const Elf64_Ehdr *)file.p;
    Elf64_Phdr *p = (Elf64_Phdr *)(file.p + h->e_phoff);
    for (int i = 0; i < h->e_phnum; i++)
        if (p[i].p_type == PT_GNU_EH_FRAME)
            ((uint8_t *)file.p)[p[i].p_offset + 3] = 0xff; /* DW_EH_PE_omit */
    struct rows_file *f = opened(&s);
    check_framed(f, at);
    rows_close(f);
    for (int i = 0; i < h->e_phnum; i++)
        if (p[i].p_type == PT_GNU_EH_FRAME)
            p[i].p_type = PT_NULL;
    f = opened(&s);
    check_framed(f, at);
    rows_close(f);
    free((void *)file.p);
}

/* What -fno-asynchronous-unwind-tables -g leaves: .eh_frame, with a table, of the C library's first object
 * alone. What the linker has discarded is said to be at 0, where the file's headers are. */
UNIT(debug_frame_is_believed_where_nothing_else_is_said)
{
    struct built b = built_new();
    built_need("gcc");
    built_text(&b, "debug.s",
               ".cfi_sections .debug_frame\n.globl _start\n_start:\n.cfi_startproc\n.cfi_def_cfa_offset 48\n"
               ".skip 64, 0x90\n.cfi_endproc\n"
               ".section .text.gone, \"ax\"\n.cfi_startproc\n.cfi_def_cfa_offset 80\n.skip 128, 0x90\n"
               ".cfi_endproc\n");
    built_text(
        &b, "other.s",
        ".globl other\nother:\n.cfi_startproc\n.cfi_def_cfa_offset 56\n.skip 64, 0x90\n.cfi_endproc\n.skip 64, 0x90\n");
    ck_assert_int_eq(built_run(&b, "gcc -nostdlib -static-pie -Wl,--gc-sections -Wl,-z,noseparate-code "
                                   "-Wl,--eh-frame-hdr,-u,other debug.s other.s -o both"),
                     0);
    struct source s;
    struct elf elf;
    struct image image;
    built_read(&b, "both", &s, &elf);
    ck_assert_uint_gt(elf.debug_frame.size, 0);
    ck_assert_int_eq(image_read(&image, &s, &elf), 0);
    ck_assert_uint_gt(image.n_table, 0);
    struct rows_file *f = opened(&s);
    ck_assert_int_eq(find(f, image.entry).cfa_offset, 48);
    ck_assert_int_eq(find(f, image.entry + 63).cfa_offset, 48);
    ck_assert_int_eq(find(f, image.entry + 64).cfa_offset, 56);
    ck_assert_int_eq(find(f, image.entry + 127).cfa_offset, 56);
    ck_assert_int_eq(find(f, image.entry + 128).cfa, UNWIND_CFA_NONE);
    ck_assert_int_eq(find(f, 16).cfa, UNWIND_CFA_NONE);
    rows_close(f);
    cfi_release(&image.frames);
    built_free(&b);
}

UNIT(what_is_no_program_for_this_machine_is_refused)
{
    struct rows_file *f;
    struct source s =
        source_memory(BYTES_LIT("#!/bin/sh\necho hello, this is long enough to be looked at: 64 bytes\n"));
    ck_assert_int_eq(rows_open(&f, &s), ROWS_NONE);
    struct bytes file = own_file();
    ((Elf64_Ehdr *)file.p)->e_machine = EM_AARCH64;
    s = source_memory(file);
    ck_assert_int_eq(rows_open(&f, &s), ROWS_NONE);
    free((void *)file.p);
}

UNIT(a_file_cut_anywhere_is_survived)
{
    struct bytes file = own_file();
    static struct rows rows;
    for (size_t n = 0; n < file.n; n += 1 + file.n / 97) {
        struct source s = source_memory(bytes_of(file.p, n));
        struct rows_file *f;
        if (rows_open(&f, &s) != 0)
            continue;
        for (uint32_t p = 0; p < rows_pages(f); p += 3)
            rows_page(f, p, &rows);
        rows_close(f);
    }
    free((void *)file.p);
}

/* musl and Go say nothing of the code a signal handler returns to: it is known by its bytes. */
UNIT(a_signal_restorer_is_known_by_its_bytes)
{
    static const uint8_t code[] = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
    uint8_t *file = calloc(1, 0x1200);
    *(Elf64_Ehdr *)file = (Elf64_Ehdr){.e_ident = {0x7f, 'E', 'L', 'F', ELFCLASS64, ELFDATA2LSB},
                                       .e_machine = EM_X86_64,
                                       .e_phoff = 64,
                                       .e_phentsize = sizeof(Elf64_Phdr),
                                       .e_phnum = 1};
    *(Elf64_Phdr *)(file + 64) = (Elf64_Phdr){
        .p_type = PT_LOAD, .p_flags = PF_X, .p_offset = 0x1000, .p_vaddr = 0x401000, .p_filesz = 0x200};
    memcpy(file + 0x1080, code, sizeof code);
    struct source s = source_memory(bytes_of(file, 0x1200));
    struct rows_file *rows = opened(&s);
    ck_assert(find(rows, 0x107e).cfa == UNWIND_CFA_NONE);
    ck_assert(find(rows, 0x107f).cfa == UNWIND_CFA_SIGNAL);
    ck_assert(find(rows, 0x1088).cfa == UNWIND_CFA_SIGNAL);
    ck_assert(find(rows, 0x1089).cfa == UNWIND_CFA_NONE);
    rows_close(rows);
    free(file);
}
