/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/store.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

/* Parts of memory: what an epoch may have before the next begins, and what all may have before the oldest
 * goes; the rest is for batches on their way and for queries. */
#define EPOCH_SHARE(memory) ((memory) / 5 * 2)
#define ALL_SHARE(memory)   ((memory) / 4 * 3)

/* An epoch is as old at most, and so much of what is to be kept. */
#define EPOCH_NS_MAX    (24 * 3600 * 1000000000ull)
#define EPOCH_RETENTION 4

/* What is open takes what comes a little later than it should: a sender's interval, and a slow way. */
#define FINE_OPEN 2u /* slices */
#define COARSE_OPEN \
    (LOOK_COARSE_SLICES + 36u) /* fine ones, from its beginning: the clock's allowance behind it */

/* What came when there was no room is told anew when there is, so often at most: of memory. */
#define ANEW_NS    (10 * 1000000000ull)
#define ROOM_SHARE 8u

struct look_store *look_store_new(const struct look_store_options *options, struct budget *parent)
{
    struct look_store *s = calloc(1, sizeof *s);
    if (!s)
        return NULL;
    s->options = *options;
    s->budget = (struct budget)BUDGET_INIT(options->memory, parent);
    s->strings.budget = s->stacks.budget = s->series.budget = &s->budget;
    look_rates_init(&s->rates, options->samples_per_second);
    return s;
}

int look_store_keep_in(struct look_store *s, const char *folder, uint64_t bytes_max, struct error *e)
{
    return look_shelf_open(&s->shelf, folder, bytes_max, e);
}

static bool always(const struct look_open *open, uint64_t now_ns)
{
    return true;
}

/* It grows no more. */
static void end_epoch(struct look_store *s, struct look_epoch *e)
{
    look_epoch_seal(e, always, 0); /* without memory some stay open */
    if (s->shelf) {
        look_shelf_write(s->shelf, e);
        look_shelf_finish(s->shelf, e);
    }
    look_epoch_finish(e);
}

struct look_store *look_store_free(struct look_store *s)
{
    if (!s)
        return NULL;
    if (s->n_epochs > 0)
        end_epoch(s, s->epochs[s->n_epochs - 1]);
    while (s->n_epochs > 0)
        look_epoch_free(s->epochs[--s->n_epochs]);
    look_shelf_close(s->shelf);
    vec_release(&s->strings);
    vec_release(&s->stacks);
    vec_release(&s->series);
    free(s);
    return NULL;
}

/* ---- epochs -------------------------------------------------------------------------------- */

/* Not the newest, unless there is no other. */
static void drop(struct look_store *s, uint32_t i)
{
    if (s->n_epochs == 1)
        end_epoch(s, s->epochs[i]);
    look_epoch_free(s->epochs[i]);
    s->n_epochs--;
    memmove(s->epochs + i, s->epochs + i + 1, (s->n_epochs - i) * sizeof *s->epochs);
}

static void drop_oldest(struct look_store *s)
{
    drop(s, 0);
}

static struct look_epoch *newest(struct look_store *s)
{
    return s->n_epochs > 0 ? s->epochs[s->n_epochs - 1] : NULL;
}

/* Begins another epoch; those who told of stacks tell anew. */
static int begin_epoch(struct look_store *s, uint64_t now_ns)
{
    struct look_epoch *was = newest(s);
    if (was)
        end_epoch(s, was);
    if (s->n_epochs == LOOK_EPOCHS_MAX)
        drop_oldest(s);
    struct look_epoch *e = look_epoch_new(&s->budget, now_ns);
    while (!e && s->n_epochs > 0) {
        drop_oldest(s);
        e = look_epoch_new(&s->budget, now_ns);
    }
    if (!e)
        return -ENOMEM;
    s->epochs[s->n_epochs++] = e;
    atomic_fetch_add_explicit(&s->rates.generation, 1, memory_order_release);
    return 0;
}

static uint64_t epoch_age_max(const struct look_store *s)
{
    return min_of(EPOCH_NS_MAX, s->options.retention_ns / EPOCH_RETENTION);
}

/* One that began in what is the future now is of another time, too. */
static bool is_of_another_time(const struct look_store *s, const struct look_epoch *e, uint64_t now_ns)
{
    return max_of(now_ns, e->began_ns) - min_of(now_ns, e->began_ns) > epoch_age_max(s);
}

static int make_room(struct look_store *s, uint64_t now_ns)
{
    while (s->n_epochs > 1 && s->budget.used > ALL_SHARE(s->options.memory))
        drop_oldest(s);
    const struct look_epoch *e = newest(s);
    const bool is_over =
        e && (e->budget.used > EPOCH_SHARE(s->options.memory) || is_of_another_time(s, e, now_ns));
    return e && !is_over ? 0 : begin_epoch(s, now_ns);
}

/* ---- a batch ------------------------------------------------------------------------------- */

