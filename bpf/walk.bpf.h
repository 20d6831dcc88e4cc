/*
 * Walks a user stack by the tables of unwind.h: bpf_loop over unwind_step, with the mappings found by
 * mappings.bpf.h and the stack read in windows.
 */
#ifndef BPF_WALK_BPF_H
#define BPF_WALK_BPF_H

#include "bpf/rows.bpf.h"
#include "bpf/sample.h"

__u64 n_ends[UNWIND_ENDS]; /* how user stacks ended */

/* Mappings remembered for each of the processes this CPU ran last; a stack has 3 to 6 of them. */
#define CACHE_BITS 5u
#define CACHE_SETS (1u << CACHE_BITS)
#define CACHE_WAYS 8u
/* exec_vm (pages of executable mappings) tells most changes; a library unloaded and another of equal size
 * loaded it does not: nothing is believed for longer than this. */
#define CACHE_NS 1000000000ull

struct cache_set {
    __u64 mm, start, exec_vm, generation, additions, since;
    __u32 n, next;
    __u32 has_pending, zero;
    struct mapping way[CACHE_WAYS];
};

/* Stack memory read at once: it costs hardly more than reading 8 bytes, and holds most of a stack. */
#define WINDOW_BYTES 2048u

struct walk {
    struct unwind_registers at;
    struct mapping here; /* the one the frame's code is in */
    struct finder finder;
    __u64 mm, now;
    __u64 stack_start, stack_end; /* the mapping that frame pointers are followed in */
    __u64 window_at;
    __u32 has_window;
    __u32 end;   /* enum unwind_end */
    __u32 set;   /* of the cache */
    __u32 wants; /* `wanted` and the mapping of it are set: user space should be asked */
    __u32 n_switches;
    __u32 is_guessed;
    __u32 is_remembered; /* this CPU has met the process lately */
    struct unwind_key wanted;
    __u64 wanted_start, wanted_end;
    __u64 window[WINDOW_BYTES / 8];
    struct cache_set cache[CACHE_SETS];
};

/* One for each CPU and enum slot: a record as it goes out, and the walk that fills it. */
struct scratch {
    struct sample_head head;
    /* n_kernel, then n_user; then the thread's context */
    __u64 address[SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX + CONTEXT_BYTES_MAX / 8];
    __u64 busy;
    struct walk walk;
};

/* Files user space was asked for, and when: one it could not open in time is asked for again. */
#define ASK_AGAIN_NS 100000000ull
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, struct unwind_key);
    __type(value, __u64);
} unwind_asked SEC(".maps");

static __always_inline int ask_for(const struct unwind_key *key, __u64 now)
{
    __u64 *when = bpf_map_lookup_elem(&unwind_asked, key);
    if (when && now - *when < ASK_AGAIN_NS)
        return 0;
    bpf_map_update_elem(&unwind_asked, key, &now, BPF_ANY);
    return 1;
}

static __always_inline int window_load(struct walk *w, __u64 address, __u64 *value)
{
    __u64 distance = address - w->window_at;
    barrier_var(distance);
    if (distance > WINDOW_BYTES - 8 || (distance & 7)) {
        /* What is read next may be a little lower: registers are saved below the return address. */
        __u64 from = (address & ~7ull) - 64;
        if (!w->has_window || (address & 7) || bpf_probe_read_user(w->window, WINDOW_BYTES, (void *)from)) {
            w->has_window = 0; /* the end of the stack is nearer than a window */
            w->window_at = ~0ull << 32;
            return bpf_probe_read_user(value, 8, (void *)address);
        }
        w->window_at = from;
        distance = 64;
    }
    *value = w->window[distance >> 3 & (WINDOW_BYTES / 8 - 1)];
    return 0;
}

/* A thread that switches stacks by itself (a coroutine, a Go system stack) does so a few times in a stack. */
#define SWITCHES_MAX 8
#define VM_WRITE     0x2u

static __always_inline int in_stack(struct walk *w, const struct unwind_registers *r, __u64 address)
{
    if (address >= r->sp && address >= w->stack_start && address + 16 <= w->stack_end)
        return 1;
    if (find_mapping(&w->finder, (struct mm_struct *)w->mm, address) || !(w->finder.flags & VM_WRITE) ||
        address + 16 > w->finder.end)
        return 0;
    w->stack_start = w->finder.start;
    w->stack_end = w->finder.end;
    if (address >= r->sp && r->sp >= w->finder.start)
        return 1;
    /* Another stack. In code that has no rows because none are there yet rbp may be anything. */
    return !w->here.is_pending && ++w->n_switches <= SWITCHES_MAX;
}

