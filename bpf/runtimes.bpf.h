/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The steps of runtimes whose frames are not those of the machine. A step is asked at each frame that is in a
 * file of its runtime's (mapping.runtime; user space said so), and as long as it says that it is `inside`
 * also elsewhere:
 *
 *     int NAME_step(struct scratch *s, __u64 address)       enum runtime_step
 *
 * walk.runtime.place is what user space said of the process, walk.runtime.word is the step's own from one
 * frame of a stack to the next; walk.runtime.frame is what there is to tell.
 */
#ifndef BPF_RUNTIMES_BPF_H
#define BPF_RUNTIMES_BPF_H

#define RUNTIME_READ(to, n, address) bpf_probe_read_user(to, n, (void *)(address))
#define RUNTIME_THREAD()             BPF_CORE_READ((struct task_struct___tls *)current_task(), thread.fsbase)
#define STEP_HANDLE                  __u32
#define STEP_PART                    __attribute__((noinline)) int
#define STEP_OPEN(name, slot)                                                                   \
    SCRATCH_OR_RETURN(slot, -1);                                                                \
    __attribute__((unused)) struct unwind_registers *r = &s->walk.at;                           \
    __attribute__((unused)) struct name##_walk *w = (struct name##_walk *)s->walk.runtime.word; \
    __attribute__((unused)) const struct name##_place *p =                                      \
        (const struct name##_place *)s->walk.runtime.place.word
#define V8_FROM                       struct walk
#define V8_READ(from, to, n, address) RUNTIME_READ(to, n, address)
#include "bpf/beam_step.h"
#include "bpf/cpython_step.h"
#include "bpf/luajit_step.h"
#include "bpf/perl_step.h"
#include "bpf/php_step.h"
#include "bpf/ruby_step.h"
#include "bpf/v8_step.h"
#include "bpf/hotspot.h"

/* Where threads of Java's return to, mostly again and again: a look at one field instead of eight. */
#define HOTSPOT_KNOWN_BITS 9u
struct hotspot_entries {
    struct hotspot_known at[1u << HOTSPOT_KNOWN_BITS];
};

struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct hotspot_entries);
} hotspot_found SEC(".maps");

static __always_inline struct hotspot_known *hotspot_entry(__u64 ip)
{
    __u32 zero = 0;
    struct hotspot_entries *entries = bpf_map_lookup_elem(&hotspot_found, &zero);
    __u64 number = ip * 0x9e3779b97f4a7c15ull >> (64 - HOTSPOT_KNOWN_BITS);
    barrier_var(number);
    return entries ? &entries->at[number & ((1u << HOTSPOT_KNOWN_BITS) - 1)] : 0;
}

#define HOTSPOT_READ(w, to, n, address) RUNTIME_READ(to, n, address)
#define HOTSPOT_IN_STACK(w, r, address) ((address) >= (r)->sp && (address) + 16 <= (w)->stack_end)
#define HOTSPOT_PROCESS(w)              ((w)->runtime.place.start)
#define HOTSPOT_KNOWN(w, ip)            hotspot_entry(ip)
#define HOTSPOT_OPEN(slot)                                                                   \
    SCRATCH_OR_RETURN(slot, -1);                                                             \
    __attribute__((unused)) struct walk *w = &s->walk;                                       \
    __attribute__((unused)) struct unwind_registers *r = &w->at;                             \
    __attribute__((unused)) struct hotspot_walk *c = (struct hotspot_walk *)w->runtime.word; \
    __attribute__((unused)) const struct hotspot_place *p =                                  \
        (const struct hotspot_place *)w->runtime.place.word
#include "bpf/hotspot_step.h"

/* Filled by user space, by RUNTIME_PLACE_KEY. Who has any has one of RUNTIME_NATIVE as well, which says just
 * that: for all others one look is enough when they begin, become another program and end. A child of whom
 * there is no room for is asked for when it is sampled, and user space makes some. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, RUNTIME_PLACES); /* made as they are needed */
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, __u64);
    __type(value, struct runtime_place);
} runtime_places SEC(".maps");