/* The numbers of a batch in the epoch, LOOK_NONE for those that were not asked for. */
static int begin_numbers(struct look_store *s, const struct look_batch *b)
{
    if (vec_reserve(&s->strings, b->strings.n) < 0 || vec_reserve(&s->stacks, b->stacks.n) < 0 ||
        vec_reserve(&s->series, b->series.n) < 0)
        return -ENOMEM;
    memset(s->strings.p, 0xff, b->strings.n * sizeof *s->strings.p);
    memset(s->stacks.p, 0xff, b->stacks.n * sizeof *s->stacks.p);
    memset(s->series.p, 0xff, b->series.n * sizeof *s->series.p);
    return 0;
}

static bool use_string(struct look_store *s, struct look_epoch *e, const struct look_batch *b, uint32_t i,
                       uint32_t *ret)
{
    if (s->strings.p[i] == LOOK_NONE)
        s->strings.p[i] = look_dict_string(&e->dict, look_batch_string(b, i));
    *ret = s->strings.p[i];
    return *ret != LOOK_NONE;
}

static uint32_t use_series(struct look_store *s, struct look_epoch *e, const struct look_batch *b, uint32_t i)
{
    if (s->series.p[i] != LOOK_NONE)
        return s->series.p[i];
    const struct look_series *from = &b->series.p[i];
    struct look_series series;
    if (!use_string(s, e, b, from->type, &series.type) || !use_string(s, e, b, from->unit, &series.unit))
        return LOOK_NONE;
    for (uint32_t k = 0; k < LOOK_N_LABELS; k++)
        if (!use_string(s, e, b, from->label[k], &series.label[k]))
            return LOOK_NONE;
    return s->series.p[i] = look_epoch_series(e, &series);
}

static uint32_t make_node(struct look_store *s, struct look_epoch *e, const struct look_batch *b,
                          const struct look_stack *stack)
{
    uint32_t node = LOOK_ROOT;
    for (uint32_t i = 0; i < stack->n_frames && node != LOOK_NONE; i++) {
        struct look_frame frame = b->frames.p[stack->frames_at + i];
        if (!use_string(s, e, b, frame.name, &frame.name) || !use_string(s, e, b, frame.file, &frame.file) ||
            !use_string(s, e, b, frame.lib, &frame.lib) || !use_string(s, e, b, frame.kind, &frame.kind))
            return LOOK_NONE;
        const uint32_t number = look_dict_frame(&e->dict, &frame);
        node = number == LOOK_NONE ? LOOK_NONE : look_dict_node(&e->dict, node, number);
    }
    return node;
}

/* A node of an epoch in another one. */
static uint32_t copy_node(struct look_dict *to, const struct look_dict *from, uint32_t node)
{
    uint32_t path[LOOK_STACK_MAX], n = 0;
    for (; node != LOOK_ROOT && n < ARRAY_LEN(path); node = from->nodes.p[node].parent)
        path[n++] = from->nodes.p[node].frame;
    node = LOOK_ROOT;
    while (n-- > 0 && node != LOOK_NONE) {
        const uint32_t frame = look_dict_copy_frame(to, from, path[n], LOOK_LINES, NULL);
        node = frame == LOOK_NONE ? LOOK_NONE : look_dict_node(to, node, frame);
    }
    return node;
}

/* The node of a stack; of one that was told to the epoch before, when this one had not begun, from there. */
static uint32_t use_stack(struct look_store *s, struct look_epoch *e, const struct look_batch *b, uint32_t i)
{
    if (i == LOOK_NOT_KEPT)
        return LOOK_NODE_NOT_KEPT;
    if (s->stacks.p[i] != LOOK_NONE)
        return s->stacks.p[i];
    const struct look_stack *stack = &b->stacks.p[i];
    uint32_t node = look_epoch_find_stack(e, stack->hash);
    if (node == LOOK_NONE) {
        const struct look_epoch *before = s->n_epochs > 1 ? s->epochs[s->n_epochs - 2] : NULL;
        const uint32_t old =
            before && stack->n_frames == 0 ? look_epoch_find_stack(before, stack->hash) : LOOK_NONE;
        s->has_missed |= stack->n_frames == 0 && old == LOOK_NONE;
        if (stack->n_frames > 0)
            node = make_node(s, e, b, stack);
        else if (old != LOOK_NONE)
            node = copy_node(&e->dict, &before->dict, old);
        if (node != LOOK_NONE && look_epoch_know_stack(e, stack->hash, node) < 0)
            node = LOOK_NONE;
    }
    return s->stacks.p[i] = node == LOOK_NONE ? LOOK_NODE_NOT_KEPT : node;
}

static void add_event(struct look_store *s, struct look_epoch *e, const struct look_batch *b,
                      const struct look_event *event)
{
    struct look_pair pair = {
        .series = use_series(s, e, b, event->series),
        .node = use_stack(s, e, b, event->stack),
        .value = event->value,
        .seen = event->seen,
    };
    pair.kept = pair.node == LOOK_NODE_NOT_KEPT ? 0 : event->kept;
    const uint64_t seen = (event->seen + LOOK_SEEN_ONE / 2) / LOOK_SEEN_ONE;
    if (pair.series == LOOK_NONE || look_epoch_add(e, LOOK_FINE, event->at, &pair) < 0) {
        s->counts.lost += seen;
        return;
    }
    s->counts.seen += seen;
    s->counts.kept += pair.kept;
    s->counts.not_kept += pair.node == LOOK_NODE_NOT_KEPT ? seen : 0;
}

