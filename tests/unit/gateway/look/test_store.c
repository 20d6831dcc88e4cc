/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view rules/match */
/* What the store keeps of real requests: all of their CPU time, under their stacks, within its memory. */
#include "gateway/look/store.h"

#include <math.h>
#include <stdlib.h>

#include "gateway/look/tap.h"
#include "proto/base/clock.h"
#include "tests/lib/unit.h"

#define NOW (1795338000ull * NSEC_PER_SEC)

static const char *const captures[] = {
    "connector/ebpf-go-0003.pb",     "connector/ebpf-java-0003.pb",   "connector/ebpf-mixed-0003.pb",
    "connector/ebpf-python-0003.pb", "connector/ebpf-c_nofp-0002.pb", "connector/rand-01.pb",
};

struct fixture {
    struct look_store *store;
    struct look_tap *tap;
    struct profiles view;
    unsigned char *body;
    uint64_t now;
};

static struct fixture begin(size_t memory, uint32_t per_second)
{
    const struct look_store_options options = {memory, 3600ull * NSEC_PER_SEC, per_second};
    struct fixture f = {.now = NOW};
    f.store = unit_made(look_store_new(&options, NULL));
    f.tap = unit_made(look_tap_new(&f.store->rates, &f.store->budget, memory / 8));
    ck_assert_int_eq(profiles_init(&f.view, NULL), 0);
    return f;
}

/* The i-th; where memory is out there may be none. */
static struct look_epoch *epoch(const struct fixture *f, uint32_t i)
{
    return unit_made(i < f->store->n_epochs ? f->store->epochs[i] : NULL);
}

static void end(struct fixture *f)
{
    look_tap_free(f->tap);
    profiles_release(&f->view);
    free(f->body);
    look_store_free(f->store);
}

/* Reads a request; all of it is of now. */
static void take(struct fixture *f, const char *name)
{
    struct error e = {""};
    size_t n;
    free(f->body);
    f->body = unit_data(name, &n);
    ck_assert_int_eq(profiles_decode(&f->view, bytes_of(f->body, n), &profiles_limits_default, &e), 0);
    for (uint32_t i = 0; i < f->view.profile.n; i++)
        f->view.profile.time_unix_nano[i] = f->now;
}

static void push(struct fixture *f)
{
    look_tap_push(f->tap, &f->view, f->now);
    look_store_add(f->store, look_tap_take(f->tap), f->now);
}

/* CPU time in a view, counted in a way of the test's own: of profilers by eBPF a sample is worth its period.
 */
static uint64_t cpu_of(const struct profiles *v, uint64_t *ret_samples)
{
    uint64_t sum = 0;
    *ret_samples = 0;
    for (uint32_t i = 0; i < v->profile.n; i++) {
        if (!bytes_is(profiles_string(v, v->profile.type[i]), "samples") || v->profile.period[i] <= 0)
            continue;
        for (uint32_t k = v->profile.samples_at[i]; k < v->profile.samples_at[i + 1]; k++) {
            if (v->sample.stack[k] == PROFILES_REJECTED || profiles_sample_value(v, k) <= 0)
                continue;
            sum += (uint64_t)profiles_sample_value(v, k) * (uint64_t)v->profile.period[i];
            *ret_samples += (uint64_t)profiles_sample_value(v, k);
        }
    }
    return sum;
}

struct told {
    const struct look_epoch *epoch;
    uint64_t total, kept, seen, not_kept;
    double squares;
};

static int add_slice(void *context, const struct look_slice *slice)
{
    struct told *t = context;
    struct look_sections sections;
    struct look_section section;
    ck_assert_int_eq(look_sections_begin(slice->data, &sections), 0);
    while (look_sections_next(&sections, &section) == 0) {
        const struct look_series *s = &t->epoch->series.p[section.series];
        if (!bytes_is(intern_get(&t->epoch->dict.strings, s->type), LOOK_CPU_TYPE))
            continue;
        t->total += section.total;
        t->kept += section.kept;
        t->seen += section.seen;
        uint32_t node = 0;
        uint64_t value, sum = 0;
        while (look_pairs_next(&section, &node, &value) == 0) {
            ck_assert_uint_lt(node, t->epoch->dict.nodes.n);
            sum += value;
            t->not_kept += node == LOOK_NODE_NOT_KEPT ? value : 0;
        }
        ck_assert_uint_eq(sum, section.total);
    }
    return 0;
}

