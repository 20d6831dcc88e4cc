/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * The few kernel structs that are read, declared by hand: CO-RE relocates the fields by name against the
 * running kernel's BTF, so building needs no vmlinux.h. A name with ___ is a flavour: the same kernel type as
 * another version has it.
 */
#ifndef BPF_KERNEL_BPF_H
#define BPF_KERNEL_BPF_H

#include <linux/bpf.h>
#include <linux/types.h>
#include <bpf/bpf_core_read.h>
#include <bpf/bpf_helpers.h>
#include <bpf/bpf_tracing.h>

#define LIKELY(x)   __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)

#define BY_NAME __attribute__((preserve_access_index))

/* Whether the kernel has a helper, by its BTF. A constant once the program is loaded: the verifier does not
 * look at the way that is not taken. */
#define HAS_HELPER(name) bpf_core_enum_value_exists(enum bpf_func_id, BPF_FUNC_##name)

/* A field of the current task, of its memory or of what they point to. Where the kernel says what type the
 * current task is (5.11) it is a load, elsewhere a helper's call. */
#define FIELD(of, field)                         \
    ({                                           \
        __typeof__((of)->field) field_;          \
        if (HAS_HELPER(get_current_task_btf))    \
            field_ = (of)->field;                \
        else                                     \
            field_ = BPF_CORE_READ((of), field); \
        field_;                                  \
    })

struct super_block {
    unsigned int s_dev;
} BY_NAME;

struct inode {
    unsigned long i_ino;
    unsigned int i_nlink, i_generation;
    struct super_block *i_sb;
    long long i_size;
} BY_NAME;

struct timespec64 {
    long long tv_sec;
    long tv_nsec;
} BY_NAME;

struct inode___v6_11 {
    long long i_mtime_sec;
    unsigned int i_mtime_nsec;
} BY_NAME;

struct inode___v6_7 {
    struct timespec64 __i_mtime;
} BY_NAME;

struct inode___v6_1 {
    struct timespec64 i_mtime;
} BY_NAME;

struct qstr {
    const unsigned char *name;
} BY_NAME;

struct dentry {
    struct qstr d_name;
} BY_NAME;

struct path {
    struct dentry *dentry;
} BY_NAME;

struct file {
    struct inode *f_inode;
    struct path f_path;
} BY_NAME;

struct request {
    unsigned int cmd_flags;
} BY_NAME;

struct maple_tree {
    void *ma_root;
} BY_NAME;

struct mm_struct___v6_1 {
    struct maple_tree mm_mt;
} BY_NAME;

/* Before: a red-black tree. */
struct rb_node {
    struct rb_node *rb_right, *rb_left;
} BY_NAME;

struct rb_root {
    struct rb_node *rb_node;
} BY_NAME;

struct mm_struct___v5_10 {
    struct rb_root mm_rb;
} BY_NAME;

struct vm_area_struct___v5_10 {
    struct rb_node vm_rb;
} BY_NAME;

struct mm_struct {
    unsigned long start_code, end_code, start_stack, env_start, env_end;
    struct file *exe_file;
    struct {
        void *vdso;
    } context;
} BY_NAME;

/* Moves with every change of the process's mappings (CONFIG_PER_VMA_LOCK). */
struct sequence {
    unsigned int sequence;
} BY_NAME;

struct mm_struct___v6_13 {
    struct sequence mm_lock_seq;
} BY_NAME;

struct mm_struct___v6_4 {
    int mm_lock_seq;
} BY_NAME;

struct vm_area_struct {
    unsigned long vm_start, vm_end, vm_flags, vm_pgoff;
    struct mm_struct *vm_mm;
    struct file *vm_file;
} BY_NAME;

struct count {
    int counter;
} BY_NAME;

/* Whether it still is a part of its process's memory (CONFIG_PER_VMA_LOCK): 0 when it is not. */
struct reference_count {
    struct count refs;
} BY_NAME;

struct vm_area_struct___v6_15 {
    struct reference_count vm_refcnt;
} BY_NAME;

/* The other way round. */
struct vm_area_struct___v6_4 {
    _Bool detached;
} BY_NAME;

