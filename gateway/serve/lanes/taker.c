/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/lanes/taker.h"

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/coding/room.h"

static enum refusal refusal_of(enum ingest_verdict verdict)
{
    switch (verdict) {
    case INGEST_ACCEPTED: return REFUSAL_NONE;
    case INGEST_MALFORMED: return REFUSAL_MALFORMED;
    case INGEST_UNSUPPORTED: return REFUSAL_UNSUPPORTED;
    case INGEST_TOO_LARGE: return REFUSAL_TOO_LARGE;
    default: return REFUSAL_BUSY;
    }
}

int taker_take(struct taker *t, const struct request *q, enum profiles_layout layout, size_t light,
               struct outcome *ret)
{
    struct body body;
    int r = body_read(&t->reader, q, layout, light, &body, &ret->refusal, &ret->answer.message);
    if (r == BODY_HEAVY)
        return TAKER_HEAVY;
    ret->is_of_ingest = ret->refusal == REFUSAL_NONE;
    if (ret->is_of_ingest) {
        stats_add(t->stats, STATS_REQUEST_BYTES_PLAIN, body.n_plain);
        ingest_push(t->ingest, body.bytes, body.layout, &ret->answer);
        ret->refusal = refusal_of(ret->answer.verdict);
    }
    body_clear(&t->reader);
    return 0;
}

void heavy_work(struct lane_job *job, void *lane)
{
    struct heavy *h = container_of(job, struct heavy, job);
    struct taker *t = lane;
    struct request *q = h->request;
    h->outcome.is_of_ingest = false;
    h->outcome.answer.message.text[0] = 0;
    if (q->deadline_ns != UINT64_MAX && clock_monotonic() >= q->deadline_ns)
        h->outcome.refusal = REFUSAL_LATE;
    else
        taker_take(t, q, h->layout, SIZE_MAX, &h->outcome);
    if (q->body.cap > t->reader.keep)
        room_release(&q->body, t->reader.budget);
}
