/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Walks a user stack by the tables of unwind.h, a step (walk_frame) at a time until the walk ends:
 *
 * 1. which mapping is the code in: the one of the frame before, mostly; else one of those remembered for the
 *    process (enter_mapping); else the kernel's tree is asked (mappings.bpf.h). No executable mapping: end.
 * 2. which rule holds there (rows.bpf.h). Rows that are not there, or a file met for the first time: the walk
 *    ends, and user space, given the rest of the stack, loads what is missing and walks on. A file that it
 * was asked for lately and does not know yet: frame pointers are followed, which the sample says.
 * 3. the frame is put behind the others.
 * 4. the rule makes the caller's registers of these (unwind_step.h), by loads from the stack, of which 512
 *    bytes are read at a time.
 *
 * What is remembered of processes lives in the per-CPU scratch and is proven before it is believed: by the
 * kernel's count of changes where there is one (mm_lock_seq), else by a look at the mapping itself.
 *
 * The verifier looks at a global function once, by itself; at an inlined or static one for each of its
 * callers and each state they come in. So the step, and what it rarely needs, are global; and since kernels
 * before 5.12 let numbers only be passed to such a function, what they are passed is which scratch is worked
 * in.
 */
#ifndef BPF_WALK_BPF_H
#define BPF_WALK_BPF_H

#include "bpf/go.h"
#include "bpf/kernel.bpf.h"
#include "bpf/rows.bpf.h"
#include "bpf/sample.h"

__u64 n_ends[UNWIND_ENDS]; /* how user stacks ended */

/* Mappings remembered for each of the processes this CPU ran last; a stack has 3 to 6 of them. A process is
 * in one of two sets next to each other. */
#define CACHE_BITS 5u
#define CACHE_SETS (1u << CACHE_BITS)
#define CACHE_WAYS 8u
/* While the kernel's count of changes (mm_lock_seq, 6.4) stands, so do the mappings; when it has moved, or
 * there is none, each is looked at once before it is believed again, for mostly it was other memory that
 * changed. */

/* By what a remembered mapping is known again; `is`: where it is in its file, and when that was written. */
struct proof {
    __u64 vma, is, inode;
};

/* A file may be written to while it is mapped (cp over a library): the process runs what is there now, and no
 * mapping has changed. So each is looked at again about every four seconds, in units of unwind_used. */
#define PROOF_LASTS 2

/* Programs begun by processes that user space knew, by when these began: a tick within execve, when the
 * memory is the new program's already, is remembered as the old one's. */
#define BEGUN_BITS 10
__u32 begun[1 << BEGUN_BITS];

static __always_inline __u32 *begun_of(__u64 start)
{
    return &begun[start * 0x9e3779b97f4a7c15ull >> (64 - BEGUN_BITS)];
}

struct cache_set {
    __u64 mm, start, stack; /* whose: an mm_struct may be where one was that has just ended … */
    __u64 begun;            /* … and of which of its programs */
    __u64 generation, additions;
    __u64 last; /* when it was last used */
    __u32 changes, has_pending;
    __u32 n, next;
    __u32 proven; /* a bit a way: looked at since `changes` */
    __u32 second; /* about when it was last used, as unwind_used */
    struct unwind_mapping way[CACHE_WAYS];
    struct proof proof[CACHE_WAYS];
};

/* Stack memory read at once: it costs hardly more than reading 8 bytes, and holds most of a stack. */
#define WINDOW_BYTES 512u

#define RUNTIME_WALK_WORDS 80u

