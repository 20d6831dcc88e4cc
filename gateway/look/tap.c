/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a sample costs here: not kept, nothing, since the next one kept is found by a geometric step; kept, a
 * look at its attributes and at what this request knows of its stack; a stack that is new to the request, the
 * mix of its locations' hashes, and one new to this thread a copy of its frames.
 *
 * All tables are by the view's numbers and void at the next request; what a number is worth is found when it
 * is first asked for, so that what is not kept is not looked at. 0 is: not asked yet.
 */
#include "gateway/look/tap.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/rng.h"
#include "rules/match/weigh.h"

/* Stacks that the store was told of, by this thread, of late: in places of some each, of which the one that
 * was told first makes room. One in each would be lost to its neighbour for as long as both come. */
#define TOLD_WAYS   4u
#define TOLD_PLACES (1u << 13)
#define TOLD_BYTES  (TOLD_PLACES * sizeof(struct told))

struct told {
    uint64_t hash[TOLD_WAYS]; /* the newest first; 0: none */
};

/* A profile's time is taken for true if it is not farther from ours; senders' clocks differ. */
#define SKEW_NS (300 * 1000000000ull)

/* Behind this, tables that one huge request needed are given back. */
#define KEEP_BYTES ((size_t)4 << 20)

/* Profiles of one scope between which siblings are looked for: those of a converted pprof are neighbours. */
#define SIBLINGS_MAX 64u

/* Of the text of a type. */
#define TYPE_MAX 512u

#define TABLES(X)                                                                             \
    X(uint64_t, string_hash)   /* [string] */                                                 \
    X(uint64_t, location_hash) /* [location] */                                               \
    X(uint32_t, stack_ref)     /* [stack] the batch's + 1 */                                  \
    X(uint64_t, frame_kind)    /* [attribute] hash of the frame type it says, or KIND_NONE */ \
    X(uint32_t, thread)        /* [attribute] enum and string */

#define KIND_NONE 1u

enum { ATTRIBUTE_OTHER = 1, ATTRIBUTE_THREAD = 2 /* and more: the string */ };

/* What the profiles of one kind have in common. */
struct kind {
    bool valid;
    uint32_t type, unit, period_type, period_unit; /* strings of the view */
    int64_t period;
    bool is_sibling; /* of one that says CPU time better */
    struct rules_time time;
    bool is_cpu;
    uint32_t type_string, unit_string; /* of the batch */
};

struct look_tap {
    struct look_rates *rates;
    struct budget tables, batches; /* their parent is the caller's */
    struct look_batch *batch;
    struct rng rng;
    uint64_t seed; /* of hashes, at hand */
    struct told *told;
    uint32_t generation; /* of the store, that they were told in */
    uint64_t lost;       /* samples without a batch to be counted in */
    /* of the request */
    const struct profiles *view;
    uint64_t now;
    struct kind kind;
    uint32_t resource; /* that the next three are of, + 1 */
    struct look_series series;
    uint64_t series_hash;
    uint32_t place;
    uint32_t last_thread, last_series; /* of this resource and kind; last_series + 1, 0: none yet */
#define X(type, name) VEC(type) name;
    TABLES(X)
#undef X
};

/* ---- life ---------------------------------------------------------------------------------- */

struct look_tap *look_tap_new(struct look_rates *rates, struct budget *budget, size_t batch_bytes)
{
    struct look_tap *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->rates = rates;
    t->tables = (struct budget)BUDGET_INIT(SIZE_MAX, budget);
    t->batches = (struct budget)BUDGET_INIT(batch_bytes, budget);
#define X(type, name) t->name.budget = &t->tables;
    TABLES(X)
#undef X
    t->seed = hash_seed();
    rng_seed(&t->rng, hash_mix(t->seed, (uint64_t)(uintptr_t)t));
    return t;
}

static void release_tables(struct look_tap *t)
{
#define X(type, name) vec_release(&t->name);
    TABLES(X)
#undef X
}

struct look_tap *look_tap_free(struct look_tap *t)
{
    if (!t)
        return NULL;
    look_batch_free(t->batch);
    release_tables(t);
    if (t->told)
        budget_refund(&t->tables, TOLD_BYTES);
    free(t->told);
    free(t);
    return NULL;
}