static struct told tell(const struct fixture *f, enum look_level level)
{
    struct told t = {0};
    for (uint32_t i = 0; i < f->store->n_epochs; i++) {
        t.epoch = f->store->epochs[i];
        ck_assert_int_eq(look_epoch_each(f->store->epochs[i], level, 0, UINT32_MAX, add_slice, &t), 0);
    }
    return t;
}

UNIT(all_cpu_time_is_there)
{
    struct fixture f = begin(64u << 20, 100000);
    uint64_t cpu = 0, samples = 0, more;
    for (size_t i = 0; i < ARRAY_LEN(captures); i++) {
        take(&f, captures[i]);
        cpu += cpu_of(&f.view, &more);
        samples += more;
        push(&f);
        f.now += LOOK_SLICE_NS;
        look_store_tick(f.store, f.now, f.now);
        ck_assert_uint_eq(tell(&f, LOOK_FINE).total, cpu);
        ck_assert_uint_eq(tell(&f, LOOK_COARSE).total, cpu);
    }
    const struct told t = tell(&f, LOOK_FINE);
    ck_assert_uint_gt(cpu, 0);
    ck_assert_uint_eq(t.kept, samples);
    ck_assert_uint_eq(t.seen, samples * LOOK_SEEN_ONE);
    ck_assert_uint_eq(t.not_kept, 0);
    f.now += 2000ull * NSEC_PER_SEC; /* all is sealed */
    look_store_tick(f.store, f.now, f.now);
    ck_assert_uint_eq(epoch(&f, 0)->open.n, 0);
    ck_assert_uint_eq(tell(&f, LOOK_FINE).total, cpu);
    ck_assert_uint_eq(tell(&f, LOOK_COARSE).total, cpu);
    end(&f);
}

UNIT(names_are_told_once)
{
    struct fixture f = begin(64u << 20, 100000);
    take(&f, captures[0]);
    push(&f);
    const uint32_t nodes = epoch(&f, 0)->dict.nodes.n;
    const uint64_t total = tell(&f, LOOK_FINE).total;
    ck_assert_uint_gt(nodes, 100);
    push(&f); /* that an epoch had begun was news */
    look_tap_push(f.tap, &f.view, f.now);
    struct look_batch *b = unit_made(look_tap_take(f.tap));
    ck_assert_uint_lt(b->frames.n, nodes / 4); /* of two stacks in one place the older is told again */
    ck_assert_uint_gt(b->events.n, 0);
    look_store_add(f.store, b, f.now);
    ck_assert_uint_eq(epoch(&f, 0)->dict.nodes.n, nodes);
    ck_assert_uint_eq(tell(&f, LOOK_FINE).total, 3 * total);
    end(&f);
}

/* How many stacks of a batch come with their frames; of `ret_all`. */
static uint32_t told_in(const struct look_batch *b, uint32_t *ret_all)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < b->stacks.n; i++)
        n += b->stacks.p[i].n_frames > 0;
    *ret_all += b->stacks.n;
    return n;
}

UNIT(thousands_of_stacks_are_told_once)
{
    struct fixture f = begin(256u << 20, 1000000);
    uint32_t again = 0, all = 0;
    for (uint32_t round = 0; round < 3; round++)
        for (size_t i = 0; i < ARRAY_LEN(captures); i++) {
            take(&f, captures[i]);
            look_tap_push(f.tap, &f.view, f.now);
            struct look_batch *b = unit_made(look_tap_take(f.tap));
            again += round == 2 ? told_in(b, &all) : 0; /* that an epoch had begun was news */
            look_store_add(f.store, b, f.now);
        }
    ck_assert_uint_gt(all, 3000);
    /* Some of five by chance in one place: far fewer than there are pairs. */
    ck_assert_msg(again < all / 50, "%u of %u", again, all);
    end(&f);
}

/* One leaf of a capture, with its callers. */
static bool has_path(const struct look_dict *d, uint32_t node, const char *const *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++, node = d->nodes.p[node].parent)
        if (node == LOOK_ROOT ||
            !bytes_is(intern_get(&d->strings, d->frames.p[d->nodes.p[node].frame].name), names[i]))
            return false;
    return true;
}