/* What a runtime's step knows of the process, and remembers from one frame of a stack to the next. */
struct runtime_walk {
    __u32 inside; /* enum runtime_tag: its step is asked wherever the code is; 0: only in its own */
    __u32 of;     /* the one whose place was looked for; 0: none yet */
    __u32 has_place;
    __u32 is_ahead;  /* it goes on without frames of the machine (words_ahead) */
    __u32 generator; /* whose code in no file is; RUNTIME_GENERATED: not looked for yet */
    __u32 is_go;     /* frames of Go were met */
    __u32 begun;     /* those that told something before another one did, a bit each; of these … */
    __u32 was_of;    /* … the last one (0: none), whose `word` is … */
    __u32 was_at;    /* … this one of `was` */
    __u32 mark;      /* ahead: goes with the end of the words of this frame of the machine */
    struct sample_frame frame; /* what a step has to tell */
    __u64 told;                /* of the words that were told, what tells them from others'; 0: none were */
    __u64 word[RUNTIME_WALK_WORDS]; /* its own; the first is 0 when it begins */
    __u64 was[2][RUNTIME_WALK_WORDS];
    struct runtime_place place;
};

struct walk {
    struct cache_set cache[CACHE_SETS];
    struct finder finder;
    struct unwind_key wanted;
    __u64 wanted_start, wanted_end;
    __u64 window[WINDOW_BYTES / 8];
    struct unwind_registers at;
    struct unwind_rule rule;    /* by which its caller is found */
    struct unwind_mapping here; /* the one the frame's code is in */
    __u64 mm, now;
    __u64 loaded;                 /* by window_miss */
    __u64 stack_start, stack_end; /* the mapping that frame pointers are followed in */
    __u64 window_at;
    __u32 has_window;
    __u32 end;           /* enum unwind_end */
    __u32 set;           /* of the cache */
    __u32 way;           /* in that, the mapping found */
    __u32 wants;         /* `wanted` and the mapping of it are set: user space should be asked … */
    __u32 wants_now;     /* it is the file that the frame is in, asked for the first time lately */
    __u32 wants_runtime; /* … for what: 0: the file's tables; a tag: the runtime's place in the process */
    __u32 slot;          /* the scratch this is in */
    __u32 n_switches;
    __u32 is_guessed;
    __u32 is_told;       /* the frame it ended at is in the record, as words */
    __u32 n_ahead;       /* frames behind the walk's, see words_ahead */
    __u32 is_remembered; /* this CPU has met the process lately */
    struct runtime_walk runtime;
};

/* What the frames of one stack take at most, in words. */
#define SAMPLE_WORDS_MAX (SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX * SAMPLE_FRAME_WORDS)

/* One for each CPU and enum slot: a record as it goes out, and the walk that fills it. */
struct scratch {
    struct walk walk;
    __u64 busy;
    struct sample_head head;
    __u64 body[SAMPLE_WORDS_MAX + CONTEXT_BYTES_MAX / 8]; /* as sample.h says … */
    __u64 behind[GO_ENTRY_MAX / 8 + 1]; /* … and room for a label that is too long for it */
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SLOTS); /* user space makes it 1 when there is only the clock */
    __type(key, __u32);
    __type(value, struct scratch);
} scratches SEC(".maps");

static __always_inline struct scratch *scratch_of(__u32 slot)
{
    return bpf_map_lookup_elem(&scratches, &slot);
}

/* How a function that is passed numbers alone begins: declares `s`. */
#define SCRATCH_OR_RETURN(slot, value)    \
    struct scratch *s = scratch_of(slot); \
    if (!s)                               \
    return value

/* Files user space was asked for, and when: one it could not open in time is asked for again. */
#define ASK_AGAIN_NS 100000000ull
struct {
    __uint(type, BPF_MAP_TYPE_LRU_HASH);
    __uint(max_entries, 1024);
    __type(key, struct unwind_key);
    __type(value, __u64);
} unwind_asked SEC(".maps");

static __always_inline int ask_for(const struct unwind_key *of, __u64 now)
{
    struct unwind_key key = *of; /* as in find_code */
    __u64 *when = bpf_map_lookup_elem(&unwind_asked, &key);
    if (when && now - *when < ASK_AGAIN_NS)
        return 0;
    bpf_map_update_elem(&unwind_asked, &key, &now, BPF_ANY);
    return 1;
}

