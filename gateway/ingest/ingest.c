/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reserve, decode, push: a request is taken by all consumers or by none (consumer.h).
 *
 * What could not be taken is told apart by whether it ever could be, since the producer acts on it: "too
 * large" must never come again, "busy" should. The decoder and the counting only know that memory ended;
 * whether the request or the others are to blame is read off the budget (is_too_large_by_itself,
 * is_too_much_to_count).
 */
#include "gateway/ingest/ingest.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/ingest/consumer.h"
#include "gateway/ingest/habit.h"
#include "gateway/stats/producers.h"
#include "gateway/stats/stats.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/meter.h"

/* Column memory kept between requests: enough for a 20 MB request of stacks (1.7 bytes of columns a byte of
 * body), or 2 MB of ten thousand resources (ten bytes a byte): giving pages back costs more than decoding. */
#define KEEP_BYTES ((size_t)32 << 20)
/* …and no more than this part of all memory: there is one for each thread. */
#define KEEP_SHARE 16u
/* And when none comes: a lane may have seen the one large request of the day. */
#define REST_BYTES ((size_t)1 << 20)

struct ingest {
    struct ingest_options options;
    struct view_consumer consumers[INGEST_CONSUMERS_MAX];
    uint32_t n_consumers;
    struct stats *stats;
    struct budget *budget;
    size_t keep;        /* of columns, between requests */
    size_t held_before; /* by us, when the request came */
    size_t remembered;  /* of that what its columns do not use again */
    size_t body;        /* of the request, where that is on another budget than ours */
    size_t others;      /* held when the request came */
    size_t kept;        /* of options.kept */
    struct profiles view;
    struct habits habits;
    uint64_t producer; /* of the request, where its layout was found out; else 0 */
    uint64_t client;   /* whose requests come (ingest_from) */
    bool was_busy;     /* since the last look */
};

struct ingest *ingest_new(const struct ingest_options *options, const struct view_consumer *consumers,
                          uint32_t n_consumers, struct stats *stats, struct budget *budget)
{
    assert(n_consumers > 0 && n_consumers <= INGEST_CONSUMERS_MAX);
    struct ingest *g = calloc(1, sizeof *g);
    if (!g)
        return NULL;
    g->options = *options;
    memcpy(g->consumers, consumers, n_consumers * sizeof *consumers);
    g->n_consumers = n_consumers;
    g->stats = stats;
    g->budget = budget;
    g->keep = KEEP_BYTES;
    for (const struct budget *b = budget; b; b = b->parent)
        g->keep = min_of(g->keep, b->limit / KEEP_SHARE);
    habits_init(&g->habits);
    if (profiles_init(&g->view, budget) < 0) {
        free(g);
        return NULL;
    }
    return g;
}

struct ingest *ingest_free(struct ingest *g)
{
    if (!g)
        return NULL;
    if (g->options.kept)
        atomic_fetch_sub_explicit(&g->options.kept->now, g->kept, memory_order_relaxed);
    profiles_release(&g->view);
    free(g);
    return NULL;
}

/* What this stage and its consumers hold, of the budget. */
static size_t held(const struct ingest *g)
{
    size_t n = profiles_memory_used(&g->view);
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].memory_used)
            n += g->consumers[i].memory_used(g->consumers[i].context);
    return n;
}

/* The same at its highest in this request. */
static size_t held_at_most(const struct ingest *g)
{
    size_t n = profiles_memory_used(&g->view);
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].memory_peak)
            n += g->consumers[i].memory_peak(g->consumers[i].context);
    return n;
}

/* The same of what can be forgotten. */
static size_t keeps(const struct ingest *g)
{
    size_t n = profiles_memory_used(&g->view);
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].forget)
            n += g->consumers[i].memory_used(g->consumers[i].context);
    return n;
}

/* Says what is kept now; all that all do. */
static size_t tell_kept(struct ingest *g)
{
    atomic_size_t *of_all = &g->options.kept->now;
    const size_t was = g->kept;
    g->kept = keeps(g);
    if (g->kept != was) /* a line that all threads write to */
        atomic_fetch_add_explicit(of_all, g->kept - was, memory_order_relaxed);
    return atomic_load_explicit(of_all, memory_order_relaxed);
}

/* What is only faster gives way before a request is refused. */
static void give_way(struct ingest *g)
{
    const struct ingest_kept *of_all = g->options.kept;
    if (!of_all || tell_kept(g) <= of_all->max || g->kept <= of_all->each)
        return;
    stats_add(g->stats, STATS_MEMO_FORGOTTEN, 1);
    profiles_trim(&g->view, 0);
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].forget)
            g->consumers[i].forget(g->consumers[i].context);
    tell_kept(g);
}

/* The budgets that limit what one request may take: a meter's own only follows what is used. */
static struct budget *limited(const struct ingest *g)
{
    return g->options.meter ? g->budget->parent : g->budget;
}

