/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * A sample on its way out: where it is put together, the stacks, the ring it goes into, and the wish for
 * unwind tables that come up on the way.
 */
#ifndef BPF_RECORD_BPF_H
#define BPF_RECORD_BPF_H

#include "bpf/context.bpf.h"
#include "bpf/kernel.bpf.h"

#include "bpf/sample.h"
#include "bpf/walk.bpf.h"

const volatile __u64 ring_size = 0; /* bytes in the ring buffer; set before loading */

/* Counted here, read by user space through the mapped .bss. */
__u64 n_samples = 0;      /* taken, the lost ones included */
__u64 n_lost = 0;         /* samples: no room in the ring buffer */
__u64 n_unended = 0;      /* lost: waits whose end the kernel did not tell */
__u64 n_exec_lost = 0;    /* notices of execve, likewise */
__u64 n_notices_lost = 0; /* of fork and exit, likewise */
__u64 n_busy = 0;         /* lost: the program was interrupted by itself (preemption in a probe; an NMI) */

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 256 * 1024); /* user space sets it by the number of CPUs */
} ring SEC(".maps");

/* Takes what only one may have; before 5.12 there is no instruction that exchanges or compares. Who takes is
 * counted, and has it who finds nobody else in the count: of two at once both may find the other, never
 * neither. */
static __always_inline int take(__u64 *takers)
{
    __sync_fetch_and_add(takers, 1);
    if (*(volatile __u64 *)takers == 1)
        return 1;
    __sync_fetch_and_sub(takers, 1);
    return 0;
}

static __always_inline void give_back(__u64 *takers)
{
    __sync_fetch_and_sub(takers, 1);
}

/* A scratch of this CPU, the caller's alone until release. NULL: taken, which is counted as a loss. */
static __always_inline struct scratch *claim(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, 0);
    if (!take(&s->busy)) {
        __sync_fetch_and_add(&n_busy, 1);
        return 0;
    }
    return s;
}

static __always_inline void release(struct scratch *s)
{
    give_back(&s->busy);
}

/* Processes that user space was told of, and those of them that it was woken for: the first sample of each is
 * read at once, while /proc still knows it. */
struct known_process {
    __u64 start;
    __u64 is_sampled;
};

struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, struct known_process);
} seen SEC(".maps");

static __always_inline struct known_process *find_known(__u32 pid, __u64 start)
{
    struct known_process *known = bpf_map_lookup_elem(&seen, &pid);
    return known && known->start == start ? known : 0;
}

/* Programs that processes have begun: most end before they are sampled, and user space need not hear of them.
 * By the low bits of the pid, until another process needs the place. */
#define PROGRAMS     2048u
#define PROGRAM_PATH 104

struct program {
    __u32 pid; /* 0: none */
    __u32 is_told;
    __u64 start;
    char path[PROGRAM_PATH];
};

struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, PROGRAMS);
    __type(key, __u32);
    __type(value, struct program);
} programs SEC(".maps");

/* Where notices are put together. */
struct exec_scratch {
    struct sample_exec exec;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SLOTS + 1); /* one a slot, and one of execs */
    __type(key, __u32);
    __type(value, struct exec_scratch);
} exec_scratches SEC(".maps");

/* When the first process was told of: user space looked at all that were there before. 0: none was yet. */
__u64 told_from = 0;

static __always_inline void fill_head(struct sample_head *h, struct task_struct *task, __u32 kind)
{
    h->kind = kind;
    h->pid = FIELD(task, tgid);
    h->tid = FIELD(task, pid);
    h->time = bpf_ktime_get_ns();
    h->cpu = bpf_get_smp_processor_id();
    struct task_struct *leader = FIELD(task, group_leader);
    h->start = FIELD(leader, start_boottime);
    h->is_kernel_thread = (FIELD(task, flags) & PF_KTHREAD) != 0; /* a process in exit has no memory either */
    h->source = SAMPLE_FROM_CLOCK;
    h->detail = 0;
    h->value = 1;
    h->ticket = 0;
    h->n_kernel = 0;
    h->n_user = 0;
    h->n_context = 0;
    h->user_end = UNWIND_END_NONE;
    h->flags = 0;
    h->changes = 0;
    h->rest = 0;
    bpf_probe_read_kernel(h->comm, sizeof h->comm, task->comm); /* whose code is needed for the stack, too */
}