/* What window_load does not find in the window. */
__attribute__((noinline)) int window_miss(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, -1);
    struct walk *w = &s->walk;
    /* What is read next may be a little lower: registers are saved below the return address. */
    __u64 from = (address & ~7ull) - 64;
    if (!w->has_window || (address & 7) || bpf_probe_read_user(w->window, WINDOW_BYTES, (void *)from)) {
        w->has_window = 0; /* the end of the stack is nearer than a window */
        w->window_at = ~0ull << 32;
        return bpf_probe_read_user(&w->loaded, 8, (void *)address) ? -1 : 0;
    }
    w->window_at = from;
    w->loaded = w->window[64 / 8];
    return 0;
}

static __always_inline struct unwind_rule rule_of(const struct walk *w)
{
    __u64 bits = *(const volatile __u64 *)&w->rule;
    return *(struct unwind_rule *)&bits;
}

static __always_inline int window_load(struct walk *w, __u64 address, __u64 *value)
{
    __u64 distance = address - w->window_at;
    barrier_var(distance);
    if (LIKELY(distance <= WINDOW_BYTES - 8 && !(distance & 7))) {
        *value = w->window[distance >> 3 & (WINDOW_BYTES / 8 - 1)];
        return 0;
    }
    if (window_miss(w->slot, address))
        return -1;
    *value = w->loaded;
    return 0;
}

/* A thread that switches stacks by itself (a coroutine, a Go system stack) does so a few times in a stack. */
#define SWITCHES_MAX 8
#define VM_WRITE     0x2u

/* find_mapping for walk.finder. */
__attribute__((noinline)) int look_at(__u32 slot, __u64 address)
{
    struct scratch *s = scratch_of(slot);
    return s ? find_mapping(&s->walk.finder, slot, s->walk.mm, address) : -1;
}

/* Whether an address that is not in the stack known is in one the thread may have come from. */
__attribute__((noinline)) int in_other_stack(__u32 slot, __u64 address)
{
    struct scratch *s = scratch_of(slot);
    if (!s || look_at(slot, address))
        return 0;
    struct walk *w = &s->walk;
    if (!(w->finder.flags & VM_WRITE) || address + 16 > w->finder.end)
        return 0;
    w->stack_start = w->finder.start;
    w->stack_end = w->finder.end;
    if (address >= w->at.sp && w->at.sp >= w->finder.start)
        return 1;
    /* Another stack. In code that has no rows because none are there yet rbp may be anything. */
    return !w->here.is_pending && ++w->n_switches <= SWITCHES_MAX;
}

static __always_inline int in_stack(struct walk *w, const struct unwind_registers *r, __u64 address)
{
    return (address >= r->sp && address >= w->stack_start && address + 16 <= w->stack_end) ||
           in_other_stack(w->slot, address);
}

#define UNWIND_WALK                    struct walk
#define UNWIND_LOAD(w, address, value) window_load(w, address, value)
#define UNWIND_IN_STACK(w, r, address) in_stack(w, r, address)
#define UNWIND_SIGNAL(w, r)            leave_signal((w)->slot)
int leave_signal(__u32 slot);
#include "bpf/unwind_step.h"

__attribute__((noinline)) int leave_signal(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, UNWIND_END_UNREADABLE);
    struct walk *w = &s->walk;
    w->window_at = ~0ull << 32; /* it is read to where the window is */
    if (bpf_probe_read_user(w->window, 8 * UNWIND_SIGNAL_WORDS, (void *)(w->at.sp + UNWIND_SIGNAL_AT)))
        return UNWIND_END_UNREADABLE;
    return unwind_interrupted(&w->at, w->window);
}

/* A program may have moved its code to memory that is no file's, for larger pages (Node.js, PHP, ClickHouse):
 * it is where it was, and so is what the kernel knows of where the executable's code begins. */
static __always_inline int find_moved(struct finder *f, struct mm_struct *mm)
{
    __u64 code = BPF_CORE_READ(mm, start_code);
    if (f->start < (code & ~((1ull << PAGE_SHIFT) - 1)) || f->start >= BPF_CORE_READ(mm, end_code))
        return -1;
    f->file = (__u64)BPF_CORE_READ(mm, exe_file);
    f->code = code;
    f->end = 0; /* whoever opens it does so as the process's executable */
    read_key(&f->key, (struct inode *)inode_of(f));
    return 0;
}