struct look_batch *look_tap_take(struct look_tap *t)
{
    const size_t told = t->told ? TOLD_BYTES : 0;
    if (t->tables.used - told > KEEP_BYTES)
        release_tables(t);
    return take_ptr(t->batch);
}

size_t look_tap_memory_used(const struct look_tap *t)
{
    return t->tables.used;
}

/* ---- a request's tables -------------------------------------------------------------------- */

static int begin(struct look_tap *t, const struct profiles *v)
{
    t->view = v;
    t->kind.valid = false;
    t->resource = 0;
    t->string_hash.n = t->location_hash.n = t->stack_ref.n = t->frame_kind.n = t->thread.n = 0;
    if (vec_extend(&t->string_hash, v->string.n) < 0 || vec_extend(&t->location_hash, v->location.n) < 0 ||
        vec_extend(&t->stack_ref, v->stack.n) < 0 || vec_extend(&t->frame_kind, v->attribute.n) < 0 ||
        vec_extend(&t->thread, v->attribute.n) < 0)
        return -ENOMEM;
    if (!t->told && budget_charge(&t->tables, TOLD_BYTES)) {
        t->told = calloc(TOLD_PLACES, sizeof *t->told);
        if (!t->told)
            budget_refund(&t->tables, TOLD_BYTES);
    }
    const uint32_t generation = atomic_load_explicit(&t->rates->generation, memory_order_acquire);
    if (!t->batch) {
        t->batch = t->told ? look_batch_new(&t->batches) : NULL;
        if (!t->batch)
            return -ENOMEM;
        if (t->generation != generation)
            memset(t->told, 0, TOLD_BYTES);
        t->generation = generation;
        t->batch->lost = t->lost;
        t->lost = 0;
    }
    return 0;
}

static uint64_t hash_text(const struct look_tap *t, struct bytes text)
{
    return text.n == 0 ? 0 : hash_bytes(text, t->seed) | 1;
}

static uint64_t hash_string(struct look_tap *t, uint32_t string)
{
    uint64_t *hash = &t->string_hash.p[string];
    if (*hash == 0)
        *hash = hash_text(t, profiles_string(t->view, string)) | 1; /* also of "", so that it is asked once */
    return *hash;
}

static int add_string(struct look_tap *t, uint32_t string, uint32_t *ret)
{
    return look_batch_add(t->batch, profiles_string(t->view, string), hash_string(t, string), ret);
}

static int add_text(struct look_tap *t, struct bytes text, uint32_t *ret)
{
    return look_batch_add(t->batch, text, hash_text(t, text), ret);
}

/* ---- frames -------------------------------------------------------------------------------- */

/* The hash of the frame type that an attribute says, or KIND_NONE. */
static uint64_t frame_kind(struct look_tap *t, uint32_t a)
{
    const struct profiles *v = t->view;
    uint64_t *kind = &t->frame_kind.p[a];
    if (*kind == 0) {
        const bool is_it = v->attribute.value[a].kind == ATTR_STRING &&
                           bytes_is(profiles_string(v, v->attribute.key[a]), "profile.frame.type");
        *kind = (is_it ? hash_text(t, v->attribute.value[a].text) : 0) | KIND_NONE;
    }
    return *kind;
}

static struct bytes kind_of(struct look_tap *t, uint32_t location, uint64_t *ret_hash)
{
    const struct profiles *v = t->view;
    for (uint32_t i = v->location.attrs_at[location]; i < v->location.attrs_at[location + 1]; i++) {
        const uint32_t a = v->attr_index.attribute[i];
        *ret_hash = frame_kind(t, a);
        if (*ret_hash != KIND_NONE)
            return v->attribute.value[a].text;
    }
    *ret_hash = 0;
    return BYTES_LIT("");
}

/* The string that names a function; the empty one, if none does. */
static uint32_t name_of(const struct profiles *v, uint32_t function)
{
    const uint32_t name = v->function.name[function];
    return profiles_string(v, name).n > 0 ? name : v->function.system_name[function];
}

static bool is_named(const struct profiles *v, uint32_t line)
{
    return profiles_string(v, name_of(v, v->line.function[line])).n > 0;
}

static uint32_t clamp_line(int64_t line)
{
    return line < 0 ? 0 : (uint32_t)min_of(line, (int64_t)UINT32_MAX);
}

