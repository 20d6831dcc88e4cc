/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A scrape is one profile of one target, for ever:
 *
 *     (timer) → an inquiry has the answer's body → a lane unpacks, compares and pushes → (timer)
 *
 * A time that passed while the scrape before went on is left out.
 */
#include "gateway/scrape/scraper.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/access/access.h"
#include "gateway/ingest/ingest.h"
#include "gateway/scrape/delta.h"
#include "gateway/serve/lanes/lanes.h"
#include "gateway/serve/lanes/processor.h"
#include "gateway/serve/pprof/origin.h"
#include "gateway/serve/pprof/taking.h"
#include "gateway/stats/exposition.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"
#include "proto/base/room.h"
#include "proto/client/authorization.h"
#include "proto/client/endpoint.h"
#include "proto/client/inquiry.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"

/* What a scrape may come to. */
#define OUTCOMES(X)                                                 \
    X(OK, "ok")               /* its profile is counted */          \
    X(UNREACHED, "unreached") /* no connection, or it broke */      \
    X(LATE, "timeout")        /* the answer did not come in time */ \
    X(STATUS, "status")       /* it was another one than 200 */     \
    X(TOO_LARGE, "too_large") /* it passed a limit */               \
    X(MALFORMED, "malformed") /* it is no pprof */                  \
    X(LIMITED, "limited")     /* it passed a limit of its tenant */ \
    X(BUSY, "busy")           /* there was no memory or no queue for it */

enum outcome {
#define OUTCOME_ENUM(id, word) OUTCOME_##id,
    OUTCOMES(OUTCOME_ENUM)
#undef OUTCOME_ENUM
        OUTCOME_N
};

static const char *const outcome_words[OUTCOME_N] = {
#define OUTCOME_WORD(id, word) word,
    OUTCOMES(OUTCOME_WORD)
#undef OUTCOME_WORD
};

/* The heads of a job's requests, and its TLS. */
struct asking {
    const struct scrape_job *job;
    struct tls_context *tls;
    struct buffer authorization; /* the field's value; empty: none */
};

struct scrape {
    struct scraper *scraper;
    struct asking *asking;
    struct endpoint endpoint;
    const char *target, *profile;
    char *path;
    struct origin origin;
    struct delta *delta;
    struct io_timer *timer;                  /* for the next time */
    uint64_t next_ns, began_ns, compared_ns; /* compared_ns: when what the delta keeps was asked for */
    struct inquiry *inquiry;
    struct http_header headers[3];
    struct buffer body; /* on the budget */
    struct access_pass pass;
    enum outcome outcome;
    struct error why;
    bool has_restarted;
    struct lane_job job;
    /* what /metrics says */
    bool is_up, was_asked;
    uint64_t n[OUTCOME_N], restarts, took_ns;
};

struct scraper {
    struct scraper_options options;
    struct access_worker *access; /* NULL: nobody is limited */
    struct lane_inbox *inbox;
    struct asking *askings;
    struct scrape *scrapes;
    uint32_t n_scrapes;
    bool stopped;
};

/* ---- the end of a scrape ---- */

static void wait_for_next(struct scrape *c)
{
    const uint64_t now = io_loop_now(c->scraper->options.with.loop), interval = c->asking->job->interval_ns;
    c->next_ns += interval;
    if (c->next_ns <= now)
        c->next_ns += (now - c->next_ns) / interval * interval + interval;
    if (!c->scraper->stopped)
        io_timer_set(c->timer, c->next_ns);
}

static void settle(struct scrape *c)
{
    if (c->scraper->access)
        access_exit(c->scraper->access, &c->pass);
    room_release(&c->body, c->scraper->options.with.budget);
    c->n[c->outcome]++;
    c->restarts += c->has_restarted;
    c->took_ns = io_loop_now(c->scraper->options.with.loop) - c->began_ns;
    if (c->outcome != OUTCOME_OK && (c->is_up || !c->was_asked))
        log_warn("scrape target=%s profile=%s outcome=%s error=\"%s\"", c->target, c->profile,
                 outcome_words[c->outcome], c->why.text);
    else if (c->outcome == OUTCOME_OK && !c->is_up && c->was_asked)
        log_info("scrape target=%s profile=%s outcome=ok", c->target, c->profile);
    c->is_up = c->outcome == OUTCOME_OK;
    c->was_asked = true;
    wait_for_next(c);
}

