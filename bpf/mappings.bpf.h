/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Which mapping an address of a process is in, found in the kernel's own tree of them: so that a process
 * never seen before needs no set-up.
 *
 * The tree is read without its lock. Every node read can be stale or torn: what it leads to counts only if it
 * says of itself that it holds the address; a wrong answer costs a stack, never more.
 */
#ifndef BPF_MAPPINGS_BPF_H
#define BPF_MAPPINGS_BPF_H

#include "bpf/kernel.bpf.h"
#include "bpf/runtimes.h"
#include "bpf/unwind.h"

/* Programs that may interrupt each other work in different ones. */
enum slot { SLOT_CLOCK, SLOT_EVENT, SLOT_WAIT, SLOT_PROBE, SLOT_LOCK, SLOTS };

/* When a file's tables (by their serial) were last used, about seconds since boot; written about once a
 * second for each process and CPU. Tables that share a place look used together, as do those at a mark's. */
__u32 unwind_used[UNWIND_FILES];

static __always_inline void note_use(struct unwind_mapping *here, __u64 now)
{
    __u32 second = now >> 30;
    if (here->used == second || !here->serial)
        return;
    here->used = second;
    unwind_used[here->serial & (UNWIND_FILES - 1)] = second;
}

/* Filled by user space: files with (or known to be without) tables. */
struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, UNWIND_FILES);
    __uint(map_flags, BPF_F_NO_PREALLOC);
    __type(key, struct unwind_key);
    __type(value, struct unwind_file);
} unwind_files SEC(".maps");

/* Moves when user space takes a file out of unwind_files, so that what was remembered is forgotten; the other
 * one when it adds some, for which only those wait who met a file that was not there. */
__u64 unwind_generation = 0, unwind_additions = 0;

__u64 n_walks = 0; /* of the kernel's tree */

/* A maple node is 256 bytes aligned to as much; a pointer to one carries its type in bits 3 to 6 (kernel:
 * include/linux/maple_tree.h). */
enum { MAPLE_LEAF_64 = 1, MAPLE_RANGE_64 = 2, MAPLE_ARANGE_64 = 3 };
#define MAPLE_NODE_WORDS 32
/* A level holds ten ways at least: enough for 65,530 mappings (vm.max_map_count), doubled. */
#define MAPLE_DEPTH 6
#define PAGE_SHIFT  12

struct maple_node {
    __u64 word[MAPLE_NODE_WORDS];
};

/* The node that is looked at; as scratches (walk.bpf.h). */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, SLOTS);
    __type(key, __u32);
    __type(value, struct maple_node);
} maple_nodes SEC(".maps");

struct finder {
    struct unwind_key key;
    __u64 vma, start, end, flags, offset, file;
    __u64 inode; /* of the file, by find_code; 0: none */
    __u64 code;  /* likewise: 0; or where the executable's code begins, which is this, moved (find_moved) */
};

/* The slot of one node that page number `page` is in. Global and without branches on data: a static function
 * is verified for each caller and each path, and six levels of that are too many. */
__attribute__((noinline)) __u64 maple_slot(__u32 mine, __u64 entry, __u64 page)
{
    struct maple_node *node = bpf_map_lookup_elem(&maple_nodes, &mine);
    __u32 type = entry >> 3 & 15;
    if (!node || bpf_probe_read_kernel(node, sizeof *node, (void *)(entry & ~255ull)))
        return 0;
    /* A parent, then 15 pivots and 16 slots, or 9 and 10 in a node that also keeps gaps (arange). A pivot is
     * the last address of its slot; the first 0 is behind the last pivot used. */
    __u64 n_pivots = 15 - 6 * (type >> 1 & type & 1);
    volatile __u64 *slot = &node->word[0]; /* in a register, each that there may be is verified by itself */
    *slot = n_pivots;
#pragma clang loop unroll(disable)
    for (__u64 i = 0; i < 15; i++) {
        __u64 pivot = node->word[1 + i] >> PAGE_SHIFT;
        if (i >= n_pivots || !pivot || pivot >= page) {
            *slot = i;
            break;
        }
    }
    return node->word[(1 + n_pivots + *slot) & (MAPLE_NODE_WORDS - 1)];
}