/* Of all that frames are told apart by: unnamed ones by what they are in. */
static uint64_t hash_location(struct look_tap *t, uint32_t location)
{
    uint64_t *hash = &t->location_hash.p[location];
    if (*hash != 0)
        return *hash;
    const struct profiles *v = t->view;
    uint64_t kind;
    kind_of(t, location, &kind);
    uint64_t h = hash_mix(hash_string(t, v->mapping.filename[v->location.mapping[location]]), kind);
    for (uint32_t i = v->location.lines_at[location]; i < v->location.lines_at[location + 1]; i++) {
        const uint32_t f = v->line.function[i];
        h = hash_mix(h, hash_string(t, name_of(v, f)));
        h = hash_mix(h, hash_string(t, v->function.filename[f]));
        h = hash_mix(h, is_named(v, i) ? clamp_line(v->line.line[i]) : 0);
    }
    *hash = h | 1;
    return *hash;
}

/* The name of what has none: of what it is in. */
static int add_unnamed(struct look_tap *t, struct bytes lib, struct bytes kind, uint32_t *ret)
{
    char text[128] = "[";
    struct bytes in = bytes_after_last(lib, '/');
    if (in.n == 0)
        in = kind.n > 0 ? kind : BYTES_LIT("unknown");
    in.n = min_of(in.n, sizeof text - 2);
    memcpy(text + 1, in.p, in.n);
    text[1 + in.n] = ']';
    return add_text(t, bytes_of(text, in.n + 2), ret);
}

/* One more of the stack, unless it is unnamed as the one before. */
static int add_frame(struct look_tap *t, uint32_t from, const struct look_frame *frame, bool named)
{
    struct look_batch *b = t->batch;
    if (!named && b->frames.n > from && memcmp(vec_last(&b->frames), frame, sizeof *frame) == 0)
        return 0;
    return vec_append(&b->frames, *frame);
}

static int add_location(struct look_tap *t, uint32_t from, uint32_t location)
{
    const struct profiles *v = t->view;
    const uint32_t mapping = v->mapping.filename[v->location.mapping[location]];
    const uint32_t first = v->location.lines_at[location], end = v->location.lines_at[location + 1];
    uint64_t kind_hash;
    const struct bytes kind = kind_of(t, location, &kind_hash);
    struct look_frame place = {0}, frame;
    if (add_string(t, mapping, &place.lib) < 0 || look_batch_add(t->batch, kind, kind_hash, &place.kind) < 0)
        return -ENOMEM;
    for (uint32_t i = end; i-- > first;) {
        if (!is_named(v, i))
            continue;
        const uint32_t f = v->line.function[i];
        frame = place;
        frame.line = clamp_line(v->line.line[i]);
        frame.inlined = i + 1 < end;
        if (add_string(t, name_of(v, f), &frame.name) < 0 ||
            add_string(t, v->function.filename[f], &frame.file) < 0 || add_frame(t, from, &frame, true) < 0)
            return -ENOMEM;
    }
    for (uint32_t i = first; i < end; i++)
        if (is_named(v, i))
            return 0;
    frame = place;
    if (add_unnamed(t, profiles_string(v, mapping), kind, &frame.name) < 0)
        return -ENOMEM;
    return add_frame(t, from, &frame, false);
}

/* ---- stacks -------------------------------------------------------------------------------- */

static uint64_t hash_stack(struct look_tap *t, uint32_t from, uint32_t to)
{
    uint64_t h = 1;
    for (uint32_t i = from; i < to; i++)
        h = hash_mix(h, hash_location(t, t->view->stack_location.location[i]));
    return h | 1;
}

static int add_frames(struct look_tap *t, struct look_stack *stack, uint32_t from, uint32_t to)
{
    struct look_batch *b = t->batch;
    stack->frames_at = b->frames.n;
    if (to - from == 0) { /* a sample without a stack: of the process as a whole */
        struct look_frame frame = {0};
        int r = add_text(t, BYTES_LIT(LOOK_NO_STACK), &frame.name);
        r = r < 0 ? r : vec_append(&b->frames, frame);
        stack->n_frames = 1;
        return r;
    }
    for (uint32_t i = min_of(to, from + LOOK_STACK_MAX); i-- > from;) {
        int r = add_location(t, stack->frames_at, t->view->stack_location.location[i]);
        if (r < 0) {
            b->frames.n = stack->frames_at;
            return r;
        }
    }
    /* Inlined ones may make them more: the innermost stay. */
    const uint32_t n = b->frames.n - stack->frames_at, over = n > LOOK_STACK_MAX ? n - LOOK_STACK_MAX : 0;
    stack->frames_at += over;
    stack->n_frames = n - over;
    return 0;
}