/* ---- on a lane ---- */

static enum outcome outcome_of(enum refusal refusal)
{
    return refusal == REFUSAL_NONE        ? OUTCOME_OK
           : refusal == REFUSAL_TOO_LARGE ? OUTCOME_TOO_LARGE
           : refusal == REFUSAL_MALFORMED ? OUTCOME_MALFORMED
                                          : OUTCOME_BUSY;
}

static enum outcome outcome_of_ingest(enum ingest_verdict verdict)
{
    return verdict == INGEST_ACCEPTED    ? OUTCOME_OK
           : verdict == INGEST_TOO_LARGE ? OUTCOME_TOO_LARGE
           : verdict == INGEST_BUSY      ? OUTCOME_BUSY
                                         : OUTCOME_MALFORMED;
}

/* Whose it is to those who share something out: the tenant's, where there are limits of tenants. */
static uint64_t client_of(const struct scrape *c)
{
    const uint64_t tenant = access_client(&c->pass);
    return tenant ? tenant : hash_bytes(bytes_str(c->target), 0) | 1;
}

static enum outcome push(struct scrape *c, struct pprof_taking *t, struct processor *p)
{
    struct budget *budget = c->scraper->options.with.budget;
    struct buffer request = BUFFER_INIT(c->scraper->options.request_bytes);
    struct ingest_answer answer;
    enum outcome outcome = outcome_of(pprof_taking_end(t, &request));
    if (outcome == OUTCOME_OK && !ingest_from(p->ingest, client_of(c))) {
        error_set(&c->why, 0, INGEST_OVER_SHARE);
        outcome = OUTCOME_BUSY;
    } else if (outcome == OUTCOME_OK) {
        ingest_push(p->ingest, buffer_bytes(&request), PROFILES_LAYOUT_1_10, NULL, &answer);
        ingest_from(p->ingest, 0);
        outcome = outcome_of_ingest(answer.verdict);
        if (outcome != OUTCOME_OK)
            c->why = answer.message;
    }
    room_release(&request, budget);
    return outcome;
}

/* The file is unpacked: compares it with the one before, and hands it on. */
static enum outcome compare_and_push(struct scrape *c, struct pprof_taking *t, struct bytes file,
                                     struct processor *p)
{
    struct buffer compared = BUFFER_INIT(0);
    struct delta_said said = {0};
    int r = delta_take(c->delta, file, &compared, &said, &c->why);
    enum outcome outcome = r == 0 ? OUTCOME_OK : r == PPROF_MALFORMED ? OUTCOME_MALFORMED : OUTCOME_BUSY;
    c->has_restarted = said.restarted;
    c->origin.from.duration_nanos =
        said.is_cumulative && !said.is_first ? (int64_t)(c->began_ns - c->compared_ns) : 0;
    t->left = t->max;
    if (outcome == OUTCOME_OK)
        outcome = outcome_of(
            pprof_take(t, said.is_cumulative ? buffer_bytes(&compared) : file, &c->origin.from, &c->why));
    if (outcome == OUTCOME_OK)
        outcome = push(c, t, p);
    if (outcome == OUTCOME_OK) {
        delta_keep(c->delta);
        c->compared_ns = c->began_ns;
    }
    room_release(&compared, c->scraper->options.with.budget);
    return outcome;
}