/* Sends the program in e->exec.path, of n bytes with its NUL, that a process has begun with `file`. */
static __always_inline void send_exec(struct exec_scratch *e, struct file *file, __u64 n, __u64 flags)
{
    const unsigned char *name = BPF_CORE_READ(file, f_path.dentry, d_name.name);
    if (bpf_probe_read_kernel_str(e->exec.name, SAMPLE_NAME_MAX, name) == SAMPLE_NAME_MAX)
        e->exec.name[0] = 0;
    e->exec.head.kind = SAMPLE_EXEC;
    barrier_var(n);
    if (n > SAMPLE_PATH_MAX)
        return;
    if (bpf_ringbuf_output(&ring, e, sizeof e->exec - SAMPLE_PATH_MAX + n, flags))
        __sync_fetch_and_add(&n_exec_lost, 1);
}

static __always_inline struct program *find_program(__u32 pid, __u64 start)
{
    __u32 at = pid % PROGRAMS;
    struct program *program = bpf_map_lookup_elem(&programs, &at);
    return program && program->pid == pid && program->start == start ? program : 0;
}

/* Tells which program a process has begun, if that is known and was not told. 0: it is not known. */
static __always_inline int tell_begun(struct exec_scratch *e, __u32 pid, __u64 start)
{
    struct program *program = find_program(pid, start);
    if (!program || program->is_told)
        return program != 0;
    long n = bpf_probe_read_kernel_str(e->exec.path, sizeof program->path, program->path);
    if (n <= 0 || *(volatile __u32 *)&program->pid != pid)
        return 0;
    program->is_told = 1;
    if (!find_known(pid, start)) {
        struct known_process known = {.start = start};
        bpf_map_update_elem(&seen, &pid, &known, BPF_ANY);
    }
    e->exec.head.pid = e->exec.head.tid = pid;
    e->exec.head.start = start;
    send_exec(e, BPF_CORE_READ(current_task(), mm, exe_file), n, BPF_RB_NO_WAKEUP);
    return 1;
}

/* Whether a process still is the child of the one that forked it, and not of who has taken over orphans: both
 * run the same program, or at least go by the same name. */
static __always_inline int is_child_of(struct task_struct *child, struct task_struct *parent)
{
    struct mm_struct *own = FIELD(child, mm), *other = FIELD(parent, mm);
    if (own && other && FIELD(own, exe_file) == FIELD(other, exe_file))
        return 1;
    __u64 name[2] = {0}, others[2] = {0};
    bpf_probe_read_kernel(name, sizeof name, child->comm);
    bpf_probe_read_kernel(others, sizeof others, parent->comm);
    return name[0] == others[0] && name[1] == others[1];
}

/* Generations without an execve that are gone through for one that user space may know. */
#define GENERATIONS 4

/* Tells of the current process what user space needs to know of it before its first sample, as it may have
 * ended by then: the program it has begun; or whose child it is, whose program it is until it begins one. */
__attribute__((noinline)) int tell_process(__u32 slot)
{
    struct scratch *s = scratch_of(slot);
    struct exec_scratch *e = bpf_map_lookup_elem(&exec_scratches, &slot);
    if (!s || !e)
        return 0;
    if (!told_from)
        told_from = bpf_ktime_get_boot_ns();
    e->exec.head = s->head;
    struct task_struct *child = FIELD(current_task(), group_leader);
    if (tell_begun(e, s->head.pid, s->head.start) || !(FIELD(child, flags) & PF_FORKNOEXEC))
        return 0;
    struct task_struct *of = child;
    __u32 pid = 0;
    __u64 start = 0;
#pragma clang loop unroll(full)
    for (int i = 0; i < GENERATIONS; i++) {
        struct task_struct *parent = FIELD(of, real_parent);
        parent = FIELD(parent, group_leader);
        if (!is_child_of(of, parent))
            return 0;
        pid = FIELD(parent, tgid);
        start = FIELD(parent, start_boottime);
        if (!(FIELD(parent, flags) & PF_FORKNOEXEC) || start < told_from || find_known(pid, start))
            break;
        of = parent;
    }
    (void)tell_begun(e, pid, start);
    e->exec.head.kind = SAMPLE_FORK;
    e->exec.head.pid = e->exec.head.tid = s->head.pid;
    e->exec.head.start = s->head.start;
    e->exec.head.value = pid;
    e->exec.head.ticket = start;
    if (bpf_ringbuf_output(&ring, e, sizeof e->exec.head, BPF_RB_NO_WAKEUP))
        __sync_fetch_and_add(&n_notices_lost, 1);
    return 0;
}

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SLOTS); /* or one; as the scratches */
    __type(key, __u32);
    __type(value, struct sample_process);
} process_scratches SEC(".maps");

