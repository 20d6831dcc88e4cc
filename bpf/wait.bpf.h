/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Waiting: threads off the CPU (scheduler tracepoints) and requests to block devices (block tracepoints).
 *
 * Where the kernel has sched_exit_tp (6.16) a stack is taken when the thread is back and it is known how long
 * it was away: then only waits that are long enough, and of those a share, are looked at. Elsewhere the stack
 * must be taken as the thread leaves (at the switch back its memory cannot be read): it is sent at once with
 * a ticket, and what it weighs follows when the thread is back.
 *
 * Not every wait is taken: a share of them, or, as with the clock, one in a period of time waited
 * (pace.bpf.h). So what it costs is bounded by the time that threads wait, however often they do. Of
 * requests, whose time is not known when their stack is taken, one in so many is.
 */
#ifndef BPF_WAIT_BPF_H
#define BPF_WAIT_BPF_H

#include "bpf/filter.bpf.h"
#include "bpf/pace.bpf.h"
#include "bpf/record.bpf.h"

const volatile __u64 wait_min_ns = 0;       /* shorter waits are counted only */
const volatile __u32 wait_share = 1u << 16; /* of waits that are looked at, of 1 << 16 */
const volatile __u64 wait_period_ns = 1;    /* of those are taken: by their length (pace.bpf.h); 1: all */
const volatile __u32 has_sched_exit = 0;
const volatile __u32 has_prev_state = 0;  /* sched_switch says it (5.18) */
const volatile __u32 has_block_queue = 0; /* before 5.11 a queue comes before the request */

struct wait {
    __u64 since;  /* 0: on the CPU, or not looked at */
    __u64 weight; /* known, and on_sched_exit has not taken it yet */
    __u64 ticket;
    __u64 expected; /* how long the next wait may be, by the last ones; 0: there was none */
    __u32 chance;   /* that it was taken by, of 1 << 16 */
    __u32 state;    /* enum sample_wait */
};

OF_EACH_THREAD(struct wait, waiting, waits_of, waits_by_thread)

/* Tickets: a count for each CPU, and the CPU. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, __u64);
} tickets SEC(".maps");

static __always_inline __u64 new_ticket(void)
{
    __u32 zero = 0;
    __u64 *last = bpf_map_lookup_elem(&tickets, &zero);
    return last ? ++*last << 16 | bpf_get_smp_processor_id() : 0;
}

/* On top of a tracepoint's kernel stack: our program, and bpf_trace_run that calls it. */
#define SKIP_OURS 2

/* include/linux/sched.h: the same values since 4.14. */
#define TASK_INTERRUPTIBLE   1u
#define TASK_UNINTERRUPTIBLE 2u
#define TASK_STOPPED         (4u | 8u)
#define TASK_ENDED           (0x10u | 0x20u | 0x80u)

static __always_inline __u32 wait_of(_Bool preempt, __u32 state)
{
    if (preempt || !(state & 0xff))
        return SAMPLE_WAIT_PREEMPTED;
    if (state & TASK_UNINTERRUPTIBLE)
        return SAMPLE_WAIT_DISK;
    return state & TASK_STOPPED ? SAMPLE_WAIT_STOPPED : SAMPLE_WAIT_SLEEP;
}

/* The chance of a wait whose length is not known yet, of 1 << 16: by what the thread's last ones were; of its
 * first one nothing is known but that it may be long. However it is chosen, weights divided by it add up; the
 * better the guess, the less they scatter. None has a smaller chance than this, while periods are short. */
#define CHANCE_MIN    (1u << 10)
#define CHANCE_LEAST  4u
#define WAIT_FIRST_NS 50000000ull

static __always_inline __u32 chance_of(const struct wait *w, const struct sample_waits *pace)
{
    __u64 period = period_of(pace, wait_period_ns);
    __u64 first = wait_period_ns > WAIT_FIRST_NS ? wait_period_ns : WAIT_FIRST_NS;
    __u64 length = w->expected ? w->expected : first;
    if (length >= period)
        return wait_share;
    __u64 chance = length * wait_share / period, least = CHANCE_MIN;
    if (period > first)
        least = least * first / period | CHANCE_LEAST;
    chance = chance > least ? chance : least;
    return chance < wait_share ? chance : wait_share;
}

static __always_inline int is_in_share(__u32 share)
{
    return share >= 1u << 16 || (bpf_get_prandom_u32() & 0xffff) < share;
}