UNIT(a_stack_is_there_with_its_callers)
{
    static const char *const names[] = {"runtime.futex", "runtime.futexsleep"};
    struct fixture f = begin(64u << 20, 100000);
    take(&f, captures[0]);
    push(&f);
    const struct look_dict *d = &epoch(&f, 0)->dict;
    bool found = false;
    for (uint32_t i = 0; i < d->nodes.n; i++) {
        ck_assert(i == LOOK_ROOT || d->nodes.p[i].parent < i);
        found |= has_path(d, i, names, 2);
    }
    ck_assert(found);
    end(&f);
}

/* The estimate of a thinned stream is right within what chance allows: 5 standard deviations. */
UNIT(what_is_thinned_is_worth_what_it_stands_for)
{
    struct fixture f = begin(64u << 20, 200);
    uint64_t samples;
    take(&f, captures[2]);
    const double cpu = (double)cpu_of(&f.view, &samples), rounds = 400;
    double squares = 0;
    for (uint32_t k = 0; k < f.view.sample.n; k++)
        squares += pow(cpu / (double)samples * (double)profiles_sample_value(&f.view, k), 2);
    double variance = 0;
    uint64_t monotonic = NSEC_PER_SEC;
    for (uint32_t i = 0; i < (uint32_t)rounds; i++) {
        push(&f);
        /* the chance is at least what the rate leaves of it: N over all that comes, or all of it */
        const double p = fmin(1, 200.0 / f.view.sample.n);
        variance += squares * (1 - p) / p;
        look_store_tick(f.store, f.now, monotonic += NSEC_PER_SEC);
    }
    const struct told t = tell(&f, LOOK_FINE);
    ck_assert_uint_lt(t.kept, (uint64_t)rounds * samples / 2);
    ck_assert_double_eq_tol((double)t.total, cpu * rounds, 5 * sqrt(variance) + 1);
    ck_assert_double_eq_tol((double)t.seen / LOOK_SEEN_ONE, (double)samples * rounds,
                            5 * sqrt(variance) / cpu * (double)samples + rounds);
    end(&f);
}

/* All is old then; but a clock that is put right after a while has cost nothing. */
UNIT(a_clock_that_leaps_ahead_is_not_believed_at_once)
{
    struct fixture f = begin(64u << 20, 100000);
    const uint64_t year = 365 * 86400 * (uint64_t)NSEC_PER_SEC, second = NSEC_PER_SEC;
    take(&f, captures[0]);
    push(&f);
    look_store_tick(f.store, f.now, second);
    const uint64_t total = tell(&f, LOOK_FINE).total;
    ck_assert_uint_gt(total, 0);
    look_store_tick(f.store, f.now + year, 2 * second);
    look_store_tick(f.store, f.now + year + 500 * second, 502 * second);
    ck_assert_uint_eq(tell(&f, LOOK_FINE).total, total);
    look_store_tick(f.store, f.now + 502 * second, 503 * second); /* right again */
    look_store_tick(f.store, f.now + year, 504 * second);
    look_store_tick(f.store, f.now + year + 599 * second, 1103 * second);
    ck_assert_uint_eq(tell(&f, LOOK_FINE).total, total);
    look_store_tick(f.store, f.now + year + 600 * second, 1104 * second);
    ck_assert_uint_eq(tell(&f, LOOK_FINE).total, 0);
    end(&f);
}

/* Beyond the memory the oldest goes, totals of what came last are whole, and everything is accounted for. */
UNIT(memory_is_bounded_and_nothing_is_lost_unsaid)
{
    for (size_t memory = 128u << 10; memory <= 4u << 20; memory *= 2) {
        struct fixture f = begin(memory, 100000);
        uint64_t samples = 0, more;
        for (uint32_t i = 0; i < 60; i++) {
            take(&f, captures[i % ARRAY_LEN(captures)]);
            cpu_of(&f.view, &more);
            samples += i % ARRAY_LEN(captures) < 5 ? more : 0; /* of rand-01 other types count, too */
            if (i % ARRAY_LEN(captures) == 5)
                continue;
            push(&f);
            ck_assert_uint_le(f.store->budget.used, memory);
            f.now += LOOK_SLICE_NS;
            look_store_tick(f.store, f.now, f.now);
            ck_assert_uint_le(f.store->budget.used, memory);
        }
        const struct look_counts *c = &f.store->counts;
        ck_assert_uint_le(c->kept + c->not_kept, c->seen);
        if (memory >= 4u << 20)
            ck_assert_uint_eq(c->seen, samples);
        ck_assert_uint_le(f.store->n_epochs, LOOK_EPOCHS_MAX);
        end(&f);
    }
}

