/* SPDX-License-Identifier: Apache-2.0 */
/*
 * READY → WORKING: a lane copies it behind padding, or out of JSON, and pushes it to ingest → UNSAFE, where
 * an exporter's disk is waited for → DONE; what ingest was too busy for is READY again, later.
 */
#include "gateway/kafka/messages.h"

#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/ingest/ingest.h"
#include "gateway/serve/lanes/lanes.h"
#include "gateway/serve/lanes/processor.h"
#include "gateway/serve/otlp/otlp.h"
#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"
#include "proto/base/promise.h"
#include "proto/base/room.h"

#define AGAIN_NS (100 * (uint64_t)NSEC_PER_MSEC)

const char *const message_outcome_words[OUTCOME_N] = {
#define OUTCOME_WORD(id, word) word,
    MESSAGE_OUTCOMES(OUTCOME_WORD)
#undef OUTCOME_WORD
};

enum { WAITS, KEPT, LEFT };

struct handled {
    struct message base;
    struct messages *all;
    struct lane_job job;
    struct ingest_answer answer;
    struct io_post post; /* of the promise */
    atomic_int safe;
    int failed;
};

/* ---- on a lane ---- */

static enum ingest_verdict verdict_of(enum refusal refusal)
{
    return refusal == REFUSAL_NONE          ? INGEST_ACCEPTED
           : refusal == REFUSAL_TOO_LARGE   ? INGEST_TOO_LARGE
           : refusal == REFUSAL_MALFORMED   ? INGEST_MALFORMED
           : refusal == REFUSAL_UNSUPPORTED ? INGEST_UNSUPPORTED
                                            : INGEST_BUSY;
}

/* The request with readable bytes behind it: librdkafka's has none. */
static enum ingest_verdict read_request(struct handled *m, struct buffer *out, struct profiles_written *ret)
{
    const struct messages_options *o = &m->all->options;
    const struct intake_head none = {0};
    const struct bytes payload = bytes_of(m->base.from->payload, m->base.from->len);
    if (payload.n > o->request_bytes)
        return INGEST_TOO_LARGE;
    if (o->json)
        return verdict_of(otlp_http_json.decode(&none, payload, out, o->budget, ret, &m->answer.message));
    if (room_make(out, payload.n + PROFILES_PADDING, o->budget) != 0)
        return INGEST_BUSY;
    if (payload.n > 0)
        memcpy(out->p, payload.p, payload.n);
    memset(out->p + payload.n, 0, PROFILES_PADDING);
    out->n = payload.n;
    return INGEST_ACCEPTED;
}

static void work(struct lane_job *job, void *lane)
{
    struct handled *m = container_of(job, struct handled, job);
    struct processor *p = lane;
    const struct messages_options *o = &m->all->options;
    struct buffer request = BUFFER_INIT(o->request_bytes + PROFILES_PADDING);
    struct profiles_written written = {PROFILES_LAYOUT_UNKNOWN};
    struct received received = {.coding = CODING_IDENTITY, .plain = &request, .plain_budget = o->budget};
    m->answer = (struct ingest_answer){0};
    m->answer.verdict = read_request(m, &request, &written);
    if (m->answer.verdict == INGEST_ACCEPTED) {
        received.unknown_fields = written.unknown_fields;
        ingest_from(p->ingest, 0);
        ingest_push(p->ingest, buffer_bytes(&request), written.layout, &received, &m->answer);
    }
    room_release(&request, o->budget);
}

/* ---- the loop ---- */

static void try_again(struct handled *m)
{
    struct messages *ms = m->all;
    message_becomes(&m->base, MESSAGE_READY);
    ms->again_ns = io_loop_now(ms->options.loop) + AGAIN_NS;
    ms->again++;
}

static void hand_over(struct handled *m)
{
    message_becomes(&m->base, MESSAGE_WORKING);
    if (lane_put(m->all->inbox, &m->job) != 0)
        try_again(m);
}

static void poisoned(const struct handled *m, enum message_outcome outcome)
{
    const struct partition *p = m->base.partition;
    log_limited(LOG_LEVEL_ERROR,
                "kafka message passed over topic=%s partition=%d offset=%" PRId64
                " bytes=%zu outcome=%s error=\"%s\"",
                p->topic, p->id, m->base.from->offset, m->base.from->len, message_outcome_words[outcome],
                m->answer.message.text[0] ? m->answer.message.text : "larger than limits.request_bytes");
}

