/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the table of processes (procs.c) and what is read of one of them (process.c) share.
 */
#ifndef SENDER_PROCS_PARTS_H
#define SENDER_PROCS_PARTS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "sender/foreign/allowance.h"
#include "sender/foreign/holdings.h"
#include "sender/procs/wishes.h"

struct maps;
struct process;
struct process_told;
struct users;

#define PROCS_SLOTS 1024u
/* As much of environ as is searched: the usual limit of a whole argument list (ARG_MAX). */
#define PROCS_ENVIRON_MAX  (128u * 1024)
#define PROCS_ENVIRON_FREE (8u * 1024) /* where its user's allowance is spent */
#define PROCS_TEXT_MAX     8192u       /* of status, stat, cgroup and cmdline */

/* Users have an account each, as holder_of (holdings.h) tells them apart; the last is that of processes whose
 * user is not known. */
#define PROCS_ACCOUNT_NOBODY HOLDERS
#define PROCS_ACCOUNTS       (HOLDERS + 1)

/* Of those refused lately so many are known, for whom nothing is asked again, until the next sweep. */
#define PROCS_REFUSED 4096u

struct procs {
    char *root;
    struct process *slot[PROCS_SLOTS];
    struct process *retired; /* replaced by an execve, and held */
    uint32_t n, n_of[PROCS_ACCOUNTS];
    size_t maps, maps_of[PROCS_ACCOUNTS]; /* what their mappings take */
    uint64_t refused[PROCS_REFUSED];      /* their starts, by pid; 0: none */
    bool has_refused;
    uint64_t serial;
    struct procs_wishes wishes;
    struct users *users; /* NULL: nobody asks for owners */
    uint8_t *environ; /* room for PROCS_ENVIRON_MAX of it: fresh memory for each process costs more than the
                         reading */
    struct ledger ledger;
    uint64_t tick_ns;    /* of /proc/PID/stat */
    int64_t boot_offset; /* of our time namespace, ns (time_namespaces(7)): /proc/PID/stat has it added */
};

/* The beginning of a file under root/PID, `room` bytes at most. */
struct bytes process_file(const struct procs *p, uint32_t pid, const char *name, uint8_t *to, size_t room);

/* The path in a link under /proc without what the kernel adds for a file that is gone. */
struct bytes process_path(struct bytes path);

/* Copies into the process's text; "" when memory is out, which leaves an attribute out. */
struct bytes process_keep(struct process *process, struct bytes b);

/* Whether root/PID is the same process, and not a later one with its number. */
bool process_is_same(const struct procs *p, const struct process *process);

/* Reads all that is known of a process at its first sample, but for what was told; NULL: nothing was. */
void process_load(struct procs *p, struct process *process, const char *comm, const struct process_told *told,
                  uint64_t now);

/* Reads its mappings again; what was known stays if that fails. `for_code`: whether there is a process
 * context among them does not matter now. */
void process_read_maps(struct procs *p, struct process *process, bool for_code, uint64_t now);

/* Keeps fresh mappings in place of those that were known, if they find room in its user's share of
 * PROCS_MAPS_MAX. They are the callee's. */
void procs_keep_maps(struct procs *p, struct process *process, struct maps *fresh);

/* Forgets its mappings. */
void procs_drop_maps(struct procs *p, struct process *process);

/* Looks whether a process context has appeared or changed, and whose process it is now. */
void process_identify_again(struct procs *p, struct process *process, uint64_t now);

void process_free(struct process *process);

#endif