/* A stack told to the epoch before is found there by those who have not heard of the new one. */
UNIT(an_epoch_begins_and_nothing_is_missed)
{
    struct fixture f = begin(64u << 20, 100000);
    uint64_t samples;
    take(&f, captures[0]);
    const uint64_t cpu = cpu_of(&f.view, &samples);
    push(&f);
    look_tap_push(f.tap, &f.view, f.now); /* in hand when the epoch ends */
    struct look_batch *late = unit_made(look_tap_take(f.tap));
    epoch(&f, 0)->began_ns -= 2 * 3600ull * NSEC_PER_SEC;
    look_store_add(f.store, late, f.now);
    ck_assert_uint_eq(f.store->n_epochs, 2);
    push(&f);
    const struct told t = tell(&f, LOOK_FINE);
    ck_assert_uint_eq(t.total, 3 * cpu);
    ck_assert_uint_eq(t.not_kept, 0);
    ck_assert_uint_eq(epoch(&f, 0)->dict.nodes.n, epoch(&f, 1)->dict.nodes.n);
    end(&f);
}

UNIT(what_is_old_goes)
{
    struct fixture f = begin(64u << 20, 100000);
    take(&f, captures[0]);
    push(&f);
    f.now += 3700ull * NSEC_PER_SEC;
    look_store_tick(f.store, f.now, f.now);
    ck_assert_uint_eq(f.store->n_epochs, 0);
    end(&f);
}

/* A time that is far from ours is a clock's fault. */
UNIT(what_is_of_another_time_is_put_where_it_came)
{
    struct fixture f = begin(64u << 20, 100000);
    take(&f, captures[0]);
    for (uint32_t i = 0; i < f.view.profile.n; i++)
        f.view.profile.time_unix_nano[i] = 17;
    push(&f);
    ck_assert_uint_eq(f.store->counts.late, f.view.sample.n);
    ck_assert_uint_eq(epoch(&f, 0)->oldest, NOW / LOOK_SLICE_NS);
    end(&f);
}

UNIT(there_is_no_room_at_all)
{
    struct fixture f = begin(600u << 10, 100000);
    f.store->budget.limit = f.store->budget.used + 1000;
    take(&f, captures[0]);
    push(&f);
    f.store->budget.limit = 4u << 20;
    push(&f);
    ck_assert_uint_ge(f.store->counts.lost, f.view.sample.n / 2);
    ck_assert_uint_gt(f.store->counts.seen, 0);
    end(&f);
}

UNIT(what_there_was_no_room_for_is_told_again_when_there_is)
{
    struct fixture f = begin(64u << 20, 100000);
    uint64_t monotonic = NSEC_PER_SEC;
    take(&f, captures[1]);
    push(&f);
    look_store_tick(f.store, f.now, monotonic);
    take(&f, captures[0]);
    look_tap_push(f.tap, &f.view, f.now);
    look_tap_push(f.tap, &f.view, f.now); /* by hash alone */
    struct look_batch *b = unit_made(look_tap_take(f.tap));
    const size_t all = f.store->options.memory - f.store->budget.used;
    ck_assert(budget_charge(&f.store->budget, all));
    look_store_add(f.store, b, f.now);
    const uint64_t missed = f.store->counts.not_kept + f.store->counts.lost;
    ck_assert_uint_gt(missed, 10);
    budget_refund(&f.store->budget, all);
    for (uint32_t i = 0; i < 3; i++) {
        monotonic += 11ull * NSEC_PER_SEC;
        look_store_tick(f.store, f.now, monotonic);
        f.store->counts = (struct look_counts){0};
        push(&f);
    }
    ck_assert_uint_eq(f.store->counts.not_kept + f.store->counts.lost, 0);
    ck_assert_uint_gt(f.store->counts.kept, 10);
    end(&f);
}
