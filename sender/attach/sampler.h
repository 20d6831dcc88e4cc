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
#include "sender/attach/options.h"
#include "sender/attach/record.h"
#include "sender/unwind/tables.h"

struct buffer;
struct sampler;

/* Condition: this machine or our rights do not allow it; *e says what is missing. */
#define SAMPLER_REFUSED 1

struct sampler_counts {
    uint64_t taken;                       /* samples, the lost ones included */
    uint64_t lost;                        /* samples for which the ring buffer had no room */
    uint64_t busy;                        /* samples lost because the kernel side was interrupted by itself */
    uint64_t malformed;                   /* records that contradict themselves */
    uint64_t exec_lost;                   /* notices of an execve, likewise */
    uint64_t unended;                     /* waits whose end the kernel did not tell */
    uint64_t notices_lost;                /* of fork and exit */
    uint64_t labels_left;                 /* samples whose goroutine has more labels than were taken */
    uint64_t walks;                       /* of a process's mappings */
    uint64_t rests;                       /* stacks that met rows which were not there */
    uint64_t waits, waits_short, wait_ns; /* KIND_WAIT: all, those below the minimum, time of all */
    uint64_t locks, locks_short;          /* KIND_LOCK, likewise */
    uint64_t places_refused;              /* what sampler_place and sampler_runtime had no room for */
    uint64_t run_ns, runs;                /* of the BPF programs; 0 unless kernel.bpf_stats_enabled */
    uint64_t end[UNWIND_ENDS];            /* user stacks by how they ended */
};

/* Loads, and attaches everything but the clocks. 0, SAMPLER_REFUSED, or -ENOMEM; *e set. */
int sampler_open(struct sampler **ret, const struct sampler_options *options,
                 const struct sampler_handler *handler, struct error *e);

/* Where the unwind tables are kept, for tables_new: the sampler's, which must outlive them. */
void sampler_tables(struct sampler *s, struct tables_backend *ret);

/* Hands each mapped executable file of each process to `file`, until that returns false. 0; -EOPNOTSUPP: this
 * kernel has no iterator that does (before 6.1); or -errno. */
int sampler_files(struct sampler *s, bool (*file)(void *user, const struct sample_file *file), void *user);

/* The same of one process, which is `owner`'s. From the thread of sampler_wants. */
int sampler_files_of(struct sampler *s, uint32_t pid, uint32_t owner,
                     bool (*file)(void *user, const struct sample_file *file), void *user);

/* What the kernel calls addresses of its own: adds to *ret for each, in any order, a line with the address in
 * hexadecimal, a blank, and NAME+0xOFFSET/0xSIZE of the byte behind it in its function, with a blank and
 * [MODULE] behind that of a module's; or a number. 0 or -errno. From one thread. */
int sampler_symbols(struct sampler *s, const uint64_t *address, uint32_t n, struct buffer *ret);

/* The files and rows the kernel side asks for. Unlike the rest, these four are for another thread, which may
 * use them until sampler_close. sampler_wants hands on what waits and returns how much, or -errno; the
 * descriptor, the sampler's, becomes readable when there is something. */
int sampler_wants(struct sampler *s, const struct sampler_asked *asked);
int sampler_wants_fd(const struct sampler *s);

/* Where the walk of a sampler_asked.rest was, until the next is asked for; the kernel side's again with
 * sampler_return. NULL: memory is out, and the sample is lost, and counted. */
const struct unwind_rest *sampler_rest(struct sampler *s, const struct sample_head *head);

/* Says that a walk of a thread went on at an address that the rest, from sp on, did not have: for the next
 * one. */
void sampler_far(struct sampler *s, uint32_t tid, uint64_t address, uint64_t sp);

/* Gives back what a rest was in; and the sample, with its whole stack, for the next sampler_drain to hand on:
 * head->kind is SAMPLE_STACK. `at_once`: sampler_fd becomes readable, as for a process that is new and may
 * end. */
void sampler_return(struct sampler *s, const struct sample_head *head, const uint64_t *body, bool at_once);

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

/* Says where the threads of a process publish their contexts; NULL: nowhere (any more). Of too many processes
 * those leave of the user who has most (place->user). 0; -E2BIG: it is he himself; -errno. */
int sampler_place(struct sampler *s, uint32_t pid, const struct context_place *place);

/* Says where a runtime has its state in a process, which the kernel side asked for (sample_want); it forgets
 * by itself when the process ends or becomes another program, and, of too many, those that were not sampled
 * lately, or of the user who has most (place->user). 0; -E2BIG: none of them; -errno. Any thread. */
int sampler_runtime(struct sampler *s, uint32_t pid, const struct runtime_place *place);

/* What was said last. False: nothing, or it was forgotten. Any thread. */
bool sampler_runtime_of(const struct sampler *s, uint32_t pid, uint32_t runtime, struct runtime_place *ret);

/* Looks which CPUs are online now: opens the clock of new ones, closes that of those gone. Returns how many
 * are being sampled. */
uint32_t sampler_follow_cpus(struct sampler *s);

/* Counts since sampler_open. */
struct sampler_counts sampler_counts(const struct sampler *s);

#endif