__u32 n_runtime_places = 0; /* 0: nobody is looked up */

static __always_inline int native_step(struct scratch *s, __u64 address)
{
    return STEP_NATIVE;
}

/* The frame that a walk is in, of which a runtime knows how its caller is found. */
static __always_inline struct sample_frame code_frame(const struct walk *w, __u64 address)
{
    return (struct sample_frame){.kind = SAMPLE_FRAME_CODE,
                                 .runtime = UNWIND_CFA_RBP, /* it is no guess */
                                 .extra = (address + w->here.bias) >> UNWIND_PAGE_BITS,
                                 .file = w->here.serial,
                                 .where = address};
}

/* Apart, or what it has on the program's stack, which is short, were below the other runtimes' steps. */
__attribute__((noinline)) int cpython_frame(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct runtime_walk *r = &s->walk.runtime;
    struct cpython_walk *c = (struct cpython_walk *)r->word;
    _Static_assert(sizeof *c <= sizeof r->word, "fits");
    const struct cpython_place *place = (const struct cpython_place *)r->place.word;
    int did =
        cpython_walk_on(place, c, slot, r->is_ahead ? place->start[0] : address, s->walk.at.sp, &r->frame);
    r->inside = c->is_inside ? RUNTIME_CPYTHON : 0;
    return did;
}

/* Looks whether the word at `at` of the stack is where _PyEval_EvalFrameDefault has called from, and goes
 * there. */
__attribute__((noinline)) int cpython_return(__u32 slot, __u64 at)
{
    struct scratch *s = scratch_of(slot);
    __u64 ip = 0;
    if (!s)
        return STEP_NATIVE;
    struct unwind_registers *r = &s->walk.at;
    const struct cpython_place *p = (const struct cpython_place *)s->walk.runtime.place.word;
    if (RUNTIME_READ(&ip, sizeof ip, at) ||
        (ip - p->start[0] >= p->size[0] && ip - p->start[1] >= p->size[1]))
        return STEP_NATIVE;
    if (r->bp - at >= CPYTHON_JIT_NEAR && RUNTIME_READ(&r->bp, sizeof r->bp, at - CPYTHON_JIT_BP))
        return STEP_NATIVE;
    r->ip = ip;
    r->sp = at + 8;
    r->bp_lost = 0;
    r->is_return = 1;
    r->has_all = 0;
    s->walk.is_guessed = 1;
    return STEP_TAKEN;
}

/* Leaves the trampoline of a function, if that is where the walk is; or what the JIT has made of bytecode. */
__attribute__((noinline)) int cpython_leave(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct unwind_registers *at = &s->walk.at;
#pragma clang loop unroll(disable)
    for (__u32 i = 0; i < CPYTHON_TRAMPOLINE_N; i++) {
        __u64 code = 0, ip;
        if (RUNTIME_READ(&code, sizeof code, at->ip - CPYTHON_TRAMPOLINE_AT(i)) || code != CPYTHON_TRAMPOLINE)
            continue;
        if (RUNTIME_READ(&ip, sizeof ip, at->sp + CPYTHON_TRAMPOLINE_UP(i)))
            break;
        cpython_leave_trampoline(at, i, ip);
        return STEP_TAKEN;
    }
    if (((const struct cpython_place *)s->walk.runtime.place.word)->minor < CPYTHON_JIT_MINOR)
        return STEP_NATIVE;
    __u32 did = STEP_NATIVE;
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < CPYTHON_JIT_WORDS && did == STEP_NATIVE; i++)
        did = cpython_return(slot, at->sp + 8 * i);
    return did;
}

