/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/forward/forward.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>

#include "gateway/export/profiles.h"
#include "gateway/forward/pick.h"
#include "gateway/forward/split.h"
#include "gateway/stats/stats.h"
#include "proto/base/arena.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/promise.h"
#include "proto/otlp/write/subset.h"

/* Say on a profile what share of it was kept, or that it was by rate (README.md). */
#define KEEP_ATTRIBUTE    "profgate.keep.share"
#define BY_RATE_ATTRIBUTE "profgate.keep.by_rate"
/* What they add to a dictionary: the key, an attribute around a double, an index. */
#define MARK_BYTES (sizeof KEEP_ATTRIBUTE + 40)

/* Working memory kept from one request to the next. */
#define SCRATCH_KEEP_MAX (1u << 20)

/* The writer wants room for the longest a number can be before it writes a short one (proto/wire/writer.h).
 */
#define WRITER_ROOM 64u

/* Bytes that the requests a body becomes may have together: what it is, several times, because each piece has
 * its own part of the dictionary, and of a small body 64 MiB (about 50 ms). What is left then is lost: in a
 * body whose samples share a dictionary that nearly fills the limit by itself, so that each piece has few of
 * them. More patience would stop the worker for seconds, and send a multiple of what came. */
#define WRITTEN_TIMES 16u
#define WRITTEN_MORE  ((uint64_t)64 << 20)

struct forward {
    struct forward_options options;
    struct forward_rates *own_rates;
    struct export_profiles *destinations;
    export_set all, to;      /* of destinations; with whom there is room for the request */
    struct promise *promise; /* of this request or the next; NULL: no destination has storage */
    bool is_durable;
    struct export_terms terms;
    struct stats *stats;
    struct pick pick;
    struct arena plan;               /* of one request */
    const struct received *received; /* of the request that is being pushed; may be NULL */
    struct {
        unsigned forms; /* EXPORT_PLAIN, …; 0: nothing leaves */
        size_t reserved;
        uint64_t samples;
        export_set to;
    } leaving; /* as it came, with forward_take_over */
};

/* What is left of a reservation: bytes belong to requests, so without these there are none of those. */
struct room {
    size_t bytes;
    uint32_t requests;
    export_set to; /* with these */
};

struct forward *forward_new(const struct forward_options *options, struct export_profiles *destinations,
                            struct stats *stats, struct budget *budget)
{
    struct forward *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->options = *options;
    /* A share that is none keeps nothing and says so by what it counts: never more than was asked for. */
    if (!(f->options.keep > 0))
        f->options.keep = 0;
    if (f->options.keep > 1)
        f->options.keep = 1;
    if (!f->options.rates)
        f->options.rates = f->own_rates = forward_rates_new();
    if (!f->options.rates) {
        free(f);
        return NULL;
    }
    f->destinations = destinations;
    f->all = export_profiles_all(destinations);
    f->is_durable = export_profiles_is_durable(destinations);
    f->terms = export_profiles_terms(destinations);
    f->stats = stats;
    f->pick.budget = budget;
    f->plan = (struct arena)ARENA_INIT(budget);
    return f;
}

struct forward *forward_free(struct forward *f)
{
    if (!f)
        return NULL;
    pick_release(&f->pick);
    arena_release(&f->plan);
    forward_rates_free(f->own_rates);
    promise_free(f->promise);
    free(f);
    return NULL;
}

/* ---- room ---------------------------------------------------------------------------------- */

static bool has_rules(const struct forward *f)
{
    const struct keep_decider *d = &f->options.decider;
    return d->has_rules && d->has_rules(d->context);
}

static bool forwards_nothing(const struct forward *f)
{
    return f->options.keep == 0 && !has_rules(f);
}

/* How many requests a body is given room for; in bytes it is as much as came. */
static uint32_t requests_of(const struct forward *f, size_t body_bytes)
{
    if (body_bytes <= f->terms.request_max)
        return 1;
    return (uint32_t)min_of(2 * (body_bytes / f->terms.request_max + 1), (size_t)f->terms.queue_size);
}

static void give_back(struct forward *f, struct room *room)
{
    export_profiles_cancel(f->destinations, room->bytes, room->requests, room->to);
    *room = (struct room){0};
}

static struct room whole_room(const struct forward *f, size_t body_bytes)
{
    return (struct room){body_bytes, requests_of(f, body_bytes), f->to};
}

/* Who keeps requests on disk says later that they are there. False: memory is out. */
static bool has_promise(struct forward *f)
{
    if (f->is_durable && !f->promise)
        f->promise = promise_new();
    return f->promise || !f->is_durable;
}