/* What all else than the request holds of a budget, with what we kept of others. */
static size_t held_by_others(const struct ingest *g, const struct budget *b)
{
    const struct meter *m = g->options.meter;
    const size_t all = m ? atomic_load_explicit(&m->budget.used, memory_order_relaxed) : held(g);
    const size_t ours = all - min_of(all, g->remembered) + g->body;
    const size_t used = b ? atomic_load_explicit(&b->used, memory_order_relaxed) : 0;
    return used - min_of(used, ours);
}

/*
 * The decoder cannot tell a request that is too large by itself from one that came at a bad time: both pass a
 * limit. It matters to the producer: the first must never come again, the second should. If the columns' own
 * limit would have fit, or most of the whole budget is free, then the request is the reason; else what else
 * we hold is, or held when it came: it may have gone since. Where a client has a share, only a part of the
 * budget is its first request's.
 */
static bool is_too_large_by_itself(const struct ingest *g)
{
    const struct meter *m = g->options.meter;
    const size_t wanted = g->options.limits.column_bytes;
    for (struct budget *b = limited(g); b; b = b->parent) {
        const bool is_first = b == limited(g);
        const size_t others = max_of(held_by_others(g, b), is_first ? g->others : 0);
        const size_t most = m && is_first ? meter_most(m) : b->limit;
        if (most - min_of(most, others) < min_of(wanted, b->limit / 2))
            return false;
    }
    return true;
}

/* The same of what counting takes, names that are new in the aggregate included. */
static bool is_too_much_to_count(const struct ingest *g)
{
    const size_t peak = held_at_most(g), now = held(g), before = g->held_before;
    return budget_is_too_small(limited(g), peak - min_of(peak, before), now - min_of(now, before));
}

/* The verdict where memory ended in decoding or behind it. */
static enum ingest_verdict out_of_memory(const struct ingest *g, struct error *message)
{
    if (is_too_much_to_count(g)) {
        error_set(message, 0, "counting the request would take more memory than there is");
        return INGEST_TOO_LARGE;
    }
    error_set(message, 0, "out of memory just now; try again");
    return INGEST_BUSY;
}

/* Whether memory ended because the client has more under way than this request. */
static bool is_over_share(const struct ingest *g, struct error *message)
{
    if (!g->options.meter || !g->options.meter->is_spent)
        return false;
    stats_add(g->stats, STATS_LIMIT_CLIENT_MEMORY, 1);
    error_set(message, 0, INGEST_OVER_SHARE);
    return true;
}

/* The verdict of a request that the decoder did not take: r is one of its conditions, or negative. */
static enum ingest_verdict not_decoded(const struct ingest *g, int r, struct error *message)
{
    if ((r < 0 || r == PROFILES_OVER_BUDGET) && is_over_share(g, message))
        return INGEST_BUSY;
    switch (r) {
    case PROFILES_TOO_LARGE: return INGEST_TOO_LARGE;
    case PROFILES_MALFORMED: return INGEST_MALFORMED;
    case PROFILES_UNSUPPORTED: return INGEST_UNSUPPORTED;
    case PROFILES_OVER_BUDGET:
        if (is_too_large_by_itself(g))
            return INGEST_TOO_LARGE;
        error_set(message, 0, "out of memory for requests just now; try again");
        return INGEST_BUSY;
    default: return out_of_memory(g, message);
    }
}

/* The same of one that a consumer did not take. */
static enum ingest_verdict not_taken(const struct ingest *g, int r, struct error *message)
{
    if (r != VIEW_TOO_MUCH_WORK)
        return is_over_share(g, message) ? INGEST_BUSY : out_of_memory(g, message);
    error_set(message, 0, "its samples ask for its stacks more often than a request of its size may");
    return INGEST_TOO_LARGE;
}

/* Gives back the reservations of the consumers [from, to). */
static void cancel(const struct ingest *g, uint32_t from, uint32_t to, size_t n)
{
    for (uint32_t i = from; i < to; i++)
        if (g->consumers[i].cancel)
            g->consumers[i].cancel(g->consumers[i].context, n);
}

/* Of all, or of none: then what the producer is told. */
static const char *reserve(const struct ingest *g, size_t n, enum ingest_verdict *ret)
{
    for (uint32_t i = 0; i < g->n_consumers; i++) {
        const struct view_consumer *c = &g->consumers[i];
        if (!c->reserve || c->reserve(c->context, n))
            continue;
        cancel(g, 0, i, n);
        const bool never = c->never_fits && c->never_fits(c->context, n);
        *ret = never ? INGEST_TOO_LARGE : INGEST_BUSY;
        return never ? c->too_large : c->full;
    }
    return NULL;
}

