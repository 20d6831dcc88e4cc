/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/body.h"

#include <errno.h>

#include "proto/base/macros.h"
#include "proto/coding/coding.h"
#include "proto/base/room.h"

int body_reader_init(struct body_reader *r, size_t limit, size_t keep, struct budget *budget,
                     struct meter *meter)
{
    *r = (struct body_reader){.budget = budget,
                              .meter = meter,
                              .working = meter ? &meter->budget : budget,
                              .limit = limit,
                              .keep = keep};
    r->proto.max = limit < SIZE_MAX - PROFILES_PADDING ? limit + PROFILES_PADDING : SIZE_MAX;
    r->decoder = coding_decoder_new();
    return r->decoder ? 0 : -ENOMEM;
}

void body_reader_release(struct body_reader *r)
{
    room_release(&r->plain, r->working);
    room_release(&r->proto, r->working);
    r->decoder = coding_decoder_free(r->decoder);
}

void body_clear(struct body_reader *r)
{
    room_clear(&r->plain, r->keep, r->working);
    room_clear(&r->proto, r->keep, r->working);
}

static enum refusal decode(struct body_reader *r, const struct request *q, size_t light, struct bytes *body,
                           struct error *why)
{
    const struct bytes coded = *body;
    int result = coding_decode(r->decoder, q->route.coding, coded, min_of(r->limit, light), PROFILES_PADDING,
                               r->working, &r->plain);
    *body = buffer_bytes(&r->plain);
    switch (result) {
    case 0: return REFUSAL_NONE;
    case CODING_CORRUPT: {
        const char *more = coding_explain(q->route.coding, coded);
        if (more)
            error_set(why, 0, "the body's encoding, %s: %s", coding_name(q->route.coding), more);
        return REFUSAL_CORRUPT;
    }
    case CODING_TOO_LARGE: return REFUSAL_TOO_LARGE;
    default: return REFUSAL_BUSY;
    }
}

/* What came, if who passes it on may be sure that any receiver reads it as we did. */
static struct buffer *whole_coded(const struct body_reader *r, struct request *q)
{
    const bool is_whole = request_is_coded(q) && coding_decoder_parts(r->decoder) == 1;
    return is_whole ? &q->body : NULL;
}

/* How large it becomes is not known before it is decoded: where the body's head does not tell, the worker
 * finds out by decoding `light` bytes of it, which is a few tenths of a millisecond, and throws them away. */
int body_read(struct body_reader *r, struct request *q, enum profiles_layout layout, size_t light,
              struct body *ret, enum refusal *ret_refusal, struct error *why)
{
    enum refusal refusal = REFUSAL_NONE;
    why->text[0] = 0;
    ret->layout = layout;
    ret->bytes = buffer_bytes(&q->body);
    if (request_is_coded(q))
        refusal = decode(r, q, light, &ret->bytes, why);
    if (refusal == REFUSAL_TOO_LARGE && light < r->limit)
        return BODY_LARGE;
    if (refusal == REFUSAL_NONE && light < r->limit && q->route.intake->size &&
        q->route.intake->size(ret->bytes) > light)
        return BODY_LARGE;
    ret->n_plain = ret->bytes.n;
    if (refusal == REFUSAL_NONE && q->route.intake->answer) {
        q->answer.max = r->limit;
        *ret_refusal =
            q->route.intake->answer(&q->head, ret->bytes, &q->answer, r->budget, &q->answer_type, why);
        return 0;
    }
    ret->received = (struct received){
        .coding = request_is_coded(q) ? q->route.coding : CODING_IDENTITY,
        .plain = request_is_coded(q) ? &r->plain : &q->body,
        .coded = whole_coded(r, q),
        .plain_budget = request_is_coded(q) ? r->working : r->budget,
        .coded_budget = r->budget,
    };
    if (refusal == REFUSAL_NONE && q->route.intake->decode) {
        struct profiles_written as = {layout, 0};
        refusal = q->route.intake->decode(&q->head, ret->bytes, &r->proto, r->working, &as, why);
        ret->layout = as.layout;
        ret->received.unknown_fields = as.unknown_fields;
        ret->bytes = buffer_bytes(&r->proto);
        ret->received.plain = &r->proto;
        ret->received.plain_budget = r->working;
        ret->received.coded = NULL; /* it is of what the intake takes, not of what that is */
    }
    if (refusal == REFUSAL_BUSY && r->meter && meter_is_too_much(r->meter)) {
        error_set(why, 0, "the request is larger than what there is memory for");
        refusal = REFUSAL_TOO_LARGE;
    }
    *ret_refusal = refusal;
    return 0;
}
