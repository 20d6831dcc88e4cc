/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attribute: a key and an AnyValue (opentelemetry/proto/common/v1/common.proto), as slices over bytes that
 * somebody else owns.
 */
#ifndef PROTO_OTLP_ATTR_H
#define PROTO_OTLP_ATTR_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

enum attr_kind {
    ATTR_EMPTY, /* AnyValue with nothing set: valid (common.proto) */
    ATTR_STRING,
    ATTR_BOOL,
    ATTR_INT,
    ATTR_DOUBLE,
    ATTR_ARRAY,  /* .text is the serialized ArrayValue message, checked for depth and shape */
    ATTR_KVLIST, /* .text is the serialized KeyValueList message, likewise */
    ATTR_BYTES,
};

struct attr_value {
    enum attr_kind kind;
    union {
        struct bytes text; /* STRING, BYTES, ARRAY, KVLIST */
        bool boolean;
        int64_t integer;
        double real;
    };
};

struct attr {
    struct bytes key;
    struct attr_value value;
};

#endif
