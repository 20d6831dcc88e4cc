/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is sampled: the kinds of samples, each of which becomes a profile of its own, with its type and unit.
 *
 * A kind's place in the table is its number in records (enum sample_source, bpf/sample.h).
 */
#ifndef SENDER_ATTACH_KINDS_H
#define SENDER_ATTACH_KINDS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/sample.h"
#include "proto/base/error.h"

enum kind_how {
    KIND_OFF,
    KIND_CLOCK, /* ticks of each CPU's clock */
    KIND_WAIT,  /* time off the CPU */
    KIND_BLOCK, /* latency of block devices */
    KIND_LOCK,  /* time waited for futexes */
    KIND_EVENT, /* a counter of the kernel's, or of the CPU's */
    KIND_PROBE, /* calls of a function in user space */
    KIND_ALLOC, /* bytes asked of an allocator */
};

struct kind {
    enum kind_how how;
    char type[64], unit[16];               /* without hyphens (rules/LANGUAGE.md §4, `on`) */
    char period_type[64], period_unit[16]; /* "": none */
    uint64_t period;
    double share; /* the probability a hit is taken with, 0 … 1; weights are divided by it */
    /* KIND_EVENT: perf_event_open(2) */
    uint32_t event_type;
    uint64_t event_config, rate; /* every so many, or so often a second */
    bool is_frequency;
    /* KIND_PROBE, KIND_ALLOC */
    const char *file, *symbol; /* the caller's */
};

struct kinds {
    struct kind at[SAMPLE_SOURCES];
    uint32_t n_others; /* in at[SAMPLE_FROM_OTHERS] … */
};

/* The clock alone, at `frequency` Hz. */
void kinds_init(struct kinds *k, uint32_t frequency);

/* Waits, of which `share` (above 0 … 1) are taken; 0: by their length, one in as much time waited as there is
 * between two samples of the clock. A profile's period says so. */
void kinds_add_wait(struct kinds *k, double share);
void kinds_add_block(struct kinds *k);
void kinds_add_lock(struct kinds *k);

/* "page-faults", "page-faults/100" (every hundredth), "cache-misses@97" (97 times a second and CPU), or a
 * number of the CPU's own: "r01c2". 0; -EINVAL, with *e for the user, if there is no such event, or more than
 * SAMPLE_OTHERS_MAX kinds. */
int kinds_add_event(struct kinds *k, const char *text, struct error *e);

/* "FILE:SYMBOL": its calls. `text` is cut in two in place, and kept. As above. */
int kinds_add_probe(struct kinds *k, char *text, struct error *e);

/* Bytes asked of the malloc family in `file` ("libc": our own C library's), one sample in `interval` bytes.
 */
int kinds_add_alloc(struct kinds *k, const char *file, uint64_t interval, struct error *e);

#endif
