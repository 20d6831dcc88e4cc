/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/lanes/processor.h"

int processor_init(struct processor *p, const struct processor_options *options)
{
    p->ingest = options->ingest;
    p->stats = options->stats;
    return body_reader_init(&p->reader, options->request_bytes, options->keep_bytes, options->budget,
                            options->meter);
}

void processor_release(struct processor *p)
{
    body_reader_release(&p->reader);
}

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

int processor_run(struct processor *p, struct request *q, enum profiles_layout layout, size_t light,
                  struct processed *ret)
{
    struct body body;
    if (!ingest_from(p->ingest, q->client)) {
        ret->refusal = REFUSAL_BUSY;
        ret->is_of_ingest = false;
        error_set(&ret->answer.message, 0, INGEST_OVER_SHARE);
        return 0;
    }
    int r = body_read(&p->reader, q, layout, light, &body, &ret->refusal, &ret->answer.message);
    if (r == BODY_LARGE) { /* it is decoded again elsewhere: nothing of it may stand before the next one */
        body_clear(&p->reader);
        ingest_from(p->ingest, 0);
        return PROCESSOR_LARGE;
    }
    ret->is_of_ingest = ret->refusal == REFUSAL_NONE && !q->route.intake->answer;
    if (ret->is_of_ingest) {
        stats_add(p->stats, STATS_REQUEST_BYTES_PLAIN, body.n_plain);
        ingest_push(p->ingest, body.bytes, body.layout, &body.received, &ret->answer);
        ret->refusal = refusal_of(ret->answer.verdict);
    }
    body_clear(&p->reader);
    ingest_from(p->ingest, 0);
    return 0;
}