/* Goes on where find_code has been, with a stack of its own (5.10). */
__attribute__((noinline)) int finish_here(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, 0);
    struct walk *w = &s->walk;
    if (w->here.runtime == RUNTIME_GENERATED) {
        if (find_moved(&w->finder, (struct mm_struct *)w->mm))
            return 0;
        w->here.runtime = 0;
    }
    find_tables(&w->finder, w->now, &w->here);
    return 0;
}

/* Memory that a runtime writes the code to that it makes is a file without a name, whose time is not looked
 * at (unwind.h). What comes after one may be an inode at the same address, of the same number. */
__attribute__((noinline)) __u64 proof_of(__u64 offset, __u64 inode)
{
    __u64 which = 0;
    if (inode)
        which = BPF_CORE_READ((struct inode *)inode, i_nlink) > 0
                    ? time_of(inode)
                    : BPF_CORE_READ((struct inode *)inode, i_generation);
    return offset * 0x9e3779b97f4a7c15ull ^ which;
}

/* Sets walk.here to the mapping of an address by the kernel's tree, and remembers it. */
__attribute__((noinline)) int find_here(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, -1);
    struct walk *w = &s->walk;
    struct cache_set *set = &w->cache[w->set & (CACHE_SETS - 1)];
    if (look_at(slot, address) || find_code(&w->finder, (struct mm_struct *)w->mm, &w->here))
        return -1;
    finish_here(slot);
    set->has_pending |= w->here.is_pending;
    if (w->here.is_pending && !w->wants && ask_for(&w->finder.key, w->now)) {
        w->wants = 1;
        w->wants_now = !w->is_guessed;
        w->wants_runtime = 0;
        w->wanted = w->finder.key;
        w->wanted_start = w->finder.start;
        w->wanted_end = w->finder.end;
    }
    __u32 way = set->next++ & (CACHE_WAYS - 1);
    set->way[way] = w->here;
    set->proof[way] =
        (struct proof){w->finder.vma, proof_of(w->finder.offset, w->finder.inode), w->finder.inode};
    set->proven |= 1u << way;
    if (set->n < CACHE_WAYS)
        set->n++;
    return 0;
}

/* Whether what was remembered is still there; it is forgotten if not. */
__attribute__((noinline)) int prove(__u32 slot, __u32 i)
{
    SCRATCH_OR_RETURN(slot, 0);
    struct walk *w = &s->walk;
    i &= CACHE_WAYS - 1;
    struct cache_set *set = &w->cache[w->set & (CACHE_SETS - 1)];
    struct unwind_mapping *way = &set->way[i];
    struct proof *proof = &set->proof[i];
    struct finder *f = &w->finder;
    if (is_still_at(slot, (struct mm_struct *)w->mm, way->start, proof->vma) &&
        !read_mapping(f, proof->vma) && f->start == way->start && f->end - f->start == way->length &&
        inode_of(f) == proof->inode && proof_of(f->offset, proof->inode) == proof->is) {
        set->proven |= 1u << i;
        return 1;
    }
    way->length = 0;
    return 0;
}

/* Sets w->here to the mapping of an address: a remembered one, or by the kernel's tree. */
__attribute__((noinline)) int enter_mapping(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, -1);
    struct walk *w = &s->walk;
    struct cache_set *set = &w->cache[w->set & (CACHE_SETS - 1)];
    w->way = CACHE_WAYS; /* in a register, each that there may be is verified by itself */
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < CACHE_WAYS && i < set->n; i++)
        if (address - set->way[i].start < set->way[i].length) {
            w->way = i;
            break;
        }
    __u32 way = *(volatile __u32 *)&w->way;
    if (way >= CACHE_WAYS || (UNLIKELY(!(set->proven >> way & 1)) && !prove(slot, way)))
        return find_here(slot, address);
    note_use(&set->way[way], w->now);
    w->here = set->way[way];
    return 0;
}

