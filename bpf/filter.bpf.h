/* SPDX-License-Identifier: GPL-2.0 OR Apache-2.0 */
/*
 * Of whom samples are taken: decided here, so that what is not wanted costs next to nothing.
 *
 * Excluded is who one exclude rule matches; of each kind of rule that has include rules, one must match.
 */
#ifndef BPF_FILTER_BPF_H
#define BPF_FILTER_BPF_H

#include "bpf/kernel.bpf.h"
#include "bpf/sample.h"

/* Set before loading; constants to the verifier, which removes the branches not taken. Bits are 1 << enum
 * filter_what. */
const volatile __u32 filter_includes = 0, filter_excludes = 0;
const volatile __u32 with_idle = 0; /* 1: CPU idle time too, as pid 0 */
const volatile __u32 only_pid = 0;  /* 0: all */

struct {
    __uint(type, BPF_MAP_TYPE_HASH);
    __uint(max_entries, 1); /* user space makes room for its rules */
    __type(key, struct filter_key);
    __type(value, __u32);
} filters SEC(".maps");

/* Keys are too large for the stack of programs that walk as well. */
struct {
    __uint(type, BPF_MAP_TYPE_PERCPU_ARRAY);
    __uint(max_entries, 1);
    __type(key, __u32);
    __type(value, struct filter_key);
} filter_keys SEC(".maps");

/* cgroups nested deeper than this are matched by their upper levels only. */
#define CGROUP_LEVELS 16

static __always_inline __u32 look_up(struct filter_key *key, __u32 what, __u64 id)
{
    key->what = what;
    key->id = id;
    __u32 *found = bpf_map_lookup_elem(&filters, key);
    return found ? *found : 0;
}

static __always_inline __u32 look_up_cgroup(struct filter_key *key)
{
    __u32 found = 0;
    for (int level = 0; level < CGROUP_LEVELS; level++) {
        __u64 id = bpf_get_current_ancestor_cgroup_id(level);
        if (!id)
            break;
        found |= look_up(key, FILTER_CGROUP, id);
    }
    return found;
}

static __always_inline __u32 look_up_executable(struct filter_key *key, struct task_struct *task)
{
    const unsigned char *name = BPF_CORE_READ(task, mm, exe_file, f_path.dentry, d_name.name);
    __builtin_memset(key->name, 0, sizeof key->name);
    if (!name || bpf_probe_read_kernel_str(key->name, sizeof key->name, name) <= 0)
        return 0;
    __u32 found = look_up(key, FILTER_EXECUTABLE, 0);
    __builtin_memset(key->name, 0, sizeof key->name);
    return found;
}

static __always_inline int passes(__u32 what, __u32 found)
{
    return !(found & FILTER_EXCLUDE) && (!(filter_includes & 1u << what) || (found & FILTER_INCLUDE));
}

/* Whether the current thread is to be sampled. */
static __always_inline int is_wanted(struct task_struct *task)
{
    __u32 zero = 0, pid = FIELD(task, tgid), ruled = filter_includes | filter_excludes;
    if ((pid == 0 && !with_idle) || (only_pid && pid != only_pid))
        return 0;
    if (!ruled)
        return 1;
    struct filter_key *key = bpf_map_lookup_elem(&filter_keys, &zero);
    if (!key)
        return 0;
    if (ruled & 1u << FILTER_PID && !passes(FILTER_PID, look_up(key, FILTER_PID, pid)))
        return 0;
    if (ruled & 1u << FILTER_USER &&
        !passes(FILTER_USER, look_up(key, FILTER_USER, (__u32)bpf_get_current_uid_gid())))
        return 0;
    if (ruled & 1u << FILTER_CGROUP && !passes(FILTER_CGROUP, look_up_cgroup(key)))
        return 0;
    if (ruled & 1u << FILTER_EXECUTABLE && !passes(FILTER_EXECUTABLE, look_up_executable(key, task)))
        return 0;
    return 1;
}

#endif
