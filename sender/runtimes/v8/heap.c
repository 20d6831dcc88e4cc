/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strings (v8: src/objects/string.h): the text in the object; outside of the heap; a part of another's;
 * another's; or two strings that were put together and still are two, of which each may be such ones.
 */
#include "sender/runtimes/v8/heap.h"

#include <string.h>

#include "proto/base/macros.h"

/* Bits of a string's instance type; binary.c compares them. */
#define REPRESENTATION 7u
#define IS_ONE_BYTE    8u
enum { SEQUENTIAL = 0, CONS = 1, EXTERNAL = 2, SLICED = 3, THIN = 5 };

#define CONS_FIRST_AT  16u
#define CONS_SECOND_AT 24u

#define STEPS_MAX  32 /* from one string to another */
#define PIECES_MAX 16

bool heap_field(const struct heap *h, uint64_t object, uint32_t offset, uint64_t *ret)
{
    return object & V8_TAG && source_read(h->memory, object - V8_TAG + offset, ret, sizeof *ret);
}

bool heap_type(const struct heap *h, uint64_t object, uint16_t *ret)
{
    uint64_t map;
    return heap_field(h, object, 0, &map) && map & V8_TAG &&
           source_read(h->memory, map - V8_TAG + h->place->map_type, ret, sizeof *ret);
}

bool heap_is(const struct heap *h, uint64_t object, uint16_t type)
{
    uint16_t is;
    return heap_type(h, object, &is) && is == type;
}

/* A string's instance type and length. */
static bool read_head(const struct heap *h, uint64_t string, uint16_t *type, uint32_t *n)
{
    return heap_type(h, string, type) && *type < HEAP_NO_STRING &&
           source_read(h->memory, string - V8_TAG + h->place->string_length, n, sizeof *n);
}

bool heap_text(const struct heap *h, uint64_t string, struct heap_text *ret)
{
    const struct v8_place *p = h->place;
    uint64_t skip = 0, value;
    uint32_t n = 0, n_all;
    uint16_t type;
    for (int i = 0; i < STEPS_MAX && read_head(h, string, &type, &n_all); i++) {
        bool is_wide = !(type & IS_ONE_BYTE);
        n = i == 0 ? n_all : n;
        if (skip > n_all || n > n_all - skip)
            return false;
        *ret = (struct heap_text){.n = n, .is_wide = is_wide};
        switch (type & REPRESENTATION) {
        case SEQUENTIAL:
            ret->at = string - V8_TAG + (is_wide ? p->two_byte : p->one_byte) + (skip << is_wide);
            return true;
        case EXTERNAL:
            if (!heap_field(h, string, p->external, &value))
                return false;
            ret->at = value + (skip << is_wide);
            return true;
        case SLICED:
            if (!heap_field(h, string, p->offset, &value) || !heap_field(h, string, p->parent, &string))
                return false;
            skip += heap_smi(value);
            break;
        case THIN:
            if (!heap_field(h, string, p->actual, &string))
                return false;
            break;
        case CONS: /* made one of: then the second is empty */
            if (!heap_field(h, string, CONS_SECOND_AT, &value) || !read_head(h, value, &type, &n_all) ||
                n_all != 0 || !heap_field(h, string, CONS_FIRST_AT, &string))
                return false;
            break;
        default: return false;
        }
    }
    return false;
}

/* Adds characters to UTF-8 of `n` bytes; a surrogate without the other becomes U+FFFD. How many bytes there
 * are. */
static size_t add_utf8(uint8_t *to, size_t n, const uint8_t *from, size_t n_characters, bool is_wide)
{
    for (size_t i = 0; i < n_characters; i++) {
        uint32_t c = from[i];
        if (is_wide) {
            uint16_t unit[2] = {0};
            memcpy(unit, from + 2 * i, i + 1 < n_characters ? 4 : 2);
            c = unit[0];
            if (c >= 0xd800 && c < 0xdc00 && unit[1] >= 0xdc00 && unit[1] < 0xe000) {
                c = 0x10000 + ((c - 0xd800) << 10) + (unit[1] - 0xdc00u);
                i++;
            }
        }
        n += bytes_put_utf8(to + n, c);
    }
    return n;
}

struct bytes heap_string(const struct heap *h, uint64_t string, struct arena *text)
{
    uint8_t raw[2 * V8_NAME_MAX], utf8[3 * V8_NAME_MAX];
    uint64_t waiting[PIECES_MAX] = {string};
    uint32_t n_waiting = 1, left = V8_NAME_MAX;
    size_t n = 0;
    for (int i = 0; i < STEPS_MAX && n_waiting > 0 && left > 0; i++) {
        struct heap_text piece;
        uint16_t type;
        uint32_t length;
        uint64_t at = waiting[--n_waiting];
        if (heap_text(h, at, &piece)) {
            uint32_t some = min_of(piece.n, left);
            if (!source_read(h->memory, piece.at, raw, (size_t)some << piece.is_wide))
                return bytes_of(NULL, 0);
            n = add_utf8(utf8, n, raw, some, piece.is_wide);
            left -= some;
        } else if (n_waiting + 2 > PIECES_MAX || !read_head(h, at, &type, &length) ||
                   (type & REPRESENTATION) != CONS ||
                   !heap_field(h, at, CONS_FIRST_AT, &waiting[n_waiting + 1]) ||
                   !heap_field(h, at, CONS_SECOND_AT, &waiting[n_waiting])) {
            return bytes_of(NULL, 0);
        } else {
            n_waiting += 2;
        }
    }
    return arena_copy(text, bytes_of(utf8, n));
}
