/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Where the threads of a process say what they work for: the thread context of OTEP 4947 ("Thread Context"),
 * a pointer in thread-local storage to a record of trace id, span id and attributes. User space finds the
 * place (sender/context), the kernel side reads it with each sample (context.bpf.h).
 *
 * x86-64: thread-local storage is variant II of Drepper, "ELF Handling For Thread-Local Storage", 3.
 */
#ifndef BPF_CONTEXT_H
#define BPF_CONTEXT_H

#include "bpf/types.h"

/* The fixed part of a record: trace id (16), span id (8), valid (1), flags (1), size of what follows (2). */
#define CONTEXT_HEAD_BYTES 28u
#define CONTEXT_VALID_AT   24u
#define CONTEXT_SIZE_AT    26u
/* OTEP 4947 recommends 640 bytes at most for all of it; attributes beyond are not read. */
#define CONTEXT_BYTES_MAX 640u
#define CONTEXT_ATTRS_MAX (CONTEXT_BYTES_MAX - CONTEXT_HEAD_BYTES)

/* Processes that publish contexts, at a time. */
#define CONTEXT_PLACES 1024u

enum context_how {
    CONTEXT_NOWHERE,
    CONTEXT_STATIC, /* at thread pointer + offset */
    CONTEXT_GLIBC,  /* at `offset` in the block of `module`, by the C library's vector of blocks (dtv) */
    CONTEXT_MUSL,
};

struct context_place {
    bpf_u64 start; /* of the process, as in struct sample_head: no other one with its pid */
    bpf_s64 offset;
    bpf_u64 module; /* from 1 */
    bpf_u32 how;
    bpf_u32 user; /* whose process it is */
};

/* The address of a thread's variable; 0: it has none (yet). `load(address, &value)` is 0 when the eight bytes
 * there could be read.
 *
 * The vector is at thread pointer + 8 with both libraries. glibc (sysdeps/generic/dl-dtv.h): entries of two
 * words, how many there are in the one before the first, all ones in one whose block is not made yet. musl
 * (src/internal/pthread_impl.h): words, how many in the first. */
#define CONTEXT_VARIABLE(place, thread, load, ret)                                               \
    do {                                                                                         \
        bpf_u64 at_ = 0, n_ = 0, block_ = 0, wide_ = (place)->how == CONTEXT_GLIBC;              \
        *(ret) = 0;                                                                              \
        if ((place)->how == CONTEXT_STATIC) {                                                    \
            *(ret) = (thread) + (bpf_u64)(place)->offset;                                        \
            break;                                                                               \
        }                                                                                        \
        if ((place)->how != CONTEXT_GLIBC && (place)->how != CONTEXT_MUSL)                       \
            break;                                                                               \
        if (load((thread) + 8, &at_) || load(at_ - 16 * wide_, &n_) || (place)->module > n_)     \
            break;                                                                               \
        if (load(at_ + ((place)->module << (3 + wide_)), &block_) || !block_ || block_ == ~0ull) \
            break;                                                                               \
        *(ret) = block_ + (bpf_u64)(place)->offset;                                              \
    } while (0)

#endif