static __always_inline int cpython_step(struct scratch *s, __u64 address)
{
    if (!s->walk.runtime.inside && s->walk.here.runtime == RUNTIME_GENERATED)
        return cpython_leave(s->walk.slot);
    return cpython_frame(s->walk.slot, address);
}

/* Of the frame that was added last; 0: there is none. */
static __always_inline __u64 last_address(const struct scratch *s)
{
    __u64 n = s->head.n_user, of = s->head.n_kernel + (n - 1) * SAMPLE_FRAME_WORDS;
    barrier_var(of);
    return n && of <= SAMPLE_WORDS_MAX - SAMPLE_FRAME_WORDS
               ? ((const struct sample_frame *)&s->body[of])->where
               : 0;
}

/* At a frame of the machine: what PHP knows of it. STEP_NATIVE: nothing. */
__attribute__((noinline)) int php_machine(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct walk *w = &s->walk;
    struct php_walk *c = (struct php_walk *)w->runtime.word;
    const struct php_place *place = (const struct php_place *)w->runtime.place.word;
    enum php_entry entry = php_enter(place, &w->at);
    if (entry == PHP_OTHER)
        return STEP_NATIVE;
    if (entry == PHP_COMPILED)
        return STEP_TAKEN;
    w->runtime.frame = code_frame(w, address);
    if (entry == PHP_ROOT) {
        c->is_fiber = c->is_inside = 1;
        w->runtime.inside = RUNTIME_PHP;
        return STEP_TAKEN;
    }
    if (window_load(w, w->at.sp, &w->at.ip))
        w->at.ip = 0;
    w->at.sp += 8;
    w->at.is_return = 1;
    w->at.has_all = 0;
    return STEP_TAKEN;
}

__attribute__((noinline)) int php_frame(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct walk *w = &s->walk;
    struct runtime_walk *r = &w->runtime;
    struct php_walk *c = (struct php_walk *)r->word;
    _Static_assert(sizeof *c <= sizeof r->word, "fits");
    const struct php_place *place = (const struct php_place *)r->place.word;
    if (c->is_begun != PHP_BEGUN) {
        c->caller = 0;
        c->called = last_address(s);
        c->is_begun = r->is_ahead ? PHP_AHEAD : PHP_CALLED;
    }
    int did = php_walk_on(place, c, r->is_ahead ? place->start[0] : address, w->at.all[PHP_REGISTER_FRAME],
                          w->at.has_all ? w->at.all[PHP_REGISTER_OPLINE] : 0);
    r->inside = c->is_inside ? RUNTIME_PHP : 0;
    r->mark = c->caller;
    c->caller = 0;
    return did;
}

static __always_inline int php_step(struct scratch *s, __u64 address)
{
    struct runtime_walk *r = &s->walk.runtime;
    int did = r->is_ahead || r->inside ? STEP_NATIVE : php_machine(s->walk.slot, address);
    if (did != STEP_NATIVE)
        return did;
    did = php_frame(s->walk.slot, address);
    struct php_walk *c = (struct php_walk *)r->word;
    if (c->word.where)
        r->frame = c->word;
    return did;
}

__attribute__((noinline)) int ruby_frame(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct runtime_walk *r = &s->walk.runtime;
    struct ruby_walk *w = (struct ruby_walk *)r->word;
    _Static_assert(sizeof *w <= sizeof r->word, "fits");
    if (r->is_ahead)
        address = ((const struct ruby_place *)r->place.word)->exec;
    int did = ruby_walk_on(slot, address, r->is_ahead | s->walk.at.is_return, &r->frame);
    r->inside = w->is_inside ? RUNTIME_RUBY : 0;
    return did;
}

/* Leaves the code that YJIT made. */
__attribute__((noinline)) int ruby_leave(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct unwind_registers *at = &s->walk.at;
    struct ruby_walk *w = (struct ruby_walk *)s->walk.runtime.word;
    if (RUNTIME_READ(w->stack, sizeof w->stack, at->sp))
        return STEP_NATIVE;
    return ruby_leave_generated((const struct ruby_place *)s->walk.runtime.place.word, w->stack, at)
               ? STEP_TAKEN
               : STEP_NATIVE;
}

