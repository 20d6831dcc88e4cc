/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of generated code, by the perf maps of its processes (sender/symbolize/jit), kept from window to
 * window: a map that has not changed is only read for addresses that are new.
 *
 *     generated_note(g, process, address); …       of a window
 *     generated_settle(g, procs, ledger, now);
 *     generated_name(g, process, address);
 *     generated_next(g);
 *
 * One thread.
 */
#ifndef SENDER_COLLECT_GENERATED_H
#define SENDER_COLLECT_GENERATED_H

#include "proto/base/arena.h"
#include "proto/base/vec.h"
#include "sender/procs/procs.h"

/* Addresses held; what is above stays unnamed. */
#define GENERATED_MAX 65536u
/* Names held; when they pass it, or addresses half of theirs, all are forgotten and read again. */
#define GENERATED_TEXT_MAX (4u << 20)
/* What no sample was in for so many windows is forgotten. */
#define GENERATED_IDLE 12u

struct generated_code {
    const struct process *process; /* noted in this window; else not to be looked at */
    uint64_t serial;               /* the process's: never another's */
    uint64_t address;
    struct bytes name; /* .p NULL: none */
    uint32_t idle;     /* windows without a sample */
    bool is_known;     /* by the map as it is */
};

/* A map as it was read last. */
struct generated_map {
    uint64_t serial;
    int64_t size;
    struct timespec changed;
};

struct generated {
    VEC(struct generated_code) code; /* sorted by (serial, address) after generated_settle */
    VEC(struct generated_map) map;
    struct arena text;
    size_t text_n;
};

/* Notes an address of a process, which is held. */
void generated_note(struct generated *g, const struct process *process, uint64_t address);

/* Names what was noted, as far as the allowances of the processes' users go; the rest keeps the names it had,
 * or has none, and is asked for again. */
void generated_settle(struct generated *g, const struct procs *procs, struct ledger *ledger, uint64_t now);

/* .p NULL: it has none. */
struct bytes generated_name(const struct generated *g, const struct process *process, uint64_t address);

/* Ends a window. */
void generated_next(struct generated *g);

void generated_release(struct generated *g);

#endif
