#include "gateway/forward/pick.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/hash.h"

/* Kept between requests: tables of a large one (hotpath.md: 25,000 stacks) fit; a hostile one's do not stay.
 */
#define PICK_KEEP_WORDS (1u << 17)

/* semantic-conventions docs/general/profiles.md: which kind of code a frame belongs to. */
#define FRAME_TYPE "profile.frame.type"

static int make_room(struct pick *p, size_t words)
{
    if (words <= p->cap)
        return 0;
    pick_release(p);
    if (!budget_charge(p->budget, words * sizeof *p->words))
        return -ENOMEM;
    p->words = malloc(words * sizeof *p->words);
    if (!p->words) {
        budget_refund(p->budget, words * sizeof *p->words);
        return -ENOMEM;
    }
    p->cap = words;
    return 0;
}

void pick_release(struct pick *p)
{
    free(p->words);
    budget_refund(p->budget, p->cap * sizeof *p->words);
    p->words = p->keep = NULL;
    p->cap = 0;
}

void pick_trim(struct pick *p)
{
    if (p->cap > PICK_KEEP_WORDS)
        pick_release(p);
}

/* What an attribute adds to a location: its type's hash, or nothing. */
static void hash_attributes(const struct profiles *v, uint64_t seed, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->attribute.n; i++) {
        const struct attr_value *value = &v->attribute.value[i];
        ret[i] = 0;
        if (value->kind == ATTR_STRING && bytes_is(profiles_string(v, v->attribute.key[i]), FRAME_TYPE))
            ret[i] = hash_bytes(value->text, seed);
    }
}

/* 0: a function that says nothing. */
static void hash_functions(const struct profiles *v, uint64_t seed, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->function.n; i++) {
        struct bytes name = profiles_string(v, v->function.name[i]);
        if (name.n == 0)
            name = profiles_string(v, v->function.system_name[i]);
        ret[i] = 0;
        if (name.n > 0)
            ret[i] = hash_mix(hash_bytes(name, seed),
                              hash_bytes(profiles_string(v, v->function.filename[i]), seed)) |
                     1;
    }
}

static void hash_locations(const struct profiles *v, const uint64_t *attribute, const uint64_t *function,
                           uint64_t *ret)
{
    for (uint32_t i = 0; i < v->location.n; i++) {
        uint64_t h = 0;
        bool named = false;
        for (uint32_t k = v->location.attrs_at[i]; k < v->location.attrs_at[i + 1]; k++)
            h += attribute[v->attr_index.attribute[k]];
        for (uint32_t k = v->location.lines_at[i]; k < v->location.lines_at[i + 1]; k++) {
            uint64_t f = function[v->line.function[k]];
            if (f != 0)
                h = hash_mix(h, f);
            named |= f != 0;
        }
        ret[i] = named ? h : hash_mix(h, v->location.address[i]);
    }
}

static void hash_stacks(const struct profiles *v, const uint64_t *location, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->stack.n; i++) {
        uint64_t h = 0;
        for (uint32_t k = v->stack.locations_at[i]; k < v->stack.locations_at[i + 1]; k++)
            h = hash_mix(h, location[v->stack_location.location[k]]);
        ret[i] = h;
    }
}

static uint64_t hash_value(const struct attr_value *v, uint64_t seed)
{
    uint64_t bits = 0;
    switch (v->kind) {
    case ATTR_EMPTY: break;
    case ATTR_BOOL: bits = v->boolean; break;
    case ATTR_INT: bits = (uint64_t)v->integer; break;
    case ATTR_DOUBLE: memcpy(&bits, &v->real, sizeof bits); break;
    case ATTR_STRING:
    case ATTR_ARRAY:
    case ATTR_KVLIST:
    case ATTR_BYTES: bits = hash_bytes(v->text, seed); break;
    }
    return hash_mix(bits, v->kind);
}

static void hash_resources(const struct profiles *v, uint64_t seed, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->resource.n; i++) {
        ret[i] = 0;
        for (uint32_t k = v->resource.attrs_at[i]; k < v->resource.attrs_at[i + 1]; k++) {
            const struct attr *a = &v->key_value.attr[k];
            ret[i] += hash_mix(hash_bytes(a->key, seed),
                               hash_value(&a->value, seed)); /* a sum: order does not matter */
        }
    }
}

static void decide(struct pick *p, const struct profiles *v, const uint64_t *stack, const uint64_t *resource,
                   double share, uint64_t seed)
{
    uint64_t below = (uint64_t)ldexp(share, 64); /* share < 1, so it fits */
    for (uint32_t i = 0; i < v->profile.n; i++) {
        uint64_t pair[2] = {0, resource[v->scope.resource[v->profile.scope[i]]]};
        for (uint32_t k = v->profile.samples_at[i]; k < v->profile.samples_at[i + 1]; k++) {
            if (v->sample.stack[k] == PROFILES_REJECTED)
                continue;
            pair[0] = stack[v->sample.stack[k]];
            bool keep = hash_bytes(bytes_of(pair, sizeof pair), seed) < below;
            p->keep[k / 64] |= (uint64_t)keep << k % 64;
            p->kept += keep;
            p->thinned += !keep;
        }
    }
}

int pick_samples(struct pick *p, const struct profiles *view, double share, uint64_t seed)
{
    size_t n_keep = ((size_t)view->sample.n + 63) / 64;
    size_t words = n_keep + view->attribute.n + (size_t)view->function.n + view->location.n + view->stack.n +
                   view->resource.n;
    int r = make_room(p, words);
    if (r < 0)
        return r;
    p->keep = p->words;
    uint64_t *attribute = p->keep + n_keep, *function = attribute + view->attribute.n;
    uint64_t *location = function + view->function.n, *stack = location + view->location.n;
    uint64_t *resource = stack + view->stack.n;
    memset(p->keep, 0, n_keep * sizeof *p->keep);
    p->kept = p->thinned = 0;
    hash_attributes(view, seed, attribute);
    hash_functions(view, seed, function);
    hash_locations(view, attribute, function, location);
    hash_stacks(view, location, stack);
    hash_resources(view, seed, resource);
    decide(p, view, stack, resource, share, seed);
    return 0;
}