static __always_inline __u64 find_in_maple(__u32 mine, struct mm_struct___v6_1 *mm, __u64 address)
{
    __u64 entry = 0, page = address >> PAGE_SHIFT;
    __u32 is_leaf = 0;
    bpf_probe_read_kernel(&entry, sizeof entry, &mm->mm_mt.ma_root);
    if ((entry & 3) != 2) /* not a node: no mapping, or just one (xa_is_node) */
        return 0;
    entry &= ~2ull;
    barrier_var(entry);
    for (int depth = 0; depth < MAPLE_DEPTH; depth++) {
        if (entry < 4096)
            return 0;
        __u32 type = entry >> 3 & 15;
        entry = maple_slot(mine, entry, page);
        barrier_var(entry);
        if (type <= MAPLE_LEAF_64) {
            is_leaf = 1;
            break;
        }
    }
    return is_leaf ? entry : 0;
}

/* No path is longer than 2 log2(n + 1): enough for 65,530 mappings, doubled. */
#define RB_DEPTH 36

/* Before 6.1: a red-black tree whose nodes are in the vm_area_structs, by address, of which no two overlap.
 */
static __always_inline __u64 find_in_rb(struct mm_struct___v5_10 *mm, __u64 address)
{
    __u64 at = bpf_core_field_offset(((struct vm_area_struct___v5_10 *)0)->vm_rb), found = 0;
    struct rb_node *node = BPF_CORE_READ(mm, mm_rb.rb_node);
#pragma clang loop unroll(disable)
    for (int depth = 0; depth < RB_DEPTH && node; depth++) {
        struct vm_area_struct *vma = (void *)((__u64)node - at);
        if (BPF_CORE_READ(vma, vm_end) > address) {
            found = (__u64)vma;
            node = BPF_CORE_READ(node, rb_left);
        } else {
            node = BPF_CORE_READ(node, rb_right);
        }
    }
    return found;
}

/* The vm_area_struct that may hold an address, or 0; it has to say so itself. `mine`: enum slot. */
__attribute__((noinline)) __u64 find_vma(__u32 mine, __u64 mm, __u64 address)
{
    __sync_fetch_and_add(&n_walks, 1);
    if (bpf_core_field_exists(((struct mm_struct___v6_1 *)0)->mm_mt))
        return find_in_maple(mine, (struct mm_struct___v6_1 *)mm, address);
    return find_in_rb((struct mm_struct___v5_10 *)mm, address);
}

/* What a vm_area_struct says of itself: f->vma, start, end, flags, offset, file. 0, or -1 if it cannot be
 * read. */
static __always_inline int read_mapping(struct finder *f, __u64 address)
{
    struct vm_area_struct *vma = (void *)address;
    f->vma = address;
    if (bpf_probe_read_kernel(&f->start, 8, &vma->vm_start) ||
        bpf_probe_read_kernel(&f->end, 8, &vma->vm_end) ||
        bpf_probe_read_kernel(&f->flags, 8, &vma->vm_flags) ||
        bpf_probe_read_kernel(&f->offset, 8, &vma->vm_pgoff) ||
        bpf_probe_read_kernel(&f->file, 8, &vma->vm_file))
        return -1;
    f->offset <<= PAGE_SHIFT;
    return 0;
}

/* What there is at an address, as read_mapping says it. 0, or -1 for nothing. */
static __always_inline int find_mapping(struct finder *f, __u32 mine, __u64 mm, __u64 address)
{
    __u64 vma = find_vma(mine, mm, address);
    return vma && !read_mapping(f, vma) && address >= f->start && address < f->end ? 0 : -1;
}

/* The inode of f->file, 0 for none. A file's memory is another file's as soon as it is closed; inodes stay.
 */
static __always_inline __u64 inode_of(const struct finder *f)
{
    struct file *file = (struct file *)f->file;
    return file ? (__u64)BPF_CORE_READ(file, f_inode) : 0;
}

