/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a profiles request with their fields' JSON names, numbers and types: one row a field, a
 * table for each message that a layout has of its own. 1.9 has the names of 1.10 = 1.11, so there is no way
 * and no need to tell them apart in JSON; older ones are told by keys that only they have (NAME_OLD). Private
 * to proto/otlp.
 */
#ifndef PROTO_OTLP_JSON_NAMES_H
#define PROTO_OTLP_JSON_NAMES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/otlp/view/profiles.h"

enum name_type {
    NAME_INT32,
    NAME_UINT32,
    NAME_INT64,
    NAME_UINT64,
    NAME_FIXED64,
    NAME_BOOL,
    NAME_DOUBLE,
    NAME_STRING,
    NAME_BYTES,
    NAME_TRACE_ID,
    NAME_SPAN_ID,
    NAME_PROFILE_ID,
    NAME_MESSAGE,
    NAME_OLD, /* a key that only layouts up to one have, which is in .message */
};

enum name_message {
    MESSAGE_REQUEST,
    MESSAGE_RESOURCE_PROFILES,
    MESSAGE_SCOPE_PROFILES,
    MESSAGE_PROFILE,
    MESSAGE_SAMPLE,
    MESSAGE_VALUE_TYPE,
    MESSAGE_DICTIONARY,
    MESSAGE_MAPPING,
    MESSAGE_LOCATION,
    MESSAGE_LINE,
    MESSAGE_FUNCTION,
    MESSAGE_LINK,
    MESSAGE_STACK,
    MESSAGE_KEY_VALUE_AND_UNIT,
    MESSAGE_ATTRIBUTE_UNIT, /* up to 1.7 */
    MESSAGE_RESOURCE,
    MESSAGE_SCOPE,
    MESSAGE_ENTITY_REF,
    MESSAGE_KEY_VALUE,
    MESSAGE_ANY_VALUE,
    MESSAGE_ARRAY_VALUE,
    MESSAGE_KEY_VALUE_LIST,
    MESSAGES
};

struct name_field {
    struct bytes json, proto; /* lowerCamelCase; and as in the .proto, which the Collector takes too */
    uint8_t number;
    uint8_t type, message; /* enum name_type; enum name_message, or of NAME_OLD enum profiles_layout */
    bool repeated;
};

struct name_fields {
    const struct name_field *field;
    uint32_t n;
};

/* The fields of a message in a layout: 1.5, 1.7, 1.8, or those of 1.10 for any other. */
const struct name_fields *name_fields(enum profiles_layout layout, enum name_message message);

/* The field of that table with that key, looked for from row *hint on, which becomes the row behind it:
 * writers keep an order. NULL for an unknown key. */
const struct name_field *name_find(enum profiles_layout layout, enum name_message message, struct bytes key,
                                   uint32_t *hint);

#endif
