/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the kernel side (sample.bpf.c) tells user space: records in the ring buffer, fixed-width types only.
 */
#ifndef BPF_SAMPLE_H
#define BPF_SAMPLE_H

#include "bpf/context.h"
#include "bpf/runtimes.h"
#include "bpf/types.h"
#include "bpf/unwind.h"

/* What kernel.perf_event_max_stack allows by default (127): more is refused by bpf_get_stack. */
#define SAMPLE_KERNEL_MAX 127
#define SAMPLE_USER_MAX   UNWIND_FRAMES_MAX

#define SAMPLE_COMM_LEN 16  /* TASK_COMM_LEN, NUL included */
#define SAMPLE_PATH_MAX 256 /* of an executable's name as execve or a script has it; longer ones are cut */

enum sample_kind {
    SAMPLE_STACK = 1, /* struct sample_head, then SAMPLE_BODY_BYTES: see struct sample_frame */
    /* Of a process before its first sample comes, as it may have ended by then, and afterwards at once;
     * nothing of one that is never sampled. */
    SAMPLE_EXEC = 2,  /* struct sample_exec: this process is another program from now on */
    SAMPLE_WANT = 3,  /* struct sample_want: a file without unwind tables was met */
    SAMPLE_VALUE = 4, /* sample_head alone: what the stack with this ticket weighs; 0: forget it */
    SAMPLE_FORK = 5,  /* sample_head alone, of a child without an execve; `value` is the pid of its parent, or
                         of whom that is a child of without one, `ticket` that one's start */
    SAMPLE_EXIT = 6,  /* sample_head alone: the process's last thread has ended, if user space knows of it */
    SAMPLE_REST = 7,  /* among the wants: a SAMPLE_STACK whose walk goes on in user space, see `rest` */
    SAMPLE_PROCESS = 8, /* struct sample_process: what then need not be read from /proc */
};

/* What made a sample: the number of a kind. Those of perf events and probes follow, in the order user space
 * opened them (the cookie of the attachment). */
enum sample_source {
    SAMPLE_FROM_CLOCK,
    SAMPLE_FROM_WAIT,  /* a thread was off the CPU for `value` ns; `detail` is enum sample_wait */
    SAMPLE_FROM_BLOCK, /* a request to a block device took `value` ns; `detail` is enum sample_block */
    SAMPLE_FROM_LOCK,  /* a thread waited for a futex for `value` ns; `detail` is enum sample_lock */
    SAMPLE_FROM_OTHERS,
};
#define SAMPLE_WAITING    SAMPLE_FROM_OTHERS /* sources below have a struct sample_waits */
#define SAMPLE_OTHERS_MAX 16u
#define SAMPLE_SOURCES    (SAMPLE_FROM_OTHERS + SAMPLE_OTHERS_MAX)

/* Why a thread was off the CPU: the state it gave it up in. */
enum sample_wait {
    SAMPLE_WAIT_PREEMPTED, /* it did not: it could have run on */
    SAMPLE_WAIT_SLEEP,     /* interruptible: for a lock, a timer, a socket, … */
    SAMPLE_WAIT_DISK,      /* uninterruptible: storage mostly */
    SAMPLE_WAIT_STOPPED,   /* by a signal or a debugger */
    SAMPLE_WAITS,
};

/* Of each CPU, of each source of waits: waits, those below the minimum, the time of all; and, the kernel
 * side's own, how many were taken since when, and one in how much (pace.bpf.h). */
struct sample_waits {
    bpf_u64 n, n_short, ns;
    bpf_u64 since, period, taken;
};

enum sample_block { SAMPLE_BLOCK_READ, SAMPLE_BLOCK_WRITE, SAMPLE_BLOCK_OTHER, SAMPLE_BLOCKS };

/* How a wait for a futex ended. */
enum sample_lock {
    SAMPLE_LOCK_WOKEN,
    SAMPLE_LOCK_TIMEOUT,
    SAMPLE_LOCK_INTERRUPTED, /* by a signal; it may go on, as another wait */
    SAMPLE_LOCK_CHANGED,     /* there was nothing to wait for any more */
    SAMPLE_LOCKS,
};

/* What a user probe weighs a hit by: bits 8 and up of its cookie, the source being below. */
enum sample_weight {
    SAMPLE_WEIGHS_ONE,
    SAMPLE_WEIGHS_FIRST,   /* the first argument: malloc(size) */
    SAMPLE_WEIGHS_SECOND,  /* the second: memalign(alignment, size) */
    SAMPLE_WEIGHS_REGROWN, /* the second, if the first is not 0: realloc(NULL, n) goes on to malloc */
    SAMPLE_WEIGHS_PRODUCT, /* both: calloc(n, size) */
    SAMPLE_WEIGHS_THIRD,   /* posix_memalign(to, alignment, size) */
};

/* Of which processes samples are taken: rules of one map. */
enum filter_what { FILTER_PID, FILTER_USER, FILTER_CGROUP, FILTER_EXECUTABLE, FILTER_WHATS };
#define FILTER_INCLUDE  1u
#define FILTER_EXCLUDE  2u
#define FILTER_NAME_LEN 64 /* of an executable without its folders; longer ones match by what fits */
#define FILTER_RULES    1024u

struct filter_key {
    bpf_u32 what;
    bpf_u32 zero;
    bpf_u64 id;                 /* the pid, user id or cgroup id */
    char name[FILTER_NAME_LEN]; /* the executable's, filled up with NULs */
};

