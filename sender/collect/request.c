/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/request.h"

#include <elf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "sender/collect/parts.h"
#include "sender/collect/text.h"
#include "sender/context/record.h"

uint32_t request_string(struct writer *w, struct bytes s)
{
    char scratch[TEXT_MAX];
    return build_string(w->b, text_clean(s, scratch));
}

uint32_t request_attribute(struct writer *w, const char *key, struct bytes value)
{
    char scratch[TEXT_MAX];
    return build_attribute_text(w->b, key, text_clean(value, scratch));
}

/* profsend's own word for a stack that is not whole, so that whoever adds up can tell; none for a whole one.
 */
static const char *const incomplete[] = {
    [WINDOW_TOO_DEEP] = "depth",
    [WINDOW_UNREADABLE] = "unreadable",
    [WINDOW_NO_WAY_ON] = "cut",
    [WINDOW_GUESSED] = "guessed",
};

/* Why a thread was off the CPU, and what a device did: profsend's own words. */
static const char *const waits[SAMPLE_WAITS] = {
    [SAMPLE_WAIT_PREEMPTED] = "preempted",
    [SAMPLE_WAIT_SLEEP] = "sleep",
    [SAMPLE_WAIT_DISK] = "disk",
    [SAMPLE_WAIT_STOPPED] = "stopped",
};
static const char *const locks[SAMPLE_LOCKS] = {
    [SAMPLE_LOCK_WOKEN] = "woken",
    [SAMPLE_LOCK_TIMEOUT] = "timeout",
    [SAMPLE_LOCK_INTERRUPTED] = "interrupted",
    [SAMPLE_LOCK_CHANGED] = "changed",
};
static const char *const directions[] = {[SAMPLE_BLOCK_READ] = "read", [SAMPLE_BLOCK_WRITE] = "write"};

/* The attribute of `detail`: profsend.off_cpu.state, profsend.lock.state, or disk.io.direction (semantic
 * conventions, "System").
 */
static uint32_t detail_attr(struct writer *w, const struct window_sample *s, uint32_t *to)
{
    if (s->source == SAMPLE_FROM_WAIT && s->detail < SAMPLE_WAITS)
        *to = request_attribute(w, "profsend.off_cpu.state", bytes_str(waits[s->detail]));
    else if (s->source == SAMPLE_FROM_LOCK && s->detail < SAMPLE_LOCKS)
        *to = request_attribute(w, "profsend.lock.state", bytes_str(locks[s->detail]));
    else if (s->source == SAMPLE_FROM_BLOCK && s->detail < ARRAY_LEN(directions))
        *to = request_attribute(w, "disk.io.direction", bytes_str(directions[s->detail]));
    else
        return 0;
    return 1;
}

/* Attributes of a thread's context, at most, in a sample; of several with one name the last counts. */
#define CONTEXT_ATTRS 32u
#define LABEL_PREFIX  "process.context.label."
/* Attributes of ours in a sample. */
#define SAMPLE_OURS 5u

static bool is_sample_s(struct bytes key)
{
    return bytes_is(key, "thread.name") || bytes_is(key, "thread.id") ||
           bytes_is(key, "cpu.logical_number") || bytes_is(key, "disk.io.direction") ||
           bytes_starts(key, "profsend.");
}

/* What a thread says of its work, as it is found. */
struct context_attrs {
    struct attr attr[CONTEXT_ATTRS];
    uint32_t n;
    char label[GO_LABELS_MAX][sizeof LABEL_PREFIX + GO_KEY_MAX];
    uint32_t n_labels;
};

/* Keys it may not name and text that is no UTF-8 are left out. */
static void found(struct context_attrs *a, struct bytes key, struct bytes value)
{
    uint32_t i = 0;
    if (key.n == 0 || is_sample_s(key) || !bytes_is_utf8(key) || !bytes_is_utf8(value))
        return;
    while (i < a->n && !bytes_eq(a->attr[i].key, key))
        i++;
    if (i == CONTEXT_ATTRS)
        return;
    a->attr[i] = (struct attr){key, {.kind = ATTR_STRING, .text = value}};
    a->n = max_of(a->n, i + 1);
}

/* Text that the kernel side may have cut within a character. */
static struct bytes without_half(struct bytes text, size_t cut_at)
{
    struct bytes whole = text;
    for (int i = 0; text.n >= cut_at && i < 3 && !bytes_is_utf8(whole); i++)
        whole.n--;
    return whole;
}

/* A goroutine's label, named as other profilers name it. */
static void found_label(struct context_attrs *a, struct bytes key, struct bytes value)
{
    if (a->n_labels == GO_LABELS_MAX || key.n == 0)
        return;
    char *name = a->label[a->n_labels++];
    key = without_half(key, GO_KEY_MAX);
    memcpy(name, LABEL_PREFIX, sizeof LABEL_PREFIX - 1);
    memcpy(name + sizeof LABEL_PREFIX - 1, key.p, key.n);
    found(a, bytes_of(name, sizeof LABEL_PREFIX - 1 + key.n), without_half(value, GO_VALUE_MAX));
}

