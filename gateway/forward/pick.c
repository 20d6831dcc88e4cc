/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/forward/pick.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/otlp/write/subset.h"

/* Kept between requests: tables of a large one (25,000 stacks) fit; a hostile one's do not stay. */
#define PICK_KEEP_WORDS (1u << 17)

/* semantic-conventions docs/general/profiles.md: which kind of code a frame belongs to. */
#define FRAME_TYPE "profile.frame.type"

static int make_room(struct pick *p, size_t words)
{
    if (words <= p->cap)
        return 0;
    pick_release(p);
    if (!budget_charge(p->budget, words * sizeof *p->words))
        return -ENOMEM;
    p->words = malloc(words * sizeof *p->words);
    if (!p->words) {
        budget_refund(p->budget, words * sizeof *p->words);
        return -ENOMEM;
    }
    p->cap = words;
    return 0;
}

void pick_release(struct pick *p)
{
    free(p->words);
    budget_refund(p->budget, p->cap * sizeof *p->words);
    p->words = p->keep = p->more = NULL;
    p->value = NULL;
    p->group = NULL;
    p->cap = 0;
}

void pick_trim(struct pick *p)
{
    if (p->cap > PICK_KEEP_WORDS)
        pick_release(p);
}

/* What an attribute adds to a location: its type's hash, or nothing. */
static void hash_attributes(const struct profiles *v, uint64_t seed, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->attribute.n; i++) {
        const struct attr_value *value = &v->attribute.value[i];
        ret[i] = 0;
        if (value->kind == ATTR_STRING && bytes_is(profiles_string(v, v->attribute.key[i]), FRAME_TYPE))
            ret[i] = hash_bytes(value->text, seed);
    }
}

/* 0: a function that says nothing. */
static void hash_functions(const struct profiles *v, uint64_t seed, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->function.n; i++) {
        struct bytes name = profiles_string(v, v->function.name[i]);
        if (name.n == 0)
            name = profiles_string(v, v->function.system_name[i]);
        ret[i] = 0;
        if (name.n > 0)
            ret[i] = hash_mix(hash_bytes(name, seed),
                              hash_bytes(profiles_string(v, v->function.filename[i]), seed)) |
                     1;
    }
}

static void hash_locations(const struct profiles *v, const uint64_t *attribute, const uint64_t *function,
                           uint64_t *ret)
{
    for (uint32_t i = 0; i < v->location.n; i++) {
        uint64_t h = 0;
        bool named = false;
        for (uint32_t k = v->location.attrs_at[i]; k < v->location.attrs_at[i + 1]; k++)
            h += attribute[v->attr_index.attribute[k]];
        for (uint32_t k = v->location.lines_at[i]; k < v->location.lines_at[i + 1]; k++) {
            uint64_t f = function[v->line.function[k]];
            if (f != 0)
                h = hash_mix(h, f);
            named |= f != 0;
        }
        ret[i] = named ? h : hash_mix(h, v->location.address[i]);
    }
}

static void hash_stacks(const struct profiles *v, const uint64_t *location, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->stack.n; i++) {
        uint64_t h = 0;
        for (uint32_t k = v->stack.locations_at[i]; k < v->stack.locations_at[i + 1]; k++)
            h = hash_mix(h, location[v->stack_location.location[k]]);
        ret[i] = h;
    }
}

static uint64_t hash_value(const struct attr_value *v, uint64_t seed)
{
    uint64_t bits = 0;
    switch (v->kind) {
    case ATTR_EMPTY: break;
    case ATTR_BOOL: bits = v->boolean; break;
    case ATTR_INT: bits = (uint64_t)v->integer; break;
    case ATTR_DOUBLE: memcpy(&bits, &v->real, sizeof bits); break;
    case ATTR_STRING:
    case ATTR_ARRAY:
    case ATTR_KVLIST:
    case ATTR_BYTES: bits = hash_bytes(v->text, seed); break;
    }
    return hash_mix(bits, v->kind);
}

