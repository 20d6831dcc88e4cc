/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids and places in a dump say nothing about the one before, so a stack is known by the hash of what is in
 * it: addresses, names and lines of its frames, and its labels (Go's heap has the size of the allocations
 * there). Go never forgets a stack that it counted at; so one that had something and is gone, or a total that
 * fell, says that the process is another one. Single values may fall by a rounding (mutex and block profiles
 * count ticks, and how long one is becomes known better): they are 0 then.
 */
#include "gateway/scrape/delta.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/idmap.h"
#include "proto/base/room.h"
#include "proto/pprof/fields.h"
#include "proto/wire/writer.h"

/* A dump's values: of entry i those at i × types. */
struct dump {
    struct idmap entries; /* hash of a stack → its number */
    VEC(int64_t) values;
    uint32_t n_types;
    uint64_t types; /* hash of the types' names: a profile of others is no next one */
    bool is_there;
};

struct delta {
    struct budget *budget;
    struct pprof pprof;
    struct dump before, now;
    VEC(uint64_t) locations; /* [location]: hash */
    VEC(uint32_t) entry_of;  /* [sample]: entry */
    bool cumulative[PPROF_TYPES_MAX];
};

static void dump_init(struct dump *m, struct budget *budget)
{
    *m = (struct dump){.entries = IDMAP_INIT(budget)};
    m->values.budget = budget;
}

static void dump_release(struct dump *m)
{
    idmap_release(&m->entries);
    vec_release(&m->values);
}

struct delta *delta_new(struct budget *budget)
{
    struct delta *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    d->budget = budget;
    d->locations.budget = d->entry_of.budget = budget;
    pprof_init(&d->pprof, budget);
    dump_init(&d->before, budget);
    dump_init(&d->now, budget);
    return d;
}

struct delta *delta_free(struct delta *d)
{
    if (!d)
        return NULL;
    pprof_release(&d->pprof);
    dump_release(&d->before);
    dump_release(&d->now);
    vec_release(&d->locations);
    vec_release(&d->entry_of);
    free(d);
    return NULL;
}

/* ---- reading ---- */

/* Of runtime/pprof: heap and allocs, mutex and block. */
static bool counts_since_start(struct bytes type)
{
    return bytes_is(type, "alloc_objects") || bytes_is(type, "alloc_space") ||
           bytes_is(type, "contentions") || bytes_is(type, "delay");
}

static uint64_t hash_text(const struct pprof *p, uint32_t string, uint64_t seed)
{
    return hash_bytes(p->strings.p[string], seed);
}

static int hash_locations(struct delta *d)
{
    const struct pprof *p = &d->pprof;
    vec_clear(&d->locations);
    for (uint32_t i = 0; i < p->locations.n; i++) {
        const struct pprof_location *l = &p->locations.p[i];
        uint64_t h = hash_mix(hash_seed(), l->address);
        for (uint32_t k = l->line; k < l->line + l->n_lines; k++) {
            const struct pprof_line *line = &p->lines.p[k];
            h = hash_mix(h, hash_text(p, p->functions.p[line->function - 1].name, (uint64_t)line->line));
        }
        int r = vec_append(&d->locations, h);
        if (r < 0)
            return r;
    }
    return 0;
}

static uint64_t hash_sample(const struct delta *d, const struct pprof_sample *s)
{
    uint64_t h = hash_mix(hash_seed(), s->n_locations);
    for (uint32_t i = 0; i < s->n_locations; i++)
        h = hash_mix(h, d->locations.p[s->locations[i] - 1]);
    for (uint32_t i = 0; i < s->n_labels; i++) {
        const struct pprof_label *l = &s->labels[i];
        h = hash_mix(h, hash_text(&d->pprof, l->key, (uint64_t)l->number));
        h = hash_mix(h, hash_text(&d->pprof, l->text, 0));
    }
    return h == IDMAP_FREE ? 0 : h;
}

static int add_sample(struct delta *d, const struct pprof_sample *s)
{
    struct dump *m = &d->now;
    uint32_t fresh = m->entries.n, *entry = idmap_place(&m->entries, hash_sample(d, s), fresh);
    if (!entry)
        return -ENOMEM;
    uint32_t at = *entry;
    int r = at == fresh ? vec_append_all(&m->values, s->values, m->n_types) : 0;
    for (uint32_t i = 0; at != fresh && i < m->n_types; i++) {
        int64_t *sum = &m->values.p[(size_t)at * m->n_types + i];
        if (__builtin_add_overflow(*sum, s->values[i], sum))
            *sum = s->values[i] < 0 ? INT64_MIN : INT64_MAX;
    }
    return r < 0 ? r : vec_append(&d->entry_of, at);
}

static int read_dump(struct delta *d, struct bytes pprof, struct delta_said *ret, struct error *e)
{
    struct pprof_sample sample;
    int r = pprof_read(&d->pprof, pprof, e);
    if (r != 0)
        return r;
    idmap_clear(&d->now.entries);
    vec_clear(&d->now.values);
    vec_clear(&d->entry_of);
    d->now.n_types = d->pprof.types.n;
    d->now.types = 0;
    for (uint32_t i = 0; i < d->now.n_types; i++) {
        const uint32_t name = d->pprof.types.p[i].type;
        d->now.types = hash_text(&d->pprof, name, d->now.types);
        d->cumulative[i] = counts_since_start(d->pprof.strings.p[name]);
        ret->is_cumulative |= d->cumulative[i];
    }
    r = hash_locations(d);
    struct pprof_samples at = pprof_samples(&d->pprof);
    while (r == 0 && (r = pprof_next(&d->pprof, &at, &sample, e)) == 0)
        r = add_sample(d, &sample);
    return r == PPROF_END ? 0 : r;
}