bool forward_reserve(struct forward *f, size_t body_bytes)
{
    if (forwards_nothing(f))
        return true;
    const uint32_t requests = requests_of(f, body_bytes);
    const export_set to = export_profiles_reserve(f->destinations, body_bytes, requests, f->all);
    bool is_taken = (to == f->all || !f->options.refuse_when_full) && has_promise(f);
    if (is_taken)
        f->to = to;
    else
        export_profiles_cancel(f->destinations, body_bytes, requests, to);
    return is_taken;
}

bool forward_never_fits(const struct forward *f, size_t body_bytes)
{
    return body_bytes > f->terms.room_max;
}

void forward_cancel(struct forward *f, size_t body_bytes)
{
    struct room room = whole_room(f, body_bytes);
    if (!forwards_nothing(f))
        give_back(f, &room);
}

/* Takes room for a request of n bytes; beyond the reservation where it is not enough: a request can grow by
 * its new attribute, an older layout by its translation, pieces by what they all need of the dictionary. The
 * last request takes all bytes that are left. A destination that has none goes without from here on. False:
 * none has any. */
static bool take_room(struct forward *f, struct room *room, size_t n, size_t *ret_reserved)
{
    size_t more = n > room->bytes ? n - room->bytes : 0;
    if (room->requests == 0 || more > 0) {
        const export_set got = export_profiles_reserve(f->destinations, more, 1, room->to);
        export_profiles_cancel(f->destinations, room->bytes, room->requests, room->to & ~got);
        room->to = got;
        if (got == 0)
            return false;
        room->requests++;
        room->bytes += more;
    }
    *ret_reserved = --room->requests > 0 ? n : room->bytes;
    room->bytes -= *ret_reserved;
    return true;
}

/* ---- sending ------------------------------------------------------------------------------- */

static uint64_t count_accepted(const struct profiles *view)
{
    return view->sample.n - view->rejected.samples;
}

static void lose(struct forward *f, uint64_t samples, const char *why)
{
    if (samples == 0)
        return;
    stats_add(f->stats, STATS_FORWARD_DROPPED, samples);
    log_limited(LOG_LEVEL_ERROR, "lost before it was queued of=samples items=%" PRIu64 " error=\"%s\"",
                samples, why);
}

/* By each destination that has no room. */
static void lose_where_full(struct forward *f, const struct room *room, uint64_t samples)
{
    lose(f, samples * (unsigned)__builtin_popcountll(f->all & ~room->to), "a destination's queue is full");
}

/* Room for samples that leave as a request whose largest form has n bytes: they are counted as forwarded.
 * False: there is none, and they are counted as lost. */
static bool admit(struct forward *f, struct room *room, size_t n, uint64_t samples, size_t *ret_reserved)
{
    bool admitted = room->to != 0 && take_room(f, room, n, ret_reserved);
    if (admitted)
        stats_add(f->stats, STATS_FORWARD_SAMPLES, samples);
    if (room->to != f->all)
        lose_where_full(f, room, samples);
    return admitted;
}

/* Takes the malloc'd body over. */
static void push(struct forward *f, struct room *room, uint8_t *body, size_t n, uint64_t samples)
{
    const enum coding received = f->received ? f->received->coding : CODING_UNKNOWN;
    size_t reserved;
    if (!admit(f, room, n, samples, &reserved)) {
        free(body);
        return;
    }
    struct export_forms forms = {
        .plain = client_body_received(body, n, CODING_IDENTITY, n, received),
    };
    export_profiles_push(f->destinations, forms, reserved, samples, room->to, f->promise);
}

/* The request leaves in the memory it came in, as soon as nobody needs that for the view: in the coding it
 * came in to destinations that would put it into that again, plain to the others. What was rejected in part
 * goes plain: its bytes are not passed on as though they were all good. */
static void leave_as_it_came(struct forward *f, const struct profiles *view, struct room *room)
{
    const struct received *r = f->received;
    const bool is_all_good = view->rejected.samples == 0 && view->rejected.profiles == 0;
    const unsigned forms =
        r->coded && is_all_good ? export_profiles_forms(f->destinations, r->coding) : EXPORT_PLAIN;
    const size_t plain = forms & EXPORT_PLAIN ? r->plain->n : 0,
                 coded = forms & EXPORT_CODED ? r->coded->n : 0;
    const uint64_t samples = count_accepted(view);
    size_t reserved;
    if (!admit(f, room, max_of(plain, coded), samples, &reserved))
        return;
    f->leaving.forms = forms;
    f->leaving.reserved = reserved;
    f->leaving.samples = samples;
    f->leaving.to = room->to;
}