/* It comes to an end, whatever it is. */
static void settle(struct handled *m)
{
    const enum ingest_verdict verdict = m->answer.verdict;
    const enum message_outcome outcome = verdict == INGEST_TOO_LARGE       ? OUTCOME_TOO_LARGE
                                         : verdict == INGEST_MALFORMED     ? OUTCOME_MALFORMED
                                         : verdict == INGEST_UNSUPPORTED   ? OUTCOME_UNSUPPORTED
                                         : m->answer.rejected_profiles > 0 ? OUTCOME_PARTIAL
                                                                           : OUTCOME_OK;
    m->all->n[outcome]++;
    if (verdict != INGEST_ACCEPTED)
        poisoned(m, outcome);
    message_becomes(&m->base, MESSAGE_DONE);
}

/* Behind whatever happened to a message of p that was worked on. */
static void go_on(struct messages *ms, struct partition *p)
{
    partition_sweep(p, p->is_leaving || ms->is_stopped);
    if (!ms->is_stopped)
        ms->options.moved(ms->options.context);
}

/* The disk has it, or took nothing: then it is counted again, as another producer's would be, who was told to
 * come again. */
static void on_safe(void *arg)
{
    struct handled *m = arg;
    if (m->failed)
        try_again(m);
    else
        settle(m);
    go_on(m->all, m->base.partition);
}

/* Any thread. */
static void on_kept(void *arg, int r)
{
    struct handled *m = arg;
    m->failed = r;
    if (atomic_exchange(&m->safe, KEPT) == LEFT)
        free(m);
    else
        io_loop_post_in(m->all->options.loop, &m->post);
}

static void come_back(struct lane_job *job)
{
    struct handled *m = container_of(job, struct handled, job);
    if (job->refused) {
        job->refused = false;
        try_again(m);
    } else if (m->answer.verdict == INGEST_BUSY) {
        try_again(m);
    } else if (m->answer.safe) {
        message_becomes(&m->base, MESSAGE_UNSAFE);
        m->post = (struct io_post){.fn = on_safe, .arg = m};
        m->safe = WAITS;
        promise_await(take_ptr(m->answer.safe), on_kept, m);
        return;
    } else {
        settle(m);
    }
    go_on(m->all, m->base.partition);
}

/* ---- what comes in ---- */

int messages_init(struct messages *ms, const struct messages_options *options)
{
    *ms = (struct messages){.options = *options};
    ms->inbox = lane_inbox_new(options->lanes, options->loop, come_back);
    return ms->inbox ? 0 : -ENOMEM;
}

bool messages_take(struct messages *ms, struct partition *p, rd_kafka_message_t *from)
{
    struct handled *m = calloc(1, sizeof *m);
    if (!m)
        return false;
    m->all = ms;
    m->job = (struct lane_job){.work = work, .client = hash_bytes(BYTES_LIT("kafka"), 0), .bytes = from->len};
    partition_add(p, &m->base, from, from->offset + 1);
    hand_over(m);
    return true;
}

void messages_end(struct messages *ms, struct partition *p, int64_t end)
{
    struct handled *m = calloc(1, sizeof *m);
    if (!m)
        return;
    m->all = ms;
    partition_add(p, &m->base, NULL, end);
    message_becomes(&m->base, MESSAGE_DONE);
    partition_sweep(p, false);
}

void messages_retry(struct messages *ms)
{
    const struct partitions *ps = ms->options.partitions;
    if (ps->n_ready == 0 || ps->n_working > 0 || io_loop_now(ms->options.loop) < ms->again_ns)
        return;
    for (uint32_t i = 0; i < ps->of.n; i++) {
        struct message *m;
        TAILQ_FOREACH (m, &ps->of.p[i]->messages, next)
            if (m->state == MESSAGE_READY) {
                hand_over(container_of(m, struct handled, base));
                return;
            }
    }
}

/* ---- the end ---- */

void messages_stop(struct messages *ms)
{
    const struct partitions *ps = ms->options.partitions;
    ms->is_stopped = true;
    if (ms->inbox)
        lane_inbox_close(take_ptr(ms->inbox));
    for (uint32_t i = 0; ps && i < ps->of.n; i++)
        partition_sweep(ps->of.p[i], true);
}

/* Those of a partition: false: one is on its way, which is to come first. */
static bool leave(struct partition *p)
{
    for (struct message *m = TAILQ_FIRST(&p->messages), *next; m; m = next) {
        int waits = WAITS;
        struct handled *h = container_of(m, struct handled, base);
        next = TAILQ_NEXT(m, next);
        if (m->state != MESSAGE_UNSAFE)
            continue;
        if (!atomic_compare_exchange_strong(&h->safe, &waits, LEFT))
            return false;
        TAILQ_REMOVE(&p->messages, m, next); /* whoever keeps the promise frees it */
        rd_kafka_message_destroy(m->from);
    }
    return true;
}

void messages_leave(struct messages *ms)
{
    const struct partitions *ps = ms->options.partitions;
    for (uint32_t i = 0; ps && i < ps->of.n; i++)
        while (!leave(ps->of.p[i]))
            io_loop_run_once(ms->options.loop, NSEC_PER_SEC);
}