static __always_inline int ruby_step(struct scratch *s, __u64 address)
{
    if (!s->walk.runtime.inside && s->walk.here.runtime == RUNTIME_GENERATED)
        return ruby_leave(s->walk.slot);
    return ruby_frame(s->walk.slot, address);
}

__attribute__((noinline)) int perl_frame(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct runtime_walk *r = &s->walk.runtime;
    struct perl_walk *w = (struct perl_walk *)r->word;
    __u64 sp = s->walk.at.sp;
    _Static_assert(sizeof *w <= sizeof r->word, "fits");
    if (r->is_ahead) {
        address = ((const struct perl_place *)r->place.word)->start[0];
        sp = 0;
    }
    int did = perl_walk_on(slot, address, sp);
    r->inside = w->is_inside ? RUNTIME_PERL : 0;
    r->frame = w->word;
    return did;
}

static __always_inline int perl_step(struct scratch *s, __u64 address)
{
    return perl_frame(s->walk.slot, address);
}

__attribute__((noinline)) int luajit_frame(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct runtime_walk *r = &s->walk.runtime;
    struct luajit_walk *w = (struct luajit_walk *)r->word;
    _Static_assert(sizeof *w <= sizeof r->word, "fits");
    int did = r->inside || r->is_ahead || s->walk.here.runtime != RUNTIME_GENERATED
                  ? luajit_walk_on(slot, address, r->is_ahead)
                  : luajit_generated(slot);
    r->inside = w->is_inside ? RUNTIME_LUAJIT : 0;
    r->frame = w->word.kind == SAMPLE_FRAME_CODE ? code_frame(&s->walk, address) : w->word;
    return did;
}

static __always_inline int luajit_step(struct scratch *s, __u64 address)
{
    return luajit_frame(s->walk.slot, address);
}

static __always_inline int hotspot_step(struct scratch *s, __u64 address)
{
    /* C++ around it is native's, and its frames are nowhere else than on the stack. */
    if (s->walk.runtime.is_ahead || s->walk.here.runtime != RUNTIME_GENERATED)
        return STEP_NATIVE;
    struct hotspot_walk *c = (struct hotspot_walk *)s->walk.runtime.word;
    _Static_assert(sizeof *c <= sizeof s->walk.runtime.word, "fits");
    if (s->walk.at.sp - s->walk.stack_start >= s->walk.stack_end - s->walk.stack_start &&
        !in_other_stack(s->walk.slot, s->walk.at.sp))
        return STEP_NATIVE;
    int did = hotspot_walk_on(s->walk.slot);
    if (did == STEP_TAKEN)
        s->walk.runtime.frame = c->word;
    return did;
}

/* Tells a frame of V8's code, which has its slots below `bp`. */
__attribute__((noinline)) int v8_tell(__u32 slot, __u64 address, __u64 bp)
{
    SCRATCH_OR_RETURN(slot, 0);
    struct walk *w = &s->walk;
    struct runtime_walk *r = &w->runtime;
    struct v8_walk *v = (struct v8_walk *)r->word;
    _Static_assert(sizeof *v <= sizeof r->word, "fits");
    r->frame = code_frame(w, address);
    if (!window_load(w, bp + V8_SLOT_OFFSET, &v->slots.offset) &&
        !window_load(w, bp + V8_SLOT_BYTECODE, &v->slots.bytecode) &&
        !window_load(w, bp + V8_SLOT_FUNCTION, &v->slots.function) &&
        !window_load(w, bp + V8_SLOT_CONTEXT, &v->slots.context))
        v8_word(w, (const struct v8_place *)r->place.word, v, &r->frame);
    return 0;
}

