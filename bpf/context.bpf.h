/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the sampled thread works for: the record it publishes (OTEP 4947), else what OBI, the eBPF
 * instrumentation, knows of it by its shared map (opentelemetry-ebpf-instrumentation,
 * devdocs/trace-profile-correlation.md). The thread's own word goes before.
 *
 * The thread is interrupted, or in the kernel: so it is not writing, as OTEP 4947 asks of readers.
 */
#ifndef BPF_CONTEXT_BPF_H
#define BPF_CONTEXT_BPF_H

#include "bpf/context.h"
#include "bpf/kernel.bpf.h"
#include "bpf/walk.bpf.h"

/* Filled by user space. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, CONTEXT_PLACES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct context_place);
} context_places SEC(".maps");

__u32 n_context_places = 0; /* 0: nobody is looked up */

/* OBI's map, by the name and shape both agreed on; opened or made by user space where it is asked for. Else
 * it has one entry, and is not looked at. */
struct trace_ids {
    __u8 trace_id[16];
    __u8 span_id[8];
};
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1);
    __type(key, __u64);
    __type(value, struct trace_ids);
} traces_ctx_v1 SEC(".maps");

const volatile __u32 with_trace_map = 0;

#ifdef __TARGET_ARCH_x86
#define LOAD_USER(address, to) bpf_probe_read_user(to, 8, (void *)(address))

/* Copies the record the thread publishes to `to`, of CONTEXT_BYTES_MAX bytes; its length, 0: there is none.
 */
static __always_inline __u32 read_published(struct scratch *s, struct task_struct *task, __u8 *to)
{
    __u32 pid = s->head.pid;
    const struct context_place *place = bpf_map_lookup_elem(&context_places, &pid);
    if (!place || place->start != s->head.start)
        return 0;
    __u64 thread = BPF_CORE_READ((struct task_struct___tls *)task, thread.fsbase), variable, record = 0;
    CONTEXT_VARIABLE(place, thread, LOAD_USER, &variable);
    if (!variable || LOAD_USER(variable, &record) || !record || (record & 1) ||
        bpf_probe_read_user(to, CONTEXT_HEAD_BYTES, (void *)record) || to[CONTEXT_VALID_AT] != 1)
        return 0;
    __u64 size = *(volatile __u16 *)(to + CONTEXT_SIZE_AT);
    if (size > CONTEXT_ATTRS_MAX)
        size = CONTEXT_ATTRS_MAX;
    barrier_var(size);
    if (size == 0 || size > CONTEXT_ATTRS_MAX ||
        bpf_probe_read_user(to + CONTEXT_HEAD_BYTES, size, (void *)(record + CONTEXT_HEAD_BYTES)))
        return CONTEXT_HEAD_BYTES;
    return CONTEXT_HEAD_BYTES + size;
}
#else
static __always_inline __u32 read_published(struct scratch *s, struct task_struct *task, __u8 *to)
{
    return 0;
}
#endif

static __always_inline __u32 read_trace_map(__u8 *to)
{
    __u64 id = bpf_get_current_pid_tgid();
    const struct trace_ids *ids = bpf_map_lookup_elem(&traces_ctx_v1, &id);
    if (!ids)
        return 0;
    __builtin_memcpy(to, ids, sizeof *ids);
    *(__u32 *)(to + CONTEXT_VALID_AT) = 1; /* valid; no flags, no attributes */
    return CONTEXT_HEAD_BYTES;
}

/* Puts the context of the current thread behind the frames of its stack. */
static __always_inline void read_context(struct scratch *s, struct task_struct *task)
{
    __u64 at = (__u64)s->head.n_kernel + SAMPLE_USER_WORDS(&s->head);
    barrier_var(at);
    if (at > SAMPLE_WORDS_MAX)
        return;
    __u8 *to = (__u8 *)&s->body[at];
    __u32 n = *(volatile __u32 *)&n_context_places ? read_published(s, task, to) : 0;
    if (!n && with_trace_map)
        n = read_trace_map(to);
    s->head.n_context = n;
}

#endif
