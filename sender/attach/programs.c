/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "proto/base/macros.h"
#include "sender/attach/parts.h"
#include "sender/attach/sampler.h"

/* The ring holds a quarter of a second of the deepest stacks we see in practice (~600 B), times four, and is
 * a power of two between these; the least is some seconds, which a busy machine may keep us waiting. A lost
 * sample is counted, so a guess that is too small shows. */
#define RING_MIN (512u * 1024)
#define RING_MAX (16u * 1024 * 1024)
/* Waits taken by their length, and requests of devices: a second of some thousand stacks. */
#define RING_MIN_WAITS (1024u * 1024)
/* Probes, and waits that are all taken, come in bursts: some thousands of stacks more. */
#define RING_MIN_BURSTS (4u * 1024 * 1024)

static bool is_clock_alone(const struct sampler *s)
{
    return !sampler_has(s, KIND_EVENT) && !sampler_has(s, KIND_WAIT) && !sampler_has(s, KIND_BLOCK) &&
           !sampler_has(s, KIND_PROBE) && !sampler_has(s, KIND_ALLOC) && !sampler_has(s, KIND_LOCK);
}

static uint32_t ring_size(const struct sampler *s)
{
    uint64_t want = (uint64_t)libbpf_num_possible_cpus() * s->options.frequency * 600;
    bool by_length = s->options.kinds->at[SAMPLE_FROM_WAIT].period > 0; /* those come steadily */
    bool is_even = !sampler_has(s, KIND_EVENT) && !sampler_has(s, KIND_PROBE) &&
                   !sampler_has(s, KIND_ALLOC) && !sampler_has(s, KIND_LOCK) &&
                   (by_length || !sampler_has(s, KIND_WAIT));
    uint32_t size = is_clock_alone(s) ? RING_MIN : is_even ? RING_MIN_WAITS : RING_MIN_BURSTS;
    while (size < want && size < RING_MAX)
        size *= 2;
    return size;
}

/* Walks that are ended in user space at a time: as many as samples of the clock come in 16 ms, a power of two
 * between these. On a machine with more to do than CPUs who walks on has his turn tens of milliseconds late,
 * and a program that begins meets missing rows in most of its samples until then. */
#define RESTS_MIN 8u

static uint32_t rests(const struct sampler *s)
{
    uint64_t want = (uint64_t)libbpf_num_possible_cpus() * s->options.frequency / 64;
    uint32_t n = RESTS_MIN;
    while (n < want && n < UNWIND_RESTS_MAX)
        n *= 2;
    return n;
}

static bool has_sched_exit(const struct sampler *s)
{
    return sampler_has(s, KIND_WAIT) && !s->options.wait_by_ticket && s->options.features.sched_exit;
}

/* Programs nobody needs are not loaded: the verifier's work and their memory are saved, and a kernel that
 * lacks their tracepoint is no obstacle. */
static void choose_programs(struct sampler *s)
{
    bool waits = sampler_has(s, KIND_WAIT), blocks = sampler_has(s, KIND_BLOCK),
         locks = sampler_has(s, KIND_LOCK);
    bpf_program__set_autoload(s->skel->progs.on_tick, sampler_has(s, KIND_CLOCK));
    bpf_program__set_autoload(s->skel->progs.on_event, sampler_has(s, KIND_EVENT));
    bpf_program__set_autoload(s->skel->progs.on_probe,
                              sampler_has(s, KIND_PROBE) || sampler_has(s, KIND_ALLOC));
    bpf_program__set_autoload(s->skel->progs.on_switch, waits);
    bpf_program__set_autoload(s->skel->progs.on_sched_exit, waits && has_sched_exit(s));
    bpf_program__set_autoload(s->skel->progs.on_block_insert, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_issue, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_complete, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_merge,
                              blocks && libbpf_find_vmlinux_btf_id("block_rq_merge", BPF_TRACE_RAW_TP) > 0);
    bpf_program__set_autoload(s->skel->progs.on_lock_enter, locks);
    bpf_program__set_autoload(s->skel->progs.on_lock_exit, locks);
    bpf_program__set_autoload(s->skel->progs.dump_files, s->options.features.mappings_by_task);
}

