/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The steps of runtimes whose frames are not those of the machine. A step is asked at each frame that is in a
 * file of its runtime's (mapping.runtime; user space said so), and as long as it says that it is `inside`
 * also elsewhere:
 *
 *     int NAME_step(struct scratch *s, const struct runtime_place *place, __u64 address)
 *
 * 1: it has taken the step: walk.at is the caller, or the next word of the same machine frame is to come
 * (walk.runtime keeps where it is), and what there is to tell is told by add_frame. 0: the frame is native's.
 */
#ifndef BPF_RUNTIMES_BPF_H
#define BPF_RUNTIMES_BPF_H

/* Here: #include "bpf/NAME.bpf.h", one each. */

/* None but native: then nothing of this costs anything. */
#define RUNTIMES_STEP (RUNTIME_TAGS > 1)

/* Filled by user space, by pid. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1024);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u32);
    __type(value, struct runtime_place);
} runtime_places SEC(".maps");

static __always_inline int native_step(struct scratch *s, const struct runtime_place *place, __u64 address)
{
    return 0;
}

/* Asks user space for a runtime's place in this process, once in a while. */
static __always_inline void want_place(struct scratch *s, __u32 runtime)
{
    struct walk *w = &s->walk;
    struct unwind_key once = {
        .inode = s->head.start, .size = s->head.pid, .mtime = ~0ull, .device = runtime}; /* no file's */
    if (w->wants || !ask_for(&once, w->now))
        return;
    w->wants = 1;
    w->wants_runtime = runtime;
    w->wanted = once;
    w->wanted_start = w->here.start;
    w->wanted_end = w->here.start + w->here.length;
}

__attribute__((noinline)) int runtime_step(__u32 slot, __u64 address)
{
    struct scratch *s = scratch_of(slot);
    if (!s)
        return 0;
    __u32 pid = s->head.pid, runtime = s->walk.runtime.inside ? s->walk.runtime.inside : s->walk.here.runtime;
    const struct runtime_place *place = bpf_map_lookup_elem(&runtime_places, &pid);
    if (!place || place->start != s->head.start || place->runtime != runtime) {
        want_place(s, runtime);
        return 0;
    }
    switch (runtime) {
#define RUNTIME_CASE(tag, name) \
    case RUNTIME_##tag: return name##_step(s, place, address);
        RUNTIMES(RUNTIME_CASE)
#undef RUNTIME_CASE
    }
    return 0;
}

#endif
