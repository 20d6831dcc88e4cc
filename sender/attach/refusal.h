/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Why this machine does not let us profile, in words a person can act on.
 */
#ifndef SENDER_ATTACH_REFUSAL_H
#define SENDER_ATTACH_REFUSAL_H

/* `doing` of user probes, which take more than the rest. */
#define REFUSAL_PROBES "probing functions"
/* How that of a counter begins, which a machine may not have; its name follows. */
#define REFUSAL_COUNTER "opening the counter "

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

/* What the answer depends on. */
struct refusal_facts {
    uint64_t capabilities;   /* effective, bit CAP_x (linux/capability.h) */
    int perf_event_paranoid; /* kernel.perf_event_paranoid */
    bool has_sys;            /* /sys is mounted */
    bool has_btf;            /* /sys/kernel/btf/vmlinux can be read */
    bool has_lockdown;       /* kernel lockdown "confidentiality": BPF may not read kernel memory */
    uint64_t memlock;        /* RLIMIT_MEMLOCK where BPF is charged to it, else UINT64_MAX */
    char release[65];        /* of the kernel */
};

/* Asks the system. What cannot be read is taken for granted. */
void refusal_facts(struct refusal_facts *ret);

/* The effective capabilities in the text of /proc/PID/status, or 0. */
uint64_t refusal_capabilities(struct bytes status);

/* Puts into *e what `doing` failed with (r, -errno) and what is missing for it. `detail` is the loader's own
 * last words, or "". */
void refusal_explain(const struct refusal_facts *facts, const char *doing, int r, const char *detail,
                     struct error *e);

#endif