/* Tells of the current process what costs user space system calls, and what its owner may keep it from: most
 * of those that are new have ended soon. */
__attribute__((noinline)) int tell_facts(__u32 slot)
{
    struct scratch *s = scratch_of(slot);
    struct sample_process *p = bpf_map_lookup_elem(&process_scratches, &slot);
    struct task_struct *task = current_task(), *leader = FIELD(task, group_leader);
    struct mm_struct *mm = FIELD(task, mm);
    if (!s || !p || BPF_CORE_READ(leader, thread_pid, level) != 0)
        return 0;
    __u64 from = 0, n = ~0ull; /* a process in exit has none any more */
    if (mm) {
        from = FIELD(mm, env_start);
        n = FIELD(mm, env_end) - from;
    }
    barrier_var(n);
    __u32 has_environ = 1;
    if (n > SAMPLE_ENVIRON_MAX || bpf_probe_read_user(p->environ, n, (void *)from))
        n = has_environ = 0;
    struct task_struct *parent = FIELD(leader, real_parent);
    p->head = s->head;
    p->head.kind = SAMPLE_PROCESS;
    p->head.detail = has_environ;
    p->user = bpf_get_current_uid_gid();
    p->parent = FIELD(parent, tgid);
    bpf_ringbuf_output(&ring, p, __builtin_offsetof(struct sample_process, environ) + n, BPF_RB_NO_WAKEUP);
    return 0; /* lost, it is read */
}

/* Whether user space has to be woken for the current process, which is told of first. */
static __always_inline int is_new(const struct scratch *s, __u32 slot)
{
    __u32 pid = s->head.pid;
    struct known_process *known = find_known(pid, s->head.start);
    if (known && known->is_sampled)
        return 0;
    if (known) {
        known->is_sampled = 1;
    } else {
        struct known_process fresh = {.start = s->head.start, .is_sampled = 1};
        bpf_map_update_elem(&seen, &pid, &fresh, BPF_ANY);
        tell_process(slot);
    }
    tell_facts(slot);
    return 1;
}

/* Words of runtimes lately told, stacks at a time. */
#define TOLD_BITS 12
__u32 told[1 << TOLD_BITS];
__u32 has_untold = 0; /* words that user space has not been woken for */
__u64 told_when = 0;

/* Whether user space is to look at words: they must be named while what they mean is there, and code made for
 * one call is not there for long. At most once in 10 ms. */
static __always_inline int has_new_words(const struct scratch *s)
{
    __u64 hash = (s->walk.runtime.told + s->head.start) * 0x9e3779b97f4a7c15ull;
    __u32 at = hash >> (64 - TOLD_BITS);
    if (told[at] != (__u32)(hash >> 16)) {
        told[at] = hash >> 16;
        has_untold = 1;
    }
    if (!has_untold || s->head.time - told_when < 10000000)
        return 0;
    has_untold = 0;
    told_when = s->head.time;
    return 1;
}

/* No wake-up a sample: user space comes by itself a few times a second. It is called early only for a process
 * it has never seen, for words likewise, and when half of the ring is full. */
static __always_inline __u64 wakeup(const struct scratch *s, int is_first)
{
    const struct sample_head *h = &s->head;
    if (is_first)
        return BPF_RB_FORCE_WAKEUP;
    if (UNLIKELY(!h->is_kernel_thread && s->walk.runtime.told) && has_new_words(s))
        return BPF_RB_FORCE_WAKEUP;
    return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_size / 2 ? BPF_RB_FORCE_WAKEUP
                                                                       : BPF_RB_NO_WAKEUP;
}

/* The user stack by the kernel's frame pointer walk, words behind those of the kernel's: 32-bit programs, and
 * machines this folder has no rules for. */