/* Likewise maps: those of kinds that are off, and of ways that this kernel does not take. */
static int choose_maps(struct sampler *s)
{
    const struct features *f = &s->options.features;
    bool waits = sampler_has(s, KIND_WAIT), locks = sampler_has(s, KIND_LOCK);
    const struct {
        struct bpf_map *map;
        bool is_made;
    } maps[] = {
        {s->skel->maps.blocks, sampler_has(s, KIND_BLOCK)},
        {s->skel->maps.waits_of, waits && f->task_storage},
        {s->skel->maps.waits_by_thread, waits && !f->task_storage},
        {s->skel->maps.lock_waits_of, locks && f->task_storage},
        {s->skel->maps.lock_waits_by_thread, locks && !f->task_storage},
    };
    struct bpf_map *hashes[] = {s->skel->maps.unwind_files, s->skel->maps.context_places,
                                s->skel->maps.runtime_places};
    int r = 0;
    for (size_t i = 0; r == 0 && i < ARRAY_LEN(maps); i++)
        r = bpf_map__set_autocreate(maps[i].map, maps[i].is_made);
    for (size_t i = 0; r == 0 && !f->hash_allocates && i < ARRAY_LEN(hashes); i++)
        r = bpf_map__set_map_flags(hashes[i], 0);
    if (r == 0 && is_clock_alone(s)) {
        r = bpf_map__set_max_entries(s->skel->maps.scratches, 1);
        r = r < 0 ? r : bpf_map__set_max_entries(s->skel->maps.maple_nodes, 1);
        r = r < 0 ? r : bpf_map__set_max_entries(s->skel->maps.process_scratches, 1);
    }
    return r;
}

static int set_rules(struct sampler *s)
{
    for (uint32_t i = 0; i < s->options.n_rules; i++) {
        int r = sampler_rule(s, &s->options.rule[i], true);
        if (r < 0)
            return r;
    }
    return 0;
}

/* The cookie of what a kernel without them can have one of only. */
static uint64_t only(const struct sampler *s, enum kind_how how)
{
    for (uint32_t i = SAMPLE_FROM_OTHERS; i < SAMPLE_SOURCES; i++)
        if (s->options.kinds->at[i].how == how)
            return how == KIND_PROBE ? SAMPLE_WEIGHS_ONE << 8 | i : i;
    return 0;
}

static void set_constants(struct sampler *s, uint32_t size)
{
    s->skel->rodata->with_idle = s->options.with_idle;
    s->skel->rodata->only_pid = s->options.only_pid;
    s->skel->rodata->ring_size = size;
    s->skel->rodata->rest_places = s->n_rests;
    s->skel->rodata->wait_min_ns = s->options.wait_min_ns;
    s->skel->rodata->wait_share = (uint32_t)(s->options.kinds->at[SAMPLE_FROM_WAIT].share * (1u << 16));
    s->skel->rodata->wait_period_ns = max_of(s->options.kinds->at[SAMPLE_FROM_WAIT].period, UINT64_C(1));
    s->skel->rodata->has_sched_exit = has_sched_exit(s);
    s->skel->rodata->has_prev_state = s->options.features.prev_state;
    s->skel->rodata->has_block_queue = s->options.features.block_queue;
    s->skel->rodata->only_event = only(s, KIND_EVENT);
    s->skel->rodata->only_probe = only(s, KIND_PROBE);
    s->skel->rodata->probe_interval = s->options.probe_interval;
    s->skel->rodata->lock_min_ns = s->options.lock_min_ns;
    s->skel->rodata->with_trace_map = s->options.trace_map != NULL;
    for (uint32_t i = 0; i < s->options.n_rules; i++) {
        const struct filter_rule *rule = &s->options.rule[i];
        if (rule->verdict == FILTER_INCLUDE)
            s->skel->rodata->filter_includes |= 1u << rule->key.what;
        else
            s->skel->rodata->filter_excludes |= 1u << rule->key.what;
    }
}

/* OBI's map of traces: opened where it is pinned, else made and pinned there, as its side does (whoever comes
 * first). Entries: OBI's MAX, 1 << 14 (devdocs/trace-profile-correlation.md). */
#define TRACES_MAX (1u << 14)

static int share_traces(struct sampler *s)
{
    int r = bpf_map__set_max_entries(s->skel->maps.traces_ctx_v1, TRACES_MAX);
    return r < 0 ? r : bpf_map__set_pin_path(s->skel->maps.traces_ctx_v1, s->options.trace_map);
}

int programs_load(struct sampler *s)
{
    s->skel = sample__open();
    if (!s->skel)
        return -errno;
    uint32_t size = ring_size(s);
    if (!s->options.features.btf)
        s->options.features = features();
    sampler_forget_words(); /* what is not there is an answer, no complaint */
    s->n_rests = rests(s);
    choose_programs(s);
    set_constants(s, size);
    int r = bpf_map__set_max_entries(s->skel->maps.ring, size);
    r = r < 0 ? r : bpf_map__set_max_entries(s->skel->maps.unwind_rests, s->n_rests);
    r = r < 0 ? r : choose_maps(s);
    r = r < 0 || !s->options.n_rules ? r : bpf_map__set_max_entries(s->skel->maps.filters, FILTER_RULES);
    r = r < 0 || !s->options.trace_map ? r : share_traces(s);
    r = r < 0 ? r : sample__load(s->skel);
    return r < 0 ? r : set_rules(s);
}
