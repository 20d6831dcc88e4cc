/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file's call frame information, compiled: rows in order of file offset, page by page, and the rules they
 * name (bpf/unwind.h says what rows are).
 */
#ifndef SENDER_UNWIND_ROWS_H
#define SENDER_UNWIND_ROWS_H

#include <stdint.h>

#include "bpf/unwind.h"
#include "sender/symbolize/elf/source.h"

/* Functions taken of one file: librustc_driver has about 190,000. */
#define ROWS_FUNCTIONS_MAX (1u << 20)
/* Rows of one file: a fourth of all that the tables hold; librustc_driver has 1.04 million. */
#define ROWS_MAX (UNWIND_CHUNKS * UNWIND_CHUNK_ROWS / 4)
/* Distinct rules of one file: real ones have less than 600. What is above becomes "unknown". */
#define ROWS_RULES_MAX 2048u
/* Pages of one file, from its first with code to its last: 256 MiB. */
#define ROWS_PAGES_MAX (UNWIND_PAGES / 2)

struct rows {
    struct unwind_row *row; /* .rule: an index into `rule` */
    uint32_t n, cap;
    uint32_t first_page, n_pages;
    uint32_t *page;           /* n_pages + 1: where each page's rows begin in `row` */
    struct unwind_rule *rule; /* rule[0] is that nothing is known */
    uint32_t n_rules;
    uint32_t n_functions, n_damaged; /* taken; skipped for being malformed */
    uint32_t runtime;                /* enum runtime_tag; who adds the rows to tables knows */
};

/* Compiles a file. 0: also when it has no frame information, n_pages being 0 then; ROWS_NONE: no ELF file for
 * this machine; -ENOMEM. The caller releases. Any thread. */
#define ROWS_NONE 1
int rows_compile(struct rows *ret, const struct source *s);
void rows_release(struct rows *rows);

/* The rule for a file offset. */
struct unwind_rule rows_find(const struct rows *rows, uint64_t offset);

#endif