/* What a probe has put elsewhere: 0, and walk.at.ip is where it belongs; or -1.
 *
 * The instruction whose place a probe has is run as a copy, in a mapping that the kernel made for those.
 *
 * A probe of a function's end (uretprobe: perf's, bpftrace's, OBI's of TLS libraries) puts its own return
 * address in place of the function's: the first byte of that mapping, so that one less is no code. The kernel
 * keeps the true one, by where it was; as deep as it lets them be nested. */
#define RETURNS_MAX 64
#define COPY_MAX    16 /* an instruction, and where it ends */
#define RETURN_IS   1ull

/* Looks whether the return that the kernel notes at `of` is that of the walk's frame: RETURN_IS, and
 * walk.at.ip is there; or where the next one is noted, 0: there is none. */
__attribute__((noinline)) __u64 look_at_return(__u32 slot, __u64 of)
{
    struct scratch *s = scratch_of(slot);
    struct return_instance *is = (struct return_instance *)of;
    if (!s)
        return 0;
    if (BPF_CORE_READ(is, stack) + 8 != s->walk.at.sp)
        return (__u64)BPF_CORE_READ(is, next);
    __u64 ip = BPF_CORE_READ(is, orig_ret_vaddr);
    if (ip == s->walk.at.ip)
        return 0;
    s->walk.at.ip = ip;
    return RETURN_IS;
}

__attribute__((noinline)) int find_probed(__u32 slot)
{
    struct scratch *s = scratch_of(slot);
    struct task_struct___uprobes *task = (void *)current_task();
    if (!s || !bpf_core_field_exists(task->utask))
        return -1;
    struct unwind_registers *at = &s->walk.at;
    if (!at->is_return) {
        __u64 into = at->ip - BPF_CORE_READ(task, utask, xol_vaddr);
        if (into >= COPY_MAX)
            return -1;
        at->ip = BPF_CORE_READ(task, utask, vaddr) + into;
        return 0;
    }
    __u64 of = (__u64)BPF_CORE_READ(task, utask, return_instances);
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < RETURNS_MAX && of > RETURN_IS; i++)
        of = look_at_return(slot, of);
    return of == RETURN_IS ? 0 : -1;
}

/* Whether the code before an address is a call; 1 if it cannot be read. */
__attribute__((noinline)) int is_behind_call(__u64 address)
{
    __u64 before;
    return bpf_probe_read_user(&before, sizeof before, (void *)(address - sizeof before)) ||
           unwind_ends_in_call(before);
}

/* A call of what is no code (a pointer that is NULL), seen from the signal's handler: who has called is on
 * top of the stack. 0, and the walk is there; or -1. */
__attribute__((noinline)) int leave_no_code(__u32 slot)
{
    struct scratch *s = scratch_of(slot);
    __u64 caller;
    if (!s || bpf_probe_read_user(&caller, sizeof caller, (void *)s->walk.at.sp) || !is_behind_call(caller))
        return -1;
    s->walk.at.ip = caller;
    s->walk.at.sp += sizeof caller;
    s->walk.at.is_return = 1;
    s->walk.at.has_all = 0;
    return 0;
}

/* Runtimes have steps that are no frames: adapters between calling conventions, shims. */
#define WALK_STEPS_MAX (UNWIND_FRAMES_MAX * 3 / 2)

/* Adds a frame behind those there are. 0, or -1: there is no room. */
static __always_inline int add_frame(struct scratch *s, struct sample_frame frame)
{
    __u64 n = s->head.n_user, to = s->head.n_kernel + n * SAMPLE_FRAME_WORDS;
    barrier_var(to);
    if (UNLIKELY(to > SAMPLE_WORDS_MAX - SAMPLE_FRAME_WORDS))
        return -1;
    *(struct sample_frame *)&s->body[to] = frame;
    s->head.n_user = n + 1;
    return 0;
}

#include "bpf/runtimes.bpf.h"

/* The first frame of a stack is made by hand where a coroutine begins: what is below its function was never
 * called (libco's crash()), and is at the very address that would be returned to, not before it. */