struct signal_struct {
    struct count live; /* threads that have not begun to end */
} BY_NAME;

struct pid {
    unsigned int level; /* 0: of the first pid namespace */
} BY_NAME;

struct task_struct {
    int pid, tgid;
    struct pid *thread_pid;
    struct signal_struct *signal;
    void *stack;
    unsigned int kasan_depth;
    unsigned int flags;
    unsigned long long start_boottime;
    struct task_struct *group_leader;
    struct task_struct *real_parent;
    struct mm_struct *mm;
    char comm[16];
} BY_NAME;

/* What probes have to do with a thread (kernel: include/linux/uprobes.h). Those of functions' ends have taken
 * return addresses off its stack. */
struct return_instance {
    unsigned long stack; /* where it was */
    unsigned long orig_ret_vaddr;
    struct return_instance *next;
} BY_NAME;

struct uprobe_task {
    struct return_instance *return_instances;
    unsigned long vaddr, xol_vaddr; /* of the instruction it is at, whose place a probe has; of its copy */
} BY_NAME;

struct task_struct___uprobes {
    struct uprobe_task *utask;
} BY_NAME;

struct task_struct___v5_14 {
    unsigned int __state;
} BY_NAME;

struct task_struct___v5_10 {
    long state;
} BY_NAME;

static __always_inline struct task_struct *current_task(void)
{
    return HAS_HELPER(get_current_task_btf) ? (struct task_struct *)bpf_get_current_task_btf()
                                            : (struct task_struct *)bpf_get_current_task();
}

/* What is kept of a thread, as long as it lives: `kept *name(task, create)`, where `create` is
 * BPF_LOCAL_STORAGE_GET_F_CREATE or 0, and NULL says that there is none. Before 5.12 tracepoints have no task
 * storage: there it is a hash map, and of more threads than that holds those that were asked for longest ago
 * are forgotten. */
#define OF_EACH_THREAD(kept, name, storage, by_thread)                        \
    struct {                                                                  \
        __uint(type, BPF_MAP_TYPE_TASK_STORAGE);                              \
        __uint(map_flags, BPF_F_NO_PREALLOC);                                 \
        __type(key, int);                                                     \
        __type(value, kept);                                                  \
    } storage SEC(".maps");                                                   \
    struct {                                                                  \
        __uint(type, BPF_MAP_TYPE_LRU_HASH);                                  \
        __uint(max_entries, 16384);                                           \
        __type(key, __u32);                                                   \
        __type(value, kept);                                                  \
    } by_thread SEC(".maps");                                                 \
    static __always_inline kept *name(struct task_struct *task, __u64 create) \
    {                                                                         \
        if (HAS_HELPER(task_storage_get))                                     \
            return bpf_task_storage_get(&storage, task, 0, create);           \
        __u32 tid = FIELD(task, pid);                                         \
        kept *one = bpf_map_lookup_elem(&by_thread, &tid);                    \
        if (one || !create)                                                   \
            return one;                                                       \
        kept none = {0};                                                      \
        bpf_map_update_elem(&by_thread, &tid, &none, BPF_NOEXIST);            \
        return bpf_map_lookup_elem(&by_thread, &tid);                         \
    }

struct thread_struct___tls {
    unsigned long fsbase;
} BY_NAME;

struct task_struct___tls {
    struct thread_struct___tls thread;
} BY_NAME;

struct linux_binprm {
    const char *interp; /* what is executed: of a script its interpreter; else what execve was told */
    struct file *file;
} BY_NAME;

struct bpf_iter_meta {
    void *seq;
    __u64 seq_num; /* how many were before */
} BY_NAME;

struct bpf_iter__task_vma {
    struct bpf_iter_meta *meta;
    struct task_struct *task;
    struct vm_area_struct *vma;
} BY_NAME;

struct bpf_iter__bpf_map {
    struct bpf_iter_meta *meta;
    struct bpf_map *map; /* NULL: that was all */
} BY_NAME;

/* include/linux/sched.h: the same since 2.6.30. */
#define PF_FORKNOEXEC 0x00000040u
#define PF_KTHREAD    0x00200000u

/* include/linux/mm.h: the same value since 2.6. */
#define VM_EXEC 0x4u

#endif