static bool was_told(const struct told *told, uint64_t hash)
{
    bool was = false;
    for (uint32_t i = 0; i < TOLD_WAYS; i++)
        was |= told->hash[i] == hash;
    return was;
}

static void tell(struct told *told, uint64_t hash)
{
    memmove(told->hash + 1, told->hash, sizeof told->hash - sizeof *told->hash);
    told->hash[0] = hash;
}

static uint32_t stack_ref(struct look_tap *t, uint32_t number)
{
    uint32_t *ref = &t->stack_ref.p[number];
    if (likely(*ref != 0))
        return *ref - 1;
    const uint32_t from = t->view->stack.locations_at[number], to = t->view->stack.locations_at[number + 1];
    struct look_stack stack = {.hash = hash_stack(t, from, to)};
    struct told *told = &t->told[stack.hash >> 1 & (TOLD_PLACES - 1)];
    const bool is_new = !was_told(told, stack.hash);
    if (is_new && add_frames(t, &stack, from, to) < 0)
        return LOOK_NOT_KEPT;
    if (vec_append(&t->batch->stacks, stack) < 0)
        return LOOK_NOT_KEPT;
    if (is_new)
        tell(told, stack.hash);
    *ref = t->batch->stacks.n;
    return *ref - 1;
}

/* ---- series -------------------------------------------------------------------------------- */

static enum look_label label_of(struct bytes key)
{
    for (uint32_t i = 0; i < LOOK_THREAD; i++)
        if (bytes_is(key, look_labels[i].attribute))
            return (enum look_label)i;
    /* what it was called before semantic conventions 1.27 */
    return bytes_is(key, "deployment.environment") ? LOOK_ENVIRONMENT : LOOK_NO_LABEL;
}

static int use_resource(struct look_tap *t, uint32_t resource)
{
    const struct profiles *v = t->view;
    if (t->resource == resource + 1)
        return 0;
    t->series = (struct look_series){0};
    t->resource = 0;
    uint64_t hashes[LOOK_N_LABELS] = {0};
    for (uint32_t i = v->resource.attrs_at[resource]; i < v->resource.attrs_at[resource + 1]; i++) {
        const struct attr *a = &v->key_value.attr[i];
        const enum look_label label = a->value.kind == ATTR_STRING ? label_of(a->key) : LOOK_NO_LABEL;
        if (label == LOOK_NO_LABEL)
            continue;
        const struct bytes text = bytes_cut(a->value.text, LOOK_LABEL_MAX);
        hashes[label] = hash_text(t, text);
        if (look_batch_add(t->batch, text, hashes[label], &t->series.label[label]) < 0)
            return -ENOMEM;
    }
    if (t->series.label[LOOK_SERVICE] == LOOK_EMPTY) { /* of profilers that see whole hosts */
        t->series.label[LOOK_SERVICE] = t->series.label[LOOK_EXECUTABLE];
        hashes[LOOK_SERVICE] = hashes[LOOK_EXECUTABLE];
    }
    t->series_hash = hash_bytes(bytes_of(hashes, sizeof hashes), t->seed);
    t->place = (uint32_t)(hashes[LOOK_SERVICE] >> 32) % LOOK_RATES;
    t->resource = resource + 1;
    return 0;
}

/* The name of the sample's thread without the digits at its end, as a string of the batch. */
static int thread_of(struct look_tap *t, uint32_t sample, uint32_t *ret)
{
    const struct profiles *v = t->view;
    *ret = LOOK_EMPTY;
    for (uint32_t i = v->sample.attrs_at[sample]; i < v->sample.attrs_at[sample + 1]; i++) {
        const uint32_t a = v->attr_index.attribute[i];
        uint32_t *known = &t->thread.p[a];
        if (*known == 0) {
            *known = ATTRIBUTE_OTHER;
            struct bytes text = v->attribute.value[a].text;
            if (v->attribute.value[a].kind == ATTR_STRING &&
                bytes_is(profiles_string(v, v->attribute.key[a]), look_labels[LOOK_THREAD].attribute)) {
                while (text.n > 0 && text.p[text.n - 1] >= '0' && text.p[text.n - 1] <= '9')
                    text.n--;
                uint32_t string;
                if (add_text(t, bytes_cut(text, LOOK_LABEL_MAX), &string) < 0)
                    return -ENOMEM;
                *known = ATTRIBUTE_THREAD + string;
            }
        }
        if (*known >= ATTRIBUTE_THREAD) {
            *ret = *known - ATTRIBUTE_THREAD;
            return 0;
        }
    }
    return 0;
}

