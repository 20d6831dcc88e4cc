/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the steps of runtimes (NAME_step.h) are written with. The same code runs in the kernel
 * (runtimes.bpf.h) and in user space, where it is tried on memory that lies. Who includes one has defined
 * before:
 *
 *     RUNTIME_READ(to, n, address)   copies n bytes of the thread's memory; 0 if it can
 *     RUNTIME_THREAD()               the thread pointer
 *     STEP_HANDLE, STEP_PART         by what a function of its own knows the walk, and how one is declared
 *     STEP_OPEN(NAME, handle)        declares `w`, the struct NAME_walk, `p`, the struct NAME_place, and `r`,
 *                                    the frame's registers; or returns -1
 */
#ifndef BPF_STEP_H
#define BPF_STEP_H

#define STEP_INLINE            static inline __attribute__((always_inline))
#define STEP_LOAD(address, to) RUNTIME_READ(to, 8, address)

/* Before a loop that the verifier goes through itself: unrolled, its code were as many times as large. */
#ifdef __clang__
#define STEP_LOOP _Pragma("clang loop unroll(disable)")
#else
#define STEP_LOOP
#endif

#endif
