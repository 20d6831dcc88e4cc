/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Integers of fixed width for what both sides share: the kernel side has no <stdint.h>, and in user space
 * linux/types.h's __u64 is not uint64_t.
 */
#ifndef BPF_TYPES_H
#define BPF_TYPES_H

#ifndef __bpf__
#include <stdint.h>
typedef uint8_t bpf_u8;
typedef uint16_t bpf_u16;
typedef uint32_t bpf_u32;
typedef uint64_t bpf_u64;
typedef int16_t bpf_s16;
typedef int32_t bpf_s32;
typedef int64_t bpf_s64;
#else
typedef unsigned char bpf_u8;
typedef unsigned short bpf_u16;
typedef unsigned int bpf_u32;
typedef unsigned long long bpf_u64;
typedef short bpf_s16;
typedef int bpf_s32;
typedef long long bpf_s64;
#endif

#endif
