/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The strings a matcher has met, numbered; and what patterns say of each: asked once, remembered by number.
 */
#ifndef RULES_MATCH_STRINGS_H
#define RULES_MATCH_STRINGS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/base/idmap.h"
#include "proto/base/vec.h"
#include "rules/match/memory.h"
#include "rules/match/tuples.h"
#include "rules/program/lowered.h"

/* Bounds; reached, everything is forgotten between requests. */
#define RULES_STRINGS_MAX      (1u << 18) /* distinct strings: 40 times what the captures have in all */
#define RULES_STRING_BYTES_MAX (32u << 20)

/* Strings are known by a 64-bit XXH3 under the process's seed, and their length: nobody can prepare two that
 * share it, and by chance it does not happen (2^18 strings: one in 10^9). So a known string's bytes are read
 * once, to hash them. */
struct string_slot {
    uint64_t hash;
    uint32_t length; /* its low 32 bits */
    uint32_t id;     /* + 1; 0 is free */
};

/* What a domain's pattern set says: strings of one class have the same row of bits. */
struct string_domain {
    VEC(uint32_t) class; /* [string]; 0: not asked yet */
    struct tuples rows;  /* class c is row c - 1; class 0 is "none" */
};

struct match_strings {
    const struct rules_program *p;
    struct match_memory *memory;
    uint64_t seed;
    VEC(struct string_slot) slots; /* a power of two of them, at most half full */
    VEC(struct bytes) texts;       /* [string] */
    VEC(uint32_t) libraries;       /* [string of a mapping] + 1; 0: not asked yet */
    struct arena arena;
    uint64_t bytes;
    struct string_domain *domains; /* [domain] */
    struct idmap captures;         /* regex, string → string */
    struct pattern_scratch scratch;
    uint64_t *row; /* the widest of any domain */
};

/* `s` is zeroed. The program and the memory must outlive it. 0 or -ENOMEM; release also after a failure. */
int match_strings_init(struct match_strings *s, const struct rules_program *p, struct match_memory *memory);
void match_strings_clear(struct match_strings *s); /* forgets all strings */
void match_strings_release(struct match_strings *s);
bool match_strings_full(const struct match_strings *s); /* past its bounds */

/* The number of a string. RULES_NONE: no memory. */
uint32_t match_strings_add(struct match_strings *s, struct bytes text);

/* The same in two steps, for whoever has several: the hash of each, by which its place is fetched, then each.
 */
static inline uint64_t match_strings_hash(const struct match_strings *s, struct bytes text)
{
    uint64_t hash = hash_bytes(text, s->seed);
    if (likely(s->slots.n > 0))
        __builtin_prefetch(&s->slots.p[(uint32_t)hash & (s->slots.n - 1)]);
    return hash;
}
uint32_t match_strings_add_hashed(struct match_strings *s, struct bytes text, uint64_t hash);
static inline uint32_t match_strings_hashed(struct match_strings *s, struct bytes text, uint64_t hash)
{
    if (likely(s->slots.n > 0)) {
        uint32_t mask = s->slots.n - 1, i = (uint32_t)hash & mask;
        i = (i + (s->slots.p[i].hash != hash)) & mask; /* one in five is in the next, as good as by chance */
        const struct string_slot *slot = &s->slots.p[i];
        if (likely(slot->hash == hash && slot->length == (uint32_t)text.n && slot->id != 0))
            return slot->id - 1;
    }
    return match_strings_add_hashed(s, text, hash);
}

/* Valid until they are forgotten. */
static inline struct bytes match_strings_text(const struct match_strings *s, uint32_t string)
{
    return s->texts.p[string];
}

/* Of a mapping's file name, the part after the last '/'. RULES_NONE of RULES_NONE. */
uint32_t match_strings_library(struct match_strings *s, uint32_t mapping);

/* What regex `regex` of the program captures in a string. RULES_NONE of RULES_NONE, where it does not match,
 * and when memory is out. */
uint32_t match_strings_capture(struct match_strings *s, uint32_t regex, uint32_t string);

/* The class of a string in a domain: 0 of RULES_NONE, and when memory is out. */
uint32_t match_strings_ask(struct match_strings *s, uint32_t domain, uint32_t string);
static inline uint32_t match_strings_class(struct match_strings *s, uint32_t domain, uint32_t string)
{
    const struct string_domain *d = &s->domains[domain];
    if (likely(string < d->class.n && d->class.p[string] != 0)) /* so it is not RULES_NONE */
        return d->class.p[string];
    return match_strings_ask(s, domain, string);
}

/* Whether predicate `bit` of a domain's pattern set holds of a string; false of RULES_NONE. */
bool match_strings_bit(struct match_strings *s, uint32_t domain, uint32_t string, uint32_t bit);

#endif
