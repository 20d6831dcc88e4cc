/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/attach/kinds.h"

#include <errno.h>
#include <linux/perf_event.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"

#define CACHE(which, what, result)                                      \
    (PERF_COUNT_HW_CACHE_##which | PERF_COUNT_HW_CACHE_OP_##what << 8 | \
     PERF_COUNT_HW_CACHE_RESULT_##result << 16)

/* perf_event_open(2). `every`: how many stand for one sample unless told otherwise: some tens a second on a
 * busy CPU. Names are perf(1)'s. */
static const struct event {
    const char *name;
    uint32_t type;
    uint64_t config, every;
} events[] = {
    {"page-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 100},
    {"minor-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MIN, 100},
    {"major-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS_MAJ, 1},
    {"context-switches", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CONTEXT_SWITCHES, 100},
    {"cpu-migrations", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_MIGRATIONS, 10},
    {"alignment-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_ALIGNMENT_FAULTS, 100},
    {"emulation-faults", PERF_TYPE_SOFTWARE, PERF_COUNT_SW_EMULATION_FAULTS, 100},
    {"cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES, 50000000},
    {"ref-cycles", PERF_TYPE_HARDWARE, PERF_COUNT_HW_REF_CPU_CYCLES, 50000000},
    {"instructions", PERF_TYPE_HARDWARE, PERF_COUNT_HW_INSTRUCTIONS, 50000000},
    {"branches", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_INSTRUCTIONS, 10000000},
    {"branch-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_BRANCH_MISSES, 100000},
    {"cache-references", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_REFERENCES, 1000000},
    {"cache-misses", PERF_TYPE_HARDWARE, PERF_COUNT_HW_CACHE_MISSES, 100000},
    {"stalled-cycles-frontend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_FRONTEND, 10000000},
    {"stalled-cycles-backend", PERF_TYPE_HARDWARE, PERF_COUNT_HW_STALLED_CYCLES_BACKEND, 10000000},
    {"dTLB-load-misses", PERF_TYPE_HW_CACHE, CACHE(DTLB, READ, MISS), 100000},
    {"LLC-load-misses", PERF_TYPE_HW_CACHE, CACHE(LL, READ, MISS), 100000},
};

static int say_no_event(struct error *e, struct bytes name)
{
    char there[512];
    for (size_t i = 0, n = 0; i < ARRAY_LEN(events); i++)
        n += (size_t)snprintf(there + n, sizeof there - n, "%s%s", n ? " " : "", events[i].name);
    return error_set(e, -EINVAL, "\"%.*s\" is no event; there are %s, and rHEX", (int)name.n, name.p, there);
}

static void name(struct kind *kind, const char *type, const char *unit, const char *period_type,
                 const char *period_unit)
{
    snprintf(kind->type, sizeof kind->type, "%s", type);
    snprintf(kind->unit, sizeof kind->unit, "%s", unit);
    snprintf(kind->period_type, sizeof kind->period_type, "%s", period_type);
    snprintf(kind->period_unit, sizeof kind->period_unit, "%s", period_unit);
}

void kinds_init(struct kinds *k, uint32_t frequency)
{
    *k = (struct kinds){0};
    struct kind *clock = &k->at[SAMPLE_FROM_CLOCK];
    clock->how = KIND_CLOCK;
    clock->share = 1;
    clock->period = NSEC_PER_SEC / frequency;
    name(clock, "samples", "count", "cpu", "nanoseconds");
}

void kinds_add_wait(struct kinds *k, double share)
{
    struct kind *wait = &k->at[SAMPLE_FROM_WAIT];
    wait->how = KIND_WAIT;
    wait->share = share > 0 ? share : 1;
    wait->period = share > 0 ? 0 : k->at[SAMPLE_FROM_CLOCK].period;
    name(wait, "off_cpu", "nanoseconds", share > 0 ? "" : "off_cpu", share > 0 ? "" : "nanoseconds");
}

static void add_all_of(struct kind *kind, enum kind_how how, const char *type)
{
    kind->how = how;
    kind->share = 1;
    name(kind, type, "nanoseconds", "", "");
}

void kinds_add_block(struct kinds *k)
{
    add_all_of(&k->at[SAMPLE_FROM_BLOCK], KIND_BLOCK, "block_io");
}

void kinds_add_lock(struct kinds *k)
{
    add_all_of(&k->at[SAMPLE_FROM_LOCK], KIND_LOCK, "lock");
}

static struct kind *add(struct kinds *k, struct error *e)
{
    if (k->n_others >= SAMPLE_OTHERS_MAX) {
        error_set(e, -EINVAL, "more than %u events and probes", SAMPLE_OTHERS_MAX);
        return NULL;
    }
    struct kind *kind = &k->at[SAMPLE_FROM_OTHERS + k->n_others];
    *kind = (struct kind){.share = 1};
    return kind;
}

/* "r" and up to 16 hex digits: the processor's own number for it. */
static bool raw_event(struct bytes text, uint64_t *ret)
{
    char digits[17] = "", *end;
    if (text.n < 2 || text.n > sizeof digits || text.p[0] != 'r')
        return false;
    memcpy(digits, text.p + 1, text.n - 1);
    *ret = strtoull(digits, &end, 16);
    return *end == 0 && digits[0] != '-' && digits[0] != '+' && digits[0] != ' ';
}

static bool find_event(struct bytes text, struct kind *kind)
{
    for (size_t i = 0; i < ARRAY_LEN(events); i++) {
        if (!bytes_is(text, events[i].name))
            continue;
        kind->event_type = events[i].type;
        kind->event_config = events[i].config;
        kind->rate = events[i].every;
        return true;
    }
    kind->event_type = PERF_TYPE_RAW;
    kind->rate = 1000000;
    return raw_event(text, &kind->event_config);
}

int kinds_add_event(struct kinds *k, const char *text, struct error *e)
{
    struct kind *kind = add(k, e);
    if (!kind)
        return -EINVAL;
    size_t n = strcspn(text, "/@");
    char event[sizeof kind->type];
    if (!find_event(bytes_of(text, n), kind))
        return say_no_event(e, bytes_of(text, n));
    snprintf(event, sizeof event, "%.*s", (int)n, text);
    for (char *dash = event; (dash = strchr(dash, '-'));)
        *dash = '_'; /* "page_faults": Pyroscope refuses a type with a hyphen, Parca cannot be asked for it */
    kind->how = KIND_EVENT;
    kind->is_frequency = text[n] == '@';
    if (text[n] && (quantity_u64(bytes_str(text + n + 1), &kind->rate) < 0 || kind->rate == 0 ||
                    kind->rate > (kind->is_frequency ? 10000u : UINT64_C(1) << 40)))
        return error_set(e, -EINVAL, "\"%s\": /N takes every Nth, @N takes N a second (up to 10000)", text);
    name(kind, event, "count", kind->is_frequency ? "" : event, kind->is_frequency ? "" : "count");
    kind->period = kind->is_frequency ? 0 : kind->rate;
    k->n_others++;
    return 0;
}

int kinds_add_probe(struct kinds *k, char *text, struct error *e)
{
    char *colon = strrchr(text, ':');
    struct kind *kind = add(k, e);
    if (!kind)
        return -EINVAL;
    if (!colon || colon == text || !colon[1])
        return error_set(e, -EINVAL, "\"%s\" is not FILE:SYMBOL", text);
    *colon = 0;
    kind->how = KIND_PROBE;
    kind->file = text;
    kind->symbol = colon + 1;
    name(kind, "events", "count", "", "");
    k->n_others++;
    return 0;
}

int kinds_add_alloc(struct kinds *k, const char *file, uint64_t interval, struct error *e)
{
    struct kind *kind = add(k, e);
    if (!kind)
        return -EINVAL;
    kind->how = KIND_ALLOC;
    kind->file = file;
    kind->period = interval;
    name(kind, "alloc_space", "bytes", "space", "bytes");
    k->n_others++;
    return 0;
}
