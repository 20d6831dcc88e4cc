/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What addresses mean, each distinct thing held once: texts, functions, and places (a function's line, and
 * those of the calls it is inlined through).
 */
#ifndef SENDER_SYMBOLIZE_CACHE_PLACES_H
#define SENDER_SYMBOLIZE_CACHE_PLACES_H

#include <stdint.h>

#include "proto/base/intern.h"

/* Lines of one place: the deepest of sender/symbolize/dwarf/dwarf.h and the function itself. */
#define PLACES_LINES_MAX 49u

/* All numbers are from 1; 0: none, or memory was out. */
struct place_function {
    uint32_t name, file; /* texts */
    uint32_t start_line;
};

struct place_line {
    uint32_t function, line;
};

struct places {
    struct intern text, functions, places;
    size_t bytes; /* all of it, about */
};

uint32_t places_text(struct places *p, struct bytes text);
uint32_t places_function(struct places *p, const struct place_function *function);

/* n lines, the innermost first; n is cut to PLACES_LINES_MAX. */
uint32_t places_add(struct places *p, const struct place_line *lines, uint32_t n);

struct bytes places_get_text(const struct places *p, uint32_t text);
struct place_function places_get_function(const struct places *p, uint32_t function);
const struct place_line *places_get(const struct places *p, uint32_t place, uint32_t *ret_n);

/* Takes a place over from another set; its number here. */
uint32_t places_move(struct places *p, const struct places *from, uint32_t place);

void places_release(struct places *p);

#endif