/* Every consumer's reservation is settled. */
static enum ingest_verdict push_view(struct ingest *g, const struct received *received, size_t n,
                                     struct error *message)
{
    for (uint32_t i = 0; i < g->n_consumers; i++) {
        const struct view_consumer *c = &g->consumers[i];
        int r = c->push ? c->push(c->context, &g->view, received, n) : 0;
        if (r == 0)
            continue;
        assert(i == 0);
        cancel(g, 0, g->n_consumers, n);
        return not_taken(g, r, message);
    }
    return INGEST_ACCEPTED;
}

/* The view of a request whose layout is told, or found out by what it says and what its producer's others
 * had. */
static int decode(struct ingest *g, struct bytes body, enum profiles_layout layout, struct error *message)
{
    const struct profiles_limits *limits = &g->options.limits;
    g->producer = layout == PROFILES_LAYOUT_UNKNOWN ? habits_producer(&g->habits, g->client, body) : 0;
    if (layout != PROFILES_LAYOUT_UNKNOWN)
        return profiles_decode_as(&g->view, body, layout, limits, message);
    const struct profiles_producer known = habits_of(&g->habits, g->producer);
    return profiles_decode_of(&g->view, body, &known, limits, message);
}

/* Decodes and hands on, under reservations that are settled either way. */
static enum ingest_verdict take(struct ingest *g, struct bytes body, enum profiles_layout layout,
                                const struct received *received, struct error *message)
{
    int r = decode(g, body, layout, message);
    /* Without a sample there is nothing to count and nothing to forward, as in the Collector. */
    if (r == 0 && g->view.sample.n > 0)
        return push_view(g, received, body.n, message);
    cancel(g, 0, g->n_consumers, body.n);
    return r == 0 ? INGEST_ACCEPTED : not_decoded(g, r, message);
}

_Static_assert(STATS_LAYOUT_1_10 - STATS_LAYOUT_1_5 == PROFILES_LAYOUT_1_10 - PROFILES_LAYOUT_1_5,
               "the rows are in the order of the layouts");

static void count_layout(const struct ingest *g)
{
    if (g->view.layout == PROFILES_LAYOUT_UNKNOWN)
        return;
    const enum stats_id row = STATS_LAYOUT_1_5 + (g->view.layout - PROFILES_LAYOUT_1_5);
    stats_add(g->stats, row, 1);
    if (g->view.profile.n > 0)
        producers_add(g->stats, row, producers_of(&g->view));
}

/* Learns the layout; one that contradicts its producer's others is counted, and said once for a producer. */
static void learn_layout(struct ingest *g)
{
    const struct profiles *view = &g->view;
    const struct profiles_producer known = habits_of(&g->habits, g->producer);
    const bool first = habits_learn(&g->habits, g->producer, view);
    stats_add(g->stats, STATS_LAYOUT_CONTRADICTIONS, view->contradicts);
    if (first && view->profile.n > 0)
        log_limited(
            LOG_LEVEL_WARN,
            "a request contradicts the wire layout of its producer's others producer=\"%.*s\" others=%s "
            "read_as=%s",
            BYTES_FMT(producers_of(view)), profiles_layout_name(known.layout),
            profiles_layout_name(view->layout));
}

/* Partial success names the first bad place (G5: "SHOULD set error_message"). */
static void accept_view(struct ingest *g, struct ingest_answer *ret)
{
    const struct profiles *view = &g->view;
    ret->rejected_profiles = view->rejected.profiles;
    if (view->rejected.profiles > 0 || view->rejected.samples > 0)
        error_set(&ret->message, 0, "%u of %u samples rejected in %u profiles; the first: %s",
                  view->rejected.samples, view->sample.n, view->rejected.profiles, view->rejected.first.text);
    count_layout(g);
    learn_layout(g);
    stats_add(g->stats, STATS_PROFILES, view->profile.n);
    stats_add(g->stats, STATS_SAMPLES, view->sample.n - min_of(view->rejected.samples, view->sample.n));
    stats_add(g->stats, STATS_SAMPLES_REJECTED, view->rejected.samples);
    stats_add(g->stats, STATS_UNKNOWN_FIELDS, view->unknown_fields);
    stats_add(g->stats, STATS_ENTRY_0, view->profile.n > 0 && profiles_has_entry_0(view));
}

static enum stats_id counter_of(const struct ingest_answer *answer)
{
    switch (answer->verdict) {
    case INGEST_ACCEPTED: return answer->rejected_profiles > 0 ? STATS_REQUESTS_PARTIAL : STATS_REQUESTS_OK;
    case INGEST_MALFORMED: return STATS_REQUESTS_MALFORMED;
    case INGEST_UNSUPPORTED: return STATS_REQUESTS_UNSUPPORTED;
    case INGEST_TOO_LARGE: return STATS_REQUESTS_TOO_LARGE;
    default: return STATS_REQUESTS_BUSY;
    }
}

