/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * How many waits are taken: for the CPU, of requests to block devices, for locks. All of them that are as
 * long as a period, of shorter ones a share by their length, which then stand for a whole period: so sums
 * stay what they are.
 *
 * With thousands of threads that wait in turns each could be longer than the period, and who makes them would
 * fill the ring. Of a CPU on which more than a thousand a second would be taken the period doubles until they
 * are not, and halves again; a wait is judged by what it was before that wait, so weights add up. A deep
 * stack is as much as several: the ring, and what is kept of a window, is bytes.
 */
#ifndef BPF_PACE_BPF_H
#define BPF_PACE_BPF_H

#include "bpf/kernel.bpf.h"
#include "bpf/sample.h"

/* A count for each CPU: switches are too frequent for CPUs to pass a shared one to and fro. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SAMPLE_WAITING);
    __type(key, __u32);
    __type(value, struct sample_waits);
} wait_counts SEC(".maps");

static __always_inline struct sample_waits *pace_of(__u32 source)
{
    return bpf_map_lookup_elem(&wait_counts, &source);
}

/* One in this time is enough. So many at once are no rate yet: threads, and requests, which come in bursts.
 */
#define PACE_NS     1000000u
#define PACE_WAITS  128u
#define PACE_BLOCKS 1024u
#define PACE_MOST   (1ull << 38) /* of a period: five minutes */

/* `least`: what the period is where few wait, not 0. */
static __always_inline __u64 period_of(const struct sample_waits *pace, __u64 least)
{
    return pace->period > least ? pace->period : least;
}

/* After each wait. */
static __always_inline void follow_rate(struct sample_waits *pace, __u64 least, __u32 enough, __u64 now)
{
    int is_over = now - pace->since >= (__u64)enough * PACE_NS;
    if (pace->taken < enough && !is_over)
        return;
    __u64 period = period_of(pace, least);
    if (!is_over && period < PACE_MOST)
        pace->period = 2 * period;
    else if (is_over && pace->taken < enough / 4)
        pace->period = period / 2;
    pace->taken = 0;
    pace->since = now;
}

/* The words of a stack, and of what its thread works for, that are another one's worth: some sixty frames of
 * the user's. */
#define PACE_WORDS 128u

/* After a stack was taken. */
static __always_inline void count_depth(struct sample_waits *pace, const struct sample_head *h)
{
    pace->taken += (h->n_kernel + SAMPLE_USER_WORDS(h) + h->n_context / 8) / PACE_WORDS;
}

/* Counts a wait of a length. Whether it is shorter than the minimum. */
static __always_inline int is_short_wait(struct sample_waits *pace, __u64 length, __u64 min)
{
    int is_short = length < min;
    pace->n++;
    pace->ns += length;
    pace->n_short += is_short;
    return is_short;
}

/* What a wait weighs whose length is known, if it is taken; else 0. */
static __always_inline __u64 weigh(const struct sample_waits *pace, __u64 least, __u64 length)
{
    __u64 period = period_of(pace, least);
    if (length >= period)
        return length;
    __u64 dice = bpf_get_prandom_u32(); /* where the period is long, without its last bits */
    dice = period >> 32 ? dice * (period >> 12) >> 20 : dice * period >> 32;
    return dice < length ? period : 0;
}

#endif