static void work(struct lane_job *job, void *lane)
{
    struct scrape *c = container_of(job, struct scrape, job);
    cleanup(pprof_taking_release) struct pprof_taking t;
    struct bytes file = buffer_bytes(&c->body);
    enum refusal refusal =
        pprof_taking_init(&t, c->scraper->options.request_bytes, c->scraper->options.with.budget);
    if (refusal == REFUSAL_NONE)
        refusal = pprof_unpack(&t, &file, &c->why);
    c->outcome = refusal == REFUSAL_NONE ? compare_and_push(c, &t, file, lane) : outcome_of(refusal);
    if (c->outcome == OUTCOME_BUSY && c->why.text[0] == 0)
        error_set(&c->why, 0, "out of memory just now");
    if (c->outcome == OUTCOME_TOO_LARGE && c->why.text[0] == 0)
        error_set(&c->why, 0, "the profile is larger than limits.request_bytes");
}

static void come_back(struct lane_job *job)
{
    struct scrape *c = container_of(job, struct scrape, job);
    if (job->refused) {
        c->outcome = OUTCOME_BUSY;
        error_set(&c->why, 0, "too much waits to be worked on");
    }
    settle(c);
}

/* ---- asking ---- */

static void fail(struct scrape *c, enum outcome outcome, const char *why)
{
    c->outcome = outcome;
    error_set(&c->why, 0, "%s", why);
}

#define TOO_LONG "the answer is longer than body_size_limit"

/* Counts the answer to its tenant, as if it had been sent. */
static bool is_let_in(struct scrape *c, size_t n)
{
    const char *tenant = c->asking->job->tenant;
    struct access_worker *w = c->scraper->access;
    const uint64_t now = io_loop_now(c->scraper->options.with.loop);
    uint64_t retry_ns;
    return !w || (access_enter_for(w, bytes_str(tenant ? tenant : ""), (int64_t)n, &c->pass, now,
                                   &retry_ns) == ACCESS_YES &&
                  access_body(w, &c->pass, n, now, &retry_ns) == ACCESS_YES);
}

static void on_answer(void *user, const struct http_response *response)
{
    struct scrape *c = user;
    struct budget *budget = c->scraper->options.with.budget;
    if (response->body.n > c->asking->job->body_max) {
        fail(c, OUTCOME_TOO_LARGE, TOO_LONG);
    } else if (response->status != 200) {
        c->outcome = OUTCOME_STATUS;
        error_set(&c->why, 0, "it answers HTTP %u", response->status);
    } else if (!is_let_in(c, response->body.n)) {
        fail(c, OUTCOME_LIMITED, "over a limit of its tenant");
    } else if (room_make(&c->body, response->body.n + PROFILES_PADDING, budget) != 0) {
        fail(c, OUTCOME_BUSY, "out of memory just now");
    } else {
        memcpy(c->body.p, response->body.p ? response->body.p : c->body.p, response->body.n);
        c->body.n = response->body.n;
    }
}

static void on_end(void *user, enum inquiry_end end, const char *why)
{
    struct scrape *c = user;
    c->inquiry = NULL;
    switch (end) {
    case INQUIRY_ANSWERED: break; /* that has said it */
    case INQUIRY_UNREACHED: fail(c, OUTCOME_UNREACHED, why); break;
    case INQUIRY_LATE: fail(c, OUTCOME_LATE, "no answer within scrape_timeout"); break;
    case INQUIRY_TOO_LARGE: fail(c, OUTCOME_TOO_LARGE, TOO_LONG); break;
    case INQUIRY_NO_MEMORY: fail(c, OUTCOME_BUSY, why); break;
    }
    if (c->outcome != OUTCOME_OK) {
        settle(c);
        return;
    }
    c->job = (struct lane_job){.work = work, .client = client_of(c), .bytes = c->body.cap};
    if (lane_put(c->scraper->inbox, &c->job) == 0)
        return;
    fail(c, OUTCOME_BUSY, "too much waits to be worked on");
    settle(c);
}

/* What response_max counts beside the body. */
#define RESPONSE_HEAD_MAX (16u << 10)

