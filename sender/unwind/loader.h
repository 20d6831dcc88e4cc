/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings files into the tables: compiles them, checks that they are what their key says, keeps count.
 *
 * One thread uses it; the counts may be read by any.
 */
#ifndef SENDER_UNWIND_LOADER_H
#define SENDER_UNWIND_LOADER_H

#include <pthread.h>

#include "sender/unwind/tables.h"

struct loader_counts {
    uint64_t loaded;     /* files whose rows went into the tables */
    uint64_t without;    /* files that have no frame information */
    uint64_t failed;     /* no memory, no room, or changed while they were read */
    uint64_t damaged;    /* functions whose frame information makes no sense */
    uint64_t compile_ns; /* CPU time it took */
    struct tables_counts tables;
};

struct loader {
    struct tables *tables;
    uint32_t (*recognise)(int fd); /* whose code a file has: enum runtime_tag; NULL: native's. The owner's */
    pthread_mutex_t lock;          /* of counts */
    struct loader_counts counts;
};

/* `tables` stays the caller's, and must outlive it. */
void loader_init(struct loader *l, struct tables *tables);
void loader_release(struct loader *l);

/* Compiles the file and puts it into the tables; the descriptor stays the caller's. What is no ELF file of
 * ours, or has no frame information, is noted as having none, so that nobody asks again. May wait for room, a
 * few TABLES_GRACE_NS. 0; TABLES_LATER: no room came free meanwhile; or -errno: -ENOSPC if all the room is in
 * use. */
int loader_add(struct loader *l, const struct unwind_key *key, int fd);

/* The same for an ELF file in memory. */
int loader_add_memory(struct loader *l, const struct unwind_key *key, struct bytes elf);

struct loader_counts loader_counts(struct loader *l);

#endif
