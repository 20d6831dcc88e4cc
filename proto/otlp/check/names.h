/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What semantic-conventions say of attributes' names: names.def as a table.
 */
#ifndef PROTO_OTLP_CHECK_NAMES_H
#define PROTO_OTLP_CHECK_NAMES_H

#include <stdint.h>

#include "proto/base/bytes.h"

/* The type of a value. */
enum check_kind {
    KIND_NONE,
    KIND_STRING,
    KIND_BOOL,
    KIND_INT,
    KIND_DOUBLE,
    KIND_BYTES,
    KIND_MAP,
    KIND_ARRAY,   /* of what has several types, or none */
    KIND_STRINGS, /* an array of strings */
    KIND_INTS,
};

/* What an attribute describes. */
enum check_place {
    PLACE_ANYWHERE,
    PLACE_RESOURCE,
    PLACE_SCOPE,
    PLACE_PROFILE,
    PLACE_SAMPLE,
    PLACE_MAPPING,
    PLACE_LOCATION,
};

struct check_name {
    const char *name;
    uint8_t kind, place;
    const char *instead; /* it was renamed; NULL: it was not */
};

/* The convention of that name, or NULL. */
const struct check_name *check_name(struct bytes name);

/* "a string", "a mapping". */
const char *check_kind_name(enum check_kind kind);
const char *check_place_name(enum check_place place);

/* Whether it is one of the well-known values of profile.frame.type. */
bool check_is_frame_type(struct bytes value);

#endif