/* Shrinks by a quarter with each shorter wait: a thread that waits long now and then is not lost sight of. */
static __always_inline void learn(struct wait *w, __u64 length)
{
    __u64 before = w->expected - w->expected / 4;
    w->expected = (length > before ? length : before) | 1;
}

static __always_inline void comes_back(struct task_struct *next, __u64 now)
{
    struct wait *w = waiting(next, 0);
    struct sample_waits *pace = pace_of(SAMPLE_FROM_WAIT);
    if (!w || !w->since || !pace)
        return;
    __u64 length = now - w->since;
    int is_short = is_short_wait(pace, length, wait_min_ns);
    w->since = 0;
    if (has_sched_exit) {
        w->weight = is_short || !is_in_share(wait_share) ? 0 : weigh(pace, wait_period_ns, length);
        pace->taken += w->weight != 0;
        follow_rate(pace, wait_period_ns, PACE_WAITS, now);
        return;
    }
    learn(w, length);
    __u32 mine = SLOT_WAIT;
    struct exec_scratch *e = bpf_map_lookup_elem(&exec_scratches, &mine); /* not the stack, which is short */
    if (w->ticket && e) {
        e->exec.head = (struct sample_head){.kind = SAMPLE_VALUE, .time = now, .source = SAMPLE_FROM_WAIT};
        if (!is_short && w->chance) /* user space divides by the share */
            e->exec.head.value = length * wait_share / w->chance;
        e->exec.head.ticket = w->ticket;
        w->ticket = 0;
        send_head(&e->exec.head);
    }
}

static __always_inline __u32 state_of(struct task_struct *task)
{
    if (bpf_core_field_exists(((struct task_struct___v5_14 *)0)->__state))
        return BPF_CORE_READ((struct task_struct___v5_14 *)task, __state);
    return BPF_CORE_READ((struct task_struct___v5_10 *)task, state);
}

/* In the thread that leaves, with interrupts off and its run queue locked. */
SEC("tp_btf/sched_switch")
int BPF_PROG(on_switch, _Bool preempt, struct task_struct *prev, struct task_struct *next)
{
    __u64 now = bpf_ktime_get_ns();
    __u32 prev_state = has_prev_state ? *(volatile __u64 *)&ctx[3] : state_of(prev);
    if (next->pid)
        comes_back(next, now);
    if (!prev->pid || prev->flags & PF_KTHREAD || (!preempt && prev_state & TASK_ENDED) || !is_wanted(prev))
        return 0;
    struct wait *w = waiting(prev, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!w)
        return 0;
    /* Seen on Linux 6.18 where other programs come to the same tracepoint and go: of a thousand switches to a
     * thread up to five are not told. */
    if (w->since || w->weight)
        __sync_fetch_and_add(&n_unended, 1);
    w->since = now;
    w->weight = 0;
    w->ticket = 0;
    w->state = wait_of(preempt, prev_state);
    if (has_sched_exit)
        return 0;
    struct sample_waits *pace = pace_of(SAMPLE_FROM_WAIT);
    if (!pace)
        return 0;
    w->chance = chance_of(w, pace);
    if (!is_in_share(w->chance))
        return 0;
    pace->taken++;
    follow_rate(pace, wait_period_ns, PACE_WAITS, now);
    struct scratch *s = claim(SLOT_WAIT);
    if (!s)
        return 0;
    fill_head(&s->head, prev, SAMPLE_STACK);
    w->ticket = new_ticket();
    s->head.ticket = w->ticket;
    s->head.source = SAMPLE_FROM_WAIT;
    s->head.detail = w->state;
    s->head.value = 0;
    if (w->ticket && !send_stack(ctx, 0, s, prev, SLOT_WAIT, SKIP_OURS))
        w->ticket = 0; /* lost, and counted: what it weighs is nobody's business */
    count_depth(pace, &s->head);
    release(s);
    return 0;
}

