/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>

#include "sender/attach/parts.h"
#include "sender/attach/sampler.h"

/* The ring holds a quarter of a second of the deepest stacks we see in practice (~600 B), times four, and is
 * a power of two between these; the least is two seconds of the notices of 500 short processes a second,
 * which a window's names may take on a busy machine. A lost sample is counted, so a guess that is too small
 * shows. */
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

/* Programs nobody needs are not loaded: the verifier's work and their memory are saved, and a kernel that
 * lacks their tracepoint is no obstacle. */
static void choose_programs(struct sampler *s, bool has_sched_exit)
{
    bool waits = sampler_has(s, KIND_WAIT), blocks = sampler_has(s, KIND_BLOCK),
         locks = sampler_has(s, KIND_LOCK);
    bpf_program__set_autoload(s->skel->progs.on_tick, sampler_has(s, KIND_CLOCK));
    bpf_program__set_autoload(s->skel->progs.on_event, sampler_has(s, KIND_EVENT));
    bpf_program__set_autoload(s->skel->progs.on_probe,
                              sampler_has(s, KIND_PROBE) || sampler_has(s, KIND_ALLOC));
    bpf_program__set_autoload(s->skel->progs.on_switch, waits);
    bpf_program__set_autoload(s->skel->progs.on_sched_exit, waits && has_sched_exit);
    bpf_program__set_autoload(s->skel->progs.on_block_insert, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_issue, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_complete, blocks);
    bpf_program__set_autoload(s->skel->progs.on_block_merge,
                              blocks && libbpf_find_vmlinux_btf_id("block_rq_merge", BPF_TRACE_RAW_TP) > 0);
    bpf_program__set_autoload(s->skel->progs.on_lock_enter, locks);
    bpf_program__set_autoload(s->skel->progs.on_lock_exit, locks);
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

static void set_constants(struct sampler *s, uint32_t size, bool has_sched_exit)
{
    s->skel->rodata->with_idle = s->options.with_idle;
    s->skel->rodata->only_pid = s->options.only_pid;
    s->skel->rodata->ring_size = size;
    s->skel->rodata->wait_min_ns = s->options.wait_min_ns;
    s->skel->rodata->wait_share = (uint32_t)(s->options.kinds->at[SAMPLE_FROM_WAIT].share * (1u << 16));
    s->skel->rodata->wait_period_ns = s->options.kinds->at[SAMPLE_FROM_WAIT].period;
    s->skel->rodata->has_sched_exit = has_sched_exit;
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
    bool has_sched_exit = sampler_has(s, KIND_WAIT) && !s->options.wait_by_ticket &&
                          libbpf_find_vmlinux_btf_id("sched_exit_tp", BPF_TRACE_RAW_TP) > 0;
    sampler_forget_words(); /* that it is not there is an answer, no complaint */
    choose_programs(s, has_sched_exit);
    set_constants(s, size, has_sched_exit);
    int r = bpf_map__set_max_entries(s->skel->maps.ring, size);
    r = r < 0 || !is_clock_alone(s) ? r : bpf_map__set_max_entries(s->skel->maps.scratches, 1);
    r = r < 0 || sampler_has(s, KIND_BLOCK) ? r : bpf_map__set_autocreate(s->skel->maps.blocks, false);
    r = r < 0 || !s->options.n_rules ? r : bpf_map__set_max_entries(s->skel->maps.filters, FILTER_RULES);
    r = r < 0 || !s->options.trace_map ? r : share_traces(s);
    r = r < 0 ? r : sample__load(s->skel);
    return r < 0 ? r : set_rules(s);
}
