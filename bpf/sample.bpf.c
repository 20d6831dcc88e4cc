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

/* Names are some hundred bytes at most, and what one turn of an iterator writes is to be 32 KiB. */
#define NAMES_A_TURN 8ull

/* Executables whose tables are there and which have no runtime, by address and generation of the tables. That
 * another file is there later does not matter: its tables are asked for when it is sampled. */
#define QUIET_BITS 6
__u64 quiet[1 << QUIET_BITS];

/* Asks for the tables of an executable as it begins, which may have ended before it is ever sampled; or, if
 * those are there, for its runtime's place. */
static __always_inline void want_executable(struct task_struct *task, struct linux_binprm *bprm)
{
    __u32 mine = SLOTS;
    struct sample_want *want = bpf_map_lookup_elem(&want_scratches, &mine);
    if (!want)
        return;
    struct inode *inode = BPF_CORE_READ(bprm, file, f_inode);
    __u64 is = ((__u64)inode + *(volatile __u64 *)&unwind_generation) * 0x9e3779b97f4a7c15ull;
    __u32 at = is >> (64 - QUIET_BITS);
    if (quiet[at] == is)
        return;
    read_key(&want->key, inode);
    struct unwind_file *file = bpf_map_lookup_elem(&unwind_files, &want->key);
    __u32 runtime = file ? file->runtime : RUNTIME_NATIVE;
    if (file && !runtime)
        quiet[at] = is;
    if (file ? !runtime : !ask_for(&want->key, bpf_ktime_get_ns()))
        return;
    fill_head(&want->head, task, SAMPLE_WANT);
    want->head.detail = runtime;
    if (runtime) /* a process has one such wish at a time */
        want->key = RUNTIME_WISH(want->head.start, want->head.pid, runtime);
    want->start = BPF_CORE_READ(task, mm, start_code);
    want->end = 0;
    if (bpf_probe_read_kernel_str(want->path, sizeof want->path, bprm->interp) <= 0)
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

/* Notes which program a process has begun, to be told with its first sample. 0: it must be told now, as user
 * space knows the process already, a tick meanwhile has told of it, or the path has no room. */
static __always_inline int note_program(__u32 pid, __u64 start, const char *path)
{
    __u32 at = pid % PROGRAMS;
    struct program *program = bpf_map_lookup_elem(&programs, &at);
    if (!program)
        return 0;
    *(volatile __u32 *)&program->pid = 0;
    if (find_known(pid, start))
        return 0;
    long n = bpf_probe_read_kernel_str(program->path, sizeof program->path, path);
    if (n > 0 && n < sizeof program->path) {
        program->start = start;
        program->is_told = 0;
        *(volatile __u32 *)&program->pid = pid;
        if (!find_known(pid, start))
            return 1;
        *(volatile __u32 *)&program->pid = 0;
        return 0;
    }
    struct known_process fresh = {.start = start};
    bpf_map_update_elem(&seen, &pid, &fresh, BPF_ANY);
    return 0;
}

SEC("tp_btf/sched_process_exec")
int BPF_PROG(on_exec, struct task_struct *task, int old_pid, struct linux_binprm *bprm)
{
    __u32 mine = SLOTS, pid = task->tgid;
    if (only_pid && pid != only_pid)
        return 0;
    if (is_wanted(task)) /* rows of who is not sampled would drive others' out */
        want_executable(task, bprm);
    if (n_context_places)
        bpf_map_delete_elem(&context_places, &pid);
    forget_places(pid);
    const char *path = bprm->interp;
    struct exec_scratch *e = bpf_map_lookup_elem(&exec_scratches, &mine);
    if (!e || note_program(pid, task->group_leader->start_boottime, path))
        return 0;
    fill_head(&e->exec.head, task, SAMPLE_EXEC);
    long n = bpf_probe_read_kernel_str(e->exec.path, sizeof e->exec.path, path);
    if (n <= 0)
        e->exec.path[0] = 0;
    send_exec(e, BPF_CORE_READ(bprm, file), n > 0 ? n : 1,
              bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_size / 2 ? BPF_RB_FORCE_WAKEUP
                                                                          : BPF_RB_NO_WAKEUP);
    /* It is another program: its next sample tells of it and wakes user space, which knows of this by then.
     */
    __u64 start = task->group_leader->start_boottime;
    struct known_process *known = find_known(pid, start);
    if (!known)
        return 0;
    known->is_sampled = 0;
    __sync_fetch_and_add(begun_of(start), 1);
    return 0;
}

/* A child is its parent's program until it says otherwise: what is told with its first sample. */
SEC("tp_btf/sched_process_fork")
int BPF_PROG(on_fork, struct task_struct *parent, struct task_struct *child)
{
    if (child->pid != child->tgid || child->flags & PF_KTHREAD || (only_pid && child->tgid != only_pid))
        return 0;
    inherit_places(parent->tgid, child->tgid, child->start_boottime);
    return 0;
}

/* The end of who was told of, or looked at at the start: that of its last thread, which the first need not
 * be. Of two that end at once both may be. */
SEC("tp_btf/sched_process_exit")
int BPF_PROG(on_exit, struct task_struct *task)
{
    __u32 pid = task->tgid;
    if (task->signal->live.counter || task->flags & PF_KTHREAD || (only_pid && pid != only_pid))
        return 0;
    if (n_context_places)
        bpf_map_delete_elem(&context_places, &pid);
    forget_places(pid);
    __u64 start = task->group_leader->start_boottime;
    if (told_from && start >= told_from) {
        struct program *program = find_program(pid, start); /* in the cache, most likely */
        if (program ? !program->is_told : !find_known(pid, start))
            return 0;
    }
    struct sample_head h = {.kind = SAMPLE_EXIT, .pid = pid, .tid = pid};
    h.time = bpf_ktime_get_ns();
    h.start = start;
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

__u64 asked_names[SAMPLE_ASKED]; /* addresses of the kernel's, by user space; 0: none */

/* "ADDRESS NAME+0xOFFSET/0xSIZE [MODULE]" of each: the kernel has all its symbols, packed; %pB is what it
 * calls the byte before; or a number, where no function is. It iterates over something, of which there are
 * some at least: what finds no turn is asked for again. */
SEC("iter/bpf_map")
int dump_names(struct bpf_iter__bpf_map *ctx)
{
    static const char format[] = "%llx %pB\n";
    __u64 from = ctx->meta->seq_num * NAMES_A_TURN;
    if (!ctx->map || from >= SAMPLE_ASKED)
        return 0;
    from &= SAMPLE_ASKED - NAMES_A_TURN;
    barrier_var(from);
#pragma clang loop unroll(full) /* 5.10 takes no other */
    for (__u64 i = 0; i < NAMES_A_TURN; i++) {
        __u64 address = asked_names[from + i], arguments[] = {address, address + 1};
        if (address)
            bpf_seq_printf(ctx->meta->seq, format, sizeof format, arguments, sizeof arguments);
    }
    return 0;
}