/* Returns how many attributes were added. */
static uint32_t context_attrs(struct writer *w, const struct identity *identity, const struct record *record,
                              uint32_t to[CONTEXT_ATTRS])
{
    struct context_attrs a = {.n = 0};
    uint8_t number;
    struct bytes rest = record->attributes, key, value;
    while (record->has_labels && record_next_label(&rest, &key, &value))
        found_label(&a, key, value);
    while (!record->has_labels && identity && record_next(&rest, &number, &value))
        found(&a, number < identity->n_keys ? identity->key[number] : BYTES_LIT(""), value);
    for (uint32_t i = 0; i < a.n; i++)
        to[i] = build_attribute(w->b, a.attr[i].key, &a.attr[i].value, 0);
    return a.n;
}

/* The link of a sample, 0 for none; adds the attributes of its context. */
static uint32_t link_of(struct writer *w, const struct window_sample *s, uint32_t *attrs, uint32_t *n_attrs)
{
    struct record record;
    struct bytes context = window_context(w->window, s->context);
    if (!record_read(context.p, context.n, &record))
        return 0;
    *n_attrs += context_attrs(w, w->window->process.p[s->process].identity, &record, attrs + *n_attrs);
    return record.is_linked ? build_link(w->b, record.trace_id, record.span_id) : 0;
}

/* A hit stands for those that were not taken, too. Rounded up as often as what is left over says, so that
 * sums of small numbers stay. */
static int64_t scaled(struct writer *w, uint64_t value, double share)
{
    double v = (double)value / share;
    return v < 9e18 ? (int64_t)(v + (share < 1 ? rng_unit(&w->rng) : 0.5)) : INT64_MAX;
}

static void sample(struct writer *w, const struct window_sample *s)
{
    const struct window *window = w->window;
    const struct kind *kind = &w->facts->kinds->at[s->source];
    uint32_t n_attrs = 3, attrs[SAMPLE_OURS + CONTEXT_ATTRS] = {
                              request_attribute(w, "thread.name", bytes_str(s->comm)),
                              build_attribute_int(w->b, "thread.id", s->tid),
                              build_attribute_int(w->b, "cpu.logical_number", s->cpu),
                          };
    n_attrs += detail_attr(w, s, &attrs[n_attrs]);
    enum window_incomplete lacks = request_incomplete(w, s);
    if (lacks != WINDOW_COMPLETE)
        attrs[n_attrs++] = request_attribute(w, "profsend.stack.incomplete", bytes_str(incomplete[lacks]));
    uint32_t n = 0, link = link_of(w, s, attrs, &n_attrs);
    double share = window->process.p[s->process].share;
    for (uint32_t at = s->first_time; at != WINDOW_NO_TIME; at = window->time.p[at].next) {
        w->values[n] = scaled(w, window->time.p[at].value, kind->share * share);
        w->times[n++] = window->time.p[at].ns + (uint64_t)w->facts->realtime_offset;
    }
    /* Each hit of the clock or of a plain probe counts one: then times alone say it. Of the clock's a period
     * says what one stands for, whatever share of them is sent. */
    bool is_count = kind->how == KIND_CLOCK || (kind->how == KIND_PROBE && share == 1);
    build_sample(w->b, &(struct build_sample){.stack = request_stack(w, s),
                                              .link = link,
                                              .attrs = attrs,
                                              .n_attrs = n_attrs,
                                              .values = w->values,
                                              .n_values = is_count ? 0 : n,
                                              .timestamps = w->times,
                                              .n_timestamps = n});
    w->hits += n;
}

/* The window's begin, moved back to the oldest hit: what waited in the ring buffer was before it. */
static uint64_t begin_of(const struct window *window, uint64_t start)
{
    for (uint32_t i = 0; i < window->time.n; i++)
        start = min_of(start, window->time.p[i].ns);
    return start;
}

/* What a reader needs besides type and unit: the probability that a hit is sent with (values are divided by
 * it, or the period is), which function is probed. */
static uint32_t profile_attrs(struct writer *w, const struct kind *kind, double share, uint32_t to[2])
{
    char text[TEXT_MAX];
    uint32_t n = 0;
    if (kind->how == KIND_WAIT || share < 1) {
        snprintf(text, sizeof text, "%.6g", kind->share * share);
        if (kind->how == KIND_WAIT &&
            kind->period) /* each hit's by its own: below the period its value is the period */
            snprintf(text, sizeof text,
                     share < 1 ? "%.6g*min(1, duration/period)" : "min(1, duration/period)", share);
        to[n++] = request_attribute(w, "profsend.sampling.probability", bytes_str(text));
    }
    if (kind->how == KIND_PROBE) {
        snprintf(text, sizeof text, "%s:%s", kind->file, kind->symbol);
        to[n++] = request_attribute(w, "profsend.probe", bytes_str(text));
    }
    return n;
}

/* Profiles of one request have ids that differ in their last bytes alone: as good as each its own random
 * number, and they take no room packed. False: there is no randomness yet. */
