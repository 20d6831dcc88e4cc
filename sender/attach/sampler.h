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

struct sampler;

struct sampler_options {
    uint32_t frequency; /* samples a second and CPU, 1 … SAMPLER_FREQUENCY_MAX */
    uint32_t only_pid;  /* 0: all processes */
    bool with_idle;     /* idle CPUs too, as pid 0 */
};

/* Above this the profiler would be a load of its own; the kernel's kernel.perf_event_max_sample_rate may be
 * lower. */
#define SAMPLER_FREQUENCY_MAX 10000u

/* Condition: this machine or our rights do not allow it; *e says what is missing. */
#define SAMPLER_REFUSED 1

struct sampler_counts {
    uint64_t taken;     /* samples, the lost ones included */
    uint64_t lost;      /* samples for which the ring buffer had no room */
    uint64_t exec_lost; /* notices of an execve, likewise */
};

/* What the ring holds. `address` is the n_kernel, then n_user addresses behind the head. Valid during the
 * call. */
struct sampler_handler {
    void (*stack)(void *user, const struct sample_head *head, const uint64_t *address);
    void (*exec)(void *user, const struct sample_head *head, const char *path);
    void *user;
};

/* Loads, attaches and starts sampling. 0, SAMPLER_REFUSED, or -ENOMEM; *e set. */
int sampler_open(struct sampler **ret, const struct sampler_options *options,
                 const struct sampler_handler *handler, struct error *e);

/* Stops the clocks: what is in the ring can still be drained, and the counts do not move any more. */
void sampler_stop(struct sampler *s);

/* Detaches and frees; NULL is fine. Returns NULL. */
struct sampler *sampler_close(struct sampler *s);

/* Becomes readable when records should be taken before the next timed visit. Owned by the sampler. */
int sampler_fd(const struct sampler *s);

/* Hands everything that waits in the ring to the handler. The number of records, or -errno. */
int sampler_drain(struct sampler *s);

/* Looks which CPUs are online now: opens the clock of new ones, closes that of those gone. Returns how many
 * are being sampled. */
uint32_t sampler_follow_cpus(struct sampler *s);

/* Counts since sampler_open. */
struct sampler_counts sampler_counts(const struct sampler *s);

/* Checks one record of n bytes from the ring and hands it on: 0, or -EBADMSG for what is not as bpf/sample.h
 * says. (Split from the ring so that it runs without BPF.) */
int sampler_record(const struct sampler_handler *handler, const void *record, size_t n);

#endif
