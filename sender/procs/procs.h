/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The processes that were sampled: who they are, and where they have code. Read from /proc at first sight and
 * kept by (pid, start time, which program), so that a reused pid or an execve is another process.
 *
 * One thread; but another one may read, of a process that is held, what does not change once it was sampled,
 * and open its files.
 */
#ifndef SENDER_PROCS_PROCS_H
#define SENDER_PROCS_PROCS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "sender/foreign/allowance.h"
#include "sender/procs/identity.h"
#include "sender/procs/maps.h"
#include "sender/procs/wishes.h"

struct process {
    /* What does not change from the first sample on. */
    uint32_t pid;
    uint32_t namespace_pid; /* the same, in its own pid namespace; pid if not known */
    uint64_t start;         /* ns since boot */
    uint64_t serial;        /* never given twice */
    bool is_kernel;         /* a kernel thread: no user memory */
    bool is_gone;           /* /proc did not know it any more at first sight */
    struct bytes path;      /* of the executable; "" if not known */
    struct bytes name;      /* its last element; of a process that could not be seen: the thread's name */
    struct bytes container_id;
    uint32_t parent; /* UINT32_MAX: not known */
    /* What does. */
    atomic_uint user;          /* its real one, who may be another than began it; UINT32_MAX: not known */
    atomic_uint thread;        /* one of its threads, that was sampled last */
    uint64_t published;        /* when the process context that was read was; 0: there is none */
    struct bytes service_name; /* what it calls itself (or its parent did); "" if nothing */
    struct identity *identity; /* all that it says of itself, another one when that changes; NULL: nothing */
    struct maps maps;
    /* The reader's own remarks, 0 at first; procs does not look at them. */
    uint64_t placed;   /* the `published` for which thread contexts were looked for */
    uint64_t place_at; /* when to look again; 0: they were found */
    uint64_t place_in;
    uint32_t in_window; /* its index there */
    /* The remarks of who names frames, on a thread of its own: of which runtime it has had some. */
    const char *runtime_name; /* NULL: of none yet */
    char runtime_version[32];

    /* private */
    struct process_text *texts;
    uint32_t held;
    uint32_t account; /* whose it is among all that are held */
    size_t maps_size;
    bool is_loaded;
    bool is_kept_back;    /* its environment could not be read yet */
    bool is_rounded;      /* start is that of its clock tick */
    uint64_t used;        /* last visit */
    uint64_t identify_at; /* when to look again whether it says more */
    uint64_t identify_in;
    uint64_t ended;        /* when its end was told; 0: not yet */
    uint64_t maps_tried;   /* last reading of maps */
    uint64_t maps_digest;  /* of what they said */
    uint64_t maps_in;      /* how long changes may wait to be looked at */
    uint32_t maps_changes; /* the kernel's count of them, as of that reading or before it; 0: not known */
    uint32_t changes_told, changes_read; /* the count told last, and what that was when they were read */
    struct process *next;                /* of the same hash slot; of the retired ones */
    char told[]; /* the path execve was told: most short-lived processes need no more memory */
};

struct procs;
struct process_text; /* a text of a process; see process.c */

/* Processes held at most. A host's pid_max is 32,768 or more, but only those that run within a minute are
 * held. A new one is refused whose user has as many as there is room for yet: one user has half of all, and
 * who comes after him half of the rest, so nobody takes it all. */
#define PROCS_MAX 16384u
/* What their mappings may take, which a process may make many, with paths of 4 KB, shared out likewise: of a
 * process whose find no room frames are known by the files that the walk in the kernel met. */
#define PROCS_MAPS_MAX (32u << 20)
/* A process is forgotten when it was not sampled for this long. */
#define PROCS_IDLE_NS 60000000000u
/* What is in the ring when a process ends is read within a quarter of a second; a wait that ends later than
 * its thread there is none. */
#define PROCS_ENDED_NS 2000000000u
/* Processes only told of, not sampled, are kept while they live, up to this many. */
#define PROCS_TOLD_MAX (PROCS_MAX / 2)
/* A program publishes what it is some time after it began: it is looked again after this long, then after
 * twice as long, … up to the longest. */
#define PROCS_IDENTIFY_NS     125000000u
#define PROCS_IDENTIFY_MAX_NS 64000000000u
/* One that began less than this ago has published nothing yet, most likely: its mappings, which are dear to
 * read, are read when a frame asks for them, or when it is looked again. */
#define PROCS_YOUNG_NS 50000000u
/* Regions are read again at most this often a process, when code runs outside the known ones (dlopen, JIT).
 */
#define PROCS_REFRESH_NS 100000000u
/* And when the kernel counts changes, which most often are of memory without code: after the shortest time,
 * after twice as long if no region was another, … up to the longest. */
