/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressed parts of ELF files: debug sections (SHF_COMPRESSED, gABI "Section Compression": zlib and zstd)
 * and the small ELF file in .gnu_debugdata (xz). zlib is read in pieces (packed.h), the others are unpacked
 * into memory under a limit.
 */
#ifndef SENDER_SYMBOLIZE_ELF_UNPACK_H
#define SENDER_SYMBOLIZE_ELF_UNPACK_H

#include "sender/symbolize/elf/cursor.h"
#include "sender/symbolize/elf/elf.h"
#include "sender/symbolize/elf/packed.h"

/* All sections of one file that are unpacked into memory together: Debian 12's libc6-dbg has 10 MB. What has
 * more stays unread. */
#define UNPACK_MAX (64u << 20)
/* The output of xz: it is meant for the symbols of functions only. */
#define UNPACK_XZ_MAX (32u << 20)
/* Either, of a file that is not root's: anybody can make one that unpacks to whatever he likes. */
#define UNPACK_OTHERS_MAX (8u << 20)
/* What the xz decoder may take beside its output: the dictionary, 8 MiB unless the packager chose another. */
#define UNPACK_XZ_MEMORY_MAX (10u << 20)

/* How much of `max` bytes a file may unpack to, by whose it is. Memory is ours. */
uint64_t unpack_allowed(const struct source *s, uint64_t max);

/* A section's bytes as an extent. One packed with zlib is read through *packed, which is made if it is not
 * there or is another's, and stays the caller's (packed_use comes before the first read). One packed with
 * zstd is unpacked into *ret_memory (malloc'd, the caller's; else NULL), at most *left bytes, which are taken
 * off it. 0; -EFBIG over a limit; -EBADMSG damaged; -ENOMEM. A section that is not there (size 0) is an empty
 * extent. */
int unpack_section(const struct source *s, const struct elf_section *section, uint64_t *left,
                   struct extent *ret, uint8_t **ret_memory, struct packed **packed);

/* Unpacks an xz stream. The output is malloc'd and the caller's. 0 or an error as above. */
int unpack_xz(const struct source *s, const struct elf_section *section, uint8_t **ret, size_t *ret_n);

#endif