/* The bytes as they came, with what we do not understand in them; of a layout before 1.10, the bytes of its
 * translation, because those behind us read 1.10. */
static void push_untouched(struct forward *f, const struct profiles *view, struct room *room)
{
    uint64_t samples = count_accepted(view);
    if (f->received && view->body.p == f->received->plain->p) {
        leave_as_it_came(f, view, room);
        return;
    }
    uint8_t *copy = malloc(view->body.n ? view->body.n : 1);
    if (!copy) {
        lose(f, samples, "out of memory");
        return;
    }
    memcpy(copy, view->body.p, view->body.n);
    push(f, room, copy, view->body.n, samples);
}

/* What is to be sent: kept samples of a view (NULL: all of them) under one mark (NULL: none). */
struct part {
    const struct profiles *view;
    const uint64_t *keep;
    const struct subset_mark *mark;
    struct room *room;
    uint64_t samples;
    struct subset *subset; /* of view and mark */
    uint64_t patience;     /* bytes that may still be written */
};

enum { ABOVE_LIMIT = 1 }; /* what is built is larger than some exporter takes */

/* Builds a request of the part's samples in [from, to) and pushes it. 0, ABOVE_LIMIT, -ENOMEM. */
static int push_built(struct forward *f, struct part *part, uint32_t from, uint32_t to, uint64_t samples)
{
    size_t limit = f->terms.request_max;
    struct buffer out = BUFFER_INIT(limit > SIZE_MAX - WRITER_ROOM ? 0 : limit + WRITER_ROOM);
    int r = subset_write(part->subset, part->keep, from, to, &out);
    if (out.n > limit || r == SUBSET_TOO_LARGE)
        r = ABOVE_LIMIT;
    part->patience -= min_of(part->patience, r == 0 ? (uint64_t)out.n : (uint64_t)limit);
    if (r == 0) {
        size_t n;
        uint8_t *p = buffer_take(&out, &n);
        push(f, part->room, p, n, samples);
    }
    buffer_release(&out);
    return r;
}

/* How many samples of the part are in [from, to). */
static uint64_t count_range(const struct part *part, uint32_t from, uint32_t to)
{
    uint64_t n = 0;
    for (uint32_t i = from; i < to; i++)
        n += part->view->sample.stack[i] != PROFILES_REJECTED && (!part->keep || subset_has(part->keep, i));
    return n;
}

/* Pushes a range, or its first half, or half of that, until it is below the limit; says where it ended. 0 or
 * -ENOMEM; a single sample that does not fit is lost. */
static int push_range(struct forward *f, struct part *part, uint32_t from, uint32_t *to)
{
    for (;;) {
        uint64_t samples = count_range(part, from, *to);
        int r = push_built(f, part, from, *to, samples);
        if (r != ABOVE_LIMIT)
            return r;
        if (samples == 1) {
            lose(f, 1, "a sample is larger than the destination's max_request_bytes");
            return 0;
        }
        *to = from + (*to - from) / 2; /* not empty: `from` is kept */
    }
}

/* Several requests, each below the limit, each with what it needs of the dictionary. */
static void push_pieces(struct forward *f, struct part *part)
{
    struct split split;
    uint32_t from, to;
    int r = split_init(&split, part->view, part->keep, f->terms.request_max, part->mark ? MARK_BYTES : 0,
                       &f->plan);
    for (from = 0; r == 0;) {
        enum split_cut cut = split_next(&split, &from, &to);
        if (cut == SPLIT_END)
            return;
        if (cut == SPLIT_GIVEN_UP || part->patience == 0) {
            lose(f, count_range(part, from, part->view->sample.n), "they would be too many requests");
            return;
        }
        if (cut == SPLIT_TOO_LARGE) {
            lose(f, 1, "a sample is larger than the destination's max_request_bytes");
            continue;
        }
        r = push_range(f, part, from, &to);
        split.next = r == 0 ? to : from;
    }
    lose(f, count_range(part, from, part->view->sample.n), "out of memory");
}

static void push_part(struct forward *f, struct part *part)
{
    size_t body = part->view->body.n;
    if (part->room->to == 0) { /* nobody would take what is built */
        lose_where_full(f, part->room, part->samples);
        return;
    }
    part->subset = subset_new(part->view, part->mark, &f->plan);
    part->patience = (uint64_t)body * WRITTEN_TIMES + WRITTEN_MORE;
    /* What is built is not larger than what came, but for the mark and inlined text. */
    int r = !part->subset ? -ENOMEM
            : body > f->terms.request_max && !part->keep
                ? ABOVE_LIMIT
                : push_built(f, part, 0, part->view->sample.n, part->samples);
    if (r == ABOVE_LIMIT)
        push_pieces(f, part);
    else if (r < 0)
        lose(f, part->samples, "out of memory");
    arena_reset(&f->plan, SCRATCH_KEEP_MAX);
}

