/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Events: of the kernel's counters (perf_event_open(2): page faults, cache misses, …) and of user probes
 * (allocations by their size, any function by its calls).
 */
#ifndef BPF_EVENT_BPF_H
#define BPF_EVENT_BPF_H

#include <linux/bpf_perf_event.h>

#include "bpf/filter.bpf.h"
#include "bpf/record.bpf.h"

/* A hit that weighs less than this is taken by chance, with probability weight / interval, and then stands
 * for a whole interval: sums stay what they are, and the cost is bounded by them. 0 and 1: all are taken. */
const volatile __u64 probe_interval = 0;

/* Where events, and probes, cannot be told from each other by a cookie (before 5.15): that of the only one.
 */
const volatile __u64 only_event = 0, only_probe = 0;

static __always_inline __u64 cookie_of(void *ctx, __u64 only)
{
    return HAS_HELPER(get_attach_cookie) ? bpf_get_attach_cookie(ctx) : only;
}

SEC("perf_event")
int on_event(struct bpf_perf_event_data *ctx)
{
    struct task_struct *task = current_task();
    if (!is_wanted(task))
        return 0;
    struct scratch *s = claim(SLOT_EVENT);
    if (!s)
        return 0;
    fill_head(&s->head, task, SAMPLE_STACK);
    s->head.source = cookie_of(ctx, only_event);
    s->head.value = ctx->sample_period;
    send_stack(ctx, (const __u64 *)ctx, s, task, SLOT_EVENT, 0);
    release(s);
    return 0;
}

static __always_inline __u64 weight_of(struct pt_regs *ctx, __u32 how)
{
    switch (how) {
    case SAMPLE_WEIGHS_FIRST: return PT_REGS_PARM1(ctx);
    case SAMPLE_WEIGHS_SECOND: return PT_REGS_PARM2(ctx);
    case SAMPLE_WEIGHS_REGROWN: return PT_REGS_PARM1(ctx) ? PT_REGS_PARM2(ctx) : 0;
    case SAMPLE_WEIGHS_PRODUCT: return (__u64)PT_REGS_PARM1(ctx) * PT_REGS_PARM2(ctx);
    case SAMPLE_WEIGHS_THIRD: return PT_REGS_PARM3(ctx);
    default: return 1;
    }
}

/* Allocations cannot be larger than this (malloc refuses above PTRDIFF_MAX): an argument that says so is not
 * a size. */
#define WEIGHT_MAX (1ull << 47)

SEC("uprobe")
int on_probe(struct pt_regs *ctx)
{
    struct task_struct *task = current_task();
    __u64 cookie = cookie_of(ctx, only_probe), weight = weight_of(ctx, cookie >> 8);
    if (!weight || weight > WEIGHT_MAX || !is_wanted(task))
        return 0;
    if (cookie >> 8 != SAMPLE_WEIGHS_ONE && weight < probe_interval) {
        if (bpf_get_prandom_u32() % probe_interval >= weight)
            return 0;
        weight = probe_interval;
    }
    struct scratch *s = claim(SLOT_PROBE);
    if (!s)
        return 0;
    fill_head(&s->head, task, SAMPLE_STACK);
    s->head.source = cookie & 0xff;
    s->head.value = weight;
    send_stack(ctx, (const __u64 *)ctx, s, task, SLOT_PROBE, 0);
    release(s);
    return 0;
}

#endif
