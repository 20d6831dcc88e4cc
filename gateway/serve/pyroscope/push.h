/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.v1.PushRequest of Pyroscope (api/push/v1/push.proto, api/types/v1/types.proto at 3fe6a45): its
 * fields, and its JSON; and where Parca's WriteRawRequest
 * (proto/parca/profilestore/v1alpha1/profilestore.proto of parca-dev/parca at 3b5647c) has another one.
 * Private to gateway/serve/pyroscope.
 */
#ifndef GATEWAY_SERVE_PYROSCOPE_PUSH_H
#define GATEWAY_SERVE_PYROSCOPE_PUSH_H

#include <stdbool.h>

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"

enum {
    REQUEST_SERIES = 1,
    WRITE_RAW_SERIES = 2,
    SERIES_LABELS = 1,
    SERIES_SAMPLES = 2,
    LABEL_NAME = 1,
    LABEL_VALUE = 2,
    SAMPLE_RAW_PROFILE = 1,
};

/* The two messages, which are alike but for this. */
struct push_form {
    uint32_t series; /* the field */
    bool has_set;    /* the labels of a series are a message that has them */
};

/* The last field of that number, bytes; empty where there is none. 0, or WIRE_MALFORMED. */
int push_field(struct bytes message, uint32_t number, struct bytes *ret);

/* Conditions of push_from_json. */
enum {
    PUSH_MALFORMED = 1, /* *e says what and where */
};

/* The JSON of such a message (protobuf.dev "ProtoJSON Format") as protobuf, into `out`, which is empty, and
 * whose memory is then on the budget. What is not a series, a label or a profile is passed over. 0, the
 * condition above, or -ENOMEM (memory, the budget). */
int push_from_json(const struct push_form *form, struct bytes json, struct budget *budget, struct buffer *out,
                   struct error *e);

#endif