__attribute__((noinline)) int begin_by_hand(__u32 slot)
{
    struct scratch *s = scratch_of(slot);
    if (!s || s->head.n_user == 0)
        return 0;
    const struct walk *w = &s->walk;
    __u64 ip = w->at.ip, at = s->head.n_kernel + (s->head.n_user - 1) * (__u64)SAMPLE_FRAME_WORDS;
    if (!w->at.is_return || ip - w->here.start >= w->here.length || is_behind_call(ip))
        return 0;
    barrier_var(at);
    if (at > SAMPLE_WORDS_MAX - SAMPLE_FRAME_WORDS)
        return 0;
    struct sample_frame *first = (struct sample_frame *)&s->body[at];
    if (first->kind == SAMPLE_FRAME_CODE && first->where == ip - 1) {
        first->where = ip;
        first->extra = (ip + w->here.bias) >> UNWIND_PAGE_BITS;
    }
    return 0;
}

/* Generated code is followed by frame pointer, which is another's where a function begins and ends: there the
 * return address is on top, or below the caller's rbp. Makes that the rule where the thread is, if it is so.
 */
#define PUSH_RBP         0x55u
#define RETURN           0xc3u
#define LANDING          0xfa1e0ff3u /* endbr64 */
#define PUSH_AND_MOVE    0xe5894855u /* push %rbp; mov %rsp, %rbp */
#define PUSH_AND_MOVE_TO 0xec8b4855u /* the same, as others write it */
/* What libffi makes for C to call (Python's ctypes, PHP's FFI): lea -n(%rip), %r10; jmp *n(%rip). It has no
 * frame. */
#define IS_FFI_SELF(code) (((code)&0xffffff) == 0x158d4c)
#define IS_FFI_JUMP(code) (((code)&0xfffbffff) == 0x325ff)
__attribute__((noinline)) int generated_rule(__u32 slot)
{
    struct scratch *s = scratch_of(slot);
    __u64 code;
    if (!s || s->walk.rule.cfa != UNWIND_CFA_NONE ||
        bpf_probe_read_user(&code, sizeof code, (void *)(s->walk.at.ip - 4)))
        return 0;
    __u32 here = code >> 32, before = code >> 24;
    if ((here & 0xff) == PUSH_RBP || (here & 0xff) == RETURN || here == LANDING || IS_FFI_SELF(here) ||
        IS_FFI_JUMP(here))
        s->walk.rule = (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 8};
    else if (before == PUSH_AND_MOVE || before == PUSH_AND_MOVE_TO)
        s->walk.rule = (struct unwind_rule){
            .cfa = UNWIND_CFA_RSP, .cfa_offset = 16, .rbp = UNWIND_RBP_AT_CFA, .rbp_offset = -16};
    return 0;
}

/* Whether generated code that was left by frame pointer had none: the pointer then was that of a function
 * around, and what the caller has called is that function, of a file, which saves rbp first. */
#define CALL 0xe8u
__attribute__((noinline)) int is_pointer_of_another(__u32 slot)
{
    struct scratch *s = scratch_of(slot);
    __u64 code = 0;
    if (!s || s->walk.rule.cfa != UNWIND_CFA_NONE ||
        bpf_probe_read_user(&code, sizeof code, (void *)(s->walk.at.ip - 8)) || (code >> 24 & 0xff) != CALL)
        return 0;
    __u64 called = s->walk.at.ip + (__s32)(code >> 32);
    if (bpf_probe_read_user(&code, sizeof code, (void *)called))
        return 0;
    __u64 begin = (__u32)code == LANDING ? code >> 32 : code;
    return (begin & 0xff) == PUSH_RBP && !look_at(slot, called) && s->walk.finder.file;
}

/* A step of a walk: 0, or 1 at its end. What runtimes have steps for is theirs first; the rest is the native
 * one's. */