/* ---- comparing ---- */

static double total_of(const struct dump *m, uint32_t type)
{
    double total = 0;
    for (uint32_t i = 0; i < m->entries.n; i++)
        total += (double)m->values.p[(size_t)i * m->n_types + type];
    return total;
}

/* Whether something that was counted is not there any more. */
static bool has_lost_any(const struct delta *d)
{
    const struct dump *b = &d->before;
    for (uint32_t i = 0; i < b->entries.n_slots; i++) {
        const struct idmap_slot *slot = &b->entries.slots[i];
        if (slot->key == IDMAP_FREE || idmap_find(&d->now.entries, slot->key))
            continue;
        for (uint32_t k = 0; k < b->n_types; k++)
            if (d->cumulative[k] && b->values.p[(size_t)slot->value * b->n_types + k] > 0)
                return true;
    }
    return false;
}

/* By more than a rounding. */
static bool is_another_process(const struct delta *d)
{
    for (uint32_t i = 0; i < d->now.n_types; i++)
        if (d->cumulative[i] && total_of(&d->now, i) < 0.99 * total_of(&d->before, i))
            return true;
    return has_lost_any(d);
}

/* Puts what came since into the values of `now`'s copy. */
static int64_t came(const struct delta *d, const struct delta_said *said, uint64_t key, uint32_t type,
                    int64_t value)
{
    if (!d->cumulative[type] || said->restarted)
        return value;
    if (said->is_first)
        return 0;
    const uint32_t *entry = idmap_find(&d->before.entries, key);
    const int64_t was = entry ? d->before.values.p[(size_t)*entry * d->before.n_types + type] : 0;
    int64_t more;
    return __builtin_sub_overflow(value, was, &more) || more < 0 ? 0 : more;
}

/* ---- writing ---- */

/* The sample's fields but for its values. */
static void copy_sample(struct wire_writer *w, struct bytes sample)
{
    struct wire_reader r = wire_reader(sample);
    struct wire_field f;
    while (wire_next(&r, &f) == 0)
        if (f.number != SAMPLE_VALUE)
            wire_put_raw(w, bytes_of(f.from, (size_t)(r.p - f.from)));
}

static int write_dump(struct delta *d, struct bytes pprof, const int64_t *values, struct buffer *out)
{
    struct wire_writer w = wire_writer(out);
    struct wire_reader r = wire_reader(pprof);
    struct wire_field f;
    const uint32_t types = d->now.n_types;
    uint32_t sample = 0, next = 0; /* entries are numbered in the order of their first samples */
    while (wire_next(&r, &f) == 0) {
        if (f.number != PROFILE_SAMPLE) {
            wire_put_raw(&w, bytes_of(f.from, (size_t)(r.p - f.from)));
            continue;
        }
        const uint32_t entry = d->entry_of.p[sample++];
        bool any = false;
        for (uint32_t i = 0; entry == next && i < types; i++)
            any |= values[(size_t)entry * types + i] != 0;
        next += entry == next;
        if (!any)
            continue;
        const size_t mark = wire_begin(&w, PROFILE_SAMPLE);
        copy_sample(&w, f.bytes);
        wire_put_packed64(&w, SAMPLE_VALUE, values + (size_t)entry * types, types);
        wire_end(&w, mark);
    }
    return w.failed;
}

/* What came, for every entry; by key, since that is what the dump before knows. */
static void compare(const struct delta *d, const struct delta_said *said, int64_t *values)
{
    const uint32_t types = d->now.n_types;
    for (uint32_t i = 0; i < d->now.entries.n_slots; i++) {
        const struct idmap_slot *slot = &d->now.entries.slots[i];
        for (uint32_t k = 0; slot->key != IDMAP_FREE && k < types; k++) {
            int64_t *v = &values[(size_t)slot->value * types + k];
            *v = came(d, said, slot->key, k, *v);
        }
    }
}

/* Lengths and tags that a sample may get beside what it had. */
#define SAMPLE_MORE 32u

int delta_take(struct delta *d, struct bytes pprof, struct buffer *out, struct delta_said *ret,
               struct error *e)
{
    VEC(int64_t) values = {.budget = d->budget};
    *ret = (struct delta_said){0};
    int r = read_dump(d, pprof, ret, e);
    if (r != 0)
        return r;
    ret->is_first = !d->before.is_there || d->before.types != d->now.types;
    ret->restarted = ret->is_cumulative && !ret->is_first && is_another_process(d);
    const size_t bound = pprof.n + (size_t)d->entry_of.n * (SAMPLE_MORE + 10 * d->now.n_types) + SAMPLE_MORE;
    if (vec_append_all(&values, d->now.values.p, d->now.values.n) < 0 ||
        room_make(out, bound, d->budget) != 0)
        r = -ENOMEM;
    if (r == 0) {
        compare(d, ret, values.p);
        r = write_dump(d, pprof, values.p, out);
    }
    vec_release(&values);
    return r;
}

void delta_keep(struct delta *d)
{
    struct dump was = d->before;
    d->before = d->now;
    d->before.is_there = true;
    d->now = was;
}