/* All samples, as they are if that will do. */
static void push_all(struct forward *f, const struct profiles *view, struct room *room)
{
    struct part all = {.view = view, .room = room, .samples = count_accepted(view)};
    if (view->body.n <= f->terms.request_max && !f->terms.no_references)
        push_untouched(f, view, room);
    else
        push_part(f, &all);
}

/* ---- keeping ------------------------------------------------------------------------------- */

static void push_groups(struct forward *f, const struct profiles *view, struct room *room)
{
    struct pick *p = &f->pick;
    stats_add(f->stats, STATS_FORWARD_THINNED, p->thinned);
    lose(f, p->lost, "the rules give them more different probabilities than a request may have");
    bool whole = p->n_groups == 1 && p->kept == count_accepted(view) && p->groups[0].probability == 1 &&
                 !p->groups[0].by_rate;
    if (whole) {
        push_all(f, view, room);
        return;
    }
    for (uint32_t i = 0; i < p->n_groups; i++) {
        const struct pick_group *g = &p->groups[i];
        const struct subset_mark mark = {
            .key = g->by_rate ? BYTES_LIT(BY_RATE_ATTRIBUTE) : BYTES_LIT(KEEP_ATTRIBUTE),
            .probability = g->probability,
            .on_profiles = true,
            .values = g->by_rate ? NULL : p->value,
        };
        bool marked = g->by_rate || g->probability < 1;
        struct part part = {.view = view,
                            .keep = pick_group(p, view, i),
                            .mark = marked ? &mark : NULL,
                            .room = room,
                            .samples = g->samples};
        if (g->samples > 0) /* no empty envelopes (OTLP specification, "Empty Telemetry Envelopes") */
            push_part(f, &part);
    }
}

static void push_picked(struct forward *f, const struct profiles *view, struct room *room, bool by_rules)
{
    struct pick_rules rules = {
        .decider = &f->options.decider,
        .rates = f->options.rates,
        .share = f->options.keep,
        .seed = f->options.seed,
        .now_ns = clock_monotonic(),
    };
    int r = by_rules ? pick_by_rules(&f->pick, view, &rules)
                     : pick_by_share(&f->pick, view, f->options.keep, f->options.seed);
    if (r < 0)
        lose(f, count_accepted(view), "out of memory");
    else
        push_groups(f, view, room);
    pick_trim(&f->pick);
}

void forward_push(struct forward *f, const struct profiles *view, const struct received *received,
                  size_t body_bytes)
{
    f->received = received;
    struct room room = whole_room(f, body_bytes);
    bool by_rules = has_rules(f);
    if (forwards_nothing(f)) {
        stats_add(f->stats, STATS_FORWARD_THINNED, count_accepted(view));
        return;
    }
    if (count_accepted(view) > 0) {
        if (by_rules || f->options.keep < 1)
            push_picked(f, view, &room, by_rules);
        else
            push_all(f, view, &room);
    }
    give_back(f, &room);
}

static struct client_body *handed_over(struct received *r, struct buffer *from, enum coding coding,
                                       size_t n_plain)
{
    size_t n;
    uint8_t *p = room_take(from, from == r->coded ? r->coded_budget : r->plain_budget, &n);
    return client_body_received(p, n, coding, n_plain, r->coding);
}

void forward_take_over(struct forward *f, struct received *received)
{
    const unsigned forms = f->leaving.forms;
    const size_t n_plain = received->plain->n;
    struct export_forms out = {0};
    f->received = NULL;
    if (forms == 0)
        return;
    f->leaving.forms = 0;
    if (forms & EXPORT_PLAIN)
        out.plain = handed_over(received, received->plain, CODING_IDENTITY, n_plain);
    if (forms & EXPORT_CODED)
        out.coded = handed_over(received, received->coded, received->coding, n_plain);
    export_profiles_push(f->destinations, out, f->leaving.reserved, f->leaving.samples, f->leaving.to,
                         f->promise);
}

struct promise *forward_owed(struct forward *f)
{
    if (!f->promise || !f->promise->is_owed)
        return NULL;
    f->promise->forgives = !f->options.refuse_when_full;
    return take_ptr(f->promise);
}
