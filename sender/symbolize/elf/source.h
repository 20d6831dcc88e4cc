/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Bytes at offsets: a file read with pread(2), memory, or what somebody reads for us (a packed section:
 * packed.h).
 *
 * Files of profiled processes are never mapped: they can shrink under us, and a mapping would answer with
 * SIGBUS.
 */
#ifndef SENDER_SYMBOLIZE_ELF_SOURCE_H
#define SENDER_SYMBOLIZE_ELF_SOURCE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "sender/foreign/allowance.h"

/* What there is at an offset below the source's size, n bytes at most and not beyond it; how many. */
typedef size_t (*source_read_fn)(void *of, uint64_t offset, void *to, size_t n);

/* Pages of a process's memory, as they were when they were read first: for who reads here and there of one
 * for a moment, such as the rest of one walk. It then is an errand a page, and not one a word. */
#define SOURCE_PAGE  4096u
#define SOURCE_PAGES 16u
struct source_pages {
    uint32_t n; /* that were read; 0: begins anew. The oldest gives way */
    uint64_t at[SOURCE_PAGES];
    uint8_t bytes[SOURCE_PAGES][SOURCE_PAGE];
};

struct source {
    int fd; /* -1: memory, unless `read` is set */
    struct bytes memory;
    uint64_t size;
    source_read_fn read;         /* NULL: a file or memory */
    void *of;                    /* its argument */
    struct allowance *allowance; /* of a file: what reading it is charged to, the owner's; NULL: nobody */
    uint32_t owner;              /* whose it is: of a process's memory, and where no allowance says so */
    struct source_pages *pages;  /* NULL: it is no process's memory, which is read by errands
                                    (sender/foreign/errand.h), … */
    bool is_place;               /* … as a file is that may not answer (sender/foreign/open.h) */
};

/* A source over an open file (the descriptor stays the caller's). 0 or -errno. */
int source_file(struct source *ret, int fd);

/* A source over the memory of a process of `user`, fd open on it. `pages` must stay: pages->n = 0 before what
 * is read is to be as it is then. */
struct source source_process(int fd, uint32_t user, struct allowance *allowance, struct source_pages *pages);

/* Whose processes led to it; UINT32_MAX: nobody knows. */
uint32_t source_user(const struct source *s);

/* A source over memory, which must stay. */
struct source source_memory(struct bytes memory);

/* A source of `size` bytes that `read` hands out of `of`, which must stay. */
struct source source_read_by(source_read_fn read, void *of, uint64_t size);

/* Reads by pages of a size: n bytes at an offset, of what `page` says is in the page that begins at a
 * multiple of it, which is less than a page at the end, and nothing where there is none. How many. */
typedef struct bytes (*source_page_fn)(void *of, uint64_t at);
size_t source_read_pages(source_page_fn page, void *of, uint32_t size, uint64_t offset, void *to, size_t n);

/* Whether its bytes can be had in place: .memory. */
static inline bool source_is_memory(const struct source *s)
{
    return s->fd < 0 && !s->read;
}

/* Exactly n bytes at offset; false if they are not all there. */
bool source_read(const struct source *s, uint64_t offset, void *to, size_t n);

/* What there is at offset, n bytes at most; how many, 0 at the end, on error, or if the allowance is spent.
 */
size_t source_read_some(const struct source *s, uint64_t offset, void *to, size_t n);

/* The NUL-terminated string at offset, cut at room - 1, into `to`. Its length, 0 if there is none. */
size_t source_string(const struct source *s, uint64_t offset, char *to, size_t room);

#endif
