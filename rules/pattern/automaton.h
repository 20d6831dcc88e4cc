/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A set of literal byte strings looked for all at once: Aho-Corasick, as one dense table over byte classes.
 *
 * Bytes meet it with ASCII case folded, so that one automaton serves case-sensitive and case-insensitive
 * atoms alike; who cares about case compares the bytes of the hit. Immutable once built: any thread may
 * search.
 */
#ifndef RULES_PATTERN_AUTOMATON_H
#define RULES_PATTERN_AUTOMATON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

#define AUTOMATON_END UINT32_MAX

struct automaton_literal {
    struct bytes text; /* at least one byte */
    uint32_t tag;      /* what a hit is reported as */
};

struct automaton_output {
    uint32_t tag;
    uint32_t length; /* of the literal */
    uint32_t next;   /* another output of the same node, or AUTOMATON_END */
};

struct automaton {
    uint16_t class_of[256]; /* of a byte, case folded; 0: a byte of no literal */
    uint32_t n_classes, n_nodes;
    uint32_t *next; /* [node × n_classes + class] where the next node's row begins, × 2, + 1 if a literal ends
                       there; node 0 is the start */
    uint32_t *output; /* a node's first output, or AUTOMATON_END */
    uint32_t *suffix; /* the longest proper suffix of a node that has outputs, or 0 */
    struct automaton_output *outputs;
};

static inline uint8_t automaton_fold(uint8_t c)
{
    return c >= 'A' && c <= 'Z' ? (uint8_t)(c + 32) : c;
}

/* The table would pass the bytes it may take. */
#define AUTOMATON_TOO_LARGE 1

/* Builds into *ret. 0, -ENOMEM, or AUTOMATON_TOO_LARGE. n = 0 gives an automaton without hits. */
int automaton_init(struct automaton *ret, const struct automaton_literal *literals, uint32_t n,
                   size_t max_bytes);
void automaton_release(struct automaton *a);
size_t automaton_bytes(const struct automaton *a);

/* One byte on, from 0 at the start. Where automaton_hits says so, literals end here: walk
 * for (n = automaton_node(a, at); n; n = a->suffix[n]) outputs of a->output[n]. */
static inline uint32_t automaton_step(const struct automaton *a, uint32_t at, uint8_t byte)
{
    return a->next[(at >> 1) + a->class_of[byte]];
}
static inline bool automaton_hits(uint32_t at)
{
    return at & 1;
}
static inline uint32_t automaton_node(const struct automaton *a, uint32_t at)
{
    return (at >> 1) / a->n_classes;
}

#endif
