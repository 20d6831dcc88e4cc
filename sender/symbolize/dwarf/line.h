/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line program of a unit: which source line each instruction is from (DWARF 5, section 6.2).
 */
#ifndef SENDER_SYMBOLIZE_DWARF_LINE_H
#define SENDER_SYMBOLIZE_DWARF_LINE_H

#include "sender/symbolize/dwarf/unit.h"

/* Directories, and files, of one program. */
#define DWARF_LINE_FILES_MAX 65536u
/* Attributes of an entry in a version 5 table: path, directory, MD5, size, time, source. */
#define DWARF_LINE_FORMATS_MAX 16u
/* One program with its tables. */
#define DWARF_LINE_MAX (32u << 20)

struct dwarf_line_file {
    struct dwarf_value name;
    uint64_t folder;
};

VEC_AS(dwarf_line_files, struct dwarf_line_file);

struct dwarf_lines {
    uint8_t *memory;
    uint64_t program_at, program_end;       /* in .debug_line */
    struct bytes program;                   /* unless only the tables were asked for */
    struct dwarf_line_files folders, files; /* .folder of a folder is not used */
    uint8_t version, address_size, offset_size, minimum_length, operations_max, line_range, opcode_base;
    int8_t line_base;
    uint8_t lengths[256]; /* of the standard operations */
};

/* Reads the header and tables of a unit's program, and the program itself, if `whole`. 0; -ENOENT: it has
 * none; -EBADMSG, -EFBIG, -ENOMEM. The caller closes. */
int dwarf_lines_open(struct dwarf_file *f, const struct dwarf_cu *cu, bool whole, struct dwarf_lines *ret);
void dwarf_lines_close(struct dwarf_lines *l);

/* A sequence is noted in parts of about this many bytes of the program. */
#define DWARF_LINE_PART 1024u

/* Takes the line of [start, end). False: stop. */
typedef bool (*dwarf_line_fn)(void *user, uint64_t start, uint64_t end, uint64_t file, uint64_t line);

/* Runs it. What is damaged ends it. Its sequences are noted in `index`, unless NULL. */
void dwarf_lines_run(struct dwarf_file *f, const struct dwarf_lines *l, struct dwarf_index *index,
                     dwarf_line_fn fn, void *user);

/* Runs a part of it that was noted. */
void dwarf_lines_run_part(struct dwarf_file *f, const struct dwarf_lines *l, const struct dwarf_pointer *part,
                          dwarf_line_fn fn, void *user);

/* The path of a file by its number: joined with its folder and the unit's. Its length, cut to fit; 0: there
 * is no such file. */
size_t dwarf_lines_path(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_lines *l,
                        uint64_t number, char *to, size_t room);

#endif
