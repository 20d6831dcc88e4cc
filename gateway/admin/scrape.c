/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scrape waits for a place and for fresh counts, then goes round: a piece is made on the pool (making),
 * written to the session as far as it takes it (push; the rest when there is room), then the next. Whoever
 * lets go last, the exchange or the pool, frees it.
 *
 * Places are few. A free one is given to who waits from the address that has the fewest. While somebody waits
 * it is looked now and then (relieve) who of those that have one took least since the last look: if that is
 * nothing worth the name, though there was something for him all the time, or his address has two more than
 * that of who waits, his connection is closed, since he may not read what we would say. His address then
 * stands back for a minute: it waits behind all others, in a queue beside theirs. Many such addresses would
 * else fill the one queue, and have each place that comes free.
 */
#include "gateway/admin/scrape.h"

#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#include "gateway/admin/format.h"
#include "proto/base/budget.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/coding/gzip_stream.h"
#include "proto/http/query.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"

/* At once: two Prometheus servers and two people. Fewer where memory is in use, since a page takes about what
 * it shows: four of a full store left none for requests. Two, so that one who reads slowly does not keep
 * others waiting. */
#define SCRAPES_MAX       4u
#define SCRAPES_TIGHT_MAX 2u
#define TIGHT_PART        4u /* of limits.memory, all that is held */

/* From the first byte to the last: more than any scrape_timeout. A scraper that is slower has given up. */
#define SCRAPE_NS (60 * (uint64_t)NSEC_PER_SEC)

/* Who wait for a place: longer than two looks at those who have one, shorter than a scraper's patience. */
#define QUEUED_MAX        16u
#define QUEUED_OF_ONE_MAX 8u /* from one address */
#define QUEUED_NS         (900 * (uint64_t)NSEC_PER_MSEC)
#define LOOK_NS           (250 * (uint64_t)NSEC_PER_MSEC)

/* Taken between two looks: 2 Mbit/s. */
#define LOOK_BYTES ((uint64_t)64 << 10)

/* Addresses of which one was cut off stand back for so long: some more than can be connected. */
#define BACK_MAX 128u
#define BACK_NS  (60 * (uint64_t)NSEC_PER_SEC)

/* What one takes beside its page: a piece, its packed form, the packer's window. */
#define SCRAPE_BYTES ((256u << 10) + GZIP_STREAM_BYTES)

/* Written to the session at a time: smaller than what it keeps for a peer, so that it is never quite empty.
 */
#define PIECE_BYTES ((size_t)16 << 10)

struct scrape {
    struct scrapes *all;
    LIST_ENTRY(scrape) others;
    struct http_exchange *exchange; /* NULL: it is gone */
    uint32_t host;                  /* the peer's */
    struct admin_metrics wanted;
    struct scrape_wait wait;
    bool queued;  /* it has no place yet */
    bool waiting; /* for fresh counts */
    bool wants_gzip;
    void *page;
    struct gzip_stream *gzip; /* NULL: as it is */
    uv_work_t work;
    bool making;        /* the pool has it */
    int made;           /* what became of the piece */
    bool begun;         /* the answer's head is written */
    bool cut;           /* the answer is given up: the exchange will close */
    bool ended;         /* …or all written; the session may still have some of it */
    struct buffer text; /* the piece, where it is packed */
    struct buffer out;  /* …and as it is sent */
    size_t sent;        /* of out */
    uint64_t taken;     /* by the session, of the text before */
    uint64_t looked_at; /* what that was at the last look */
    bool was_held_up;   /* then; else it may be us who were slow since */
    uint64_t deadline_ns;
};

struct scrapes {
    struct io_loop *loop;
    struct scrape_source source;
    struct io_timer *timer;   /* the next of their deadlines */
    LIST_HEAD(, scrape) list; /* the newest first */
    uint32_t n, n_queued;
    uint64_t look_ns; /* when it is looked next; UINT64_MAX: nobody waits */
    struct {
        uint32_t host;
        uint64_t until_ns;
    } back[BACK_MAX]; /* the oldest is next_back */
    uint32_t next_back;
    bool over;
};

/* ---- what is asked for ---- */

