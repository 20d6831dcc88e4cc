/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <bpf/btf.h>

#include "sender/attach/features.h"

/* A kernel's BTF with what is added to it. */
static struct btf *kernel(void)
{
    struct btf *btf = btf__new_empty();
    ck_assert_ptr_nonnull(btf);
    ck_assert_int_eq(btf__add_int(btf, "int", 4, BTF_INT_SIGNED), 1);
    return btf;
}

static void add_tracepoint(struct btf *btf, const char *name, int n_arguments)
{
    int proto = btf__add_func_proto(btf, 0);
    for (int i = 0; i < n_arguments + 1; i++)
        ck_assert_int_eq(btf__add_func_param(btf, "", 1), 0);
    ck_assert_int_gt(btf__add_typedef(btf, name, btf__add_ptr(btf, proto)), 0);
}

static void add_helper(struct btf *btf, const char *name)
{
    ck_assert_int_gt(btf__add_enum(btf, "bpf_func_id", 4), 0);
    ck_assert_int_eq(btf__add_enum_value(btf, name, 1), 0);
}

UNIT(a_kernel_without_btf_has_nothing)
{
    ck_assert(!features_of(NULL).btf);
}

UNIT(tracepoints_are_known_by_their_arguments)
{
    struct btf *old = kernel(), *now = kernel();
    add_tracepoint(old, "btf_trace_sched_switch", 3);
    add_tracepoint(old, "btf_trace_block_rq_insert", 2);
    add_tracepoint(now, "btf_trace_sched_switch", 4);
    add_tracepoint(now, "btf_trace_block_rq_insert", 1);
    add_tracepoint(now, "btf_trace_block_rq_issue", 1);
    add_tracepoint(now, "btf_trace_sched_exit_tp", 1);
    struct features f = features_of(old);
    ck_assert(f.btf && f.sched_switch && !f.prev_state && f.block_queue && !f.block && !f.sched_exit);
    f = features_of(now);
    ck_assert(f.btf && f.sched_switch && f.prev_state && !f.block_queue && f.block && f.sched_exit);
    btf__free(old);
    btf__free(now);
}

UNIT(helpers_and_types_are_known_by_their_names)
{
    struct btf *btf = kernel();
    struct features f = features_of(btf);
    ck_assert(!f.cookies && !f.task_storage && !f.hash_allocates && !f.memlock && !f.mappings_by_task);
    add_helper(btf, "BPF_FUNC_get_attach_cookie");
    ck_assert_int_gt(btf__add_struct(btf, "bpf_mem_alloc", 8), 0);
    ck_assert_int_gt(btf__add_struct(btf, "bpf_map_memory", 8), 0);
    ck_assert_int_gt(btf__add_struct(btf, "bpf_iter__task_vma", 8), 0);
    ck_assert(!features_of(btf).mappings_by_task); /* of all processes only (5.12) */
    ck_assert_int_gt(btf__add_union(btf, "bpf_iter_link_info", 8), 0);
    ck_assert_int_eq(btf__add_field(btf, "task", 1, 0, 0), 0);
    f = features_of(btf);
    ck_assert(f.cookies && !f.task_storage && f.hash_allocates && f.memlock && f.mappings_by_task);
    btf__free(btf);
}

UNIT(kinds_that_cannot_be_had_say_why)
{
    struct kinds k;
    struct error e;
    struct features old = {.btf = true, .sched_switch = true};
    kinds_init(&k, 19);
    kinds_add_wait(&k, 0);
    kinds_add_block(&k);
    kinds_add_lock(&k);
    ck_assert_int_eq(kinds_add_event(&k, "page-faults", &e), 0);
    ck_assert_int_eq(kinds_add_event(&k, "cpu-migrations", &e), 0);
    ck_assert_int_eq(kinds_add_alloc(&k, "libc", 1, &e), 0);
    ck_assert_ptr_null(features_lack(&old, &k, SAMPLE_FROM_CLOCK));
    ck_assert_ptr_null(features_lack(&old, &k, SAMPLE_FROM_WAIT));
    ck_assert_ptr_nonnull(features_lack(&old, &k, SAMPLE_FROM_BLOCK));
    ck_assert_ptr_nonnull(features_lack(&old, &k, SAMPLE_FROM_LOCK));
    ck_assert_ptr_null(features_lack(&old, &k, SAMPLE_FROM_OTHERS)); /* one event needs no cookie */
    ck_assert_ptr_nonnull(features_lack(&old, &k, SAMPLE_FROM_OTHERS + 1));
    ck_assert_ptr_nonnull(features_lack(&old, &k, SAMPLE_FROM_OTHERS + 2));
    struct features now = {
        .btf = true, .sched_switch = true, .block = true, .sys_enter = true, .cookies = true};
    for (uint32_t i = 0; i < SAMPLE_SOURCES; i++)
        ck_assert_ptr_null(features_lack(&now, &k, i));
}
