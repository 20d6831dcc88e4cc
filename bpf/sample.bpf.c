/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Samples what runs: on every tick of a CPU's clock the kernel stack and the user stack of the current
 * thread; notices of processes that begin, become another program, and end. Waiting and events are programs
 * of their own (wait.bpf.h, event.bpf.h), loaded when asked for. Loads on 5.10 and later.
 */
#include "bpf/event.bpf.h"
#include "bpf/lock.bpf.h"
#include "bpf/wait.bpf.h"

char LICENSE[] SEC("license") = "GPL";

__u64 n_exec_lost = 0;

struct exec_scratch {
    struct sample_exec exec;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct exec_scratch);
} exec_scratches SEC(".maps");

/* Asks for the tables of an executable as it begins, which may have ended before it is ever sampled; or, if
 * those are there, for its runtime's place. */
static __always_inline void want_executable(const struct sample_head *head, struct task_struct *task,
                                            struct linux_binprm *bprm)
{
    __u32 mine = SLOTS;
    struct sample_want *want = bpf_map_lookup_elem(&want_scratches, &mine);
    if (!want)
        return;
    read_key(&want->key, BPF_CORE_READ(bprm, file, f_inode));
    struct unwind_file *file = bpf_map_lookup_elem(&unwind_files, &want->key);
    __u32 runtime = file ? file->runtime : RUNTIME_NATIVE;
    if (file ? !runtime : !ask_for(&want->key, head->time))
        return;
    want->head = *head;
    want->head.kind = SAMPLE_WANT;
    want->head.detail = runtime;
    if (runtime) /* a process has one such wish at a time */
        want->key = RUNTIME_WISH(head->start, head->pid, runtime);
    want->start = BPF_CORE_READ(task, mm, start_code);
    want->end = 0;
    const char *name = BPF_CORE_READ(bprm, filename);
    if (bpf_probe_read_kernel_str(want->path, sizeof want->path, name) <= 0)
        want->path[0] = 0;
    bpf_ringbuf_output(&wants, want, sizeof *want, BPF_RB_FORCE_WAKEUP);
}

SEC("perf_event")
int on_tick(struct bpf_perf_event_data *ctx)
{
    struct task_struct *task = current_task();
    if (!is_wanted(task))
        return 0;
    struct scratch *s = claim(SLOT_CLOCK);
    if (!s)
        return 0;
    fill_head(&s->head, task, SAMPLE_STACK);
    send_stack(ctx, (const __u64 *)ctx, s, task, SLOT_CLOCK, 0);
    release(s);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
    __u32 zero = 0, pid = bpf_get_current_pid_tgid() >> 32;
    struct exec_scratch *s = bpf_map_lookup_elem(&exec_scratches, &zero);
    if (!s || (only_pid && pid != only_pid))
        return 0;
    fill_head(&s->exec.head, task, SAMPLE_EXEC);
    if (is_wanted(task)) /* rows of who is not sampled would drive others' out */
        want_executable(&s->exec.head, task, bprm);
    const char *name = BPF_CORE_READ(bprm, filename);
    long n = bpf_probe_read_kernel_str(s->exec.path, sizeof s->exec.path, name);
    __u64 size = n > 0 ? n : 1;
    if (n <= 0)
        s->exec.path[0] = 0;
    barrier_var(size);
    if (size > SAMPLE_PATH_MAX)
        return 0;
    /* The next sample wakes user space again: it is another program, with other mappings. */
    bpf_map_delete_elem(&seen, &pid);
    if (n_context_places)
        bpf_map_delete_elem(&context_places, &pid);
    forget_places(pid);
    __u64 flags =
        bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_size / 2 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
    if (bpf_ringbuf_output(&ring, s, sizeof s->exec.head + size, flags))
        __sync_fetch_and_add(&n_exec_lost, 1);
    return 0;
}

/* A child is its parent's program until it says otherwise: so it has a name even if it ends at once. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
    __u32 pid = child->tgid;
    if (child->pid != child->tgid || child->flags & PF_KTHREAD || (only_pid && pid != only_pid))
        return 0;
    struct sample_head h = {.kind = SAMPLE_FORK, .pid = pid, .tid = pid};
    inherit_places(parent->tgid, pid, child->start_boottime);
    h.time = bpf_ktime_get_ns();
    h.start = child->start_boottime;
    h.value = parent->tgid;
    h.ticket = BPF_CORE_READ(parent, group_leader, start_boottime);
    send_head(&h);
    return 0;
}

SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
    if (task->pid != task->tgid || task->flags & PF_KTHREAD || (only_pid && task->tgid != only_pid))
        return 0;
    struct sample_head h = {.kind = SAMPLE_EXIT, .pid = task->tgid, .tid = task->tgid};
    forget_places(h.pid);
    h.time = bpf_ktime_get_ns();
    h.start = task->start_boottime;
    send_head(&h);
    return 0;
}

/* Read once at start: every file that has code in some process, so that what runs already is compiled before
 * the first tick. */
SEC("iter/task_vma")
int dump_files(struct bpf_iter__task_vma *ctx)
{
    struct task_struct *task = ctx->task;
    struct vm_area_struct *vma = ctx->vma;
    if (!task || !vma || !(vma->vm_flags & VM_EXEC))
        return 0;
    struct sample_file out = {.pid = task->tgid,
                              .began = task->group_leader->start_boottime,
                              .start = vma->vm_start,
                              .end = vma->vm_end};
    if (vma->vm_file) {
        out.offset = vma->vm_pgoff << PAGE_SHIFT;
        read_key(&out.key, BPF_CORE_READ(vma, vm_file, f_inode));
    } else if ((__u64)BPF_CORE_READ(vma, vm_mm, context.vdso) != vma->vm_start) {
        out.key.device = 1; /* no file's: not the vDSO's key */
    }
    bpf_seq_write(ctx->meta->seq, &out, sizeof out);
    return 0;
}
