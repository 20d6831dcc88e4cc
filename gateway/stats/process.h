/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel says about this process (proc(5)).
 */
#ifndef GATEWAY_STATS_PROCESS_H
#define GATEWAY_STATS_PROCESS_H

#include <stdint.h>

struct process_facts {
    double cpu_seconds;             /* user and system, of all threads; /proc/self/stat fields 14, 15 */
    double start_seconds;           /* Unix time; field 22 and btime of /proc/stat */
    uint64_t resident_bytes;        /* field 24 */
    uint64_t virtual_bytes;         /* field 23 */
    uint64_t threads;               /* field 20 */
    uint64_t open_files, max_files; /* entries of /proc/self/fd, RLIMIT_NOFILE */
};

/* What cannot be read is 0. Any thread. */
void process_facts_read(struct process_facts *ret);

#endif
