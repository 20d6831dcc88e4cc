/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of names: for each file, as of its last change, the ranges of addresses known so far, under one
 * limit of memory for all. What was not used for longest leaves first.
 */
#ifndef SENDER_SYMBOLIZE_CACHE_NAMES_H
#define SENDER_SYMBOLIZE_CACHE_NAMES_H

#include "sender/symbolize/cache/places.h"
#include "sender/symbolize/cache/ranges.h"

/* Sets held: as many as there may be files, and as many again that no process runs just now. */
#define NAMES_SETS_MAX 4096u
/* Which file it is, in the words of who opens a set. */
#define NAMES_KEY_MAX 72u

struct names_set {
    uint8_t key[NAMES_KEY_MAX];
    uint32_t key_n, users;
    uint64_t used; /* the window it was used in last */
    struct ranges ranges;
    uint64_t debug;    /* the separate debug file they are from, as who opened it has it; 0: none */
    bool may_stay;     /* its key means the same at the next start (stored.h) */
    bool is_new;       /* something was found since it was written */
    bool is_unchecked; /* it was read: whether there is another debug file now is not known yet */
};

struct names {
    struct places places;
    struct names_set *set[NAMES_SETS_MAX]; /* the first n */
    uint32_t n;
    uint64_t window, evicted;
};

/* The set of a key, made if it is new, with one user more. NULL: memory or NAMES_SETS_MAX is out. */
struct names_set *names_open(struct names *n, struct bytes key);

/* One user less; the set stays for when the file comes back. NULL is fine. */
void names_close(struct names_set *set);

size_t names_memory(const struct names *n);

/* Ends a window: while all take more than `max` bytes, the sets not used for longest are emptied. */
void names_sweep(struct names *n, size_t max);

void names_release(struct names *n);

#endif
