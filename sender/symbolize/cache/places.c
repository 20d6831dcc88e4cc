/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/cache/places.h"

#include "proto/base/macros.h"

/* Of an entry beside its bytes: slice, hash, slot, rounding. */
#define ENTRY_BYTES 48u

static uint32_t add(struct places *p, struct intern *t, struct bytes b)
{
    uint32_t before = t->n, number = intern_add(t, b);
    if (number == INTERN_NONE)
        return 0;
    if (t->n > before)
        p->bytes += b.n + ENTRY_BYTES;
    return number + 1;
}

uint32_t places_text(struct places *p, struct bytes text)
{
    return text.n ? add(p, &p->text, text) : 0;
}

uint32_t places_function(struct places *p, const struct place_function *function)
{
    return add(p, &p->functions, bytes_of(function, sizeof *function));
}

uint32_t places_add(struct places *p, const struct place_line *lines, uint32_t n)
{
    n = min_of(n, PLACES_LINES_MAX);
    return n ? add(p, &p->places, bytes_of(lines, n * sizeof *lines)) : 0;
}

struct bytes places_get_text(const struct places *p, uint32_t text)
{
    return text ? intern_get(&p->text, text - 1) : BYTES_LIT("");
}

struct place_function places_get_function(const struct places *p, uint32_t function)
{
    struct place_function f = {0};
    if (function)
        memcpy(&f, intern_get(&p->functions, function - 1).p, sizeof f);
    return f;
}

const struct place_line *places_get(const struct places *p, uint32_t place, uint32_t *ret_n)
{
    struct bytes b = place ? intern_get(&p->places, place - 1) : bytes_of(NULL, 0);
    *ret_n = (uint32_t)(b.n / sizeof(struct place_line));
    return (const struct place_line *)b.p; /* arenas align to 16 */
}

uint32_t places_move(struct places *p, const struct places *from, uint32_t place)
{
    uint32_t n;
    struct place_line fresh[PLACES_LINES_MAX];
    const struct place_line *line = places_get(from, place, &n);
    for (uint32_t i = 0; i < n; i++) {
        struct place_function f = places_get_function(from, line[i].function);
        f.name = places_text(p, places_get_text(from, f.name));
        f.file = places_text(p, places_get_text(from, f.file));
        fresh[i] = (struct place_line){places_function(p, &f), line[i].line};
    }
    return places_add(p, fresh, n);
}

void places_release(struct places *p)
{
    intern_release(&p->text);
    intern_release(&p->functions);
    intern_release(&p->places);
    *p = (struct places){0};
}