static void ask(struct scrape *c)
{
    const struct scrape_job *job = c->asking->job;
    const struct scraper_means *with = &c->scraper->options.with;
    uint32_t n = 0;
    c->headers[n++] = (struct http_header){BYTES_LIT("user-agent"), BYTES_LIT("profgate/" PROFGATE_VERSION)};
    c->headers[n++] = (struct http_header){BYTES_LIT("accept"), BYTES_LIT("*/*")};
    if (c->asking->authorization.n > 0)
        c->headers[n++] =
            (struct http_header){BYTES_LIT("authorization"), buffer_bytes(&c->asking->authorization)};
    const struct inquiry_options options = {
        .connection = {.loop = with->loop,
                       .endpoint = &c->endpoint,
                       .tls = c->asking->tls,
                       .server_name = job->server_name,
                       .response_max = job->body_max + RESPONSE_HEAD_MAX,
                       .budget = with->budget},
        .request = {.method = "GET", .path = c->path, .headers = c->headers, .n_headers = n},
        .timeout_ns = job->timeout_ns,
        .on_answer = on_answer,
        .on_end = on_end,
        .user = c,
    };
    c->began_ns = io_loop_now(with->loop);
    c->why.text[0] = 0;
    c->has_restarted = false;
    c->outcome = OUTCOME_OK;
    c->inquiry = inquiry_new(&options);
    if (!c->inquiry)
        on_end(c, INQUIRY_NO_MEMORY, "out of memory just now");
}

static void on_timer(void *user)
{
    ask(user);
}

/* ---- making ---- */

static int make_asking(struct asking *a, const struct scrape_job *job, struct error *e)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    a->job = job;
    if (job->tenant && !access_is_tenant(bytes_str(job->tenant)))
        return error_set(
            e, -EINVAL,
            "receivers.pprof_scrape %s: tenant: at most 128 letters, digits and !-_.*'() belong here",
            job->name);
    int r =
        job->secret_file ? authorization_from_file(job->username, job->secret_file, &a->authorization, e) : 0;
    if (r < 0 || !job->tls)
        return r < 0 ? error_prefix(e, r, "receivers.pprof_scrape: ") : r;
    const struct tls_options tls = {
        .ca_file = job->ca_file,
        .cert_file = job->cert_file,
        .key_file = job->key_file,
        .alpn = alpn,
        .insecure_skip_verify = job->insecure_skip_verify,
    };
    r = tls_context_new(&a->tls, &tls, e);
    return r < 0 ? error_prefix(e, r, "receivers.pprof_scrape %s: ", job->name) : 0;
}

static int make_path(struct scrape *c, const struct scrape_job *job)
{
    int n = c->profile[0] == '/' ? asprintf(&c->path, "%s", c->profile)
            : strcmp(c->profile, "profile") == 0
                ? asprintf(&c->path, "%s/%s?seconds=%u", job->path_prefix, c->profile, job->seconds)
                : asprintf(&c->path, "%s/%s", job->path_prefix, c->profile);
    if (n < 0)
        c->path = NULL;
    return n < 0 ? -ENOMEM : 0;
}

/* service.name and service.instance.id as OTel's compatibility with Prometheus has them for job and instance;
 * labels may say others. */
static int make_origin(struct scrape *c, const struct scrape_job *job, struct error *e)
{
    const struct scrape_label usual[] = {{"service.name", job->name}, {"service.instance.id", c->target}};
    enum refusal refusal = REFUSAL_NONE;
    origin_init(&c->origin, c->scraper->options.links, NULL);
    for (uint32_t i = 0; i < job->n_labels && refusal == REFUSAL_NONE; i++)
        refusal = origin_add(&c->origin, bytes_str(job->labels[i].name), bytes_str(job->labels[i].value), e);
    for (size_t i = 0; i < ARRAY_LEN(usual) && refusal == REFUSAL_NONE; i++) {
        bool is_said = false;
        for (uint32_t k = 0; k < job->n_labels; k++)
            is_said |= strcmp(job->labels[k].name, usual[i].name) == 0;
        if (!is_said)
            refusal = origin_add(&c->origin, bytes_str(usual[i].name), bytes_str(usual[i].value), e);
    }
    return refusal == REFUSAL_NONE ? 0 : error_prefix(e, -EINVAL, "receivers.pprof_scrape.labels: ");
}