static __always_inline int v8_step(struct scratch *s, __u64 address)
{
    struct walk *w = &s->walk;
    const struct v8_place *place = (const struct v8_place *)w->runtime.place.word;
    __u64 bp = w->at.bp;
    if (w->here.serial && address + w->here.bias - place->builtins >= place->builtins_size)
        return STEP_NATIVE;
    if (unwind_by_pointer(w, &w->at))
        return STEP_NATIVE; /* which says why */
    v8_tell(w->slot, address, bp);
    return STEP_TAKEN;
}

/* Its frames are native's; what there is besides is its goroutine's labels (context.bpf.h). */
static __always_inline int go_step(struct scratch *s, __u64 address)
{
    s->walk.runtime.is_go = 1;
    return STEP_NATIVE;
}

static __always_inline int beam_step(struct scratch *s, __u64 address)
{
    struct runtime_walk *r = &s->walk.runtime;
    struct beam_walk *w = (struct beam_walk *)r->word;
    const struct beam_place *place = (const struct beam_place *)r->place.word;
    _Static_assert(sizeof *w <= sizeof r->word, "fits");
    if (!r->is_ahead && !r->inside && address - place->text < place->text_size)
        return STEP_NATIVE;
    int did = beam_walk_on(s->walk.slot, address, r->is_ahead);
    r->inside = w->is_inside ? RUNTIME_BEAM : 0;
    r->frame = w->word;
    return did;
}

/* By what such a wish is known: no file's key. */
#define RUNTIME_WISH(began, pid, runtime) \
    ((struct unwind_key){.inode = (began), .size = (pid), .mtime = ~0ull, .device = (runtime)})

/* Asks user space for a runtime's place in this process, once in a while. */
static __always_inline void want_place(struct scratch *s, __u32 runtime)
{
    struct walk *w = &s->walk;
    struct unwind_key once = RUNTIME_WISH(s->head.start, s->head.pid, runtime);
    if (w->wants || !ask_for(&once, w->now))
        return;
    w->wants = 1;
    w->wants_runtime = runtime;
    w->wanted = once;
    w->wanted_start = w->here.start;
    w->wanted_end = w->here.start + w->here.length;
}

/* Where a stack comes to another runtime's frames: it begins, or goes on behind what was told of it already,
 * as one may call another that calls it again (Python a method of Java's that calls Python). The one that is
 * left is put aside. False: it had begun, and is not the one that was put aside last. */
static __always_inline int change_to(struct runtime_walk *r, __u32 runtime)
{
    __u32 goes_on = r->was_of == runtime, at = r->was_at & 1;
    int is_first = !(r->begun >> (runtime & 31) & 1);
    if (r->of && r->has_place && r->word[0]) {
        bpf_probe_read_kernel(r->was[at ^ 1], sizeof r->word, r->word);
        r->begun |= 1u << (r->of & 31);
        r->was_of = r->of;
        r->was_at = at ^ 1;
    }
    r->of = runtime;
    r->word[0] = 0;
    if (goes_on)
        bpf_probe_read_kernel(r->word, sizeof r->word, r->was[at]);
    return goes_on || is_first;
}

/* Looks, once for its frames that follow one another, where a runtime is in this process. */
__attribute__((noinline)) int find_place(__u32 slot, __u32 runtime)
{
    SCRATCH_OR_RETURN(slot, 0);
    struct runtime_walk *r = &s->walk.runtime;
    __u64 key = RUNTIME_PLACE_KEY(s->head.pid, runtime);
    struct runtime_place *place = bpf_map_lookup_elem(&runtime_places, &key);
    int may_tell = change_to(r, runtime);
    r->has_place = may_tell && place && place->start == s->head.start;
    if (!may_tell)
        return 0;
    if (!r->has_place) {
        want_place(s, runtime);
        return 0;
    }
    if (place->used != RUNTIME_PLACE_TIME(s->head.time))
        place->used = RUNTIME_PLACE_TIME(s->head.time);
    __builtin_memcpy(&r->place, place, sizeof r->place);
    return 0;
}

