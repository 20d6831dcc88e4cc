/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Call frame information: the entries of an .eh_frame or .debug_frame section, and what their programs say of
 * each instruction (DWARF 5, section 6.4; Linux Standard Base Core 5.0, section 10.6, for .eh_frame).
 *
 * Sections are files' bytes and hostile: every length is checked, nothing recurses. They are read in parts,
 * as one page of code needs a few hundred bytes of them. x86-64 only.
 */
#ifndef SENDER_UNWIND_CFI_H
#define SENDER_UNWIND_CFI_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind.h"
#include "proto/base/bytes.h"
#include "sender/symbolize/elf/source.h"

/* An entry longer than this makes no sense. */
#define CFI_ENTRY_MAX (1u << 20)

/* A part of a section in memory. */
struct cfi_window {
    uint8_t *bytes;
    uint64_t at; /* of the section */
    size_t n, room;
};

struct cfi_section {
    const struct source *source;
    uint64_t offset, size; /* in the source */
    uint64_t address;      /* of its first byte, in the ELF file's own addresses */
    bool is_debug;         /* .debug_frame */
    bool has_no_end; /* its length is not known, only that it ends in these bytes: a terminator ends it */
    struct cfi_window function, common; /* what was read last; none of a source in memory */
};

/* Frees what was read; the source stays the caller's. */
void cfi_release(struct cfi_section *section);

/* A CIE: what several functions share. */
struct cfi_common {
    size_t at; /* in the section: its length field */
    uint64_t code_factor;
    int64_t data_factor;
    uint64_t ra_register;
    uint8_t pointer_encoding; /* DW_EH_PE_… of addresses in its FDEs */
    bool is_signal, has_augmentation;
    struct bytes program;
};

/* An FDE: one function, or a part of one. Its program is in the section's window: until the next is read. */
struct cfi_function {
    size_t common;        /* where its CIE is */
    uint64_t start, size; /* ELF addresses */
    struct bytes program;
};

/* Reads the entry at *at and moves *at behind it. 1: *ret is a function; 0: the section ends; 2: something
 * else, or an entry that makes no sense, and skipped. `common` holds the CIE read last, as most functions
 * have the same as the one before; begin with {.at = SIZE_MAX}. */
int cfi_next(struct cfi_section *section, size_t *at, struct cfi_common *common, struct cfi_function *ret);

/* Reads the CIE at an offset. 0, or -EBADMSG. */
int cfi_common(struct cfi_section *section, size_t at, struct cfi_common *ret);

/* Called for each address from which on another rule applies, ascending, within the function. */
typedef void (*cfi_row_fn)(void *user, uint64_t address, const struct unwind_rule *rule);

/* Runs a function's program. 0, or -EBADMSG: rows up to the damage were given, and one that says that nothing
 * is known from there on. */
int cfi_run(const struct cfi_common *common, const struct cfi_function *function, cfi_row_fn row, void *user);

/* Where a function puts a register (DWARF's number) of its caller's when it begins: at CFA + *ret. False: its
 * program does not say that it does. */
bool cfi_saves(const struct cfi_common *common, const struct cfi_function *function, uint64_t reg,
               int64_t *ret);

#endif