static int series_of(struct look_tap *t, uint32_t thread, uint32_t *ret)
{
    if (t->last_series != 0 && t->last_thread == thread) {
        *ret = t->last_series - 1;
        return 0;
    }
    const uint64_t rest = (uint64_t)t->kind.type_string << 32 | thread;
    const uint64_t hash = hash_mix(t->series_hash, rest) & ~1ull; /* never IDMAP_FREE */
    uint32_t *place = idmap_place(&t->batch->series_of, hash, UINT32_MAX);
    if (!place)
        return -ENOMEM;
    if (*place == UINT32_MAX) {
        struct look_series series = t->series;
        series.type = t->kind.type_string;
        series.unit = t->kind.unit_string;
        series.label[LOOK_THREAD] = thread;
        if (vec_append(&t->batch->series, series) < 0)
            return -ENOMEM;
        *place = t->batch->series.n - 1;
    }
    *ret = *place;
    t->last_thread = thread;
    t->last_series = *place + 1;
    return 0;
}

/* ---- kinds of profiles --------------------------------------------------------------------- */

static struct rules_profile describe(const struct profiles *v, uint32_t profile)
{
    return (struct rules_profile){
        .type = profiles_string(v, v->profile.type[profile]),
        .unit = profiles_string(v, v->profile.unit[profile]),
        .period_unit = profiles_string(v, v->profile.period_unit[profile]),
        .period = v->profile.period[profile],
        .period_type = profiles_string(v, v->profile.period_type[profile]),
    };
}

static uint32_t cpu_rank(const struct profiles *v, uint32_t profile, struct rules_time *ret)
{
    const struct rules_profile p = describe(v, profile);
    *ret = rules_time_of(&p);
    return ret->how == RULES_TIME_NONE ? UINT32_MAX : weigh_kind_rank(RULE_KIND_CPU, RULE_VALUE_TIME, &p);
}

/* One of the same measurement says CPU time better: the language's `on cpu` takes that one (rules/match). */
static bool has_better_sibling(const struct profiles *v, uint32_t profile, uint32_t rank)
{
    struct rules_time time;
    const uint32_t scope = v->profile.scope[profile];
    uint32_t from = profile, left = SIBLINGS_MAX;
    while (from > 0 && v->profile.scope[from - 1] == scope && left-- > 0)
        from--;
    for (uint32_t i = from; i < v->profile.n && v->profile.scope[i] == scope && i < profile + SIBLINGS_MAX;
         i++)
        if (profiles_are_siblings(v, profile, i) && cpu_rank(v, i, &time) < rank)
            return true;
    return false;
}

/* The word before a type's own, as Pyroscope has it. */
static const char *word_of(const struct rules_profile *p)
{
    static const struct {
        enum rule_kind kind;
        const char *word;
    } words[] = {{RULE_KIND_CPU, "process_cpu"},
                 {RULE_KIND_WALL, "wall"},
                 {RULE_KIND_OFF_CPU, "off_cpu"},
                 {RULE_KIND_ALLOC, "memory"},
                 {RULE_KIND_LOCK, "mutex"}};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (weigh_kind_rank(words[i].kind, RULE_VALUE_SUM, p) != UINT32_MAX ||
            weigh_kind_rank(words[i].kind, RULE_VALUE_SAMPLES, p) != UINT32_MAX)
            return words[i].word;
    return bytes_starts(p->type, "inuse_") ? "memory" : "profile";
}

/* A part of a type: what stands between two colons. */
static void put_part(struct buffer *out, struct bytes part)
{
    buffer_add_str(out, ":");
    for (size_t i = 0; i < part.n; i++)
        buffer_add(out, part.p[i] == ':' ? "_" : (const char *)&part.p[i], 1);
}