/* Which runtime's the code is that is in no file: of those that generate some, the one that has a place in
 * this process. Once a stack. */
__attribute__((noinline)) int find_generator(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, 0);
    struct runtime_walk *r = &s->walk.runtime;
    r->generator = RUNTIME_NATIVE;
    if (!n_runtime_places)
        return 0;
#pragma clang loop unroll(full)
    for (__u32 runtime = RUNTIME_NATIVE + 1; runtime < RUNTIME_TAGS; runtime++) {
        if (!(RUNTIMES_GENERATING >> runtime & 1))
            continue;
        __u64 key = RUNTIME_PLACE_KEY(s->head.pid, runtime);
        const struct runtime_place *place = bpf_map_lookup_elem(&runtime_places, &key);
        if (place && place->start == s->head.start)
            r->generator = runtime;
    }
    return 0;
}

__attribute__((noinline)) int runtime_step(__u32 slot, __u64 address)
{
    SCRATCH_OR_RETURN(slot, STEP_NATIVE);
    struct runtime_walk *r = &s->walk.runtime;
    __u32 runtime = r->inside ? r->inside : s->walk.here.runtime;
    if (runtime == RUNTIME_GENERATED) {
        if (!s->walk.at.is_return && !find_probed(slot))
            return STEP_TAKEN;
        if (r->generator == RUNTIME_GENERATED)
            find_generator(slot);
        runtime = r->generator;
        if (!runtime)
            return STEP_NATIVE;
    }
    if (UNLIKELY(r->of != runtime))
        find_place(slot, runtime);
    if (!r->has_place)
        return STEP_NATIVE;
    int did = STEP_NATIVE;
    r->frame.kind = SAMPLE_FRAME_KERNEL; /* nothing */
    switch (runtime) {
#define RUNTIME_CASE(tag, name) \
    case RUNTIME_##tag: did = name##_step(s, address); break;
        RUNTIMES(RUNTIME_CASE)
#undef RUNTIME_CASE
    }
    struct sample_frame frame = r->frame;
    if (frame.kind == SAMPLE_FRAME_WORD)
        r->told += frame.where ^ (__u64)frame.file << 32;
    if (frame.kind != SAMPLE_FRAME_KERNEL)
        add_frame(s, frame); /* no room: the next step says so */
    return did;
}

/* Behind the words of a frame of the machine: 0, or 1: there are no more. */
__attribute__((noinline)) int end_of_words(__u32 slot, __u32 did)
{
    SCRATCH_OR_RETURN(slot, 1);
    /* Between the words of one frame of the machine and those of the next. */
    struct sample_frame end = {
        .kind = SAMPLE_FRAME_WORD, .runtime = s->walk.here.runtime, .file = s->walk.runtime.mark};
    int is_last = did == STEP_NATIVE && !s->walk.runtime.word[RUNTIME_NEXT_WORD];
    return is_last || add_frame(s, end);
}

/* Some of them: as walk_some. */
#define AHEAD_STEPS 8u
__attribute__((noinline)) int words_some(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, 1);
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < AHEAD_STEPS; i++) {
        if (s->head.n_user >= SAMPLE_USER_MAX - 1) /* a step adds two at most */
            return 1;
        __u32 did = runtime_step(slot, 0);
        if (did != STEP_TAKEN && end_of_words(slot, did))
            return 1;
    }
    return 0;
}

/* Which runtime of `these` has a place in this process. */
__attribute__((noinline)) int find_interpreter(__u32 slot, __u32 these)
{
    SCRATCH_OR_RETURN(slot, RUNTIME_NATIVE);
    __u32 wants = s->walk.wants, runtime;
    s->walk.wants = 1; /* it is not asked for here */
#pragma clang loop unroll(disable)
    for (runtime = RUNTIME_NATIVE + 1; runtime < RUNTIME_TAGS; runtime++) {
        if (!(these >> runtime & 1))
            continue;
        find_place(slot, runtime);
        if (s->walk.runtime.has_place)
            break;
    }
    s->walk.wants = wants;
    return runtime < RUNTIME_TAGS ? runtime : RUNTIME_NATIVE;
}