static __always_inline void kernel_walk(void *ctx, struct scratch *s)
{
    __u64 at = s->head.n_kernel;
    barrier_var(at);
    if (at > SAMPLE_KERNEL_MAX)
        return;
    long n = bpf_get_stack(ctx, &s->body[at], SAMPLE_KERNEL_MAX * 8, BPF_F_USER_STACK);
    s->head.n_user = n > 0 ? (__u64)n / 8 : 0;
    s->head.flags = SAMPLE_PLAIN;
    s->head.user_end = UNWIND_END_OTHER_ABI;
}

#ifdef __TARGET_ARCH_x86
/* struct pt_regs as perf_event programs see it (Linux arch/x86/include/uapi/asm/ptrace.h), in words. */
enum {
    R15,
    R14,
    R13,
    R12,
    RBP,
    RBX,
    R11,
    R10,
    R9,
    R8,
    RAX,
    RCX,
    RDX,
    RSI,
    RDI,
    ORIG_RAX,
    RIP,
    CS,
    FLAGS,
    RSP
};

#define USER_CS_64 0x33 /* __USER_CS: 64-bit code */

/* Whether the tick interrupted user code: then there is no kernel stack to look for. */
static __always_inline int hit_user(const __u64 *ctx)
{
    return (*(const volatile __u64 *)&ctx[CS] & 3) == 3;
}

/* Without a helper that says so (5.15) they are at the end of the thread's stack, which is of 16 KiB, or
 * twice as much with KASAN (Linux arch/x86/include/asm/page_64_types.h). */
static __always_inline void *entry_registers(struct task_struct *task)
{
    if (HAS_HELPER(task_pt_regs))
        return (void *)bpf_task_pt_regs(task);
    __u64 size = 16384 << bpf_core_field_exists(task->kasan_depth);
    return (char *)FIELD(task, stack) + size - bpf_core_type_size(struct pt_regs);
}

/* The user's registers: those the tick or probe interrupted, or (also when `regs` is NULL) those saved when
 * the thread entered the kernel. Returns their code segment, 0 if it has none. */
static __always_inline __u64 read_registers(const __u64 *regs, struct task_struct *task, struct walk *w)
{
    struct unwind_registers *r = &w->at;
    __u64 *saved = w->window; /* empty yet; the program's stack is short */
    __u64 cs = regs ? *(const volatile __u64 *)&regs[CS] & 0xffff : 0;
#define COPY(from)                                                                                  \
    r->all[0] = from[RAX], r->all[1] = from[RDX], r->all[2] = from[RCX], r->all[3] = from[RBX],     \
    r->all[4] = from[RSI], r->all[5] = from[RDI], r->all[6] = from[RBP], r->all[7] = from[RSP],     \
    r->all[8] = from[R8], r->all[9] = from[R9], r->all[10] = from[R10], r->all[11] = from[R11],     \
    r->all[12] = from[R12], r->all[13] = from[R13], r->all[14] = from[R14], r->all[15] = from[R15], \
    r->ip = from[RIP]
    if ((cs & 3) == 3) {
        const volatile __u64 *live = regs;
        COPY(live);
    } else {
        if (bpf_probe_read_kernel(saved, (RSP + 1) * sizeof *saved, entry_registers(task)))
            return 0;
        COPY(saved);
        cs = saved[CS] & 0xffff;
    }
#undef COPY
    r->sp = r->all[7];
    r->bp = r->all[6];
    r->is_return = 0;
    r->bp_lost = 0;
    r->has_all = 1;
    r->had_all = 0;
    return cs;
}

/* `regs` is ctx where that is a struct pt_regs, NULL elsewhere. */
static __always_inline void user_stack(void *ctx, const __u64 *regs, struct scratch *s, __u32 slot,
                                       struct task_struct *task)
{
    struct mm_struct *mm = FIELD(task, mm);
    if (!mm)
        return;
    __u64 cs = read_registers(regs, task, &s->walk);
    if (cs != USER_CS_64) {
        if ((cs & 3) == 3)
            kernel_walk(ctx, s);
        return; /* a worker of the kernel's in the process's name, or one in exec or exit */
    }
    walk_stack(s, slot, mm, s->head.time);
    __u32 end = s->walk.end;
    int is_cut = end != UNWIND_END_ROOT && end != UNWIND_END_DEPTH && s->head.n_user > 0;
    if (UNLIKELY(end == UNWIND_END_MISSING || is_cut))
        words_ahead(slot);
    s->head.user_end = s->walk.end;
    s->head.changes = s->walk.cache[s->walk.set & (CACHE_SETS - 1)].changes;
    s->head.flags = SAMPLE_EXACT | (s->walk.is_guessed ? SAMPLE_GUESSED : 0);
}
#else
static __always_inline int hit_user(const __u64 *ctx)
{
    return 0; /* the kernel's walk finds out */
}

