/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names closed windows and makes requests of them (or the text of --print) on a thread of its own, so that
 * nothing that is slow there, a huge file's debug information or a disk that is away, keeps samples waiting
 * in the ring buffer.
 *
 * There are two windows: one that samples are added to, the collector's, and one that is named, here. What is
 * handed over is handed over whole (window.h), and bytes come back. While one is being named the other goes
 * on: it becomes longer, and nothing is lost.
 *
 * All functions are the loop's thread's.
 */
#ifndef SENDER_RUN_NAMER_H
#define SENDER_RUN_NAMER_H

#include <stdio.h>

#include "sender/collect/collector.h"
#include "sender/collect/naming.h"
#include "sender/collect/request.h"

struct io_loop;
struct namer;

/* What became of a window. */
struct namer_result {
    int result;        /* 0 or -errno: why it was not, or not all, named and sent */
    uint64_t lost;     /* samples that are in no request, though they should */
    uint64_t unwanted; /* that rules left out */
    uint64_t took_ns;
};

struct namer_options {
    struct io_loop *loop;
    const struct procs *procs; /* the collector's; must outlive it */
    struct kernel_options kernel;
    struct bytes vdso;
    struct words *words; /* the collector's */
    struct binaries_options binaries;
    FILE *print; /* where text goes instead of requests; NULL: requests */
    /* All are called on the loop. A request: the bytes in *out may be taken, and are freed if not. */
    void (*request)(void *user, struct buffer *out, uint64_t hits);
    /* After all requests of a window: another one can begin. It is cleared. */
    void (*done)(void *user, const struct namer_result *result);
    void *user;
};

/* Starts the thread. 0 or -errno. */
int namer_new(struct namer **ret, const struct namer_options *options);

/* Ends the thread; not while it is busy. */
void namer_stop(struct namer *n);

/* Frees, when it was stopped and the loop, which a post of the thread's may wait in, is freed; before the
 * collector is released. Returns NULL; NULL is fine. */
struct namer *namer_free(struct namer *n);

/* Whether a window is being named: until `done`. */
bool namer_is_busy(const struct namer *n);

/* Takes the collector's window (collector_take) to be named, and sent with these facts, whose slices must
 * stay. Not while it is busy. */
void namer_begin(struct namer *n, struct collector *c, const struct request_facts *facts);

/* As of the last window that was done. */
const struct naming_counts *namer_counts(const struct namer *n);

#endif