/* Where a walk ended for want of rows, user space goes on by a copy of the stack; but what a runtime's frames
 * are it could not say any more, as they are elsewhere, and gone with the next call. So they are told ahead:
 * those of each frame of the machine that is to come, and a word that is 0 behind them.
 *
 * Where it ended as there is no way on (code that a library has made, or assembly, without tables) what has
 * called is gone, but not these: which functions the thread is in is known all the same. */
__attribute__((noinline)) int words_ahead(__u32 slot)
{
    SCRATCH_OR_RETURN(slot, 0);
    struct walk *w = &s->walk;
    __u32 n = s->head.n_user;
    if (!n_runtime_places)
        return 0;
    __u32 these = ~RUNTIMES_ON_STACK;
    if (w->end != UNWIND_END_MISSING)
        these = RUNTIMES_BY_THREAD | (s->head.tid == s->head.pid ? RUNTIMES_BY_PROCESS : 0);
    /* The one whose words there are already goes on where it is. */
    __u32 runtime = w->runtime.has_place && w->runtime.of ? w->runtime.of : RUNTIME_NATIVE;
    if (runtime == RUNTIME_NATIVE || !(these >> (runtime & 31) & 1))
        runtime = find_interpreter(slot, these);
    if (runtime != RUNTIME_NATIVE) {
        w->here.runtime = runtime;
        w->runtime.inside = 0;
        w->runtime.mark = 0;
        w->runtime.is_ahead = 1;
#pragma clang loop unroll(disable)
        for (__u64 i = 0; i < UNWIND_FRAMES_MAX / AHEAD_STEPS; i++)
            if (words_some(slot))
                break;
    }
    w->n_ahead = s->head.n_user - n;
    return 0;
}

/* A child has its parent's memory, so what is known of that: most children end with few samples. */
static __always_inline void inherit_places(__u32 parent, __u32 pid, __u64 start)
{
    __u64 has = RUNTIME_PLACE_KEY(parent, RUNTIME_NATIVE), has_own = RUNTIME_PLACE_KEY(pid, RUNTIME_NATIVE);
    const struct runtime_place *any = n_runtime_places ? bpf_map_lookup_elem(&runtime_places, &has) : 0;
    if (!any || bpf_map_update_elem(&runtime_places, &has_own, any, BPF_ANY))
        return;
#pragma clang loop unroll(full)
    for (__u32 runtime = RUNTIME_NATIVE + 1; runtime < RUNTIME_TAGS; runtime++) {
        __u64 from = RUNTIME_PLACE_KEY(parent, runtime), to = RUNTIME_PLACE_KEY(pid, runtime);
        const struct runtime_place *place = bpf_map_lookup_elem(&runtime_places, &from);
        if (!place)
            continue;
        struct runtime_place own = *place;
        own.start = start;
        own.used = 0;
        bpf_map_update_elem(&runtime_places, &to, &own, BPF_ANY);
    }
}

/* Forgets a process that has ended or begun another program. */
static __always_inline void forget_places(__u32 pid)
{
    __u64 has = RUNTIME_PLACE_KEY(pid, RUNTIME_NATIVE);
    if (!n_runtime_places || !bpf_map_lookup_elem(&runtime_places, &has))
        return;
#pragma clang loop unroll(full)
    for (__u32 runtime = RUNTIME_NATIVE; runtime < RUNTIME_TAGS; runtime++) {
        __u64 key = RUNTIME_PLACE_KEY(pid, runtime);
        bpf_map_delete_elem(&runtime_places, &key);
    }
}

#endif
