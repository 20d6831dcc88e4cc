/*
 * What the kernel side (sample.bpf.c) tells user space: records in the ring buffer, fixed-width types only.
 */
#ifndef BPF_SAMPLE_H
#define BPF_SAMPLE_H

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t __sample_u8;
typedef uint32_t __sample_u32;
typedef uint64_t __sample_u64;
#else
typedef unsigned char __sample_u8;
typedef unsigned int __sample_u32;
typedef unsigned long long __sample_u64;
#endif

/* Both are what kernel.perf_event_max_stack allows by default (127): more is refused by bpf_get_stack. */
#define SAMPLE_KERNEL_MAX 127
#define SAMPLE_USER_MAX   127

#define SAMPLE_COMM_LEN 16  /* TASK_COMM_LEN, NUL included */
#define SAMPLE_PATH_MAX 256 /* of an executable's name as it was given to execve; longer ones are cut */

enum sample_kind {
    SAMPLE_STACK = 1, /* struct sample_head, then n_kernel + n_user addresses, leaf first each */
    SAMPLE_EXEC = 2,  /* struct sample_exec: this process is another program from now on */
};

/* How every record begins. */
struct sample_head {
    __sample_u32 kind;
    __sample_u32 pid;   /* of the process (tgid), in the initial pid namespace */
    __sample_u64 start; /* when the process began, ns since boot: with pid, names it for ever */
    __sample_u64 time;  /* CLOCK_MONOTONIC */
    __sample_u32 tid;
    __sample_u32 cpu;
    __sample_u32 n_kernel, n_user; /* SAMPLE_STACK: addresses that follow */
    __sample_u32 is_kernel_thread; /* 1: it has no user memory */
    __sample_u32 reserved;
    char comm[SAMPLE_COMM_LEN];
};

struct sample_exec {
    struct sample_head head;
    char path[SAMPLE_PATH_MAX]; /* NUL-terminated; the record ends behind the NUL */
};

#endif