static void hash_resources(const struct profiles *v, uint64_t seed, uint64_t *ret)
{
    for (uint32_t i = 0; i < v->resource.n; i++) {
        ret[i] = 0;
        for (uint32_t k = v->resource.attrs_at[i]; k < v->resource.attrs_at[i + 1]; k++) {
            const struct attr *a = &v->key_value.attr[k];
            ret[i] += hash_mix(hash_bytes(a->key, seed),
                               hash_value(&a->value, seed)); /* a sum: order does not matter */
        }
    }
}

/* ---- weights ------------------------------------------------------------------------------- */

/* Without values each timestamp counts one (profiles.proto, Sample). */
static double weight_of(const struct profiles *v, uint32_t sample)
{
    if (v->sample.n_values[sample] > 0)
        return fabs((double)v->sample.value_sum[sample]);
    return max_of(v->sample.n_timestamps[sample], 1u);
}

static struct pick_class *class_of(struct pick *p, const struct profiles *v, uint32_t profile)
{
    uint32_t type = v->profile.type[profile], unit = v->profile.unit[profile], i = 0;
    while (i < p->n_classes && (p->classes[i].type != type || p->classes[i].unit != unit))
        i++;
    if (i == PICK_CLASSES) {
        p->classes[PICK_CLASSES - 1].mixed = true;
        return &p->classes[PICK_CLASSES - 1];
    }
    if (i == p->n_classes)
        p->classes[p->n_classes++] = (struct pick_class){.type = type, .unit = unit};
    return &p->classes[i];
}

static void weigh(struct pick *p, const struct profiles *v)
{
    p->n_classes = 0;
    for (uint32_t i = 0; i < v->profile.n; i++) {
        struct pick_class *class = class_of(p, v, i);
        for (uint32_t k = v->profile.samples_at[i]; k < v->profile.samples_at[i + 1]; k++) {
            if (v->sample.stack[k] == PROFILES_REJECTED)
                continue;
            class->weight += weight_of(v, k);
            class->samples++;
        }
    }
}

/* What a sample can be worth at most. */
#define WORTH_MAX 9e18

/* The chance of a sample where one of mean weight has `share`; more where it could not say what it is worth.
 */
static double chance(const struct pick_class *class, double weight, double share)
{
    if (share <= 0 || share >= 1)
        return share;
    double fair =
        class->mixed || class->weight <= 0 ? share : share * weight * (double)class->samples / class->weight;
    return fmin(1, fmax(fair, weight / WORTH_MAX));
}

/* What it is worth when it was kept with a chance; what rounding takes goes to the next one. */
static int64_t worth(const struct profiles *v, uint32_t sample, struct pick_class *class, double with)
{
    double weight = weight_of(v, sample), exact = weight / with + class->left;
    bool is_valued = v->sample.n_values[sample] > 0;
    if (with >= 1 || exact > WORTH_MAX)
        return is_valued ? v->sample.value_sum[sample] : (int64_t)weight;
    int64_t whole = llround(exact);
    class->left = exact - (double)whole;
    return is_valued && v->sample.value_sum[sample] < 0 ? -whole : whole;
}

/* ---- decisions ----------------------------------------------------------------------------- */

/* Whether a hash falls into a share. */
static bool hits(uint64_t hash, double share)
{
    return share >= 1 || hash < (uint64_t)ldexp(share, 64);
}

/* That at least one of two independent decisions is made; exactly the other where one never is. */
static double either(double a, double b)
{
    return a == 0 ? b : b == 0 ? a : a + b - a * b;
}

static void set(struct pick *p, uint32_t sample, uint32_t group)
{
    p->group[sample] = (uint8_t)(group + 1);
    p->groups[group].samples++;
    p->kept++;
}

/* The group of this probability, made if there is none; PICK_GROUPS when there are too many. */
static uint32_t group_of(struct pick *p, double probability, bool by_rate)
{
    uint32_t i = 0;
    while (i < p->n_groups && (p->groups[i].by_rate != by_rate || p->groups[i].probability != probability))
        i++;
    if (i == p->n_groups && i < PICK_GROUPS)
        p->groups[p->n_groups++] = (struct pick_group){probability, by_rate, 0};
    return i;
}

