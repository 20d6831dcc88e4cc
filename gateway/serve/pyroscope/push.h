/* SPDX-License-Identifier: Apache-2.0 */
/*
 * push.v1.PushRequest of Pyroscope (api/push/v1/push.proto, api/types/v1/types.proto at 3fe6a45): its
 * fields; and where Parca's WriteRawRequest
 * (proto/parca/profilestore/v1alpha1/profilestore.proto of parca-dev/parca at 3b5647c) has another one.
 * Private to gateway/serve/pyroscope.
 */
#ifndef GATEWAY_SERVE_PYROSCOPE_PUSH_H
#define GATEWAY_SERVE_PYROSCOPE_PUSH_H

#include "proto/base/bytes.h"

enum {
    REQUEST_SERIES = 1,
    WRITE_RAW_SERIES = 2,
    SERIES_LABELS = 1,
    SERIES_SAMPLES = 2,
    LABEL_NAME = 1,
    LABEL_VALUE = 2,
    SAMPLE_RAW_PROFILE = 1,
};

/* The last field of that number, bytes; empty where there is none. 0, or WIRE_MALFORMED. */
int push_field(struct bytes message, uint32_t number, struct bytes *ret);

#endif
