/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sampler is asked for: which samples, of whom.
 */
#ifndef SENDER_ATTACH_OPTIONS_H
#define SENDER_ATTACH_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/sample.h"
#include "sender/attach/features.h"
#include "sender/attach/kinds.h"

struct sampler_options {
    uint32_t frequency; /* samples a second and CPU, 1 … SAMPLER_FREQUENCY_MAX */
    uint32_t only_pid;  /* 0: all processes */
    bool with_idle;     /* idle CPUs too, as pid 0 */
    /* What is sampled besides, or instead of, the clock; NULL: the clock alone. Must outlive the sampler. */
    const struct kinds *kinds;
    uint64_t wait_min_ns;     /* of waits (KIND_WAIT): shorter ones are counted only */
    bool wait_by_ticket;      /* as on kernels that lack sched_exit_tp */
    uint64_t lock_min_ns;     /* of KIND_LOCK, likewise */
    uint64_t probe_interval;  /* bytes, of KIND_ALLOC */
    const char *trace_map;    /* where OBI's map of traces is pinned, or is to be; NULL: it is not asked */
    struct features features; /* of this kernel; without .btf they are asked for */
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

#endif