struct tables {
    uint64_t *stack, *resource;
};

static int hash_view(struct pick *p, const struct profiles *view, uint64_t seed, size_t more_words,
                     struct tables *ret)
{
    size_t n_group = SUBSET_WORDS(view->sample.n) * 8; /* a byte a sample */
    size_t n_keep = SUBSET_WORDS(view->sample.n);
    size_t words = n_keep + n_group + view->sample.n + view->attribute.n + (size_t)view->function.n +
                   view->location.n + view->stack.n + view->resource.n + more_words;
    int r = make_room(p, words);
    if (r < 0)
        return r;
    p->keep = p->words;
    p->group = (uint8_t *)(p->keep + n_keep);
    p->value = (int64_t *)(p->keep + n_keep + n_group);
    uint64_t *attribute = (uint64_t *)(p->value + view->sample.n), *function = attribute + view->attribute.n;
    uint64_t *location = function + view->function.n;
    ret->stack = location + view->location.n;
    ret->resource = ret->stack + view->stack.n;
    p->more = ret->resource + view->resource.n;
    memset(p->keep, 0, (n_keep + n_group) * sizeof *p->keep);
    p->kept = p->thinned = p->lost = 0;
    p->n_groups = 0;
    hash_attributes(view, seed, attribute);
    hash_functions(view, seed, function);
    hash_locations(view, attribute, function, location);
    hash_stacks(view, location, ret->stack);
    hash_resources(view, seed, ret->resource);
    weigh(p, view);
    return 0;
}

int pick_by_share(struct pick *p, const struct profiles *v, double share, uint64_t seed)
{
    struct tables t;
    int r = hash_view(p, v, seed, 0, &t);
    if (r < 0)
        return r;
    uint32_t group = group_of(p, share, false);
    for (uint32_t i = 0; i < v->profile.n; i++) {
        uint64_t pair[2] = {0, t.resource[v->scope.resource[v->profile.scope[i]]]};
        struct pick_class *class = class_of(p, v, i);
        for (uint32_t k = v->profile.samples_at[i]; k < v->profile.samples_at[i + 1]; k++) {
            if (v->sample.stack[k] == PROFILES_REJECTED)
                continue;
            pair[0] = t.stack[v->sample.stack[k]];
            double with = chance(class, weight_of(v, k), share);
            if (hits(hash_bytes(bytes_of(pair, sizeof pair), seed), with)) {
                p->value[k] = worth(v, k, class, with);
                set(p, k, group);
            } else {
                p->thinned++;
            }
        }
    }
    return 0;
}

/* ---- by rules ------------------------------------------------------------------------------ */

/* Seeds of their own, so that the three decisions are independent of each other. */
enum { BASIS_PROFILES = 1, BASIS_SAMPLES = 2 };

struct ruling {
    struct pick *p;
    const struct profiles *v;
    const struct pick_rules *rules;
    struct tables t;
    struct keep_said *said; /* of the samples of the profile */
    uint32_t profile;
    struct pick_class *class;
    uint64_t resource, of_profile_hash; /* of the profile */
    uint32_t of_profile;                /* the largest share that a sample of it asks for */
};

static bool kept_by_rate(const struct ruling *r, const struct keep_said *said)
{
    const struct keep_decider *d = r->rules->decider;
    for (uint32_t i = 0; i < said->n_rates; i++) {
        struct keep_rate rate;
        d->rate(d->context, said->rates + i, &rate);
        if (forward_rates_take(r->rules->rates, &rate, r->rules->now_ns))
            return true;
    }
    return false;
}