static void add_example(struct look_store *s, struct look_epoch *e, const struct look_batch *b,
                        const struct look_batch_example *from)
{
    struct look_example x = {.at = from->at,
                             .series = use_series(s, e, b, from->series),
                             .node = use_stack(s, e, b, from->stack),
                             .value = from->value};
    memcpy(x.trace, from->trace, sizeof x.trace);
    memcpy(x.span, from->span, sizeof x.span);
    if (x.series != LOOK_NONE && x.node != LOOK_NODE_NOT_KEPT)
        look_epoch_add_example(e, &x);
}

void look_store_add(struct look_store *s, struct look_batch *b, uint64_t now_ns)
{
    if (!b)
        return;
    s->counts.late += b->late;
    s->counts.lost += b->lost;
    for (uint32_t i = 0; i < LOOK_RATES; i++)
        s->demand[i] += b->demand[i];
    if (make_room(s, now_ns) < 0 || begin_numbers(s, b) < 0) {
        for (uint32_t i = 0; i < b->events.n; i++)
            s->counts.lost += b->events.p[i].seen / LOOK_SEEN_ONE;
    } else {
        for (uint32_t i = 0; i < b->events.n; i++)
            add_event(s, newest(s), b, &b->events.p[i]);
        for (uint32_t i = 0; i < b->examples.n; i++)
            add_example(s, newest(s), b, &b->examples.p[i]);
    }
    look_batch_free(b);
}

/* ---- time ---------------------------------------------------------------------------------- */

static bool is_over(const struct look_open *open, uint64_t now_ns)
{
    const uint64_t now = now_ns / LOOK_SLICE_NS;
    if (open->level == LOOK_FINE)
        return open->at + FINE_OPEN < now;
    return (uint64_t)open->at * LOOK_COARSE_SLICES + COARSE_OPEN < now;
}

/* For what is told anew, too. */
static bool has_room(const struct look_store *s)
{
    return s->budget.used < s->options.memory - s->options.memory / ROOM_SHARE;
}

/* A wall clock that leaps ahead is believed when it has stayed there for so long: all there is would be old
 * at once, on disk, too, and a clock that is put right soon would not bring it back. */
#define LEAP_NS     (60 * (uint64_t)NSEC_PER_SEC)
#define BELIEVED_NS (600 * (uint64_t)NSEC_PER_SEC)

static uint64_t age_now(struct look_store *s, uint64_t now_ns, uint64_t monotonic_ns)
{
    const uint64_t gone = s->age.now_ns == 0 ? now_ns : s->age.now_ns + (monotonic_ns - s->age.at_ns);
    const bool leaps = now_ns > gone && now_ns - gone > LEAP_NS;
    if (!leaps)
        s->age.ahead_ns = 0;
    else if (s->age.ahead_ns == 0)
        s->age.ahead_ns = monotonic_ns;
    s->age.now_ns = leaps && monotonic_ns - s->age.ahead_ns < BELIEVED_NS ? gone : now_ns;
    s->age.at_ns = monotonic_ns;
    return s->age.now_ns;
}

void look_store_tick(struct look_store *s, uint64_t now_ns, uint64_t monotonic_ns)
{
    const double seconds = (double)(monotonic_ns - s->ticked_ns) / 1e9;
    if (s->ticked_ns != 0 && seconds >= 0.1) {
        look_rates_set(&s->rates, s->demand, seconds);
        memset(s->demand, 0, sizeof s->demand);
    }
    if (s->ticked_ns == 0 || seconds >= 0.1)
        s->ticked_ns = monotonic_ns;
    if (s->has_missed && monotonic_ns - s->anew_ns >= ANEW_NS && has_room(s)) {
        atomic_fetch_add_explicit(&s->rates.generation, 1, memory_order_release);
        s->has_missed = false;
        s->anew_ns = monotonic_ns;
    }
    const bool is_set_back = now_ns + LOOK_SLICE_NS < s->now_ns; /* then nothing open waits for its end */
    s->now_ns = now_ns;
    for (uint32_t i = 0; i < s->n_epochs; i++)
        look_epoch_seal(s->epochs[i], is_set_back ? always : is_over, now_ns); /* without memory it waits */
    if (s->shelf && s->n_epochs > 0)
        look_shelf_write(s->shelf, newest(s));
    const uint64_t age_ns = age_now(s, now_ns, monotonic_ns);
    const uint64_t oldest = age_ns > s->options.retention_ns ? age_ns - s->options.retention_ns : 0;
    for (uint32_t i = s->n_epochs; i-- > 0;)
        if ((i + 1 < s->n_epochs || s->n_epochs == 1) &&
            (uint64_t)s->epochs[i]->newest * LOOK_SLICE_NS + LOOK_SLICE_NS < oldest)
            drop(s, i);
    if (s->shelf)
        look_shelf_trim(s->shelf, (uint32_t)(oldest / LOOK_SLICE_NS));
}
