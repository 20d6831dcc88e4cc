/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * What the least that is asked of a process's memory costs on this machine: READS times 8 bytes, each time
 * the same. With it bench-sender --frames says what a frame can cost that has to be looked at (bpftool prog
 * run).
 */
#include <linux/bpf.h>

#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>

#define READS 1000

struct mm_struct {
    unsigned long arg_start;
} __attribute__((preserve_access_index));

struct task_struct {
    struct mm_struct *mm;
} __attribute__((preserve_access_index));

SEC("tc") int reads(struct __sk_buff *unused)
{
    struct task_struct *task = (struct task_struct *)bpf_get_current_task();
    const void *arguments = (const void *)BPF_CORE_READ(task, mm, arg_start);
    __u64 word;
    for (__u32 i = 0; i < READS; i++)
        if (bpf_probe_read_user(&word, sizeof word, arguments))
            return -1;
    return 0;
}

char LICENSE[] SEC("license") = "GPL";