/* What ?collect[]= asks for; everything by default. False: it names something that is not there. */
static bool collect_of(struct bytes query, unsigned *ret_what)
{
    unsigned what = 0;
    struct bytes name, value;
    while (query_next(&query, &name, &value)) {
        if (!query_is(name, "collect[]"))
            continue;
        if (query_is(value, "self"))
            what |= ADMIN_METRICS_SELF;
        else if (query_is(value, "profiles"))
            what |= ADMIN_METRICS_PROFILES;
        else
            return false;
    }
    *ret_what = what ? what : ADMIN_METRICS_SELF | ADMIN_METRICS_PROFILES;
    return true;
}

/* ?pack=NAME of the page in JSON. False: it asks for something else, or for what is no pack's name. */
static bool pack_of(struct bytes query, char ret_pack[ADMIN_PACK_MAX])
{
    struct bytes name, value, pack;
    while (query_next(&query, &name, &value)) {
        if (!query_is(name, "pack") || ret_pack[0] ||
            query_decode(value, (uint8_t *)ret_pack, ADMIN_PACK_MAX - 1, &pack) < 0 ||
            memchr(ret_pack, 0, pack.n))
            return false;
        ret_pack[pack.n] = 0;
    }
    return true;
}

/* Content-Type of an answer, with the escaping where the scraper asked for one. */
static const char *metrics_type(const struct admin_metrics *m, char text[ADMIN_TYPE_MAX])
{
    static const char *const types[] = {
        [ADMIN_TEXT_0_0_4] = "text/plain; version=0.0.4; charset=utf-8",
        [ADMIN_TEXT_1_0_0] = "text/plain; version=1.0.0; charset=utf-8",
        [ADMIN_OPENMETRICS_0_0_1] = "application/openmetrics-text; version=0.0.1; charset=utf-8",
        [ADMIN_OPENMETRICS_1_0_0] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
        [ADMIN_JSON] = ADMIN_TYPE_JSON,
    };
    snprintf(text, ADMIN_TYPE_MAX, "%s%s%s", types[m->format], m->escaping_is_asked_for ? "; escaping=" : "",
             m->escaping_is_asked_for ? format_escapings[m->escaping] : "");
    return text;
}

/* ---- its life ---- */

static void arm(struct scrapes *all)
{
    uint64_t next = all->look_ns;
    const struct scrape *s;
    LIST_FOREACH (s, &all->list, others)
        if (s->exchange)
            next = min_of(next, s->deadline_ns);
    io_timer_set(all->timer, next);
}

static void scrapes_delete(struct scrapes *all)
{
    io_timer_free(all->timer);
    free(all);
}

static void start_queued(struct scrapes *all);

static void scrape_free(struct scrape *s)
{
    struct scrapes *all = s->all;
    const bool had_place = !s->queued;
    LIST_REMOVE(s, others);
    if (s->page)
        all->source.close(s->page);
    gzip_stream_free(s->gzip);
    buffer_release(&s->text);
    buffer_release(&s->out);
    if (had_place)
        budget_refund(all->source.budget, SCRAPE_BYTES);
    all->n--;
    all->n_queued -= s->queued;
    free(s);
    if (all->n == 0 && all->over)
        scrapes_delete(all);
    else if (had_place && !all->over)
        start_queued(all);
}

/* Of an address: those that have a place, or those that wait for one. */
static uint32_t count_of(const struct scrapes *all, uint32_t host, bool queued)
{
    uint32_t n = 0;
    const struct scrape *s;
    LIST_FOREACH (s, &all->list, others)
        n += s->host == host && s->queued == queued && s->exchange && !s->cut;
    return n;
}

/* Whether one of the address was cut off lately for somebody else. */
static bool stands_back(const struct scrapes *all, uint32_t host)
{
    for (uint32_t i = 0; i < BACK_MAX; i++)
        if (all->back[i].host == host && all->back[i].until_ns > io_loop_now(all->loop))
            return true;
    return false;
}

static void stand_back(struct scrapes *all, uint32_t host)
{
    all->back[all->next_back].host = host;
    all->back[all->next_back].until_ns = io_loop_now(all->loop) + BACK_NS;
    all->next_back = (all->next_back + 1) % BACK_MAX;
}

/* Who wait, of addresses that stand back or of the others. */
static uint32_t count_queued(const struct scrapes *all, bool back)
{
    uint32_t n = 0;
    const struct scrape *s;
    LIST_FOREACH (s, &all->list, others)
        n += s->queued && stands_back(all, s->host) == back;
    return n;
}