#define PROCS_FOLLOW_MAX_NS 12800000000u

/* `root` is "/proc", or a folder that looks like it. NULL when memory is out. */
struct procs *procs_new(const char *root);
struct procs *procs_free(struct procs *p); /* returns NULL */

/* Says what else is to be read of processes seen from now on; the wishes' text stays the caller's. 0 or
 * -ENOMEM. */
int procs_wish(struct procs *p, const struct procs_wishes *wishes);

/* The process of a sample, which its thread `tid` was taken of, read from /proc if it is new. NULL when
 * memory is out, or the user's share of PROCS_MAX. Valid until procs_sweep, or while it is held. */
struct process *procs_get(struct procs *p, uint32_t pid, uint32_t tid, uint64_t start, const char *comm,
                          bool is_kernel, uint64_t now);

/* What the kernel side tells of a process, which nobody can keep from us and is no later one's of its pid. */
struct process_told {
    uint32_t user, parent;
    struct bytes environ; /* .p NULL: it is to be read */
};

/* Takes that of one that is new, in the first pid namespace: only the rest is read from /proc. */
void procs_told(struct procs *p, uint32_t pid, uint32_t tid, uint64_t start, const char *comm,
                const struct process_told *told, uint64_t now);

/* Whose folder below `root` has a process's executable, memory, mappings and environment: its own; that of
 * its thread `tid` where its first one has ended, and has none of them any more. */
uint32_t procs_folder(const char *root, uint32_t pid, uint32_t tid);

/* Notes an execve: the process is another one from now on, its program being `path`. */
void procs_exec(struct procs *p, uint32_t pid, uint64_t start, const char *path, uint64_t now);

/* Notes a fork: until it says otherwise the child is its parent's program, in its parent's container. */
void procs_fork(struct procs *p, uint32_t pid, uint64_t start, uint32_t parent, uint64_t parent_start,
                uint64_t now);

/* Notes that a process has ended: it is kept for PROCS_ENDED_NS, for what is under way, and forgotten. */
void procs_exit(struct procs *p, uint32_t pid, uint64_t start, uint64_t now);

/* Learns the programs of all processes alive, so that one that ends with its first sample has a name. 0 or
 * -errno. */
int procs_scan(struct procs *p, uint64_t now);

/* A sample tells how often the process's mappings had changed (not 0): maps that were read since need not be
 * read again. `asks`: it has frames that need them: reads them if that is more than when they were read,
 * within PROCS_REFRESH_NS … PROCS_FOLLOW_MAX_NS. So a library is not taken for the one that was loaded at its
 * address before. */
void procs_follow(struct procs *p, struct process *process, uint32_t changes, bool asks, uint64_t now);

/* The region of an address. Reads the maps again, within PROCS_REFRESH_NS, when it is in none and
 * `may_refresh`. */
struct region *procs_region(struct procs *p, struct process *process, uint64_t address, bool may_refresh,
                            uint64_t now);

/* Opens the file behind a region: through map_files, which finds deleted and replaced files and needs
 * CAP_CHECKPOINT_RESTORE (or CAP_SYS_ADMIN), else by its path as the process sees it, else as we see it, if
 * inode and type agree. A descriptor (O_RDONLY, the caller's) or -errno. */
int procs_open_region(const struct procs *p, const struct process *process, const struct region *region);

/* What reading for a process is charged to: its share of its user's. On the thread that has the procs. */
struct allowance *procs_allowance(struct procs *p, const struct process *process, uint64_t now);

/* Looks for the process context again, at most every PROCS_REFRESH_NS: what was read lacks something. */
void procs_identify(struct procs *p, struct process *process, uint64_t now);

/* Opens the process's memory (proc_pid_mem(5)). A descriptor (O_RDONLY, the caller's) or -errno. */
int procs_open_memory(const struct procs *p, const struct process *process);

/* Opens the process's /tmp/perf-PID.map, as it sees /tmp and itself, if it belongs to its effective user or
 * root: the folder is everybody's. A descriptor or -errno. Any thread. */
int procs_open_perf_map(const struct procs *p, const struct process *process);

/* One more who points at it, or one less; until procs_free. */
static inline struct process *process_hold(struct process *process)
{
    process->held++;
    return process;
}

static inline void process_let_go(struct process *process)
{
    process->held--;
}

/* Frees processes that were replaced, have ended, or were not sampled for PROCS_IDLE_NS, and that nobody
 * holds: every second or so, as what ends meanwhile is kept. */
void procs_sweep(struct procs *p, uint64_t now);

uint32_t procs_count(const struct procs *p);

#endif
