/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information, compiled a page of code at a time: rows by offset, and the rules they name
 * (bpf/unwind.h says what rows are).
 */
#ifndef SENDER_UNWIND_ROWS_H
#define SENDER_UNWIND_ROWS_H

#include <stdint.h>

#include "bpf/unwind.h"
#include "sender/symbolize/elf/source.h"

/* Distinct rules of one page: of 60,000 of clang, rustc, cc1plus, node and libjvm the richest has 142. What
 * is above becomes "unknown". */
#define ROWS_RULES_MAX 256u

struct rows {
    uint32_t n; /* 0: nothing is known of this page */
    uint32_t n_rules;
    uint32_t n_damaged;                          /* functions whose information makes no sense */
    struct unwind_row row[UNWIND_PAGE_ROWS_MAX]; /* .rule: an index into `rule`; the first row is at 0 */
    struct unwind_rule rule[ROWS_RULES_MAX];     /* rule[0] is that nothing is known */
};

/* A file whose pages are compiled. */
struct rows_file;

/* Opens one: some ten small reads, whatever its size, if it has the table that linkers write. The source must
 * outlive it. 0; ROWS_NONE: no ELF file for this machine; -ENOMEM. */
#define ROWS_NONE 1
int rows_open(struct rows_file **ret, const struct source *s);
struct rows_file *rows_close(struct rows_file *f); /* returns NULL; NULL is fine */

/* Where its code ends, in pages; 0: it has no frame information. */
uint32_t rows_pages(const struct rows_file *f);

/* Where its first code by address is (struct unwind_file). */
uint32_t rows_code(const struct rows_file *f);

/* Compiles page number `page` of the file. */
void rows_page(struct rows_file *f, uint32_t page, struct rows *ret);

/* The rule for an offset in that page. */
struct unwind_rule rows_find(const struct rows *rows, uint32_t low);

#endif
