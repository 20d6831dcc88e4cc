/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a process has code: the executable regions of its /proc/PID/maps (proc_pid_maps(5)).
 *
 * The paths in it are chosen by the process being profiled: nothing in them is trusted.
 */
#ifndef SENDER_PROCS_MAPS_H
#define SENDER_PROCS_MAPS_H

#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/vec.h"

struct region {
    uint64_t start, end; /* addresses in the process, end is the first one behind */
    uint64_t offset;     /* of start in the file */
    uint64_t inode;      /* 0: no file behind it */
    uint32_t major, minor;
    uint32_t tag;      /* the reader's own remark, 0 at first; procs does not look at it */
    struct bytes path; /* "", "[vdso]", "/usr/bin/x", "/tmp/y (deleted)", …; NUL-terminated */
};

struct maps {
    VEC(struct region) regions; /* ascending, apart from each other */
    struct arena text;
    uint64_t
        context; /* where a process context is (OTEP 4719): the region named OTEL_CTX; 0: there is none */
};

/* More executable regions than real programs have (a JVM: ~200; vm.max_map_count allows 65,530 of all kinds).
 * The rest is left out: its addresses stay unnamed. */
#define MAPS_REGIONS_MAX 8192u
/* As much of the file as is read: 65,530 lines of ~100 bytes, doubled. */
#define MAPS_BYTES_MAX (13u << 20)
/* A longer line (a path may have 4095 bytes, escaped up to four times that) is skipped. */
#define MAPS_LINE_MAX 20000u

/* Takes one line without its newline. 1: a region was added; 0: not executable, malformed, out of order or
 * over the limit, and skipped; -ENOMEM. */
int maps_line(struct maps *m, struct bytes line);

/* What is read of a process whose user has no allowance left: 600 lines or so, or regions of code. */
#define MAPS_BYTES_FREE   (64u << 10)
#define MAPS_REGIONS_FREE 600u

/* Reads a maps file from a descriptor, its first `max` bytes, in place of what *m holds. 0 or -errno. */
int maps_read(struct maps *m, int fd, size_t max);

/* Asks the kernel for the one region of code at an address, by the descriptor of a maps file (PROCMAP_QUERY,
 * Linux 6.11): a few microseconds, however many regions there are. Of paths it tells "[vdso]" alone. 0;
 * MAPS_NONE: there is no code; MAPS_GONE: there is no process any more; MAPS_CANNOT: not this kernel; or
 * -errno. */
#define MAPS_NONE   1
#define MAPS_GONE   2
#define MAPS_CANNOT 3
int maps_query(int fd, uint64_t address, struct region *ret);

/* Asks likewise for all regions of code, `max` at most, in place of what *m holds; whether there is a context
 * it does not say. Half to a fifth of what reading the text costs. 0; MAPS_GONE, MAPS_CANNOT; or -errno. */
int maps_read_code(struct maps *m, int fd, uint32_t max);

/* What of a process's mappings is read. */
struct maps_wish {
    bool for_code;    /* all regions of code by queries, if this kernel can */
    uint32_t regions; /* at most: then; */
    size_t bytes;     /* else of the text */
    bool has_read;    /* returned: the text was read, which tells of a context, too */
    int64_t cost;     /* returned: ns of CPU time */
};

/* Reads those of /proc/PID/maps, a `user`'s process, in place of what *m holds, by an errand (errand.h): who
 * holds a process's lock keeps nobody waiting. 0, MAPS_GONE, or -errno. Any thread. */
int maps_get(struct maps *m, const char *path, struct maps_wish *wish, uint32_t user);

/* A question of maps_query, and what came of it. */
struct maps_asked {
    uint64_t address;
    int found;
    struct region region;
};
#define MAPS_ASK_MAX 16u

/* Has n of them answered likewise, by one errand; MAPS_ASK_MAX at most. *fd: of the process's maps, -1 to
 * have them opened; it is the caller's. 0, or -errno: nothing was asked. */
int maps_ask(int *fd, uint32_t pid, uint32_t user, struct maps_asked *asked, uint32_t n);

/* Moves all into one piece of memory of just the size: for maps that are kept. No line may be added behind
 * it; reading anew is fine. When memory is out it stays as it is. The size, which maps_size tells before. */
size_t maps_pack(struct maps *m);
size_t maps_size(const struct maps *m);

/* The region an address is in, or NULL. */
struct region *maps_find(const struct maps *m, uint64_t address);

/* Whether the program's C library is musl, which has thread-local storage otherwise than glibc (libc.so.6):
 * it is its dynamic linker, too, under one of three names. */
bool maps_have_musl(const struct maps *m);

/* Frees what *m holds; zeroed or released maps may be used again. */
void maps_release(struct maps *m);

#endif
