/*
 * Reads the numbers of DWARF in order: off bytes in memory, or off a part of a source through a small window.
 * Past the end everything is 0 and `is_bad`: the caller looks once, behind what belongs together.
 *
 * The byte order is this machine's: elf_read takes no other files.
 */
#ifndef SENDER_SYMBOLIZE_CURSOR_H
#define SENDER_SYMBOLIZE_CURSOR_H

#include "sender/symbolize/source.h"

/* A section's bytes, wherever they are. */
struct extent {
    struct source source;
    uint64_t at, size;
};

#define CURSOR_WINDOW 1024u

struct cursor {
    const uint8_t *p, *end;
    struct extent rest; /* what comes behind `end` */
    uint64_t taken;     /* bytes of `rest` that went through the window */
    bool is_bad;
    uint8_t window[CURSOR_WINDOW];
};

/* Over memory. */
void cursor_memory(struct cursor *c, struct bytes b);

/* Over an extent from an offset in it on. */
void cursor_extent(struct cursor *c, const struct extent *e, uint64_t offset);

/* For the functions below: more bytes into the window. False at the end. */
bool cursor_refill(struct cursor *c);
uint64_t cursor_slow(struct cursor *c, unsigned n);

/* A number of n bytes, 8 at most. */
static inline uint64_t cursor_fixed(struct cursor *c, unsigned n)
{
    uint64_t value = 0;
    if ((size_t)(c->end - c->p) < n)
        return cursor_slow(c, n);
    memcpy(&value, c->p, n);
    c->p += n;
    return value;
}

static inline uint8_t cursor_u8(struct cursor *c)
{
    if (c->p == c->end && !cursor_refill(c))
        return 0;
    return *c->p++;
}

/* LEB128 (DWARF 5, section 7.6); bits above 64 are dropped. */
static inline uint64_t cursor_uleb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (!(byte & 0x80))
            return value;
    }
}

static inline int64_t cursor_sleb(struct cursor *c)
{
    uint64_t value = 0;
    for (unsigned shift = 0;; shift += 7) {
        uint8_t byte = cursor_u8(c);
        if (shift < 64)
            value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte & 0x80)
            continue;
        if (shift + 7 < 64 && (byte & 0x40))
            value |= UINT64_MAX << (shift + 7);
        return (int64_t)value;
    }
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