/* When a file was written, as a key has it. With a stack of its own: its callers' are full (5.10). */
__attribute__((noinline)) __u64 time_of(__u64 address)
{
    struct inode *inode = (struct inode *)address;
    __u32 is_whole = BPF_CORE_READ(inode, i_nlink) | BPF_CORE_READ(inode, i_sb, s_dev) >> 20;
    if (bpf_core_field_exists(((struct inode___v6_11 *)0)->i_mtime_sec))
        return UNWIND_KEY_TIME(BPF_CORE_READ((struct inode___v6_11 *)inode, i_mtime_sec),
                               BPF_CORE_READ((struct inode___v6_11 *)inode, i_mtime_nsec), is_whole);
    if (bpf_core_field_exists(((struct inode___v6_7 *)0)->__i_mtime))
        return UNWIND_KEY_TIME(BPF_CORE_READ((struct inode___v6_7 *)inode, __i_mtime.tv_sec),
                               BPF_CORE_READ((struct inode___v6_7 *)inode, __i_mtime.tv_nsec), is_whole);
    return UNWIND_KEY_TIME(BPF_CORE_READ((struct inode___v6_1 *)inode, i_mtime.tv_sec),
                           BPF_CORE_READ((struct inode___v6_1 *)inode, i_mtime.tv_nsec), is_whole);
}

static __always_inline void read_key(struct unwind_key *key, struct inode *inode)
{
    key->inode = BPF_CORE_READ(inode, i_ino);
    key->size = BPF_CORE_READ(inode, i_size);
    key->device = BPF_CORE_READ(inode, i_sb, s_dev);
    key->zero = 0;
    key->mtime = time_of((__u64)inode);
}

/* Whether a vm_area_struct found for an address before is the one there yet. One that was freed may still say
 * what it said, but 6.4 and later keep in it that it is none any more; before that the tree has to be asked.
 */
static __always_inline int is_still_at(__u32 mine, struct mm_struct *mm, __u64 address, __u64 vma)
{
    struct vm_area_struct___v6_15 *counted = (void *)vma;
    struct vm_area_struct___v6_4 *flagged = (void *)vma;
    if (bpf_core_field_exists(counted->vm_refcnt.refs.counter)) {
        if (!BPF_CORE_READ(counted, vm_refcnt.refs.counter))
            return 0;
    } else if (bpf_core_field_exists(flagged->detached)) {
        if (BPF_CORE_READ(flagged, detached))
            return 0;
    } else {
        return find_vma(mine, (__u64)mm, address) == vma;
    }
    return BPF_CORE_READ((struct vm_area_struct *)vma, vm_mm) == mm;
}

/* Of the mapping that find_mapping found: its code, without tables (find_tables). 0; -1 where none can be. */
static __always_inline int find_code(struct finder *f, struct mm_struct *mm, struct unwind_mapping *ret)
{
    if (!(f->flags & VM_EXEC))
        return -1;
    ret->start = f->start;
    ret->length = f->end - f->start;
    ret->bias = f->offset - f->start;
    ret->n_pages = 0;
    ret->serial = 0;
    ret->used = 0;
    ret->is_pending = 0;
    ret->runtime = 0;
    f->code = 0;
    f->inode = inode_of(f);
    if (f->inode) {
        read_key(&f->key, (struct inode *)f->inode);
    } else {
        if ((__u64)BPF_CORE_READ(mm, context.vdso) != f->start) {
            ret->runtime = RUNTIME_GENERATED;
            return 0;
        }
        __builtin_memset(&f->key, 0, sizeof f->key);
        ret->bias = 0 - f->start;
    }
    return 0;
}

/* The tables of the file that f->key names. */
static __always_inline void find_tables(struct finder *f, __u64 now, struct unwind_mapping *ret)
{
    struct unwind_key key =
        f->key; /* before 6.2 a key must be on the stack or in a map, not behind an argument */
    struct unwind_file *file = bpf_map_lookup_elem(&unwind_files, &key);
    if (!file) {
        if (f->file) {
            ret->is_pending = 1;
            ret->serial = unwind_mark(&f->key);
        }
        return;
    }
    ret->n_pages = file->n_pages;
    ret->serial = file->serial;
    ret->runtime = file->runtime;
    if (f->code)
        ret->bias = file->code - f->code;
    note_use(ret, now);
}

#endif
