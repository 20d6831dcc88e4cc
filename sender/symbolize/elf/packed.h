/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A section packed with zlib, read at any offset without holding it unpacked.
 *
 * Unpacking can go on from a block's begin if the 32 KiB before it are known (RFC 1951, section 2): such
 * marks are left on the way, with those bytes packed again, so that a later read begins at the nearest one.
 * They are what is kept from one use to the next; the rest lives from packed_use to packed_rest.
 *
 * The check sum at the end is not looked at: what a damaged file has unpacks to nonsense, as it may have it
 * anyway.
 */
#ifndef SENDER_SYMBOLIZE_ELF_PACKED_H
#define SENDER_SYMBOLIZE_ELF_PACKED_H

#include "sender/symbolize/elf/source.h"

/* Marks of one section, and the least there is between two: a mark is some 10 KB of memory, unpacking 128 KiB
 * some 0.4 ms. */
#define PACKED_MARKS_MAX 32u
#define PACKED_SPACING   (128u << 10)
/* What is unpacked at a time, and how many such pieces are at hand: texts are read here and there. */
#define PACKED_CHUNK  (32u << 10)
#define PACKED_CHUNKS 24u
/* Of a mark at most: in what cannot be packed again there are none. */
#define PACKED_HISTORY_MAX (20u << 10)

/* A section that unpacks to no more has all of its chunks kept, packed again one by one, if they pack to
 * three quarters. */
#define PACKED_SHELF_MAX (2u << 20)

/* A section that says it unpacks to more is left out: Chromium's are the largest there are, below this. */
#define PACKED_MAX (4ull << 30)

struct packed;

/* Of n bytes of zlib (RFC 1950) at `at`, which unpack to `size`. 0, -EBADMSG, -EFBIG or -ENOMEM. The caller
 * frees. */
int packed_new(const struct source *s, uint64_t at, uint64_t n, uint64_t size, struct packed **ret);
struct packed *packed_free(struct packed *p); /* returns NULL */

/* Begins to use it: reads come from the same bytes in `s`, and each byte unpacked is taken off *work; below 0
 * nothing is read any more. */
void packed_use(struct packed *p, const struct source *s, int64_t *work);

/* Gives back what only reading needs; reads nothing until packed_use. */
void packed_rest(struct packed *p);

/* What there is at an offset of a struct packed, n bytes at most; fewer at the end, on damage, when work or
 * memory is out. */
size_t packed_read(void *packed, uint64_t offset, void *to, size_t n);

/* The same as a source; it must stay, and be in use while that is read. */
struct source packed_source(struct packed *p);

uint64_t packed_size(const struct packed *p);

/* Bytes held while it rests. */
size_t packed_memory(const struct packed *p);

#endif
