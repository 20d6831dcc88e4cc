/*
 * Samples what runs: on every tick of a CPU's clock the kernel stack and the user stack (by frame pointer) of
 * the current thread, and a notice of every execve.
 *
 * The few kernel structs used are declared by hand: CO-RE relocates the fields by name against the running
 * kernel's BTF, so building needs no vmlinux.h. Loads on 6.1 and later.
 */
#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#include "bpf/sample.h"

char LICENSE[] SEC("license") = "GPL";

#define BY_NAME __attribute__((preserve_access_index))

struct mm_struct;

struct task_struct {
    int pid, tgid;
    unsigned long long start_boottime;
    struct task_struct *group_leader;
    struct mm_struct *mm;
} BY_NAME;

struct linux_binprm {
    const char *filename;
} BY_NAME;

/* Filters, set before loading; constants to the verifier, which removes the branches not taken. */
const volatile __u32 with_idle = 0; /* 1: CPU idle time too, as pid 0 */
const volatile __u32 only_pid = 0;  /* 0: all */
const volatile __u64 ring_size = 0; /* bytes in the ring buffer */

/* Counted here, read by user space through the mapped .bss. */
__u64 n_samples = 0; /* taken, the lost ones included */
__u64 n_lost = 0;    /* no room in the ring buffer */
__u64 n_exec_lost = 0;

struct {
    __uint(type, BPF_MAP_TYPE_RINGBUF);
    __uint(max_entries, 256 * 1024); /* user space sets it by the number of CPUs */
} ring SEC(".maps");

struct scratch {
    struct sample_head head;
    __u64 address[SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

struct exec_scratch {
    struct sample_exec exec;
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct exec_scratch);
} exec_scratches SEC(".maps");

/* Processes user space was already woken for: the first sample of each is read at once, while /proc still
 * knows it. */
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 4096);
    __type(key, __u32);
    __type(value, __u64);
} seen SEC(".maps");

static __always_inline void fill_head(struct sample_head *h, struct task_struct *task, __u32 kind)
{
    __u64 id = bpf_get_current_pid_tgid();
    h->kind = kind;
    h->pid = id >> 32;
    h->tid = (__u32)id;
    h->time = bpf_ktime_get_ns();
    h->cpu = bpf_get_smp_processor_id();
    h->start = BPF_CORE_READ(task, group_leader, start_boottime);
    h->is_kernel_thread = BPF_CORE_READ(task, mm) == 0;
    h->n_kernel = 0;
    h->n_user = 0;
    h->reserved = 0;
    bpf_get_current_comm(h->comm, sizeof h->comm);
}

static __always_inline int is_new(__u32 pid, __u64 start)
{
    __u64 *known = bpf_map_lookup_elem(&seen, &pid);
    if (known && *known == start)
        return 0;
    bpf_map_update_elem(&seen, &pid, &start, BPF_ANY);
    return 1;
}

/* No wake-up a sample: user space comes by itself a few times a second. It is called early only for a process
 * it has never seen, and when half of the ring is full. */
static __always_inline __u64 wakeup(const struct sample_head *h)
{
    if (!h->is_kernel_thread && is_new(h->pid, h->start))
        return BPF_RB_FORCE_WAKEUP;
    return bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_size / 2 ? BPF_RB_FORCE_WAKEUP
                                                                       : BPF_RB_NO_WAKEUP;
}

SEC("perf_event")
int on_tick(void *ctx)
{
    __u32 zero = 0, pid = bpf_get_current_pid_tgid() >> 32;
    if ((pid == 0 && !with_idle) || (only_pid && pid != only_pid))
        return 0;
    __sync_fetch_and_add(&n_samples, 1);
    struct scratch *s = bpf_map_lookup_elem(&scratches, &zero);
    if (!s)
        return 0;
    fill_head(&s->head, (struct task_struct *)bpf_get_current_task(), SAMPLE_STACK);

    /* Lengths are kept in u64 behind a barrier, or clang checks one copy and uses another. */
    long n = bpf_get_stack(ctx, s->address, SAMPLE_KERNEL_MAX * 8, 0);
    __u64 n_kernel = n > 0 ? (__u64)n / 8 : 0;
    barrier_var(n_kernel);
    if (n_kernel > SAMPLE_KERNEL_MAX)
        return 0;
    __u64 n_user = 0;
    if (!s->head.is_kernel_thread) {
        n = bpf_get_stack(ctx, &s->address[n_kernel], SAMPLE_USER_MAX * 8, BPF_F_USER_STACK);
        n_user = n > 0 ? (__u64)n / 8 : 0;
    }
    s->head.n_kernel = n_kernel;
    s->head.n_user = n_user;
    __u64 size = (n_kernel + n_user) * 8;
    barrier_var(size);
    if (size > sizeof s->address)
        return 0;
    if (bpf_ringbuf_output(&ring, s, sizeof s->head + size, wakeup(&s->head)))
        __sync_fetch_and_add(&n_lost, 1);
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
    __u64 flags =
        bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA) > ring_size / 2 ? BPF_RB_FORCE_WAKEUP : BPF_RB_NO_WAKEUP;
    if (bpf_ringbuf_output(&ring, s, sizeof s->exec.head + size, flags))
        __sync_fetch_and_add(&n_exec_lost, 1);
    return 0;
}
