/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A reader (reader.h) of bytes in memory, or of a part of a source through a small window.
 */
#ifndef SENDER_SYMBOLIZE_ELF_CURSOR_H
#define SENDER_SYMBOLIZE_ELF_CURSOR_H

#include "sender/symbolize/elf/reader.h"
#include "sender/symbolize/elf/source.h"

/* A section's bytes, wherever they are. */
struct extent {
    struct source source;
    uint64_t at, size;
};

#define CURSOR_WINDOW 1024u

struct cursor {
    union {
        struct reader at;
        struct {
            const uint8_t *p, *end;
            bool is_bad;
        };
    };
    struct extent rest; /* what comes behind `end` */
    uint64_t taken;     /* bytes of `rest` that went through the window */
    uint8_t window[CURSOR_WINDOW];
};

/* Over memory. */
void cursor_memory(struct cursor *c, struct bytes b);

/* Over an extent from an offset in it on. */
void cursor_extent(struct cursor *c, const struct extent *e, uint64_t offset);

/* For the functions below: more bytes into the window, behind those still in it. */
void cursor_refill(struct cursor *c);

/* At least n bytes in one piece, as far as there are so many. */
static inline struct reader *cursor_piece(struct cursor *c, unsigned n)
{
    if (reader_left(&c->at) < n && c->rest.size)
        cursor_refill(c);
    return &c->at;
}

/* A number of n bytes, 8 at most. */
static inline uint64_t cursor_fixed(struct cursor *c, unsigned n)
{
    return reader_fixed(cursor_piece(c, n), n);
}

static inline uint8_t cursor_u8(struct cursor *c)
{
    return reader_u8(cursor_piece(c, 1));
}

/* The next byte; -1: there is none. */
static inline int cursor_next(struct cursor *c)
{
    uint8_t byte = cursor_u8(c);
    return c->is_bad ? -1 : byte;
}

/* LEB128. Sixty-four bits take ten bytes; one that was padded to more is bad where a window ends. */
#define CURSOR_LEB 10u

static inline uint64_t cursor_uleb(struct cursor *c)
{
    return reader_uleb(cursor_piece(c, CURSOR_LEB));
}

static inline int64_t cursor_sleb(struct cursor *c)
{
    return reader_sleb(cursor_piece(c, CURSOR_LEB));
}

/* Over n bytes; only of memory are they given, else .n is 0. */
struct bytes cursor_skip(struct cursor *c, uint64_t n);

/* The string up to its NUL, which is passed over; only of memory. */
struct bytes cursor_string(struct cursor *c);

static inline bool cursor_at_end(struct cursor *c)
{
    return c->is_bad || (c->p == c->end && c->rest.size == 0);
}

/* n bytes at an offset of an extent; false if they are not all in it. */
bool extent_read(const struct extent *e, uint64_t offset, void *to, size_t n);

/* The NUL-terminated string at an offset, cut at room - 1. Its length. */
size_t extent_string(const struct extent *e, uint64_t offset, char *to, size_t room);

#endif
