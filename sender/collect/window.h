/*
 * The samples between two reports, equal ones together: the same process, thread, CPU and stack is one sample
 * with several times.
 *
 * The stack counts whole, frame by frame: two that differ anywhere are never merged.
 */
#ifndef SENDER_COLLECT_WINDOW_H
#define SENDER_COLLECT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/sample.h"
#include "proto/base/intern.h"
#include "sender/procs/procs.h"

enum frame_kind {
    FRAME_KERNEL, /* address: in the kernel */
    FRAME_FILE,   /* address: ELF virtual address in binary `binary` */
    FRAME_OTHER,  /* address: in the process; generated code, or nothing we know */
};

/* One frame. Of a caller, the address is one less than what it returns to: inside the call. */
struct frame {
    uint32_t kind, binary;
    uint64_t address;
};

#define FRAMES_MAX (SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX)

/* Samples in one window: 97 Hz on 1000 CPUs for 10 s. What is above is counted as dropped. */
#define WINDOW_SAMPLES_MAX 1000000u

/* What a user stack lacks. */
enum window_incomplete {
    WINDOW_COMPLETE,   /* nothing that we know of */
    WINDOW_TOO_DEEP,   /* it has more frames than are taken */
    WINDOW_UNREADABLE, /* its memory could not be read */
    WINDOW_NO_WAY_ON,  /* its code does not say where the caller is */
    WINDOW_GUESSED,    /* frame pointers were followed where they may have been none */
};

struct window_sample {
    struct process *process;
    uint32_t tid, cpu;
    uint32_t stack; /* for window_frames */
    char comm[SAMPLE_COMM_LEN];
    enum window_incomplete incomplete;
    uint32_t source, detail; /* of sample_head */
    uint32_t context;        /* for window_context */
    uint32_t n_times;
    uint32_t first_time, last_time; /* chain in window.time */
};

struct window_time {
    uint64_t ns;    /* CLOCK_MONOTONIC */
    uint64_t value; /* what the hit weighs, in the unit of its source */
    uint32_t next;
};

struct window {
    struct intern stacks;         /* of struct frame[] */
    struct intern keys;           /* identity of each distinct sample */
    struct intern contexts;       /* of records as sender/context/record.h reads them */
    struct window_sample *sample; /* by number in keys */
    uint32_t cap_samples;
    struct window_time *time;
    uint32_t n_times, cap_times;
    uint64_t dropped; /* since the last clear: over a limit, or memory was out */
};

#define WINDOW_NO_TIME    UINT32_MAX
#define WINDOW_NO_CONTEXT INTERN_NONE

/* Adds one hit, with what its thread worked for (.n 0: that is not known). False: dropped, and counted. */
bool window_add(struct window *w, struct process *process, const struct sample_head *head,
                const struct frame *frames, uint32_t n_frames, struct bytes context);

static inline uint32_t window_samples(const struct window *w)
{
    return w->keys.n;
}

/* The frames of a stack, leaf first. */
static inline const struct frame *window_frames(const struct window *w, uint32_t stack, uint32_t *ret_n)
{
    struct bytes b = intern_get(&w->stacks, stack);
    *ret_n = (uint32_t)(b.n / sizeof(struct frame));
    return (const struct frame *)b.p;
}

/* The record of what the thread worked for; .n 0: not known. */
static inline struct bytes window_context(const struct window *w, uint32_t context)
{
    return context == WINDOW_NO_CONTEXT ? bytes_of(NULL, 0) : intern_get(&w->contexts, context);
}

/* Forgets the samples, keeps the memory. */
void window_clear(struct window *w);

void window_release(struct window *w);

#endif