static __always_inline int walk_frame(struct scratch *s, struct found_rules *found, __u32 slot)
{
    struct walk *w = &s->walk;
    if (UNLIKELY(s->head.n_user >= UNWIND_FRAMES_MAX)) {
        w->end = UNWIND_END_DEPTH;
        return 1;
    }
    /* A return address belongs to the next instruction, which may be another function's. */
    __u64 address = w->at.ip - (w->at.is_return != 0);
    if (address - w->here.start >= w->here.length && enter_mapping(slot, address)) {
        if (w->at.is_return ? !find_probed(slot) : !leave_no_code(slot))
            return 0;
        w->end = UNWIND_END_NOT_CODE;
        return 1;
    }
    /* What branches go by later is kept in memory: what the verifier knows of it ends there, so that it goes
     * on once, not for each way to get here. */
    volatile __u32 *is_told = &w->is_told, *end = &w->end;
    *is_told = 0;
    if (UNLIKELY(w->here.runtime | w->runtime.inside)) {
        __u32 did = runtime_step(slot, address);
        w->at.had_all = 0;
        if (did == STEP_TAKEN)
            return 0;
        *is_told = did != STEP_NATIVE;
    }
    find_rule(&w->here, found, w->set, address, w->now, &w->rule);
    struct unwind_rule rule = rule_of(w);
    if (rule.cfa == UNWIND_CFA_SIGNAL || (rule.cfa == UNWIND_CFA_PADDING && w->at.is_return))
        address = w->at.ip; /* "returned to" without having been called: a handler's, a coroutine's first */
    if (!*is_told && add_frame(s, (struct sample_frame){.kind = SAMPLE_FRAME_CODE,
                                                        .runtime = rule.cfa,
                                                        .extra = (address + w->here.bias) >> UNWIND_PAGE_BITS,
                                                        .file = w->here.serial,
                                                        .where = address})) {
        w->end = UNWIND_END_DEPTH;
        return 1;
    }
    if (UNLIKELY(rule.cfa == UNWIND_CFA_MISSING || w->here.is_pending)) {
        if (!w->here.is_pending || w->wants_now) {
            w->end = UNWIND_END_MISSING;
            return 1;
        }
        w->is_guessed = 1;
    }
    if (UNLIKELY(w->here.runtime == RUNTIME_GENERATED) && !w->at.is_return)
        generated_rule(slot);
    *end = unwind_step(w, &w->at, rule_of(w));
    if (UNLIKELY(w->here.runtime == RUNTIME_GENERATED) && !*end && is_pointer_of_another(slot))
        w->is_guessed = 1;
    if (UNLIKELY(*end == UNWIND_END_ROOT) && rule.cfa != UNWIND_CFA_ROOT)
        begin_by_hand(slot);
    return *end != UNWIND_END_NONE;
}

static __always_inline int is_set_of(const struct walk *w, __u32 set, __u64 start, __u64 stack, __u64 begun)
{
    const struct cache_set *of = &w->cache[set & (CACHE_SETS - 1)];
    return of->mm == w->mm && of->start == start && of->stack == stack && of->begun == begun;
}

/* The kernel's count of changes to a process's mappings; 0 where it has none. */
static __always_inline __u32 count_changes(struct mm_struct *mm)
{
    if (bpf_core_field_exists(((struct mm_struct___v6_13 *)0)->mm_lock_seq.sequence))
        return FIELD((struct mm_struct___v6_13 *)mm, mm_lock_seq.sequence);
    if (bpf_core_field_exists(((struct mm_struct___v6_4 *)0)->mm_lock_seq))
        return FIELD((struct mm_struct___v6_4 *)mm, mm_lock_seq);
    return 0;
}

