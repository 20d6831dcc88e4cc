/*
 * The processes that were sampled: who they are, and where they have code. Read from /proc at first sight and
 * kept by (pid, start time, which program), so that a reused pid or an execve is another process.
 *
 * One thread.
 */
#ifndef SENDER_PROCS_PROCS_H
#define SENDER_PROCS_PROCS_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/procs/maps.h"

struct process {
    uint32_t pid;
    uint32_t namespace_pid; /* the same, in its own pid namespace; pid if not known */
    uint64_t start;         /* ns since boot */
    uint64_t serial;        /* never given twice */
    bool is_kernel;         /* a kernel thread: no user memory */
    bool is_gone;           /* /proc did not know it any more at first sight */
    struct bytes path;      /* of the executable; "" if not known */
    struct bytes name;      /* its last element; of a process that could not be seen: the thread's name */
    struct bytes container_id;
    struct bytes service_name; /* OTEL_SERVICE_NAME in its environment; "" if none */
    struct maps maps;

    /* private */
    struct arena text;
    bool is_loaded;
    uint64_t used;        /* last visit */
    uint64_t maps_tried;  /* last reading of maps */
    struct process *next; /* of the same hash slot; of the retired ones */
    char told[];          /* the path execve was told: most short-lived processes need no more memory */
};

struct procs;

/* Processes held at most; beyond it a new one is refused. A host's pid_max is 32,768 or more, but only those
 * that run within a minute are held. */
#define PROCS_MAX 16384u
/* A process is forgotten when it was not sampled for this long. */
#define PROCS_IDLE_NS 60000000000u
/* Regions are read again at most this often a process, when code runs outside the known ones (dlopen, JIT).
 */
#define PROCS_REFRESH_NS 100000000u

/* `root` is "/proc", or a folder that looks like it. NULL when memory is out. */
struct procs *procs_new(const char *root);
struct procs *procs_free(struct procs *p); /* returns NULL */

/* The process of a sample, read from /proc if it is new. NULL when memory or PROCS_MAX is out. Valid until
 * procs_sweep. */
struct process *procs_get(struct procs *p, uint32_t pid, uint64_t start, const char *comm, bool is_kernel,
                          uint64_t now);

/* Notes an execve: the process is another one from now on, its program being `path`. */
void procs_exec(struct procs *p, uint32_t pid, uint64_t start, const char *path, uint64_t now);

/* The region of an address. Reads the maps again, within PROCS_REFRESH_NS, when it is in none and
 * `may_refresh`. */
struct region *procs_region(struct procs *p, struct process *process, uint64_t address, bool may_refresh,
                            uint64_t now);

/* Opens the file behind a region: through map_files, which finds deleted and replaced files and needs
 * CAP_CHECKPOINT_RESTORE (or CAP_SYS_ADMIN), else by its path as the process sees it, else as we see it, if
 * inode and type agree. A descriptor (O_RDONLY, the caller's) or -errno. */
int procs_open_region(const struct procs *p, const struct process *process, const struct region *region);

/* Opens the process's /tmp/perf-PID.map, as it sees /tmp, else ours. A descriptor or -errno. */
int procs_open_perf_map(const struct procs *p, const struct process *process);

/* Frees processes that were replaced, or not sampled for PROCS_IDLE_NS: between windows, when no one points
 * at any. */
void procs_sweep(struct procs *p, uint64_t now);

uint32_t procs_count(const struct procs *p);

#endif
