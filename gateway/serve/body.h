/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a complete request has in it: its body out of its content coding, and as what ingest decodes. One for
 * each worker; the memory is kept from request to request, up to a bound, and is on the budget.
 */
#ifndef GATEWAY_SERVE_BODY_H
#define GATEWAY_SERVE_BODY_H

#include "gateway/serve/request.h"
#include "proto/base/error.h"
#include "proto/base/meter.h"
#include "proto/coding/received.h"
#include "proto/otlp/view/profiles.h"

struct coding_decoder;

struct body_reader {
    struct budget *budget;  /* a request's own memory is on it */
    struct meter *meter;    /* of the work; NULL: there is none */
    struct budget *working; /* what is below is: the meter's, else the same */
    size_t limit, keep;     /* of what comes out; of the memory that stays */
    struct coding_decoder *decoder;
    struct buffer plain; /* the decompressed body */
    struct buffer proto; /* a body that was none of OTLP's protobuf, written as such (intake.decode) */
};

struct body {
    struct bytes bytes; /* protobuf, PROFILES_PADDING readable bytes behind it; until body_clear */
    enum profiles_layout layout;
    size_t n_plain; /* after decompression */
    struct received received;
};

/* 0 or -ENOMEM. */
int body_reader_init(struct body_reader *r, size_t limit, size_t keep, struct budget *budget,
                     struct meter *meter);
void body_reader_release(struct body_reader *r);

/* Conditions of body_read. */
enum {
    BODY_LARGE = 1, /* more than `light` bytes come out: the body is left as it was */
};

/* layout: of protobuf, PROFILES_LAYOUT_UNKNOWN if it is to be recognised; JSON tells its own. light: SIZE_MAX
 * to read whatever it is. 0 with *ret_refusal: REFUSAL_NONE and *ret, or why not: then *why has words of its
 * own, or none where the refusal's words say it all; or BODY_LARGE. What is in *ret is the reader's memory
 * and the request's, either of which may be taken out of ret->received. Of an intake that answers it is
 * q->answer that is filled, and nothing of *ret but n_plain. */
int body_read(struct body_reader *r, struct request *q, enum profiles_layout layout, size_t light,
              struct body *ret, enum refusal *ret_refusal, struct error *why);

/* Gives back what is more than `keep`. */
void body_clear(struct body_reader *r);

#endif