static void rule_on(struct ruling *r, uint32_t sample, const struct keep_said *said)
{
    const uint64_t seed = r->rules->seed;
    bool taken = said->of_stacks | said->of_profiles | said->of_samples | said->n_rates;
    double a = taken ? (double)said->of_stacks / KEEP_ONE : r->rules->share;
    double b = (double)r->of_profile / KEEP_ONE, c = (double)said->of_samples / KEEP_ONE;
    double weight = weight_of(r->v, sample), with_a = chance(r->class, weight, a),
           with_c = chance(r->class, weight, c);
    uint64_t words[3] = {r->t.stack[r->v->sample.stack[sample]], r->resource,
                         r->v->profile.time_unix_nano[r->profile]};
    bool keep =
        !said->dropped &&
        (hits(hash_bytes(bytes_of(words, 2 * sizeof *words), seed), with_a) || hits(r->of_profile_hash, b) ||
         hits(hash_bytes(bytes_of(words, sizeof words), hash_mix(seed, BASIS_SAMPLES)), with_c));
    bool by_rate = !keep && !said->dropped && kept_by_rate(r, said);
    if (!keep && !by_rate) {
        r->p->thinned++;
        return;
    }
    uint32_t group = group_of(r->p, by_rate ? 1 : either(either(a, b), c), by_rate);
    if (group == PICK_GROUPS) {
        r->p->lost++;
        return;
    }
    if (!by_rate)
        r->p->value[sample] = worth(r->v, sample, r->class, either(either(with_a, b), with_c));
    set(r->p, sample, group);
}

/* What decides for a profile as a whole: its id, which its siblings share; without one, when and where it was
 * taken. */
static uint64_t hash_profile(const struct ruling *r)
{
    const struct profiles *v = r->v;
    uint64_t seed = hash_mix(r->rules->seed, BASIS_PROFILES);
    uint64_t place[3] = {r->resource, v->profile.time_unix_nano[r->profile],
                         v->profile.duration_nano[r->profile]};
    struct bytes id = v->profile.sibling_id[r->profile];
    return hash_bytes(id.n > 0 ? id : bytes_of(place, sizeof place), seed);
}

static int rule_on_profile(struct ruling *r)
{
    const struct profiles *v = r->v;
    const struct keep_decider *d = r->rules->decider;
    uint32_t from = v->profile.samples_at[r->profile], to = v->profile.samples_at[r->profile + 1];
    r->resource = r->t.resource[v->scope.resource[v->profile.scope[r->profile]]];
    r->class = class_of(r->p, v, r->profile);
    r->of_profile_hash = hash_profile(r);
    r->of_profile = 0;
    for (uint32_t k = from; k < to; k++) {
        struct keep_said *said = &r->said[k - from];
        *said = (struct keep_said){0};
        if (v->sample.stack[k] == PROFILES_REJECTED)
            continue;
        int error = d->sample(d->context, r->profile, k, said);
        if (error < 0)
            return error;
        if (!said->dropped && said->of_profiles > r->of_profile)
            r->of_profile = said->of_profiles;
    }
    for (uint32_t k = from; k < to; k++)
        if (v->sample.stack[k] != PROFILES_REJECTED)
            rule_on(r, k, &r->said[k - from]);
    return 0;
}

int pick_by_rules(struct pick *p, const struct profiles *view, const struct pick_rules *rules)
{
    struct ruling r = {.p = p, .v = view, .rules = rules};
    uint32_t longest = 0;
    for (uint32_t i = 0; i < view->profile.n; i++) {
        uint32_t n = view->profile.samples_at[i + 1] - view->profile.samples_at[i];
        longest = n > longest ? n : longest;
    }
    _Static_assert(sizeof(struct keep_said) % sizeof(uint64_t) == 0, "in words");
    int error = hash_view(p, view, rules->seed, longest * (sizeof *r.said / sizeof(uint64_t)), &r.t);
    if (error < 0)
        return error;
    r.said = (struct keep_said *)p->more;
    error = rules->decider->begin(rules->decider->context, view);
    for (r.profile = 0; error == 0 && r.profile < view->profile.n; r.profile++)
        error = rule_on_profile(&r);
    rules->decider->end(rules->decider->context);
    return error;
}

const uint64_t *pick_group(struct pick *p, const struct profiles *view, uint32_t group)
{
    memset(p->keep, 0, SUBSET_WORDS(view->sample.n) * sizeof *p->keep);
    for (uint32_t i = 0; i < view->sample.n; i++)
        p->keep[i / 64] |= (uint64_t)(p->group[i] == group + 1) << i % 64;
    return p->keep;
}