static __always_inline void user_stack(void *ctx, const __u64 *regs, struct scratch *s, __u32 slot,
                                       struct task_struct *task)
{
    s->walk.wants = 0;
    kernel_walk(ctx, s);
}
#endif

/* Apart from the samples, as another thread reads them: each unwinds badly until it is answered. */
struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 64 * 1024);
} wants SEC(".maps");

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SLOTS + 1); /* one a slot, and one of execs */
    __type(key, __u32);
    __type(value, struct sample_want);
} want_scratches SEC(".maps");

/* Asks user space for what the walk wants, if anything. Lost, it is asked again in a while. */
static __always_inline void send_want(struct scratch *s, __u32 mine)
{
    struct sample_want *want = bpf_map_lookup_elem(&want_scratches, &mine);
    if (!want || !s->walk.wants)
        return;
    s->walk.wants = 0;
    want->head = s->head;
    want->head.kind = SAMPLE_WANT;
    want->head.detail = s->walk.wants_runtime;
    want->key = s->walk.wanted;
    want->start = s->walk.wanted_start;
    want->end = s->walk.wanted_end;
    want->path[0] = 0;
    bpf_ringbuf_output(&wants, want, sizeof *want, BPF_RB_FORCE_WAKEUP);
}

const volatile __u64 rest_places = UNWIND_RESTS_MAX; /* set before loading */

/* Walks that user space ends. */
struct {
    __uint(type, BPF_MAP_TYPE_ARRAY);
    __uint(max_entries, UNWIND_RESTS_MAX); /* or fewer; rest_places */
    __uint(map_flags, BPF_F_MMAPABLE);
    __type(key, __u32);
    __type(value, struct unwind_rest);
} unwind_rests SEC(".maps");

struct unwind_far unwind_far[UNWIND_FARS]; /* written by user space */

__u64 rest_takers[UNWIND_RESTS_MAX]; /* whom user space takes away when it has read the rest */

__u64 rest_turn = 0;
__u64 n_rests = 0; /* stacks handed to user space for rows that were not there */

static __always_inline struct unwind_rest *claim_rest(struct sample_head *head)
{
    /* In turn, as they are given back; two at once may have the same turn. */
    __sync_fetch_and_add(&rest_turn, 1);
    __u32 number = *(volatile __u64 *)&rest_turn % rest_places;
    struct unwind_rest *rest = bpf_map_lookup_elem(&unwind_rests, &number);
    head->rest = number;
    barrier_var(number); /* the verifier is to see that it is below */
    return rest && take(&rest_takers[number % UNWIND_RESTS_MAX]) ? rest : 0;
}

/* Copies page i of a stack that begins with the one at `from` to a rest. 0, or 1: it has no more. */
__attribute__((noinline)) int copy_page(__u32 number, __u32 i, __u64 from)
{
    struct unwind_rest *rest = bpf_map_lookup_elem(&unwind_rests, &number);
    __u64 at = from + i * 4096ull;
    if (!rest || i >= UNWIND_REST_PAGES || at >= rest->end)
        return 1;
    if (i >= UNWIND_REST_PAGES - UNWIND_REST_LAST)
        at = rest->end - (UNWIND_REST_PAGES - i) * 4096ull;
    if (!bpf_probe_read_user(rest->stack[i], sizeof rest->stack[i], (void *)at))
        rest->has |= 1ull << i;
    return 0;
}

/* Where the walk comes to yet is mostly the program's own code, of which nobody can be asked once the process
 * has ended: so it is among what the rest of the walk may go by, though the walk was not there. */
static __always_inline void remember_program(struct walk *w, __u32 slot)
{
    struct mm_struct *mm = (struct mm_struct *)w->mm;
    __u32 wants = w->wants;
    w->wants = 1; /* nothing is asked for: the rest of the walk loads what it comes to */
    enter_mapping(slot, BPF_CORE_READ(mm, start_code));
    w->wants = wants;
}