static int name_kind(struct look_tap *t, uint32_t profile)
{
    const struct profiles *v = t->view;
    const struct rules_profile p = describe(v, profile);
    struct buffer text = BUFFER_INIT(TYPE_MAX); /* what is longer is cut */
    if (t->kind.is_cpu) {
        buffer_add_str(&text, LOOK_CPU_TYPE);
    } else {
        buffer_add_str(&text, word_of(&p));
        put_part(&text, p.type);
        put_part(&text, p.unit);
        put_part(&text, profiles_string(v, v->profile.period_type[profile]));
        put_part(&text, p.period_unit);
    }
    int r = text.n > 0 ? add_text(t, buffer_bytes(&text), &t->kind.type_string) : -ENOMEM;
    buffer_release(&text);
    return r < 0 ? r : add_text(t, t->kind.is_cpu ? BYTES_LIT("nanoseconds") : p.unit, &t->kind.unit_string);
}

/* One after the other is mostly of one kind. */
static int use_kind(struct look_tap *t, uint32_t profile)
{
    const struct profiles *v = t->view;
    struct kind *k = &t->kind;
    struct rules_time time;
    const uint32_t rank = cpu_rank(v, profile, &time);
    const bool is_sibling = rank != 0 && rank != UINT32_MAX && has_better_sibling(v, profile, rank);
    if (k->valid && k->type == v->profile.type[profile] && k->unit == v->profile.unit[profile] &&
        k->period_type == v->profile.period_type[profile] &&
        k->period_unit == v->profile.period_unit[profile] && k->period == v->profile.period[profile] &&
        k->is_sibling == is_sibling)
        return 0;
    *k = (struct kind){
        .type = v->profile.type[profile],
        .unit = v->profile.unit[profile],
        .period_type = v->profile.period_type[profile],
        .period_unit = v->profile.period_unit[profile],
        .period = v->profile.period[profile],
        .is_sibling = is_sibling,
        .time = time,
        .is_cpu = rank != UINT32_MAX && !is_sibling,
    };
    int r = name_kind(t, profile);
    k->valid = r == 0;
    return r;
}

/* ---- samples ------------------------------------------------------------------------------- */

/* What it weighs: as sums.c of classify has it for `value time`. False: nothing. */
static bool weigh(const struct look_tap *t, uint32_t sample, uint64_t *ret_value, uint64_t *ret_samples)
{
    const struct profiles *v = t->view;
    const struct kind *k = &t->kind;
    const uint32_t n_times = v->sample.n_timestamps[sample], n_values = v->sample.n_values[sample];
    const int64_t sum = v->sample.value_sum[sample], events = n_times ? n_times : 1;
    const int64_t samples = n_values ? sum : events;
    int64_t value = samples;
    *ret_samples = (uint64_t)events;
    if (k->is_cpu) {
        const int64_t base = k->time.how == RULES_TIME_SAMPLES ? samples : sum;
        if (base < 0 || base > k->time.limit || (k->time.how == RULES_TIME_VALUES && n_values == 0))
            return false;
        value = base * k->time.factor;
        *ret_samples =
            (uint64_t)(k->time.how == RULES_TIME_SAMPLES ? samples
                                                         : rules_time_samples(&k->time, sum, events));
    }
    *ret_value = (uint64_t)value;
    return value > 0;
}

/* A number of which the mean over many is x; saturated. */
static uint64_t round_at_random(struct look_tap *t, double x)
{
    return x >= 0x1p62 ? 1ull << 62 : (uint64_t)(x + rng_unit(&t->rng));
}

/* A sample of a trace, which is as likely an example as any other one of this second. */
static void note_example(struct look_tap *t, const struct look_event *event, uint32_t sample, uint64_t value)
{
    const struct profiles *v = t->view;
    const uint32_t link = v->sample.link[sample];
    struct look_batch *b = t->batch;
    struct look_batch_example e = {
        .at = event->at, .series = event->series, .stack = event->stack, .value = value};
    memcpy(e.trace, v->body.p + v->link.trace_at[link], sizeof e.trace);
    if (v->link.span_at[link] != 0)
        memcpy(e.span, v->body.p + v->link.span_at[link], sizeof e.span);
    if (b->n_linked++ < LOOK_BATCH_EXAMPLES) {
        if (vec_append(&b->examples, e) < 0)
            return; /* the numbers do not need it */
    } else {
        const uint64_t place = (uint64_t)(rng_unit(&t->rng) * (double)b->n_linked);
        if (place < b->examples.n)
            b->examples.p[place] = e;
    }
}

