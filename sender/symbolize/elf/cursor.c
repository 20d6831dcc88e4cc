/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/elf/cursor.h"

#include "proto/base/macros.h"

void cursor_memory(struct cursor *c, struct bytes b)
{
    c->at = reader_of(b);
    c->rest = (struct extent){.source = {.fd = -1}};
    c->taken = 0;
}

void cursor_extent(struct cursor *c, const struct extent *e, uint64_t offset)
{
    c->p = c->end = c->window;
    c->rest = *e;
    c->taken = 0;
    c->is_bad = offset > e->size;
    offset = min_of(offset, e->size);
    c->rest.at += offset;
    c->rest.size -= offset;
}

void cursor_refill(struct cursor *c)
{
    size_t left = reader_left(&c->at);
    memmove(c->window, c->p, left);
    size_t n = (size_t)min_of(c->rest.size, (uint64_t)(CURSOR_WINDOW - left));
    n = n ? source_read_some(&c->rest.source, c->rest.at, c->window + left, n) : 0;
    c->p = c->window;
    c->end = c->window + left + n;
    c->rest.at += n;
    c->rest.size = n ? c->rest.size - n : 0;
    c->taken += n;
}

struct bytes cursor_skip(struct cursor *c, uint64_t n)
{
    size_t here = (size_t)(c->end - c->p);
    if (n <= here) {
        struct bytes b = bytes_of(c->p, (size_t)n);
        c->p += n;
        return b;
    }
    n -= here;
    c->p = c->end;
    if (n > c->rest.size) {
        c->rest.size = 0;
        c->is_bad = true;
    } else {
        c->rest.at += n;
        c->rest.size -= n;
    }
    return bytes_of(NULL, 0);
}

struct bytes cursor_string(struct cursor *c)
{
    const uint8_t *end = c->p < c->end ? memchr(c->p, 0, (size_t)(c->end - c->p)) : NULL;
    if (!end) {
        while (cursor_u8(c) != 0)
            ;
        return bytes_of(NULL, 0);
    }
    struct bytes b = bytes_of(c->p, (size_t)(end - c->p));
    c->p = end + 1;
    return b;
}

bool extent_read(const struct extent *e, uint64_t offset, void *to, size_t n)
{
    return offset <= e->size && n <= e->size - offset && source_read(&e->source, e->at + offset, to, n);
}

size_t extent_string(const struct extent *e, uint64_t offset, char *to, size_t room)
{
    *to = 0;
    if (offset >= e->size)
        return 0;
    room = (size_t)min_of((uint64_t)room, e->size - offset + 1);
    return source_string(&e->source, e->at + offset, to, room);
}
