/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The few DWARF expressions that occur in call frame information, recognised rather than evaluated.
 */
#ifndef SENDER_UNWIND_EXPRESSION_H
#define SENDER_UNWIND_EXPRESSION_H

#include <stdint.h>

#include "proto/base/bytes.h"

/* psABI figure 3.36. */
enum { DWARF_RBP = 6, DWARF_RSP = 7, DWARF_RA = 16 };

enum expression_kind {
    EXPRESSION_OTHER,
    EXPRESSION_REGISTER, /* reg + offset */
    EXPRESSION_MEMORY, /* what is stored at reg + offset, plus `plus`: realigned stacks, hand-written code */
    EXPRESSION_MEMORY_TWICE, /* likewise, of what is stored where that points: OCaml 5.3 */
    EXPRESSION_PLT,          /* of a procedure linkage table: offset is the byte of 16 where a push is done */
};

struct expression {
    enum expression_kind kind;
    uint64_t reg;
    int64_t offset;
    uint64_t plus;
};

/* What an expression's bytes mean; EXPRESSION_OTHER if it is none of these. */
struct expression expression_read(struct bytes program);

#endif
