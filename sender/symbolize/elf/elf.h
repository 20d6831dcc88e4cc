/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of an ELF file that profiling needs: segments, build ids, and where the symbol tables are
 * (elf(5)).
 *
 * 64-bit, of this machine's byte order. Everything in the file is untrusted; only small parts are read.
 */
#ifndef SENDER_SYMBOLIZE_ELF_ELF_H
#define SENDER_SYMBOLIZE_ELF_ELF_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* Executable PT_LOAD segments kept; linkers make one, Go and BOLT two or three. */
#define ELF_SEGMENTS_MAX 16u
/* Program and section headers looked at: real files have tens; a `-ffunction-sections` file, once linked,
 * too. */
#define ELF_HEADERS_MAX 1024u
/* A note segment is looked through up to this length; build ids take 36 to 120 bytes of it. */
#define ELF_NOTES_MAX    (64u * 1024)
#define ELF_BUILD_ID_MAX 64u
#define ELF_GO_ID_MAX    128u /* four base64 hashes of 20 characters and slashes: 83 */

struct elf_segment {
    uint64_t address, file_offset, file_size, memory_size;
};

struct elf_section {
    uint64_t address, offset, size; /* size 0: there is no such section */
    bool is_packed;                 /* SHF_COMPRESSED: only of debug sections, see unpack.h */
};

/* The sections of DWARF that names and lines are in. */
enum elf_debug {
    ELF_DEBUG_INFO,
    ELF_DEBUG_ABBREV,
    ELF_DEBUG_LINE,
    ELF_DEBUG_STR,
    ELF_DEBUG_LINE_STR,
    ELF_DEBUG_RANGES,
    ELF_DEBUG_RNGLISTS,
    ELF_DEBUG_ADDR,
    ELF_DEBUG_STR_OFFSETS,
    ELF_DEBUG_ARANGES,
    ELF_DEBUG_N
};

struct elf {
    struct elf_segment segment[ELF_SEGMENTS_MAX];
    uint32_t n_segments;
    uint64_t entry;                               /* where a program begins; 0: it is none */
    uint64_t thread_size;                         /* of its thread-local storage (PT_TLS); 0: it has none */
    struct elf_section symbols, symbol_names;     /* .symtab and its strings */
    struct elf_section dynamic, dynamic_names;    /* .dynsym and its strings */
    struct elf_section text, go_lines, go_module; /* .text, .gopclntab, .go.module (Go 1.26 and later) */
    struct elf_section go_build;                  /* .go.buildinfo */
    struct elf_section go_data;                   /* .noptrdata, where older Go has its module */
    struct elf_section fixed_data;                /* .data.rel.ro */
    struct elf_section eh_frame, debug_frame;
    struct elf_section plt[3]; /* what linkers make to call into other files: .plt, .plt.got, .plt.sec */
    struct elf_section debug[ELF_DEBUG_N];
    struct elf_section debug_link, mini_debug; /* .gnu_debuglink, .gnu_debugdata */
    struct elf_section debug_alt, debug_sup;   /* .gnu_debugaltlink, .debug_sup: what dwz -m took out */
    uint8_t build_id[ELF_BUILD_ID_MAX];
    uint32_t build_id_n;
    char go_id[ELF_GO_ID_MAX + 1];
};

/* Reads it. 0, or -ENOEXEC for what is no ELF file we read, or is damaged where nothing can be had from it.
 * Damage elsewhere leaves the part out. */
int elf_read(struct elf *ret, const struct source *of);

/* The description of the first note of a type and an owner, whose name is of four bytes; .n 0: there is none.
 */
struct bytes elf_note(struct bytes notes, uint64_t align, uint32_t type, const char owner[4]);

/* The segment that a file offset is in, and its ELF virtual address in *ret; NULL: in none. */
const struct elf_segment *elf_address(const struct elf *elf, uint64_t file_offset, uint64_t *ret);

/* What is to be added to a file's addresses for those of a process that has its byte `offset` at `start`;
 * false: it has no address for that. */
bool elf_bias(const struct source *file, uint64_t offset, uint64_t start, uint64_t *ret);

/* Where in the file an address is, by the segments of any kind; *room: bytes from there to the segment's end.
 */
bool elf_file_offset(const struct source *s, uint64_t address, uint64_t *ret, uint64_t *room);

/* process.executable.build_id.htlhash, as hex (33 bytes with the NUL): the first 16 bytes of SHA-256 over the
 * first 4096 bytes, the last 4096 bytes and the big-endian length (OpenTelemetry specification,
 * profiles/mappings.md). */
void elf_htlhash(const struct source *s, char ret[33]);

#endif