static int make_scrape(struct scrape *c, struct rng *rng, struct error *e)
{
    const struct scrape_job *job = c->asking->job;
    struct io_loop *loop = c->scraper->options.with.loop;
    int r = endpoint_parse(&c->endpoint, c->target, job->tls ? 443 : 80, e);
    if (r < 0)
        return error_prefix(e, r, "receivers.pprof_scrape.targets: ");
    r = make_path(c, job);
    r = r < 0 ? r : make_origin(c, job, e);
    if (r < 0)
        return r;
    c->delta = delta_new(c->scraper->options.with.budget);
    c->timer = io_timer_new(loop, on_timer, c);
    if (!c->delta || !c->timer)
        return -ENOMEM;
    c->next_ns = io_loop_now(loop) + (uint64_t)(rng_unit(rng) * (double)job->interval_ns);
    io_timer_set(c->timer, c->next_ns);
    return 0;
}

static int make_all(struct scraper *s, struct error *e)
{
    const struct scraper_options *o = &s->options;
    struct rng rng;
    uint32_t n = 0;
    int r = 0;
    rng_seed(&rng, hash_seed());
    for (uint32_t i = 0; i < o->n_jobs; i++)
        n += o->jobs[i].n_targets * o->jobs[i].n_profiles;
    s->askings = calloc(o->n_jobs, sizeof *s->askings);
    s->scrapes = calloc(n, sizeof *s->scrapes);
    if (!s->askings || !s->scrapes)
        return -ENOMEM;
    for (uint32_t i = 0; i < o->n_jobs && r == 0; i++) {
        const struct scrape_job *job = &o->jobs[i];
        r = make_asking(&s->askings[i], job, e);
        for (uint32_t k = 0; k < job->n_targets * job->n_profiles && r == 0; k++) {
            struct scrape *c = &s->scrapes[s->n_scrapes++];
            c->scraper = s;
            c->asking = &s->askings[i];
            c->target = job->targets[k / job->n_profiles];
            c->profile = job->profiles[k % job->n_profiles];
            r = make_scrape(c, &rng, e);
        }
    }
    return r;
}

int scraper_new(struct scraper **ret, const struct scraper_options *options, struct error *e)
{
    struct scraper *s = calloc(1, sizeof *s);
    e->text[0] = 0;
    if (!s)
        return error_set(e, -ENOMEM, "out of memory");
    s->options = *options;
    if (options->with.access)
        s->access = access_worker_new(options->with.access, options->with.loop, options->with.stats);
    s->inbox = lane_inbox_new(options->with.lanes, options->with.loop, come_back);
    int r = s->inbox && (s->access || !options->with.access) ? make_all(s, e) : -ENOMEM;
    if (r == 0) {
        *ret = s;
        return 0;
    }
    scraper_free(s);
    return e->text[0] ? r : error_set(e, r, "out of memory");
}

void scraper_stop(struct scraper *s)
{
    if (!s || s->stopped)
        return;
    s->stopped = true;
    for (uint32_t i = 0; i < s->n_scrapes; i++) {
        struct scrape *c = &s->scrapes[i];
        if (c->timer)
            io_timer_stop(c->timer);
        c->inquiry = inquiry_free(c->inquiry);
    }
    if (s->inbox)
        lane_inbox_close(take_ptr(s->inbox));
}

static bool is_same(const struct scrape *a, const struct scrape *b)
{
    return strcmp(a->target, b->target) == 0 && strcmp(a->path, b->path) == 0 &&
           strcmp(a->asking->job->name, b->asking->job->name) == 0 && !a->asking->tls == !b->asking->tls;
}

