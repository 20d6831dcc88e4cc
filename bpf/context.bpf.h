/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the sampled thread works for: the record it publishes (OTEP 4947), else what OBI, the eBPF
 * instrumentation, knows of it by its shared map (opentelemetry-ebpf-instrumentation,
 * devdocs/trace-profile-correlation.md). The thread's own word goes before.
 *
 * Of Go's programs, which publish nothing, the labels of the goroutine (bpf/go.h).
 *
 * The thread is interrupted, or in the kernel: so it is not writing, as OTEP 4947 asks of readers.
 */
#ifndef BPF_CONTEXT_BPF_H
#define BPF_CONTEXT_BPF_H

#include "bpf/context.h"
#include "bpf/go.h"
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
    bpf_probe_read_kernel(to, sizeof *ids, ids);
    *(__u32 *)(to + CONTEXT_VALID_AT) = 1; /* valid; no flags, no attributes */
    return CONTEXT_HEAD_BYTES;
}

__u64 n_labels_left = 0; /* samples: their goroutine has more labels than were taken */

/* Where a context goes: behind the frames of the stack. NULL: nowhere. */
static __always_inline __u8 *context_room(struct scratch *s)
{
    __u64 at = (__u64)s->head.n_kernel + SAMPLE_USER_WORDS(&s->head);
    barrier_var(at);
    return at > SAMPLE_WORDS_MAX ? 0 : (__u8 *)&s->body[at];
}

#ifdef __TARGET_ARCH_x86
/* What is remembered from one label to the next, over walk.runtime.word: the walk is over. */
struct go_labels {
    __u64 at;   /* the pairs, or the buckets */
    __u64 n;    /* pairs, or slots */
    __u64 used; /* of the context */
    __u64 all, taken;
};
struct go_string {
    __u64 p, n;
};

/* A goroutine's labels: where they are. 0: it has none. */
static __always_inline int find_go_labels(const struct go_place *p, struct go_labels *l)
{
    __u64 g = 0, m = 0, labels = 0, map[GO_MAP_BUCKETS_AT / 8 + 1];
    if (LOAD_USER(RUNTIME_THREAD() + p->thread, &g) || !g || LOAD_USER(g + p->m, &m) || !m ||
        LOAD_USER(m + p->current, &g) || !g || LOAD_USER(g + p->labels, &labels) || !labels)
        return 0;
    l->used = CONTEXT_HEAD_BYTES;
    l->taken = 0;
    if (!p->is_map) {
        int r = bpf_probe_read_user(l, 16, (void *)labels);
        l->all = l->n;
        return !r;
    }
    if (LOAD_USER(labels, &g) || bpf_probe_read_user(map, sizeof map, (void *)g) || !map[0])
        return 0;
    l->all = map[0];
    l->at = map[GO_MAP_BUCKETS_AT / 8];
    l->n = map[1] >> 8 & 0xff ? 2 * GO_BUCKET_SLOTS : GO_BUCKET_SLOTS; /* B: 0 is one bucket */
    return 1;
}

/* Puts a string of `most` bytes at most; its length, or -1. */
static __always_inline long copy_text(__u8 *to, __u64 header, __u64 most)
{
    struct go_string text;
    if (bpf_probe_read_user(&text, sizeof text, (void *)header))
        return -1;
    __u64 n = text.n < most ? text.n : most;
    barrier_var(n);
    if (n > most || bpf_probe_read_user(to, n, (void *)text.p))
        return -1;
    return n;
}

/* Puts one behind those that are there. 1: there is no room for any other. */
__attribute__((noinline)) int go_label(__u32 slot, __u32 i)
{
    SCRATCH_OR_RETURN(slot, 1);
    struct go_labels *l = (struct go_labels *)s->walk.runtime.word;
    __u64 at = l->at + i * (__u64)sizeof(struct go_string[2]), next = at + sizeof(struct go_string);
    __u8 *to = context_room(s), top = GO_SLOT_TAKEN;
    if (i >= l->n || !to)
        return 1;
    if (((const struct go_place *)s->walk.runtime.place.word)->is_map) {
        __u64 bucket = l->at + i / GO_BUCKET_SLOTS * (__u64)GO_BUCKET_BYTES, of = i % GO_BUCKET_SLOTS;
        at = bucket + GO_BUCKET_KEYS + of * sizeof(struct go_string);
        next = bucket + GO_BUCKET_VALUES + of * sizeof(struct go_string);
        if (bpf_probe_read_user(&top, 1, (void *)(bucket + of)))
            return 1;
    }
    if (top < GO_SLOT_TAKEN)
        return 0;
    /* Pointers: of numbers that it keeps for later, the verifier of 5.10 forgets their bounds. */
    __u64 used = l->used;
    barrier_var(used);
    if (used > CONTEXT_BYTES_MAX)
        return 1;
    to += used;
    long n = copy_text(to + 2, at, GO_KEY_MAX);
    if (n < 0 || n > GO_KEY_MAX)
        return 0;
    to[0] = n;
    used += 2 + n;
    n = copy_text(to + 2 + n, next, GO_VALUE_MAX);
    if (n < 0 || used + n > CONTEXT_BYTES_MAX)
        return n >= 0;
    to[1] = n;
    l->used = used + n;
    l->taken++;
    return 0;
}

/* Puts the labels of the goroutine that runs; the length of all, 0: it has none. */
__attribute__((noinline)) int go_context(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, 0);
    __u32 wants = s->walk.wants;
    if (s->walk.runtime.of != RUNTIME_GO) {
        s->walk.wants = 1; /* its own step has asked */
        find_place(slot, RUNTIME_GO);
        s->walk.wants = wants;
    }
    struct go_labels *l = (struct go_labels *)s->walk.runtime.word;
    __u8 *to = context_room(s);
    if (!to || !s->walk.runtime.has_place ||
        !find_go_labels((const struct go_place *)s->walk.runtime.place.word, l))
        return 0;
    __builtin_memset(to, 0, CONTEXT_HEAD_BYTES);
    to[CONTEXT_VALID_AT] = GO_CONTEXT;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < GO_LABELS_MAX; i++)
        if (go_label(slot, i))
            break;
    if (l->taken < l->all)
        __sync_fetch_and_add(&n_labels_left, 1);
    if (l->used <= CONTEXT_HEAD_BYTES || l->used > CONTEXT_BYTES_MAX)
        return 0;
    *(__u16 *)(to + CONTEXT_SIZE_AT) = l->used - CONTEXT_HEAD_BYTES;
    return l->used;
}
#else
static __always_inline int go_context(__u32 slot)
{
    return 0;
}
#endif

/* Puts the context of the current thread behind the frames of its stack. */
static __always_inline void read_context(struct scratch *s, struct task_struct *task)
{
    __u8 *to = context_room(s);
    if (!to)
        return;
    __u32 n = *(volatile __u32 *)&n_context_places ? read_published(s, task, to) : 0;
    if (!n && UNLIKELY(s->walk.runtime.is_go))
        n = go_context(s->walk.slot);
    if (!n && with_trace_map)
        n = read_trace_map(to);
    s->head.n_context = n;
}

#endif