/* One that has no place yet. */
static struct scrape *scrape_new(struct scrapes *all, uint32_t host)
{
    const bool has_place = count_queued(all, stands_back(all, host)) < QUEUED_MAX &&
                           count_of(all, host, true) < QUEUED_OF_ONE_MAX;
    struct scrape *s = has_place ? calloc(1, sizeof *s) : NULL;
    if (!s)
        return NULL;
    s->all = all;
    s->host = host;
    s->queued = true;
    all->n_queued++;
    LIST_INSERT_HEAD(&all->list, s, others);
    all->n++;
    return s;
}

/* ---- answering ---- */

static void say(struct http_exchange *x, uint32_t status, const char *words)
{
    const struct http_header headers[] = {{BYTES_LIT("content-type"), BYTES_LIT(ADMIN_TYPE_TEXT)},
                                          {BYTES_LIT("cache-control"), BYTES_LIT("no-store")},
                                          {BYTES_LIT("retry-after"), BYTES_LIT("1")}};
    http_reply(x, &(struct http_reply){.status = status,
                                       .headers = headers,
                                       .n_headers = status == 503 ? 3 : 2,
                                       .body = bytes_str(words)});
}

static int begin(struct http_exchange *x, const struct admin_metrics *wanted, bool gzip)
{
    char type[ADMIN_TYPE_MAX];
    const struct http_header headers[] = {
        {BYTES_LIT("content-type"), bytes_str(metrics_type(wanted, type))},
        {BYTES_LIT("cache-control"), BYTES_LIT("no-store")},
        {BYTES_LIT("vary"), BYTES_LIT("accept, accept-encoding")},
        {BYTES_LIT("content-encoding"), BYTES_LIT("gzip")},
    };
    return http_reply_begin(
        x, &(struct http_reply){.status = 200, .headers = headers, .n_headers = gzip ? 4 : 3});
}

/* The pool. */
static void make_piece(uv_work_t *work)
{
    struct scrape *s = work->data;
    struct buffer *to = s->gzip ? &s->text : &s->out;
    to->n = 0;
    s->made = s->all->source.next(s->page, to);
    if (s->gzip && s->made >= 0) {
        int r = gzip_stream_add(s->gzip, buffer_bytes(&s->text), s->made == SCRAPE_ENDS, &s->out);
        s->made = r < 0 ? r : s->made;
    }
}

static void on_made(uv_work_t *work, int status);

static void make_next(struct scrape *s)
{
    s->sent = s->out.n = 0;
    s->making = true;
    s->work.data = s;
    uv_queue_work(io_loop_uv(s->all->loop), &s->work, make_piece, on_made);
}

/* Writes as much as the session takes; when it has all, the next piece is made. */
static void push(struct scrape *s)
{
    const struct scrapes *all = s->all;
    while (s->sent < s->out.n) {
        size_t n = min_of(s->out.n - s->sent, PIECE_BYTES);
        int r = http_reply_write(s->exchange, bytes_of(s->out.p + s->sent, n));
        s->cut = r < 0;
        if (r != 0)
            return;
        s->sent += n;
        s->taken += n;
    }
    if (s->made != SCRAPE_ENDS) {
        make_next(s);
        return;
    }
    s->ended = true;
    if (http_reply_end(s->exchange, NULL, 0) < 0)
        return;
    struct admin_receipt *receipt = all->source.receipt ? all->source.receipt(s->page) : NULL;
    if (receipt)
        admin_when_read(s->exchange, receipt);
}

/* The scraper must not take a part for the whole. The exchange closes, and perhaps the scrape is freed. */
static void cut(struct scrape *s, enum log_level level, const char *why)
{
    log_limited(level, "an answer of /metrics was cut short: %s", why);
    s->cut = true;
    if (s->begun && !s->ended)
        http_reply_abort(s->exchange);
    admin_cut(s->exchange);
}

static void on_made(uv_work_t *work, int status)
{
    struct scrape *s = work->data;
    s->making = false;
    if (!s->exchange) {
        scrape_free(s);
    } else if (s->cut) {
        return;
    } else if (!s->begun && s->made < 0) {
        s->cut = true;
        say(s->exchange, 503, "no memory for the metrics now\n");
    } else if (!s->begun && begin(s->exchange, &s->wanted, s->gzip) < 0) {
        s->cut = true;
    } else if (s->made < 0) {
        cut(s, LOG_LEVEL_ERROR, "out of memory");
    } else {
        s->begun = true;
        push(s);
    }
}