static bool name_profile(struct writer *w)
{
    uint32_t number = w->n_profiles++;
    if (number == 0)
        w->has_id = getrandom(w->id, sizeof w->id, GRND_NONBLOCK) == sizeof w->id;
    memcpy(w->id + sizeof w->id - sizeof number, &number, sizeof number);
    return w->has_id;
}

static void profile(struct writer *w, uint32_t source, double share, uint64_t begin)
{
    const struct kind *kind = &w->facts->kinds->at[source];
    uint32_t attrs[2];
    struct build_profile p = {
        .type = build_string(w->b, bytes_str(kind->type)),
        .unit = build_string(w->b, bytes_str(kind->unit)),
        .period = (int64_t)((double)kind->period / share + 0.5),
        .time_unix_nano = begin + (uint64_t)w->facts->realtime_offset,
        .duration_nano = w->facts->end - begin,
        .attrs = attrs,
        .n_attrs = profile_attrs(w, kind, share, attrs),
    };
    if (*kind->period_type) {
        p.period_type = build_string(w->b, bytes_str(kind->period_type));
        p.period_unit = build_string(w->b, bytes_str(kind->period_unit));
    }
    if (name_profile(w))
        p.profile_id = w->id;
    build_profile(w->b, &p);
}

static int by_process_and_source(const void *a, const void *b)
{
    const struct window_sample *const *x = a, *const *y = b;
    return order_of((*x)->process, (*y)->process) ?: order_of((*x)->source, (*y)->source);
}

static int emit_one(struct writer *w, request_emit_fn emit, void *user)
{
    struct buffer out = {0};
    int r = build_finish(w->b, &out);
    if (r == 0)
        r = emit(user, &out, w->hits);
    buffer_release(&out);
    build_begin(w->b);
    w->n_profiles = 0;
    memset(w->stack, 0, w->window->stacks.n * sizeof *w->stack);
    memset(w->mapping, 0, w->window->file.n * sizeof *w->mapping);
    memset(w->frame, 0, KNOWN_FRAMES * sizeof *w->frame);
    w->hits = 0;
    return r;
}

/* Begins what a sample is in: its process's resource, its kind's profile. `is_other`: another process than
 * before. */
static void begin_sample(struct writer *w, const struct window_sample *s, bool is_other, uint32_t last_source,
                         uint64_t begin)
{
    if (is_other)
        request_resource(w, &w->window->process.p[s->process]);
    if (is_other || s->source != last_source)
        profile(w, s->source, w->window->process.p[s->process].share, begin);
}

/* NOLINTNEXTLINE(readability-identifier-naming) */
static void free_resource(struct resource **r)
{
    if (*r)
        resource_release(*r);
    free(*r);
}

int request_build(struct build *b, const struct naming *naming, const struct window *window,
                  const struct request_facts *facts, request_emit_fn emit, void *user)
{
    uint32_t n = window_samples(window);
    if (n == 0)
        return 0;
    autofree const struct window_sample **order = malloc(n * sizeof *order);
    autofree struct known_stack *stacks = calloc(window->stacks.n, sizeof *stacks);
    autofree struct known_mapping *mappings = calloc(window->file.n + 1u, sizeof *mappings);
    autofree struct known_frame *frames = calloc(KNOWN_FRAMES, sizeof *frames);
    autofree uint64_t *times = malloc(window->time.n * sizeof *times);
    autofree int64_t *values = malloc(window->time.n * sizeof *values);
    cleanup(free_resource) struct resource *resource = calloc(1, sizeof *resource);
    if (!order || !stacks || !mappings || !frames || !times || !values || !resource)
        return -ENOMEM;
    struct writer w = {.b = b,
                       .naming = naming,
                       .window = window,
                       .facts = facts,
                       .stack = stacks,
                       .mapping = mappings,
                       .frame = frames,
                       .times = times,
                       .values = values,
                       .resource = resource};
    rng_seed(&w.rng, facts->end ^ facts->start << 32);
    for (uint32_t i = 0; i < n; i++)
        order[i] = &window->sample.p[i];
    qsort(order, n, sizeof *order, by_process_and_source);
    build_begin(b);
    uint64_t begin = begin_of(window, facts->start);
    const struct window_sample *last = NULL; /* in this request */
    for (uint32_t i = 0; i < n; i++) {
        begin_sample(&w, order[i], !last || order[i]->process != last->process, last ? last->source : 0,
                     begin);
        sample(&w, order[i]);
        last = order[i];
        if (build_size(b) >= facts->max_bytes && i + 1 < n) {
            int r = emit_one(&w, emit, user);
            if (r < 0)
                return r;
            last = NULL;
        }
    }
    return emit_one(&w, emit, user);
}

size_t request_kernel_build_id(struct bytes notes, char *ret, size_t room)
{
    const struct bytes id = elf_note(notes, 4, NT_GNU_BUILD_ID, "GNU");
    if (2 * id.n >= room)
        return 0;
    for (size_t i = 0; i < id.n; i++)
        snprintf(ret + 2 * i, 3, "%02x", id.p[i]);
    return 2 * id.n;
}
