/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/attach/features.h"

#include <string.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>

static const struct btf_type *find(const struct btf *btf, const char *name, uint32_t kind)
{
    int id = btf__find_by_name_kind(btf, name, kind);
    return id < 0 ? NULL : btf__type_by_id(btf, (uint32_t)id);
}

static bool has_member(const struct btf *btf, const char *type, uint32_t kind, const char *member)
{
    const struct btf_type *of = find(btf, type, kind);
    for (int i = 0; of && i < btf_vlen(of); i++)
        if (strcmp(btf__name_by_offset(btf, btf_members(of)[i].name_off), member) == 0)
            return true;
    return false;
}

static bool has_helper(const struct btf *btf, const char *name)
{
    const struct btf_type *of = find(btf, "bpf_func_id", BTF_KIND_ENUM);
    for (int i = 0; of && i < btf_vlen(of); i++)
        if (strcmp(btf__name_by_offset(btf, btf_enum(of)[i].name_off), name) == 0)
            return true;
    return false;
}

/* How many arguments a BPF program at a tracepoint has; 0: there is no such one. `type` is btf_trace_NAME. */
static int count_arguments(const struct btf *btf, const char *type)
{
    const struct btf_type *of = find(btf, type, BTF_KIND_TYPEDEF);
    of = of ? btf__type_by_id(btf, of->type) : NULL;
    of = of && btf_is_ptr(of) ? btf__type_by_id(btf, of->type) : NULL;
    return of && btf_is_func_proto(of) ? btf_vlen(of) - 1 : 0; /* the first is the tracer's */
}

struct features features_of(const struct btf *btf)
{
    if (!btf)
        return (struct features){0};
    return (struct features){
        .sched_switch = count_arguments(btf, "btf_trace_sched_switch") > 0,
        .block = count_arguments(btf, "btf_trace_block_rq_issue") > 0,
        .sys_enter = count_arguments(btf, "btf_trace_sys_enter") > 0,
        .sched_exit = count_arguments(btf, "btf_trace_sched_exit_tp") > 0,
        .prev_state = count_arguments(btf, "btf_trace_sched_switch") >= 4,
        .block_queue = count_arguments(btf, "btf_trace_block_rq_insert") >= 2,
        .task_storage = has_helper(btf, "BPF_FUNC_task_storage_get"),
        .cookies = has_helper(btf, "BPF_FUNC_get_attach_cookie"),
        .mappings_by_task = find(btf, "bpf_iter__task_vma", BTF_KIND_STRUCT) &&
                            has_member(btf, "bpf_iter_link_info", BTF_KIND_UNION, "task"),
        .hash_allocates = find(btf, "bpf_mem_alloc", BTF_KIND_STRUCT),
        .memlock = find(btf, "bpf_map_memory", BTF_KIND_STRUCT),
        .btf = true,
    };
}

struct features features(void)
{
    libbpf_print_fn_t before = libbpf_set_print(NULL); /* that there is none is said by who needs it */
    struct btf *btf = btf__load_vmlinux_btf();
    if (libbpf_get_error(btf))
        btf = NULL;
    libbpf_set_print(before);
    struct features f = features_of(btf);
    btf__free(btf);
    return f;
}

static bool is_first(const struct kinds *kinds, uint32_t source, enum kind_how how)
{
    for (uint32_t i = SAMPLE_FROM_OTHERS; i < source; i++)
        if (kinds->at[i].how == how)
            return false;
    return true;
}

const char *features_lack(const struct features *f, const struct kinds *kinds, uint32_t source)
{
    switch (kinds->at[source].how) {
    case KIND_OFF:
    case KIND_CLOCK: return NULL;
    case KIND_WAIT: return f->sched_switch ? NULL : "it has no tracepoint sched_switch";
    case KIND_BLOCK: return f->block ? NULL : "it has no tracepoints of block devices";
    case KIND_LOCK:
        return f->sys_enter ? NULL : "it has no tracepoints of system calls (CONFIG_FTRACE_SYSCALLS)";
    case KIND_EVENT:
        return f->cookies || is_first(kinds, source, KIND_EVENT)
                   ? NULL
                   : "it cannot tell two events apart (bpf_get_attach_cookie, Linux 5.15)";
    case KIND_PROBE:
        return f->cookies || is_first(kinds, source, KIND_PROBE)
                   ? NULL
                   : "it cannot tell two probes apart (bpf_get_attach_cookie, Linux 5.15)";
    case KIND_ALLOC:
        return f->cookies
                   ? NULL
                   : "it cannot tell the functions of an allocator apart (bpf_get_attach_cookie, Linux 5.15)";
    }
    return NULL;
}
