/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The samples between two reports, equal ones together: the same process, thread, CPU and stack is one sample
 * with several times.
 *
 * The stack counts whole, frame by frame: two that differ anywhere are never merged.
 *
 * A closed window goes to another thread whole, with all that is needed to name and send it: the processes in
 * it are held, what they say of themselves is that of the closing, its files are open. Nothing is added
 * any more; it is cleared, which lets go of all that, on the thread that filled it.
 */
#ifndef SENDER_COLLECT_WINDOW_H
#define SENDER_COLLECT_WINDOW_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/sample.h"
#include "proto/base/intern.h"
#include "proto/base/vec.h"
#include "sender/foreign/holdings.h"
#include "sender/procs/procs.h"
#include "sender/runtimes/words.h"
#include "sender/symbolize/binaries.h"

enum frame_kind {
    FRAME_KERNEL, /* address: in the kernel */
    FRAME_FILE,   /* address: ELF virtual address in file `file` of the window */
    FRAME_OTHER,  /* address: in the process; generated code, or nothing we know */
    FRAME_WORD,   /* a runtime's word, which has number `file` in the window */
    FRAME_KINDS,
};

/* How sure the walk was of a frame of code. */
enum frame_way {
    FRAME_SURE,
    FRAME_BY_POINTER, /* it was left by a frame pointer, though its file does not say that there is one */
    FRAME_NOWHERE,    /* in no file: generated code, in which no thread begins */
};

/* One frame. Of a caller, the address is one less than what it returns to: inside the call. */
struct frame {
    uint16_t kind, way;
    uint32_t file;
    uint64_t address;
};

#define FRAMES_MAX (SAMPLE_KERNEL_MAX + SAMPLE_USER_MAX)

/* Samples in one window: 97 Hz on 1000 CPUs for 10 s. What is above is counted as dropped. */
#define WINDOW_SAMPLES_MAX 1000000u
/* What samples and stacks of one window may take: a window goes on while the one before it is being named,
 * and on a large host an hour of deep stacks would be gigabytes. What is above is counted as dropped. */
#define WINDOW_BYTES_MAX (256u << 20)
/* Files that a window keeps open; two windows' are far below the descriptors main.c asks for. When all are,
 * who has fewer than another user has one of his closed: nobody's programs, however many, take others' names.
 */
#define WINDOW_OPEN_MAX 256u

/* Words of runtimes; what is above is a frame without a name. */
#define WINDOW_WORDS_MAX 262144u

/* What a user stack lacks. */
enum window_incomplete {
    WINDOW_COMPLETE,   /* nothing that we know of */
    WINDOW_TOO_DEEP,   /* it has more frames than are taken */
    WINDOW_UNREADABLE, /* its memory could not be read */
    WINDOW_NO_WAY_ON,  /* its code does not say where the caller is */
    WINDOW_GUESSED,    /* frame pointers were followed where they may have been none */
};

struct window_process {
    struct process *process;   /* held: what it is does not change (procs.h) */
    struct identity *identity; /* what it says of itself, from window_close on; held; NULL: nothing */
    struct bytes service_name; /* likewise */
    double share;              /* of its samples: those that are sent; 1, until targets_thin */
    const struct word *word;   /* one of a runtime's that was met in it; NULL: none */
};

/* A file that frames are in. */
struct window_file {
    uint32_t number; /* the collector's own, for window_file */
    struct binary_key key;
    int fd;         /* the window's, or whoever took it and put -1 here; -1: could not be opened */
    uint8_t holder; /* whose it counts as while it is open */
    uint32_t pid;   /* where it was met last … */
    char *path;     /* … and as what; never NULL */
};

/* A runtime's word. */
struct window_word {
    const struct runtime *runtime;
    struct word *word; /* held; what it is called. NULL: that is not known */
};

struct window_sample {
    uint32_t process; /* index into window.process */
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
    struct intern stacks;             /* of struct frame[] */
    struct intern keys;               /* identity of each distinct sample */
    struct intern contexts;           /* of records as sender/context/record.h reads them */
    VEC(struct window_sample) sample; /* by number in keys, until targets_thin */
    VEC(struct window_time) time;
    VEC(struct window_process) process;
    VEC(struct window_file) file;
    uint32_t n_open;              /* of the files … */
    struct holdings open;         /* … by user */
    struct intern words;          /* by process and struct sample_frame */
    VEC(struct window_word) word; /* by number in words */
    size_t bytes;                 /* of samples and stacks, about */
    uint64_t dropped;             /* since the last clear: over a limit, or memory was out */
    uint64_t unwanted;            /* hits that are not to be sent (targets_thin) */
};

#define WINDOW_NO_TIME    UINT32_MAX
#define WINDOW_NO_CONTEXT INTERN_NONE

/* Adds one hit, with what its thread worked for (.n 0: that is not known). False: dropped, and counted. */
bool window_add(struct window *w, struct process *process, const struct sample_head *head,
                const struct frame *frames, uint32_t n_frames, struct bytes context);

static inline uint32_t window_samples(const struct window *w)
{
    return w->sample.n;
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

/* The index of a file in the window, added if it is new; `*remark`, 0 at first, is the caller's to keep by
 * file for the next call. UINT32_MAX when memory is out. */
uint32_t window_file(struct window *w, uint32_t number, const struct binary_key *key, uint32_t *remark);

/* Whether this process's mapping of a file should be opened for window_met: it is not open, was not tried by
 * this process before, and there is room for its user. */
bool window_wants(const struct window *w, uint32_t file, const struct process *process);

/* Says where a file was met; takes `fd` over in any case, which may be negative. */
void window_met(struct window *w, uint32_t file, const struct process *process, struct bytes path, int fd);

/* The number of a runtime's word in the window; *ret_is_new: it is to be put into window.word. UINT32_MAX
 * when memory or WINDOW_WORDS_MAX is out. */
uint32_t window_word(struct window *w, const struct process *process, const struct sample_frame *frame,
                     bool *ret_is_new);

/* Notes a word of the window's that was met in a process of the window's. */
void window_runtime(struct window *w, const struct process *process, const struct word *word);

/* No sample comes any more: takes what its processes say of themselves now. */
void window_close(struct window *w);

/* Closes the files that are still open. */
void window_close_files(struct window *w);

/* Forgets the samples and lets go of processes and files, keeps the memory. */
void window_clear(struct window *w);

void window_release(struct window *w);

#endif