#define UNWIND_WALK                    struct walk
#define UNWIND_LOAD(w, address, value) window_load(w, address, value)
#define UNWIND_IN_STACK(w, r, address) in_stack(w, r, address)
#include "bpf/unwind_step.h"

/* Sets w->here to the mapping of an address: the last one, a remembered one, or by the kernel's tree. */
static __always_inline int enter_mapping(struct walk *w, __u64 address)
{
    struct cache_set *set = &w->cache[w->set & (CACHE_SETS - 1)];
    for (__u32 i = 0; i < CACHE_WAYS; i++) {
        if (i >= set->n)
            break;
        if (address - set->way[i].start < set->way[i].length) {
            w->here = set->way[i];
            return 0;
        }
    }
    if (find_code(&w->finder, (struct mm_struct *)w->mm, address, w->now, &w->here))
        return -1;
    set->has_pending |= w->here.is_pending;
    if (w->here.is_pending && !w->wants && ask_for(&w->finder.key, w->now)) {
        w->wants = 1;
        w->wanted = w->finder.key;
        w->wanted_start = w->finder.start;
        w->wanted_end = w->finder.end;
    }
    set->way[set->next & (CACHE_WAYS - 1)] = w->here;
    set->next++;
    if (set->n < CACHE_WAYS)
        set->n++;
    return 0;
}

struct walk_context {
    struct scratch *scratch;
    struct found_rules *found;
};

static long walk_frame(__u32 i, struct walk_context *c)
{
    struct scratch *s = c->scratch;
    struct walk *w = &s->walk;
    __u64 to = (__u64)s->head.n_kernel + i;
    barrier_var(to);
    if (i >= UNWIND_FRAMES_MAX || to >= SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX) {
        w->end = UNWIND_END_DEPTH;
        return 1;
    }
    /* A return address belongs to the next instruction, which may be another function's. */
    __u64 address = w->at.ip - (w->at.is_return != 0);
    if (address - w->here.start >= w->here.length && enter_mapping(w, address)) {
        w->end = UNWIND_END_NOT_CODE;
        return 1;
    }
    struct unwind_rule rule = find_rule(&w->here, c->found, address);
    if (rule.cfa == UNWIND_CFA_SIGNAL || (rule.cfa == UNWIND_CFA_PADDING && w->at.is_return))
        address = w->at.ip; /* "returned to" without having been called: a handler's, a coroutine's first */
    s->address[to] = address;
    s->head.n_user = i + 1;
    if (w->here.is_pending)
        w->is_guessed = 1;
    w->end = unwind_step(w, &w->at, rule);
    return w->end != UNWIND_END_NONE;
}

/* Walks from walk.at in process `mm`: puts the addresses behind the kernel's, fills walk.end, is_guessed and
 * wants. */
static __always_inline void walk_stack(struct scratch *s, struct mm_struct *mm, __u64 now)
{
    struct walk *w = &s->walk;
    w->mm = (__u64)mm;
    w->now = now;
    w->here.start = 0;
    w->here.length = 0;
    w->wants = 0;
    w->n_switches = 0;
    w->is_guessed = 0;
    w->stack_start = 0;
    w->stack_end = 0;
    __u64 exec_vm = mm->exec_vm, generation = *(volatile __u64 *)&unwind_generation;
    __u64 additions = *(volatile __u64 *)&unwind_additions;
    __u64 id = *(volatile __u64 *)&w->mm;
    w->set = id * 0x9e3779b97f4a7c15ull >> (64 - CACHE_BITS);
    struct cache_set *set = &w->cache[w->set & (CACHE_SETS - 1)];
    /* A process's mm_struct may be where one was that has just ended. */
    w->is_remembered = set->mm == id && set->start == s->head.start && now - set->since <= CACHE_NS;
    if (!w->is_remembered || set->exec_vm != exec_vm || set->generation != generation ||
        (set->has_pending && set->additions != additions)) {
        set->mm = id;
        set->start = s->head.start;
        set->exec_vm = exec_vm;
        set->generation = generation;
        set->additions = additions;
        set->has_pending = 0;
        set->since = now;
        set->n = 0;
        set->next = 0;
    }
    w->has_window = 1;
    w->window_at = w->at.sp;
    if (bpf_probe_read_user(w->window, WINDOW_BYTES, (void *)w->at.sp)) {
        w->has_window = 0;
        w->window_at = ~0ull << 32;
    }
    __u32 zero = 0;
    struct walk_context context = {.scratch = s};
    context.found = bpf_map_lookup_elem(&rules_found, &zero);
    if (!context.found)
        return;
    bpf_loop(UNWIND_FRAMES_MAX + 1, walk_frame, &context, 0);
    __u32 end = w->end;
    if (end < UNWIND_ENDS)
        __sync_fetch_and_add(&n_ends[end], 1);
}

#endif
