/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Waiting for locks: from a thread's entry into futex(2) to wait until it is back, by the tracepoints of all
 * system calls. Mutexes, condition variables and semaphores of every runtime come down to it; its user stack
 * says which.
 *
 * The stack is taken at the end, when it is known how long it took: a thread's user stack is the same at the
 * beginning of a system call and behind it. So waits below the minimum cost no stack. The kernel's own frames
 * are those of the tracepoint, and left out.
 */
#ifndef BPF_LOCK_BPF_H
#define BPF_LOCK_BPF_H

#include "bpf/filter.bpf.h"
#include "bpf/pace.bpf.h"
#include "bpf/record.bpf.h"

const volatile __u64 lock_min_ns = 0; /* shorter waits are counted only */

struct lock_wait {
    __u64 since; /* 0: not waiting */
    __u32 again; /* interrupted, to be gone on with by restart_syscall(2) */
};

OF_EACH_THREAD(struct lock_wait, lock_waiting, lock_waits_of, lock_waits_by_thread)

/* Numbers of system calls (asm/unistd_64.h, asm-generic/unistd.h). */
#ifdef __TARGET_ARCH_x86
#define NR_FUTEX   202
#define NR_RESTART 219
#else
#define NR_FUTEX   98
#define NR_RESTART 128
#endif
#define NR_FUTEX_WAITV 449
#define NR_FUTEX_WAIT  455 /* Linux 6.7 */

/* linux/futex.h: the operations that wait, as bits: WAIT 0, LOCK_PI 6, WAIT_BITSET 9, WAIT_REQUEUE_PI 11,
 * LOCK_PI2 13. The private and clock flags are above. */
#define FUTEX_COMMAND 127u
#define FUTEX_WAITS   (1u << 0 | 1u << 6 | 1u << 9 | 1u << 11 | 1u << 13)

/* include/linux/errno.h */
#define LOCK_EINTR         4
#define LOCK_EAGAIN        11
#define LOCK_ETIMEDOUT     110
#define LOCK_ERESTARTSYS   512
#define LOCK_RESTART_BLOCK 516

/* Whether it is a 64-bit call: numbers are others in 32-bit ones. */
static __always_inline int is_wide(struct pt_regs *regs)
{
#ifdef __TARGET_ARCH_x86
    __u64 cs = 0;
    return bpf_probe_read_kernel(&cs, sizeof cs, (const __u64 *)regs + CS) == 0 &&
           (cs & 0xffff) == USER_CS_64;
#else
    return 1;
#endif
}

static __always_inline void lock_begins(struct task_struct *task)
{
    struct lock_wait *w = lock_waiting(task, BPF_LOCAL_STORAGE_GET_F_CREATE);
    if (!w)
        return;
    w->again = 0;
    w->since = bpf_ktime_get_ns();
}

static __always_inline int is_lock_call(long id)
{
    return id == NR_FUTEX || id == NR_FUTEX_WAITV || id == NR_FUTEX_WAIT || id == NR_RESTART;
}

SEC("tp_btf/sys_enter")
int BPF_PROG(on_lock_enter, struct pt_regs *regs, long id)
{
    if (!is_lock_call(id))
        return 0;
    struct task_struct *task = current_task();
    if (id == NR_FUTEX) {
        __u32 command = PT_REGS_PARM2(regs) & FUTEX_COMMAND;
        if (command > 13 || !(FUTEX_WAITS >> command & 1))
            return 0;
    }
    if (id == NR_RESTART) {
        struct lock_wait *w = lock_waiting(task, 0);
        if (!w || !w->again)
            return 0;
    }
    if (is_wide(regs) && is_wanted(task))
        lock_begins(task);
    return 0;
}

static __always_inline __u32 lock_outcome(long r)
{
    if (r >= 0)
        return SAMPLE_LOCK_WOKEN;
    if (r == -LOCK_ETIMEDOUT)
        return SAMPLE_LOCK_TIMEOUT;
    return r == -LOCK_EAGAIN ? SAMPLE_LOCK_CHANGED : SAMPLE_LOCK_INTERRUPTED;
}

SEC("tp_btf/sys_exit")
int BPF_PROG(on_lock_exit, struct pt_regs *regs, long r)
{
#ifdef __TARGET_ARCH_x86
    if (!is_lock_call(
            ((const __u64 *)regs)[ORIG_RAX])) /* looking for the task's storage is the dearer question */
        return 0;
#endif
    struct task_struct *task = current_task();
    struct lock_wait *w = lock_waiting(task, 0);
    if (!w || !w->since)
        return 0;
    __u64 now = bpf_ktime_get_ns(), length = now - w->since;
    w->since = 0;
    w->again = r == -LOCK_RESTART_BLOCK;
    struct sample_waits *pace = pace_of(SAMPLE_FROM_LOCK);
    if (!pace || is_short_wait(pace, length, lock_min_ns))
        return 0;
    __u64 least = lock_min_ns ? lock_min_ns : 1, weight = weigh(pace, least, length);
    pace->taken += weight != 0;
    follow_rate(pace, least, PACE_WAITS, now);
    if (!weight)
        return 0;
    struct scratch *s = claim(SLOT_LOCK);
    if (!s)
        return 0;
    fill_head(&s->head, task, SAMPLE_STACK);
    s->head.source = SAMPLE_FROM_LOCK;
    s->head.detail = lock_outcome(r);
    s->head.value = weight;
    send_stack(ctx, 0, s, task, SLOT_LOCK, SKIP_ALL);
    count_depth(pace, &s->head);
    release(s);
    return 0;
}

#endif