/* Bits of sample_head.flags. */
#define SAMPLE_EXACT 1u /* user addresses are inside the calls already: not return addresses any more */
/* frame pointers were followed through a file whose tables were not there yet, or where others' were found */
#define SAMPLE_GUESSED 2u
#define SAMPLE_PLAIN   4u /* user frames are words, too: addresses of code, by the kernel's own walk */

/* What a frame is, and so what the rest of it means. */
enum sample_frame_kind {
    SAMPLE_FRAME_KERNEL, /* code of the kernel, at address `where`; on the ring a word that is the address */
    SAMPLE_FRAME_CODE,   /* code of the process, at address `where` */
    SAMPLE_FRAME_WORD,   /* a runtime's word: what it means is the runtime's business; `where` 0: none */
    SAMPLE_FRAME_KINDS,
};

/* A frame. On the ring behind the head: n_kernel words, n_user of these (of SAMPLE_PLAIN, words), leaf first
 * each, then n_context bytes.
 *
 * Of code in a file whose tables the walk knew, `file` is their serial (struct unwind_file) and `extra` the
 * low 16 bits of the page number in it, which with the low 12 bits of `where` says where in a file of up to
 * 256 MiB: so that what has ended by the time this is read can still be named. Of one that had no tables yet
 * it is unwind_mark: what is mapped there by then may be another. */
struct sample_frame {
    bpf_u8 kind;
    bpf_u8 runtime; /* enum runtime_tag: whose; of code, enum unwind_cfa: how its caller was found */
    bpf_u16 extra;  /* a place in the function: bytecode, line, … */
    bpf_u32
        file; /* 0: none (SAMPLE_PLAIN: not known). Of a word, what tells it from a later one at `where` */
    bpf_u64 where;
};
#define SAMPLE_OFFSET_BITS (UNWIND_PAGE_BITS + 16)
#define SAMPLE_FILE_LOST   UNWIND_MARK /* nobody knows any more which file was there, if any */
#define SAMPLE_FRAME_WORDS (sizeof(struct sample_frame) / 8)

/* What follows the head of a stack. */
#define SAMPLE_USER_WORDS(head) ((head)->n_user * ((head)->flags & SAMPLE_PLAIN ? 1 : SAMPLE_FRAME_WORDS))
#define SAMPLE_BODY_BYTES(head) \
    (8 * ((bpf_u64)(head)->n_kernel + SAMPLE_USER_WORDS(head)) + (head)->n_context)

/* How every record begins. */
struct sample_head {
    bpf_u32 kind;
    bpf_u32 pid;   /* of the process (tgid), in the initial pid namespace */
    bpf_u64 start; /* when the process began, ns since boot: with pid, names it for ever */
    bpf_u64 time;  /* CLOCK_MONOTONIC */
    bpf_u32 tid;
    bpf_u32 cpu;
    bpf_u32 n_kernel, n_user; /* SAMPLE_STACK: frames that follow */
    bpf_u16 is_kernel_thread; /* 1: it has no user memory */
    bpf_u16 n_context;        /* SAMPLE_STACK: bytes of a thread's context (context.h); 0: it has none */
    bpf_u16 user_end;         /* SAMPLE_STACK: enum unwind_end */
    bpf_u16 flags;
    char comm[SAMPLE_COMM_LEN];
    bpf_u32 source; /* SAMPLE_STACK, SAMPLE_VALUE: enum sample_source */
    bpf_u32 detail;
    bpf_u64 value;   /* in the unit of its source, before division by a probability */
    bpf_u64 ticket;  /* not 0: SAMPLE_VALUE will say what the stack weighs */
    bpf_u32 changes; /* SAMPLE_STACK: how often the process's mappings had changed; 0: not known */
    bpf_u32 rest;    /* SAMPLE_REST: number of the struct unwind_rest, which is the reader's to give back */
};

#define SAMPLE_NAME_MAX 64

struct sample_exec {
    struct sample_head head;
    /* the executable's, which `path` may be a link to; "": not known, or longer */
    char name[SAMPLE_NAME_MAX];
    char path[SAMPLE_PATH_MAX]; /* NUL-terminated; the record ends behind the NUL */
};

/* A larger environment is read from /proc, as is all of this of who is in another pid namespace than the
 * first.
 */
#define SAMPLE_ENVIRON_MAX 4096u

struct sample_process {
    struct sample_head head;          /* `detail`: whether there is an environment */
    bpf_u32 user;                     /* its real one */
    bpf_u32 parent;                   /* its pid */
    char environ[SAMPLE_ENVIRON_MAX]; /* as in /proc/PID/environ; the record ends behind it */
};

/* In a ring of its own: the process has the file mapped there; or, `end` 0, began it as its executable, with
 * code at `start`. With head.detail, an enum runtime_tag, it is the runtime's place in the process that is
 * wanted, not the file's tables. */
struct sample_want {
    struct sample_head head;
    struct unwind_key key;
    bpf_u64 start, end;
    char path[SAMPLE_PATH_MAX]; /* of an executable; NUL-terminated */
};

/* One executable mapping, as the iterator over all processes writes them (dump_files). */
struct sample_file {
    bpf_u32 pid, zero;
    bpf_u64 began;         /* the process, as sample_head.start */
    struct unwind_key key; /* all 0: the vDSO; inode 0: generated code, of no file */
    bpf_u64 start, end, offset;
};

/* Addresses whose names are asked for at a time (dump_names). */
#define SAMPLE_ASKED 256u

#endif
