/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel side at work: the BPF programs loaded and attached, one clock event per CPU, and the ring buffer
 * read.
 */
#ifndef SENDER_ATTACH_SAMPLER_H
#define SENDER_ATTACH_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpf/sample.h"
#include "proto/base/error.h"
#include "sender/attach/kinds.h"
#include "sender/unwind/tables.h"

struct sampler;

struct sampler_options {
    uint32_t frequency; /* samples a second and CPU, 1 … SAMPLER_FREQUENCY_MAX */
    uint32_t only_pid;  /* 0: all processes */
    bool with_idle;     /* idle CPUs too, as pid 0 */
    /* What is sampled besides, or instead of, the clock; NULL: the clock alone. Must outlive the sampler. */
    const struct kinds *kinds;
    uint64_t wait_min_ns;    /* of waits (KIND_WAIT): shorter ones are counted only */
    bool wait_by_ticket;     /* as on kernels that lack sched_exit_tp */
    uint64_t lock_min_ns;    /* of KIND_LOCK, likewise */
    uint64_t probe_interval; /* bytes, of KIND_ALLOC */
    const char *trace_map;   /* where OBI's map of traces is pinned, or is to be; NULL: it is not asked */
    const struct filter_rule *rule;
    uint32_t n_rules; /* up to FILTER_RULES */
};

/* Whose samples are taken: excluded is who one exclude rule matches; of each `what` that has include rules
 * one must match. */
struct filter_rule {
    struct filter_key key;
    bpf_u32 verdict; /* FILTER_INCLUDE or FILTER_EXCLUDE */
};

/* Above this the profiler would be a load of its own; the kernel's kernel.perf_event_max_sample_rate may be
 * lower. */
#define SAMPLER_FREQUENCY_MAX 10000u

/* Condition: this machine or our rights do not allow it; *e says what is missing. */
#define SAMPLER_REFUSED 1

struct sampler_counts {
    uint64_t taken;                       /* samples, the lost ones included */
    uint64_t lost;                        /* records for which the ring buffer had no room */
    uint64_t busy;                        /* samples lost because the kernel side was interrupted by itself */
    uint64_t malformed;                   /* records that contradict themselves */
    uint64_t exec_lost;                   /* notices of an execve, likewise */
    uint64_t walks;                       /* of a process's mappings */
    uint64_t waits, waits_short, wait_ns; /* KIND_WAIT: all, those below the minimum, time of all */
    uint64_t locks, locks_short;          /* KIND_LOCK, likewise */
    uint64_t run_ns, runs;                /* of the BPF programs; 0 unless kernel.bpf_stats_enabled */
    uint64_t end[UNWIND_ENDS];            /* user stacks by how they ended */
};

/* What the ring holds. `address` is the n_kernel, then n_user addresses behind the head; behind them are
 * n_context bytes (sender/context/record.h). Valid during the call. */
struct sampler_handler {
    void (*stack)(void *user, const struct sample_head *head, const uint64_t *address);
    void (*exec)(void *user, const struct sample_head *head, const char *path);
    void *user;
    /* SAMPLE_VALUE, SAMPLE_FORK and SAMPLE_EXIT, by head->kind; NULL: nobody asks. */
    void (*notice)(void *user, const struct sample_head *head);
};

/* Loads, and attaches everything but the clocks. 0, SAMPLER_REFUSED, or -ENOMEM; *e set. */
int sampler_open(struct sampler **ret, const struct sampler_options *options,
                 const struct sampler_handler *handler, struct error *e);

/* Where the unwind tables are kept, for tables_new: the sampler's, which must outlive them. */
void sampler_tables(struct sampler *s, struct tables_backend *ret);

/* Hands each mapped executable file of each process to `file`, until that returns false. 0 or -errno. */
int sampler_files(struct sampler *s, bool (*file)(void *user, const struct sample_file *file), void *user);

/* The same of one process. From the thread of sampler_wants. */
int sampler_files_of(struct sampler *s, uint32_t pid,
                     bool (*file)(void *user, const struct sample_file *file), void *user);

/* The files the kernel side asks for. Unlike the rest, these two are for another thread, which may use them
 * until sampler_close. sampler_wants hands on what waits and returns how much, or -errno; the descriptor, the
 * sampler's, becomes readable when there is something. */
typedef void (*sampler_want_fn)(void *user, const struct sample_want *want);
int sampler_wants(struct sampler *s, sampler_want_fn want, void *user);
int sampler_wants_fd(const struct sampler *s);

/* Opens the clocks: samples come from now on. As sampler_open. */
int sampler_start(struct sampler *s, struct error *e);

/* Stops the clocks: what is in the ring can still be drained, and the counts do not move any more. */
void sampler_stop(struct sampler *s);

/* Detaches and frees; NULL is fine. Returns NULL. */
struct sampler *sampler_close(struct sampler *s);

/* Becomes readable when records should be taken before the next timed visit. Owned by the sampler. */
int sampler_fd(const struct sampler *s);

/* Hands everything that waits in the ring to the handler. The number of records, or -errno. */
int sampler_drain(struct sampler *s);

/* Adds or removes rules while it runs: for cgroups that come and go. Only for a `what` that had a rule when
 * it was opened. 0 or -errno. */
int sampler_rule(struct sampler *s, const struct filter_rule *rule, bool is_there);

/* Says where the threads of a process publish their contexts; NULL: nowhere (any more). 0; -E2BIG: of too
 * many processes it is known; -errno. */
int sampler_place(struct sampler *s, uint32_t pid, const struct context_place *place);

/* Looks which CPUs are online now: opens the clock of new ones, closes that of those gone. Returns how many
 * are being sampled. */
uint32_t sampler_follow_cpus(struct sampler *s);

/* Counts since sampler_open. */
struct sampler_counts sampler_counts(const struct sampler *s);

/* Checks one record of n bytes from the ring and hands it on: 0, or -EBADMSG for what is not as bpf/sample.h
 * says. (Split from the ring so that it runs without BPF.) */
int sampler_record(const struct sampler_handler *handler, const void *record, size_t n);
int sampler_want(sampler_want_fn want, void *user, const void *record, size_t n);

#endif