static void on_fresh(void *user)
{
    struct scrape *s = user;
    struct scrapes *all = s->all;
    s->waiting = false;
    if (all->source.open(all->source.context, &s->wanted, &s->page) < 0) {
        say(s->exchange, 503, "no memory for the metrics now\n");
        return;
    }
    make_next(s);
}

/* ---- a place ---- */

static bool start(struct scrape *s)
{
    struct scrapes *all = s->all;
    if (!budget_charge(all->source.budget, SCRAPE_BYTES))
        return false;
    if (s->wants_gzip && !(s->gzip = gzip_stream_new())) {
        budget_refund(all->source.budget, SCRAPE_BYTES);
        return false;
    }
    s->queued = false;
    all->n_queued--;
    s->deadline_ns = io_loop_now(all->loop) + SCRAPE_NS;
    s->waiting = true;
    s->wait = (struct scrape_wait){.fn = on_fresh, .user = s};
    all->source.freshen(all->source.context, &s->wait);
    return true;
}

/* Who waits and is to have the next place: for longest, of the address that has the fewest; of one that
 * stands back only where no other waits. */
static struct scrape *next_queued(const struct scrapes *all)
{
    struct scrape *found = NULL, *s;
    uint32_t fewest = UINT32_MAX;
    LIST_FOREACH (s, &all->list, others) {
        if (!s->queued || !s->exchange || s->cut)
            continue;
        const uint32_t n = count_of(all, s->host, false) + (stands_back(all, s->host) ? SCRAPES_MAX : 0);
        if (n <= fewest) {
            found = s;
            fewest = n;
        }
    }
    return found;
}

static void refuse(struct scrape *s)
{
    s->cut = true;
    s->deadline_ns = UINT64_MAX;
    say(s->exchange, 503, "too many are reading the metrics, or memory is out\n");
}

static uint32_t places(const struct scrapes *all)
{
    const struct budget *b = all->source.budget;
    const bool is_tight = b && atomic_load_explicit(&b->used, memory_order_relaxed) > b->limit / TIGHT_PART;
    return is_tight ? SCRAPES_TIGHT_MAX : SCRAPES_MAX;
}

/* Gives places to those who wait, as far as there are any. */
static void start_queued(struct scrapes *all)
{
    struct scrape *s = next_queued(all);
    while (s && all->n - all->n_queued < places(all)) {
        if (!start(s))
            refuse(s);
        s = next_queued(all);
    }
    if (!s)
        all->look_ns = UINT64_MAX;
    arm(all);
}

/* Whether it goes on only when its peer has read. */
static bool is_held_up(const struct scrape *s)
{
    return s->exchange && !s->cut && (s->ended || (!s->making && s->sent < s->out.n));
}

static void look_at(struct scrape *s)
{
    s->looked_at = s->taken;
    s->was_held_up = is_held_up(s);
}

/* Cuts off who took least since the last look, if that is too little or his address has too much. */
static void relieve(struct scrapes *all)
{
    const struct scrape *waits = next_queued(all);
    const uint32_t theirs = waits ? count_of(all, waits->host, false) : UINT32_MAX - 2;
    struct scrape *slowest = NULL, *s;
    uint64_t least = UINT64_MAX;
    LIST_FOREACH (s, &all->list, others) {
        const uint64_t took = s->taken - s->looked_at;
        const bool is_too_slow = s->was_held_up && is_held_up(s) && took < LOOK_BYTES;
        const bool has_too_much =
            s->page && s->exchange && !s->cut && count_of(all, s->host, false) >= theirs + 2;
        look_at(s);
        if ((is_too_slow || has_too_much) && took < least) {
            least = took;
            slowest = s;
        }
    }
    if (!slowest)
        return;
    stand_back(all, slowest->host);
    cut(slowest, LOG_LEVEL_WARN,
        "others wait, and its reader is too slow or one of too many from an address");
}

static void look_later(struct scrapes *all)
{
    all->look_ns = io_loop_now(all->loop) + LOOK_NS;
}

static struct scrape *overdue(const struct scrapes *all)
{
    struct scrape *s;
    LIST_FOREACH (s, &all->list, others)
        if (s->exchange && s->deadline_ns <= io_loop_now(all->loop))
            return s;
    return NULL;
}

