/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What may never come back is done by another thread, in a process of its own that shares our memory and
 * descriptors. A process's owner decides how long whoever looks into it waits: a page of its memory, or a
 * lock that all need who ask for its mappings, its memory or its environment, may wait for a server of FUSE
 * that is its owner's own program, and no signal ends that. If who goes does not come back in time he is left
 * there, with what he was to bring.
 *
 *     struct errand first in what it needs and brings, by malloc
 *     if (errand_run(&mine->errand, user) == 0) … it is the caller's again
 */
#ifndef SENDER_FOREIGN_ERRAND_H
#define SENDER_FOREIGN_ERRAND_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/* How long it may wait for somebody. */
#define ERRAND_WAIT_NS 200000000u
/* So often it is looked whether it waits; and so long it may wait for a user for whom one was left. */
#define ERRAND_STEP_NS 10000000u
/* So many times ERRAND_WAIT_NS it may take if it is running, or would: on an overloaded machine a thread
 * waits for a processor, and that is nobody's doing. */
#define ERRAND_TURNS 10u
/* A user for whom one was left is known for so long, and while one is not back. Mostly it was nobody's doing,
 * either: a disk was slow, or who had the lock of one process had no processor; so they go on for his other
 * processes. Of a step that is waited for in vain nobody goes for so much longer; … */
#define ERRAND_REST_NS 30000000000u
#define ERRAND_OWED_NS 500000000u
/* … nor while so many are not back. */
#define ERRAND_OUT_MAX 8u
/* So many users are known to keep whom one sends; while they are, nobody goes for others than root. So all
 * users together keep a thread waiting for 200 ms nine times, and then for a sixth of the time. */
#define ERRAND_USERS 8u

struct errand {
    void (*go)(struct errand *e);     /* by the other thread; uses nothing but what is the errand's own */
    void (*forget)(struct errand *e); /* frees it; by any thread */
    int64_t cost;                     /* returned: ns of CPU time */
    /* What may keep who goes, of those of one user's: while one is not back nobody else goes there, so that a
     * single process, or a single server that is away, is one of those who are not. 0: it is not said. */
    uint64_t where;
    /* private */
    uint32_t user;
    bool is_back, is_left;
    struct errand *next;
};

/* As errand.where: the process whose folder of /proc a path leads to or through; 0: none. */
uint64_t errand_where(const char *path);

/* Likewise an open file; of a place (open.h) the device. */
uint64_t errand_where_open(int fd);

/* Has it done, with the calling thread's priority (nice). 0; or -ETIMEDOUT, -ENOMEM: it was not, and is the
 * caller's no more. `user`: for whose process. Any thread. */
int errand_run(struct errand *e, uint32_t user);

/* What each thread that goes does first: rights are a thread's own. Once, before the first one goes. */
void errand_begin(void (*begin)(void));

/* ns of CPU time that all took which were not left: our own process's time lacks it. */
uint64_t errand_spent(void);

/* Has others go from now on: a filter of system calls that was set since for all threads is theirs, too. */
void errand_renew(void);

/* By errands, of what belongs to a user's process: opens a path under /proc to be read (a descriptor or
 * -errno; `flags`: O_PATH, or 0); reads the beginning of one (how many bytes or -errno); and n bytes of an
 * open one, which may be a place (open.h), at an offset, or, -1, what comes next at once. */
int errand_open(const char *path, int flags, uint32_t user);
ssize_t errand_read_path(const char *path, void *to, size_t n, uint32_t user);
ssize_t errand_pread(int fd, void *to, size_t n, off_t at, uint32_t user);

/* Whether a descriptor is a place (O_PATH), which nobody but an errand reads. */
bool errand_is_place(int fd);

#endif