/* For who looks for what one producer sends; began_ns: when decoding did. */
static void log_request(const struct ingest *g, size_t n, uint64_t began_ns,
                        const struct ingest_answer *answer)
{
    static const char *const verdicts[] = {[INGEST_ACCEPTED] = "accepted",
                                           [INGEST_MALFORMED] = "malformed",
                                           [INGEST_UNSUPPORTED] = "unsupported",
                                           [INGEST_TOO_LARGE] = "too_large",
                                           [INGEST_BUSY] = "busy"};
    const double seconds = (double)(clock_monotonic() - began_ns) / NSEC_PER_SEC;
    const struct profiles *view = &g->view;
    if (answer->verdict != INGEST_ACCEPTED) {
        log_debug("request verdict=%s bytes=%zu seconds=%.6f error=\"%s\"", verdicts[answer->verdict], n,
                  seconds, answer->message.text);
        return;
    }
    const struct bytes producer = producers_of(view);
    log_debug(
        "request verdict=%s producer=\"%.*s\" layout=%s profiles=%u samples=%u rejected=%u unknown_fields=%u entry_0=%s bytes=%zu seconds=%.6f",
        verdicts[answer->verdict], (int)min_of(producer.n, (size_t)PRODUCER_NAME_MAX),
        (const char *)producer.p, profiles_layout_name(view->layout), view->profile.n, view->sample.n,
        view->rejected.samples, view->unknown_fields, profiles_has_entry_0(view) ? "yes" : "no", n, seconds);
}

bool ingest_from(struct ingest *g, uint64_t client)
{
    const bool may = !g->options.meter || meter_begin(g->options.meter, client);
    client = may ? client : 0;
    g->client = client;
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].from)
            g->consumers[i].from(g->consumers[i].context, client);
    stats_add(g->stats, STATS_LIMIT_CLIENT_MEMORY, !may);
    return may;
}

/* All but what is to come again: that is looked at then. */
static void look(const struct ingest *g, struct bytes body, enum profiles_layout layout,
                 enum ingest_verdict verdict)
{
    if (verdict == INGEST_BUSY)
        return;
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].look)
            g->consumers[i].look(g->consumers[i].context, body, layout,
                                 verdict == INGEST_ACCEPTED ? &g->view : NULL);
}

/* What came may be taken over: nobody looks at the view any more. */
static void take_over(struct ingest *g, struct received *received)
{
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].take_over)
            g->consumers[i].take_over(g->consumers[i].context, received);
}

/* A list has one consumer at most that owes something. */
static struct promise *owed(struct ingest *g)
{
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].owed)
            return g->consumers[i].owed(g->consumers[i].context);
    return NULL;
}

void ingest_push(struct ingest *g, struct bytes body, enum profiles_layout layout, struct received *received,
                 struct ingest_answer *ret)
{
    const bool is_logged = log_is_written(LOG_LEVEL_DEBUG);
    const uint64_t began_ns = is_logged ? clock_monotonic() : 0;
    ret->rejected_profiles = 0;
    ret->retry_after_ns = 0;
    ret->safe = NULL;
    ret->message.text[0] = 0;
    g->was_busy = true;
    g->held_before = held(g);
    g->remembered = g->held_before - profiles_memory_used(&g->view);
    g->body = received && received->plain_budget == g->budget ? 0 : body.n;
    g->others = held_by_others(g, limited(g));

    const char *full = reserve(g, body.n, &ret->verdict);
    if (full) {
        error_set(&ret->message, 0, "%s", full);
    } else {
        ret->verdict = take(g, body, layout, received, &ret->message);
    }
    if (ret->verdict == INGEST_ACCEPTED) {
        g->view.unknown_fields += received ? received->unknown_fields : 0;
        accept_view(g, ret);
    }
    if (ret->verdict == INGEST_BUSY)
        ret->retry_after_ns = g->options.retry_after_ns;
    stats_add(g->stats, counter_of(ret), 1);
    if (is_logged)
        log_request(g, body.n, began_ns, ret);
    look(g, body, layout, ret->verdict);
    if (received && ret->verdict == INGEST_ACCEPTED && g->view.sample.n > 0)
        take_over(g, received);
    if (ret->verdict == INGEST_ACCEPTED)
        ret->safe = owed(g);
    if (profiles_memory_used(&g->view) > g->keep)
        profiles_trim(&g->view, g->keep);
    give_way(g);
}

void ingest_look(struct ingest *g)
{
    bool rests = !g->was_busy;
    g->was_busy = false;
    if (!rests)
        return;
    profiles_trim(&g->view, REST_BYTES);
    for (uint32_t i = 0; i < g->n_consumers; i++)
        if (g->consumers[i].rest)
            g->consumers[i].rest(g->consumers[i].context);
    give_way(g);
}