static void inherit(struct scrape *c, struct scrape *from)
{
    struct delta *delta = c->delta;
    c->delta = from->delta;
    from->delta = delta;
    c->compared_ns = from->compared_ns;
    c->is_up = from->is_up;
    c->was_asked = from->was_asked;
    memcpy(c->n, from->n, sizeof c->n);
    c->restarts = from->restarts;
    c->took_ns = from->took_ns;
    c->next_ns = min_of(c->next_ns, from->next_ns);
    io_timer_set(c->timer, c->next_ns);
}

void scraper_inherit(struct scraper *s, struct scraper *from)
{
    for (uint32_t i = 0; i < s->n_scrapes; i++)
        for (uint32_t k = 0; k < from->n_scrapes; k++)
            if (is_same(&s->scrapes[i], &from->scrapes[k])) {
                inherit(&s->scrapes[i], &from->scrapes[k]);
                break;
            }
}

struct scraper *scraper_free(struct scraper *s)
{
    if (!s)
        return NULL;
    scraper_stop(s);
    for (uint32_t i = 0; i < s->n_scrapes; i++) {
        struct scrape *c = &s->scrapes[i];
        io_timer_free(c->timer);
        delta_free(c->delta);
        origin_release(&c->origin);
        endpoint_release(&c->endpoint);
        if (s->access)
            access_exit(s->access, &c->pass);
        room_release(&c->body, s->options.with.budget);
        free(c->path);
    }
    for (uint32_t i = 0; i < s->options.n_jobs && s->askings; i++) {
        tls_context_free(s->askings[i].tls);
        buffer_release(&s->askings[i].authorization);
    }
    access_worker_free(s->access);
    free(s->askings);
    free(s->scrapes);
    free(s);
    return NULL;
}

/* ---- /metrics ---- */

/* What it has of a series but for its end. */
static void show_scrape(const struct scrape *c, const char *name, struct exposition *x)
{
    exposition_print(x, "%s{", name);
    exposition_label(x, "job", bytes_str(c->asking->job->name));
    exposition_print(x, ",");
    exposition_label(x, "target", bytes_str(c->target));
    exposition_print(x, ",");
    exposition_label(x, "profile", bytes_str(c->profile));
}

static void show_outcomes(const struct scraper *s, struct exposition *x)
{
    static const char name[] = "profgate_scrapes_total";
    exposition_family(x, name, "counter", "Scrapes of profiles, by what came of them");
    for (uint32_t i = 0; i < s->n_scrapes; i++)
        for (int k = 0; k < OUTCOME_N; k++) {
            const struct scrape *c = &s->scrapes[i];
            if (c->n[k] == 0 && k != OUTCOME_OK)
                continue;
            show_scrape(c, name, x);
            exposition_print(x, ",outcome=\"%s\"} %llu\n", outcome_words[k], (unsigned long long)c->n[k]);
        }
}

int scraper_show(const struct scraper *s, struct buffer *out)
{
    static const char up[] = "profgate_scrape_up", took[] = "profgate_scrape_duration_seconds",
                      restarts[] = "profgate_scrape_restarts_total";
    struct exposition x = {.out = out};
    exposition_family(&x, up, "gauge", "Whether the last scrape of a target's profile was counted");
    for (uint32_t i = 0; i < s->n_scrapes; i++) {
        show_scrape(&s->scrapes[i], up, &x);
        exposition_print(&x, "} %d\n", s->scrapes[i].is_up);
    }
    exposition_family(&x, took, "gauge", "How long the last scrape took");
    for (uint32_t i = 0; i < s->n_scrapes; i++) {
        show_scrape(&s->scrapes[i], took, &x);
        exposition_print(&x, "} %.6f\n", (double)s->scrapes[i].took_ns / NSEC_PER_SEC);
    }
    exposition_family(&x, restarts, "counter",
                      "Targets that were found to be another process than at the scrape before");
    for (uint32_t i = 0; i < s->n_scrapes; i++) {
        show_scrape(&s->scrapes[i], restarts, &x);
        exposition_print(&x, "} %llu\n", (unsigned long long)s->scrapes[i].restarts);
    }
    show_outcomes(s, &x);
    return x.r;
}