/* Hands a walk that met rows that are not there to user space: the sample as far as it is, registers, and the
 * stack above. 1: that is done, and the sample is its; 0: there is no room. */
__attribute__((noinline)) int send_rest(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, 0);
    struct walk *w = &s->walk;
    struct unwind_rest *rest = claim_rest(&s->head);
    if (!rest)
        return 0;
    rest->end = look_at(slot, w->at.sp) ? 0 : w->finder.end;
    const struct unwind_far *far = &unwind_far[s->head.tid % UNWIND_FARS];
    if (far->thread == s->head.tid)
        rest->end = far->end;
    rest->has = 0;
    rest->user = bpf_get_current_uid_gid();
    rest->n_ahead = w->n_ahead;
    rest->is_told = w->is_told;
    __u32 number = s->head.rest;
    __u64 from = w->at.sp & ~4095ull;
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < UNWIND_REST_PAGES; i++)
        if (copy_page(number, i, from))
            break;
    remember_program(w, slot);
    struct cache_set *set = &w->cache[w->set & (CACHE_SETS - 1)];
    _Static_assert(UNWIND_REST_WAYS == CACHE_WAYS, "all that is remembered");
    rest->ways = set->proven;
    bpf_probe_read_kernel(rest->way, sizeof rest->way, set->way);
    rest->at = w->at;
    __u64 body = SAMPLE_BODY_BYTES(&s->head);
    barrier_var(body);
    s->head.kind = SAMPLE_REST;
    int failed = body > sizeof s->body ||
                 bpf_ringbuf_output(&wants, &s->head, sizeof s->head + body, BPF_RB_FORCE_WAKEUP);
    s->head.kind = SAMPLE_STACK;
    if (failed) {
        give_back(&rest_takers[s->head.rest % UNWIND_RESTS_MAX]);
        return 0;
    }
    __sync_fetch_and_add(&n_rests, 1);
    return 1;
}

/* Takes the stacks of the current thread and sends the sample; the head's own fields are set. `skip`: kernel
 * frames of ours on top; all with SKIP_ALL. 0: it is lost, and counted. */
#define SKIP_ALL 255u /* BPF_F_SKIP_FIELD_MASK */
static __always_inline int send_stack(void *ctx, const __u64 *regs, struct scratch *s,
                                      struct task_struct *task, __u32 slot, __u64 skip)
{
    __sync_fetch_and_add(&n_samples, 1);
    s->walk.is_remembered = 0;
    /* Lengths are kept in u64 behind a barrier, or clang checks one copy and uses another. */
    if (!regs || !hit_user(regs)) {
        long n = bpf_get_stack(ctx, s->body, SAMPLE_KERNEL_MAX * 8, skip);
        s->head.n_kernel = n > 0 ? (__u64)n / 8 : 0;
    }
    if (!s->head.is_kernel_thread) {
        user_stack(ctx, regs, s, slot, task);
        read_context(s, task);
    }
    int is_first = !s->head.is_kernel_thread && !s->walk.is_remembered && is_new(s, slot);
    if (UNLIKELY(s->head.user_end == UNWIND_END_MISSING)) {
        if (send_rest(slot)) {
            /* What it wants of tables is loaded as it is walked on, by the mapping; moved code has none. */
            if (s->walk.wants_runtime || !s->walk.wanted_end)
                send_want(s, slot);
            return 1;
        }
        __sync_fetch_and_add(&n_ends[UNWIND_END_MISSING], 1);
    }
    __u64 size = SAMPLE_BODY_BYTES(&s->head);
    barrier_var(size);
    int is_lost = size > sizeof s->body ||
                  bpf_ringbuf_output(&ring, &s->head, sizeof s->head + size, wakeup(s, is_first));
    if (is_lost)
        __sync_fetch_and_add(&n_lost, 1);
    send_want(s, slot);
    return !is_lost;
}

/* Sends a head alone. A stack whose weight finds no room is lost; that it weighs nothing, and what processes
 * do, is no sample. */
static __always_inline void send_head(const struct sample_head *h)
{
    __u64 flags =
        bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_size / 2 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
    if (bpf_ringbuf_output(&ring, (void *)h, sizeof *h, flags) == 0)
        return;
    if (h->kind == SAMPLE_VALUE)
        __sync_fetch_and_add(&n_lost, h->value != 0);
    else
        __sync_fetch_and_add(&n_notices_lost, 1);
}

#endif
