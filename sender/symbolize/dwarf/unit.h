/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An open unit of DWARF: its entries in memory, and what values in them mean: strings, addresses, references,
 * ranges (DWARF 5, sections 2.17, 7.5 and 7.25 to 7.27).
 */
#ifndef SENDER_SYMBOLIZE_DWARF_UNIT_H
#define SENDER_SYMBOLIZE_DWARF_UNIT_H

#include "sender/symbolize/dwarf/file.h"

/* Ranges of one entry: a unit compiled with a section a function has one for each. */
#define DWARF_RANGES_MAX 65536u

struct dwarf_cu {
    struct dwarf_unit unit;
    struct dwarf_abbrevs abbrevs;
    uint8_t *memory;    /* what bytes are in, unless the section itself is in memory */
    struct bytes bytes; /* the unit, header included; .n 0: not asked for */
    struct dwarf_die root;
    uint64_t low, str_offsets_base, addr_base, rnglists_base;
};

enum dwarf_part {
    DWARF_FIRST, /* the first entry only, and what it needs */
    DWARF_TABLE, /* that, and all abbreviations: for entries here and there */
    DWARF_WHOLE, /* all entries in memory */
};

/* Opens a unit. 0, DWARF_DAMAGED or -ENOMEM. The caller closes. */
int dwarf_cu_open(struct dwarf_file *f, const struct dwarf_unit *unit, enum dwarf_part part,
                  struct dwarf_cu *ret);
void dwarf_cu_close(struct dwarf_cu *cu);

/* How much of a unit is read for one entry of it; longer ones have whole texts in them. */
#define DWARF_DIE_MAX 4096u

/* An entry anywhere in an open unit; its texts may be in `scratch`. False: damaged. */
bool dwarf_cu_die(struct dwarf_file *f, const struct dwarf_cu *cu, uint64_t at,
                  uint8_t scratch[DWARF_DIE_MAX], struct dwarf_die *ret);

struct dwarf_text {
    struct dwarf_file *file; /* the one asked of, or its alternate one */
    enum elf_debug section;
    uint64_t at;
};

/* Where a string is. False: it is none, or in the unit itself (DW_FORM_string). */
bool dwarf_text_at(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v,
                   struct dwarf_text *ret);

/* A string, cut to fit; its length, 0 if there is none. */
size_t dwarf_text(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v, char *to,
                  size_t room);

/* An address. False: it is none. */
bool dwarf_address(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v,
                   uint64_t *ret);

/* Where in .debug_info a reference goes; of *file, which becomes the alternate one if it goes there. */
bool dwarf_reference(struct dwarf_file **file, const struct dwarf_cu *cu, const struct dwarf_value *v,
                     uint64_t *ret);

/* Reads a text. Its length. */
size_t dwarf_text_read(struct dwarf_file *f, const struct dwarf_text *text, char *to, size_t room);

/* Takes one range; false: that is enough. */
typedef bool (*dwarf_range_fn)(void *user, uint64_t start, uint64_t end);

/* Gives the ranges of an entry, those of no length left out. */
void dwarf_ranges(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_die *die,
                  dwarf_range_fn fn, void *user);

#endif
