/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/unwind */
/* Call frame information of a profiled process's file: as a section (first byte 0: .eh_frame, 1:
 * .debug_frame), as Go's table (2), or a whole ELF file; and the stepping code with the rules and the memory
 * that come out of it. */
#include <stdlib.h>

#include "sender/unwind/cfi.h"
#include "sender/unwind/go.h"
#include "sender/unwind/rows.h"
#include "tests/fuzz/fuzz.h"
#include "tests/unwind/walk.h"

struct walk {
    struct memory memory;
    struct unwind_registers r;
    uint64_t last, end;
    uint64_t rows;
};

static void on_row(void *user, uint64_t address, const struct unwind_rule *rule)
{
    struct walk *w = user;
    if (address < w->last || address >= w->end || rule->cfa >= UNWIND_CFA_END)
        __builtin_trap();
    w->last = address;
    w->rows++;
    uint64_t sp = w->r.sp;
    struct unwind_registers before = w->r;
    if (unwind_step(&w->memory, &w->r, *rule) != UNWIND_END_NONE)
        w->r = before;
    else if (rule->cfa < UNWIND_CFA_REGISTER && rule->cfa != UNWIND_CFA_SIGNAL &&
             rule->cfa != UNWIND_CFA_AT_RSP && w->r.sp < sp)
        __builtin_trap(); /* it must lead on, but to another stack */
}

static void section(const uint8_t *data, size_t len, bool is_debug)
{
    struct source source = source_memory(bytes_of(data, len));
    struct cfi_section s = {.source = &source, .size = len, .address = 0x1000, .is_debug = is_debug};
    struct cfi_common common = {.at = SIZE_MAX};
    struct cfi_function f;
    size_t at = 0;
    int r;
    while ((r = cfi_next(&s, &at, &common, &f)) != 0) {
        if (r != 1)
            continue;
        struct walk w = {.memory = {.start = 0x7000, .size = len, .bytes = data}, .last = 0};
        w.r = (struct unwind_registers){.ip = f.start, .sp = 0x7000, .bp = 0x7000 + len / 2, .has_all = 1};
        w.last = f.start;
        w.end = f.start + f.size;
        (void)cfi_run(&common, &f, on_row, &w);
    }
}

static void file(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct rows_file *f;
    static struct rows rows;
    if (rows_open(&f, &s) != 0)
        return;
    for (uint32_t p = 0; p < rows_pages(f) && p < 64; p++) {
        rows_page(f, p, &rows);
        if (rows.n > UNWIND_PAGE_ROWS_MAX || rows.n_rules > ROWS_RULES_MAX)
            __builtin_trap();
        for (uint32_t i = 0; i < rows.n; i++)
            if (rows.row[i].rule >= rows.n_rules || rows.row[i].low >= UNWIND_PAGE_SIZE ||
                (i == 0 ? rows.row[i].low != 0 : rows.row[i].low <= rows.row[i - 1].low))
                __builtin_trap();
    }
    rows_close(f);
}

static void on_go_row(void *user, uint64_t address, const struct unwind_rule *rule)
{
    if (rule->cfa >= UNWIND_CFA_END && rule->cfa != UNWIND_CFA_POINTER)
        __builtin_trap();
}

static void go_table(const uint8_t *data, size_t len)
{
    struct source s = source_memory(bytes_of(data, len));
    struct elf elf = {.go_lines = {.size = len}};
    struct go_frames g = {0};
    uint64_t start, size;
    if (pclntab_open(&g.table, &s, &elf) < 0 || g.table.version < 118)
        return;
    g.functions.bytes = malloc(65536);
    g.details.bytes = malloc(65536);
    g.programs.bytes = malloc(65536);
    if (g.functions.bytes && g.details.bytes && g.programs.bytes)
        for (uint32_t i = 0; i < 64 && i < g.table.n_functions; i++)
            if (go_function(&g, i, &start, &size))
                (void)go_run(&g, i, on_go_row, NULL);
    go_close(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len > 4 && data[0] == 0x7f)
        file(data, len);
    else if (len > 1 && data[0] == 2)
        go_table(data + 1, len - 1);
    else if (len > 1)
        section(data + 1, len - 1, data[0] & 1);
    return 0;
}