/* In the thread that is back; `weight` says whether it is looked at. */
SEC("tp_btf/sched_exit_tp")
int BPF_PROG(on_sched_exit, _Bool is_switch)
{
    struct task_struct *task = current_task();
    if (!is_switch || !task->pid)
        return 0;
    struct wait *w = waiting(task, 0);
    struct sample_waits *pace = pace_of(SAMPLE_FROM_WAIT);
    if (!w || !w->weight || !pace)
        return 0;
    __u64 weight = w->weight;
    w->weight = 0;
    struct scratch *s = claim(SLOT_WAIT);
    if (!s)
        return 0;
    fill_head(&s->head, task, SAMPLE_STACK);
    s->head.source = SAMPLE_FROM_WAIT;
    s->head.detail = w->state;
    s->head.value = weight;
    send_stack(ctx, 0, s, task, SLOT_WAIT, SKIP_OURS);
    count_depth(pace, &s->head);
    release(s);
    return 0;
}

/* Requests under way, by their address. One that never ends (a device gone) makes room when it is full. */
struct block {
    __u64 since, ticket, stands_for; /* so many requests; 0: it is not taken, and not asked again */
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 8192);
    __type(key, __u64);
    __type(value, struct block);
} blocks SEC(".maps");

/* include/linux/blk_types.h: REQ_OP_MASK; REQ_OP_READ is 0, REQ_OP_WRITE 1. */
#define REQ_OP_MASK 0xffu

static __always_inline void block_begins(unsigned long long *ctx)
{
    struct task_struct *task = current_task();
    __u64 at = has_block_queue ? *(volatile __u64 *)&ctx[1] : *(volatile __u64 *)&ctx[0];
    struct request *rq = (struct request *)at;
    struct sample_waits *pace = pace_of(SAMPLE_FROM_BLOCK);
    if (!pace || !is_wanted(task) || bpf_map_lookup_elem(&blocks, &at))
        return;
    struct block b = {.since = bpf_ktime_get_ns(), .stands_for = weigh(pace, 1, 1)};
    pace->taken += b.stands_for != 0;
    follow_rate(pace, 1, PACE_BLOCKS, b.since);
    if (!b.stands_for) {
        bpf_map_update_elem(&blocks, &at, &b, BPF_ANY);
        return;
    }
    __u32 operation = BPF_CORE_READ(rq, cmd_flags) & REQ_OP_MASK;
    struct scratch *s = claim(SLOT_WAIT);
    if (!s)
        return;
    b.ticket = new_ticket();
    fill_head(&s->head, task, SAMPLE_STACK);
    s->head.ticket = b.ticket;
    s->head.source = SAMPLE_FROM_BLOCK;
    s->head.detail = operation == 0   ? SAMPLE_BLOCK_READ
                     : operation == 1 ? SAMPLE_BLOCK_WRITE
                                      : SAMPLE_BLOCK_OTHER;
    s->head.value = 0;
    if (b.ticket && !bpf_map_update_elem(&blocks, &at, &b, BPF_ANY) &&
        !send_stack(ctx, 0, s, task, SLOT_WAIT, SKIP_OURS))
        bpf_map_delete_elem(&blocks, &at);
    count_depth(pace, &s->head);
    release(s);
}

/* A request is handed to the scheduler of the device, by who asks for it, or to the device itself. */
SEC("tp_btf/block_rq_insert")
int BPF_PROG(on_block_insert)
{
    block_begins(ctx);
    return 0;
}

SEC("tp_btf/block_rq_issue")
int BPF_PROG(on_block_issue)
{
    block_begins(ctx);
    return 0;
}

static __always_inline void block_ends(struct request *rq)
{
    __u64 at = (__u64)rq;
    struct block *b = bpf_map_lookup_elem(&blocks, &at);
    if (!b)
        return;
    struct sample_head h = {.kind = SAMPLE_VALUE, .source = SAMPLE_FROM_BLOCK, .ticket = b->ticket};
    h.time = bpf_ktime_get_ns();
    h.value = (h.time - b->since) * b->stands_for;
    __u64 stands_for = b->stands_for;
    bpf_map_delete_elem(&blocks, &at);
    if (stands_for)
        send_head(&h);
}

SEC("tp_btf/block_rq_complete")
int BPF_PROG(on_block_complete, struct request *rq)
{
    block_ends(rq);
    return 0;
}

/* A request that is taken into its neighbour is never completed, and its memory is soon another's: its time
 * ends here, what follows is the neighbour's (block/blk-merge.c: attempt_merge; Linux 5.11). */
SEC("tp_btf/block_rq_merge")
int BPF_PROG(on_block_merge, struct request *rq)
{
    block_ends(rq);
    return 0;
}

#endif