static void on_deadline(void *user)
{
    struct scrapes *all = user;
    if (all->look_ns <= io_loop_now(all->loop)) {
        look_later(all);
        relieve(all);
        start_queued(all); /* before his time is over, too */
    }
    for (struct scrape *s = overdue(all); s; s = overdue(all)) {
        s->deadline_ns = UINT64_MAX;
        if (s->queued && !s->cut)
            refuse(s);
        else if (s->page && !s->cut)
            cut(s, LOG_LEVEL_WARN, "its reader is too slow");
    }
    start_queued(all);
}

/* ---- the exchange ---- */

static void on_close(void *context, struct http_exchange *x)
{
    struct scrape *s = context;
    struct scrapes *all = s->all;
    s->exchange = NULL;
    if (s->waiting)
        all->source.forget(all->source.context, &s->wait);
    if (!s->making)
        scrape_free(s);
    if (!all->over)
        arm(all);
}

static void on_room(void *context, struct http_exchange *x)
{
    struct scrape *s = context;
    if (!s->making && !s->cut && s->sent < s->out.n)
        push(s);
}

static const struct http_handler handler = {.on_close = on_close, .on_room = on_room};

static void answer(struct scrapes *all, struct http_exchange *x, const struct admin_metrics *wanted)
{
    bool gzip = query_accepts_gzip(http_header_find(x->headers, x->n_headers, "accept-encoding"));
    if (bytes_is(x->method, "HEAD")) {
        if (begin(x, wanted, gzip) == 0)
            http_reply_end(x, NULL, 0);
        return;
    }
    struct scrape *s = scrape_new(all, x->peer->host);
    if (!s) {
        say(x, 503, "too many are reading the metrics, or memory is out\n");
        return;
    }
    s->exchange = x;
    s->wanted = *wanted;
    s->wants_gzip = gzip;
    s->deadline_ns = io_loop_now(all->loop) + QUEUED_NS;
    x->handler = &handler;
    x->context = s;
    if (all->look_ns == UINT64_MAX) { /* from now on: what they took before counts for nothing */
        look_later(all);
        struct scrape *other;
        LIST_FOREACH (other, &all->list, others)
            look_at(other);
    }
    start_queued(all);
}

static void take(void *context, struct http_exchange *x)
{
    struct admin_metrics wanted = {.format = ADMIN_TEXT_0_0_4};
    if (!collect_of(x->query, &wanted.what)) {
        say(x, 400, "collect[] is one of: profiles, self\n");
        return;
    }
    query_metrics_format(http_header_find(x->headers, x->n_headers, "accept"), &wanted);
    answer(context, x, &wanted);
}

static void take_json(void *context, struct http_exchange *x)
{
    struct admin_metrics wanted = {.what = ADMIN_METRICS_PROFILES, .format = ADMIN_JSON};
    if (!pack_of(x->query, wanted.pack)) {
        say(x, 400, "all there is to ask for is ?pack=NAME\n");
        return;
    }
    answer(context, x, &wanted);
}

/* ---- all of them ---- */

struct scrapes *scrapes_new(struct io_loop *loop, const struct scrape_source *source)
{
    struct scrapes *all = calloc(1, sizeof *all);
    if (!all)
        return NULL;
    all->loop = loop;
    all->source = *source;
    all->look_ns = UINT64_MAX;
    all->timer = io_timer_new(loop, on_deadline, all);
    if (!all->timer) {
        free(all);
        return NULL;
    }
    return all;
}

struct scrapes *scrapes_free(struct scrapes *all)
{
    if (!all)
        return NULL;
    all->over = true;
    if (all->n == 0)
        scrapes_delete(all);
    return NULL;
}

bool scrapes_are_over(const struct scrapes *all)
{
    return all->n == 0;
}

struct admin_page scrapes_page(struct scrapes *s)
{
    return (struct admin_page){
        .method = "GET",
        .path = "/metrics",
        .doc = "Prometheus text or OpenMetrics, by Accept: what the rules counted, and what the "
               "gateway knows about itself\n"
               "(?collect[]=profiles or ?collect[]=self for one of the two)",
        .take = take,
        .context = s,
    };
}

struct admin_page scrapes_json_page(struct scrapes *s)
{
    return (struct admin_page){
        .method = "GET",
        .path = "/api/v1/metrics",
        .doc = "what the rules counted as JSON, with what they say of each metric (profgate top shows it;\n"
               "?pack=NAME for one pack's)",
        .take = take_json,
        .context = s,
    };
}