static int keep(struct look_tap *t, uint32_t at, uint32_t sample, uint32_t p)
{
    uint32_t thread, series;
    uint64_t value, samples;
    if (t->view->sample.stack[sample] == PROFILES_REJECTED || !weigh(t, sample, &value, &samples))
        return 0;
    if (thread_of(t, sample, &thread) < 0 || series_of(t, thread, &series) < 0)
        return -ENOMEM;
    const double times = (double)LOOK_RATES_ONE / p;
    const uint32_t stack = stack_ref(t, t->view->sample.stack[sample]);
    struct look_event event = {
        .at = at,
        .series = series,
        .stack = stack,
        .kept = stack == LOOK_NOT_KEPT ? 0 : (uint32_t)min_of(samples, (uint64_t)UINT32_MAX),
        .seen = samples >= 1ull << 48 ? 1ull << 56 : samples * LOOK_SEEN_ONE,
        .value = value,
    };
    if (unlikely(t->view->link.trace_at[t->view->sample.link[sample]] != 0) && stack != LOOK_NOT_KEPT)
        note_example(t, &event, sample, value);
    if (unlikely(p < LOOK_RATES_ONE)) {
        event.seen = round_at_random(t, (double)event.seen * times);
        event.value = round_at_random(t, (double)value * times);
    }
    return vec_append(&t->batch->events, event);
}

/* How many are not kept before the next one that is. */
static uint32_t step(struct look_tap *t, uint32_t p)
{
    const double skip = log(1 - rng_unit(&t->rng)) / log1p(-(double)p / LOOK_RATES_ONE);
    return skip >= UINT32_MAX / 2 ? UINT32_MAX / 2 : (uint32_t)skip;
}

/* All of a profile as one, of no stack. */
static int keep_total(struct look_tap *t, uint32_t at, uint32_t from, uint32_t to)
{
    struct look_event event = {.at = at, .stack = LOOK_NOT_KEPT};
    uint64_t value, samples;
    for (uint32_t i = from; i < to; i++) {
        if (t->view->sample.stack[i] == PROFILES_REJECTED || !weigh(t, i, &value, &samples))
            continue;
        if (__builtin_add_overflow(event.value, value, &event.value))
            event.value = 1ull << 62;
        event.seen += min_of(samples, (uint64_t)UINT32_MAX) * LOOK_SEEN_ONE;
    }
    if (event.value == 0)
        return 0;
    int r = series_of(t, LOOK_EMPTY, &event.series);
    return r < 0 ? r : vec_append(&t->batch->events, event);
}

/* The slice of a profile's time, if that is near ours. */
static uint32_t slice_of(struct look_tap *t, uint32_t profile, uint32_t n)
{
    uint64_t time = t->view->profile.time_unix_nano[profile];
    if (time != 0 && (time > t->now ? time - t->now : t->now - time) > SKEW_NS)
        t->batch->late += n;
    else if (time != 0)
        return (uint32_t)(time / LOOK_SLICE_NS);
    return (uint32_t)(t->now / LOOK_SLICE_NS);
}

static void push_profile(struct look_tap *t, uint32_t profile)
{
    const struct profiles *v = t->view;
    const uint32_t from = v->profile.samples_at[profile], to = v->profile.samples_at[profile + 1];
    if (from == to)
        return;
    if (use_resource(t, v->scope.resource[v->profile.scope[profile]]) < 0 || use_kind(t, profile) < 0) {
        t->batch->lost += to - from;
        return;
    }
    t->last_series = 0;
    const uint32_t at = slice_of(t, profile, to - from), p = look_rates_take(t->rates, t->place, to - from);
    t->batch->demand[t->place] += to - from;
    if (p == 0) {
        if (keep_total(t, at, from, to) < 0)
            t->batch->lost += to - from;
        return;
    }
    const bool all = p >= LOOK_RATES_ONE;
    for (uint64_t i = from + (all ? 0 : step(t, p)); i < to; i += 1 + (all ? 0 : step(t, p)))
        if (unlikely(keep(t, at, (uint32_t)i, p) < 0))
            t->batch->lost++;
}

void look_tap_push(struct look_tap *t, const struct profiles *view, uint64_t now)
{
    t->now = now;
    if (begin(t, view) < 0) {
        *(t->batch ? &t->batch->lost : &t->lost) += view->sample.n;
        return;
    }
    for (uint32_t i = 0; i < view->profile.n; i++)
        push_profile(t, i);
}