/* Finds what is remembered of a process, or makes it empty. */
static __always_inline void find_set(struct walk *w, struct mm_struct *mm, __u64 start)
{
    __u64 stack = FIELD(mm, start_stack), id = *(volatile __u64 *)&w->mm;
    __u64 generation = *(volatile __u64 *)&unwind_generation;
    __u64 additions = *(volatile __u64 *)&unwind_additions;
    __u64 programs_begun = *(volatile __u32 *)begun_of(start);
    __u32 changes = count_changes(mm);
    __u32 number = id * 0x9e3779b97f4a7c15ull >> (64 - CACHE_BITS);
    w->is_remembered = 1;
    if (!is_set_of(w, number, start, stack, programs_begun)) {
        number ^= 1;
        if (!is_set_of(w, number, start, stack, programs_begun)) {
            w->is_remembered = 0;
            if (w->cache[number & (CACHE_SETS - 1)].last > w->cache[(number ^ 1) & (CACHE_SETS - 1)].last)
                number ^= 1;
        }
    }
    w->set = number;
    struct cache_set *set = &w->cache[number & (CACHE_SETS - 1)];
    set->last = w->now;
    if (!changes || set->changes != changes) {
        set->changes = changes;
        set->proven = 0;
    }
    /* A file may be refused for want of its user's allowance, of which nothing tells when it is over: so who
     * met one that is not known looks again each second, too. */
    __u32 second = w->now >> 30;
    if (w->is_remembered && set->generation == generation &&
        (!set->has_pending || (set->additions == additions && set->second == second))) {
        if (set->second >> PROOF_LASTS != second >> PROOF_LASTS)
            set->proven = 0;
        set->second = second;
        return;
    }
    set->mm = id;
    set->start = start;
    set->stack = stack;
    set->begun = programs_begun;
    set->generation = generation;
    set->additions = additions;
    set->second = second;
    set->has_pending = 0;
    set->n = 0;
    set->next = 0;
    set->proven = 0;
}

/* Some steps. Each is verified by itself, so there are few: of one, two and four the verifier processes
 * 18,800, 20,000 and 28,200 instructions, and ticks of stacks of 300 frames take 1.21, 1.04 and 1. */
#define WALK_STEPS_AT_ONCE 2
__attribute__((noinline)) int walk_frames(__u32 slot)
{
    __u32 zero = 0;
    struct scratch *s = scratch_of(slot);
    struct found_rules *found = bpf_map_lookup_elem(&rules_found, &zero);
    if (!s || !found)
        return 1;
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < WALK_STEPS_AT_ONCE; i++)
        if (walk_frame(s, found, slot))
            return 1;
    return 0;
}

/* Rounds of them. Global, or they would be verified for each way to get here; and not all of them, as the
 * verifier goes through each: those around it are few. */
#define WALK_ROUNDS       24u
#define WALK_ROUNDS_TIMES (WALK_STEPS_MAX / WALK_STEPS_AT_ONCE / WALK_ROUNDS)
_Static_assert(WALK_ROUNDS_TIMES *WALK_ROUNDS *WALK_STEPS_AT_ONCE == WALK_STEPS_MAX, "none is left over");
__attribute__((noinline)) int walk_on(__u32 slot)
{
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < WALK_ROUNDS; i++)
        if (walk_frames(slot))
            return 1;
    return 0;
}

/* Walks from walk.at in process `mm`: puts the addresses behind the kernel's, fills walk.end, is_guessed and
 * wants. */
static __always_inline void walk_stack(struct scratch *s, __u32 slot, struct mm_struct *mm, __u64 now)
{
    struct walk *w = &s->walk;
    w->slot = slot;
    w->mm = (__u64)mm;
    w->now = now;
    w->here.start = 0;
    w->here.length = 0;
    w->wants = 0;
    w->wants_now = 0;
    w->n_switches = 0;
    w->is_guessed = 0;
    w->runtime.inside = 0;
    w->runtime.of = 0;
    w->runtime.generator = RUNTIME_GENERATED;
    w->runtime.is_ahead = 0;
    w->runtime.is_go = 0;
    w->runtime.was_of = 0;
    w->runtime.begun = 0;
    w->runtime.told = 0;
    w->n_ahead = 0;
    w->stack_start = 0;
    w->stack_end = 0;
    find_set(w, mm, s->head.start);
    w->has_window = 1;
    w->window_at = ~0ull << 32; /* no stack is there: the first load fills the window */
    w->end = UNWIND_END_DEPTH;  /* when the loop comes to its end */
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < WALK_ROUNDS_TIMES; i++)
        if (walk_on(slot))
            break;
    __u32 end = w->end;
    if (end < UNWIND_ENDS && end != UNWIND_END_MISSING)
        __sync_fetch_and_add(&n_ends[end], 1);
}

#endif
