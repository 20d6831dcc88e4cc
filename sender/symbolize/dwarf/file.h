/* SPDX-License-Identifier: Apache-2.0 */
/*
 * DWARF, versions 2 to 5: a file's debug sections, its units, and the entries (DIEs) in them, as far as names
 * and lines need them (DWARF 5, sections 2, 3 and 7).
 *
 * One unit at a time is in memory. What is hostile in a file costs at most the work allowed: every byte
 * looked at is counted. Not read: type units, split units (.dwo).
 */
#ifndef SENDER_SYMBOLIZE_DWARF_FILE_H
#define SENDER_SYMBOLIZE_DWARF_FILE_H

#include "proto/base/vec.h"
#include "sender/symbolize/dwarf/index.h"
#include "sender/symbolize/dwarf/map.h"
#include "sender/symbolize/elf/unpack.h"

/* A unit is read whole, into memory; a larger one is left out. */
#define DWARF_UNIT_MAX (64u << 20)
/* Units of one file: one a source file, so far more than a program has; 32 bytes each while they are listed.
 */
#define DWARF_UNITS_MAX 200000u
/* Abbreviations of one unit, and attributes of them all: compilers use some hundreds. */
#define DWARF_ABBREVS_MAX    32768u
#define DWARF_ATTRIBUTES_MAX (512u * 1024)

struct dwarf_unit {
    uint64_t at, end; /* in .debug_info, header included */
    uint64_t abbrevs_at;
    uint32_t header_size;
    uint8_t version, address_size, offset_size;
};

/* What is worth keeping of a file from one use to the next; {0} to begin with. */
struct dwarf_keep {
    struct packed *packed[ELF_DEBUG_N];
    struct dwarf_map map;
    struct dwarf_indexes indexes;
    VEC(struct dwarf_unit) units; /* ascending; none until dwarf_file_units */
};
void dwarf_keep_release(struct dwarf_keep *k);
size_t dwarf_keep_memory(const struct dwarf_keep *k);

struct dwarf_file {
    struct extent section[ELF_DEBUG_N];
    uint8_t *memory[ELF_DEBUG_N]; /* of those unpacked */
    struct dwarf_keep *keep, own; /* keep: the caller's, else own */
    struct dwarf_file *alt; /* what dwz -m took out of it; the caller's, open as long; NULL: there is none */
    int64_t work;           /* bytes that may still be looked at; below 0: stop */
    int64_t reserved;       /* of them, for what has been begun: no new unit with less */
};

/* Opens the sections of a file that has been read by elf_read, with `work` and `reserved` bytes. `keep` is of
 * the same file's last use; NULL: nothing is kept. 0; -ENOENT: no DWARF; or why it cannot be unpacked. The
 * source, the keep and *ret must stay where they are until the caller closes. */
int dwarf_file_open(struct dwarf_file *ret, const struct source *s, const struct elf *elf,
                    struct dwarf_keep *keep, int64_t work, int64_t reserved);
void dwarf_file_close(struct dwarf_file *f);

/* Condition: what is there makes no sense, or is over a limit. */
#define DWARF_DAMAGED 1

/* Reads one unit's header. 0, or DWARF_DAMAGED: what comes behind cannot be read either. ret->version is 0
 * for a unit of a kind that is not read; `at` and `end` are good then. */
int dwarf_unit_header(struct dwarf_file *f, uint64_t at, struct dwarf_unit *ret);

/* Lists the units, once. 0 or -ENOMEM. */
int dwarf_file_units(struct dwarf_file *f);

/* The listed unit that an offset in .debug_info is in, or NULL. */
const struct dwarf_unit *dwarf_file_unit(const struct dwarf_file *f, uint64_t at);

struct dwarf_abbrev {
    uint64_t code;
    uint32_t first, n; /* of attributes */
    uint16_t tag;
    bool has_children;
};

/* No form of DWARF's: what is of no interest, and how many bytes it takes is known; `implicit` says it. */
#define DWARF_PASSED 0xffffu

struct dwarf_attribute {
    uint16_t wanted, form; /* wanted: as what it is looked at (file.c); 0: it is not */
    int64_t implicit;      /* of DW_FORM_implicit_const */
};

struct dwarf_abbrevs {
    VEC(struct dwarf_abbrev) list;          /* codes ascending */
    VEC(struct dwarf_attribute) attributes; /* those that are not looked at, which most are, together */
};

/* Reads a unit's table; only the code `only` if that is not 0. 0, DWARF_DAMAGED or -ENOMEM. */
int dwarf_abbrevs_read(struct dwarf_file *f, const struct dwarf_unit *u, uint64_t only,
                       struct dwarf_abbrevs *ret);
void dwarf_abbrevs_release(struct dwarf_abbrevs *a);

/* A value whose meaning depends on its unit's bases; form 0: there is none. */
struct dwarf_value {
    uint16_t form;
    uint64_t number;
    struct bytes text; /* DW_FORM_string */
};

/* Reads a value of a form in a unit; what is of no interest is only passed over (DWARF 5, section 7.5.6).
 * False: it is no form. */
bool dwarf_value_read(struct cursor *c, const struct dwarf_unit *u, uint64_t form, int64_t implicit,
                      struct dwarf_value *ret);

/* An entry: what this program wants of it; of kinds that are neither units, functions, calls nor what names
 * are in, no values. {0} before the first is read into it. */
struct dwarf_die {
    uint64_t at;  /* in .debug_info */
    uint16_t tag; /* 0: the end of a list of children */
    bool has_children;
    bool has_values;  /* some of what is below is set */
    uint64_t sibling; /* where in the unit what comes behind the children is, if none of those is a function
                         or call; 0: not said */
    struct dwarf_value name, linkage_name, low, high, ranges, comp_dir;
    struct dwarf_value lines, str_offsets_base, addr_base, rnglists_base; /* of a unit's first entry */
    struct dwarf_value origin; /* DW_AT_abstract_origin or DW_AT_specification, a reference */
    uint64_t call_file, call_line, decl_line;
};

/* Reads the entry at the cursor, which is `at` in the file. False: damaged. */
bool dwarf_die_read(struct cursor *c, uint64_t at, const struct dwarf_unit *u, const struct dwarf_abbrevs *a,
                    struct dwarf_die *ret);

#endif
