/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brings files and their pages into the tables, as they are asked for: opens, compiles, checks that they are
 * what their key says, keeps count.
 *
 * One thread uses it; the counts may be read by any.
 */
#ifndef SENDER_UNWIND_LOADER_H
#define SENDER_UNWIND_LOADER_H

#include <pthread.h>

#include "sender/foreign/allowance.h"
#include "sender/unwind/tables.h"

/* Files held open while one page after the other of them is asked for; closed by loader_rest. */
#define LOADER_OPEN_MAX 16u

struct loader_counts {
    uint64_t files;      /* made known */
    uint64_t without;    /* of these, without frame information */
    uint64_t loaded;     /* pages whose rows went into the tables */
    uint64_t failed;     /* no memory, no room, or changed while they were read */
    uint64_t unpaid;     /* times a file or page was refused because its user's allowance was spent */
    uint64_t damaged;    /* functions whose frame information makes no sense */
    uint64_t compile_ns; /* CPU time it took */
    struct tables_counts tables;
};

/* A file as it is asked for. */
struct loader_file {
    const struct unwind_key *key;
    uint32_t user; /* who is charged, for the reading and for the room */
    int (*open)(
        void *of); /* a descriptor of it, the loader's then; or -errno. Called if its bytes are needed */
    void *of;
};

/* A file that found no room, or could not be read, is not looked at again for this long. */
#define LOADER_REFUSED_NS  10000000000u
#define LOADER_REFUSED_MAX 16u

struct loader_refused {
    struct unwind_key key;
    uint64_t when;
};

struct loader_open {
    struct unwind_key key;
    int fd; /* -1: memory */
    struct source source;
    struct rows_file *rows; /* NULL: this place is free, or the file is none of ours */
    uint64_t used;
};

struct loader {
    struct tables *tables;
    /* Whose code a file has: enum runtime_tag; NULL: native's. The owner's. */
    uint32_t (*recognise)(void *user, int fd, const struct source *source);
    /* A file has got this serial. `fd` -1: it is in memory, or nothing of it could be read. The owner's; may
     * be NULL. */
    void (*known)(void *user, uint32_t serial, const struct unwind_key *key, int fd);
    void *user; /* of both */
    struct loader_open open[LOADER_OPEN_MAX], memory;
    uint64_t turn;
    struct loader_refused refused[LOADER_REFUSED_MAX]; /* a ring */
    uint32_t next_refused;
    struct ledger ledger; /* what reading files may cost whom */
    struct rows rows;     /* of the page being compiled */
    pthread_mutex_t lock; /* of counts */
    struct loader_counts counts;
};

/* `tables` stays the caller's, and must outlive it. */
void loader_init(struct loader *l, struct tables *tables);
void loader_release(struct loader *l);

/* Conditions, beside TABLES_LATER. */
#define LOADER_GONE    3 /* nobody can open it any more, or it is another one by now */
#define LOADER_REFUSED 4 /* it failed lately, or the user has no allowance left to have it read */

/* Makes a file known, if it is not. What is no ELF file of ours, or has no frame information, is noted as
 * having none, so that nobody asks again. May wait for room, a few TABLES_GRACE_NS. 0; TABLES_LATER: no room
 * came free meanwhile; LOADER_GONE; LOADER_REFUSED; or -errno: -ENOSPC if all the room is in use. */
int loader_add(struct loader *l, const struct loader_file *file);

/* The same for an ELF file in memory, which must stay: of one. */
int loader_add_memory(struct loader *l, const struct unwind_key *key, struct bytes elf);

/* The rule for an offset of a file, which becomes known, as its page, if it is not. As loader_add. */
int loader_rule(struct loader *l, const struct loader_file *file, uint64_t offset, struct unwind_rule *ret);

/* Closes what is open: before a while in which nothing is asked for. */
void loader_rest(struct loader *l);

struct loader_counts loader_counts(struct loader *l);

#endif
