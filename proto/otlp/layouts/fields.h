/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of a profiles request and their fields by number, name and type, in each layout: fields.def as
 * constants and as a table. For proto/otlp.
 */
#ifndef PROTO_OTLP_LAYOUTS_FIELDS_H
#define PROTO_OTLP_LAYOUTS_FIELDS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/otlp/layouts/layout.h"
#include "proto/wire/wire.h"

/* SAMPLE_VALUES is Sample.values of 1.10, SAMPLE_VALUES_1_9 that of 1.9, and so on; 0: there is none. */
#define MESSAGE(m)
#define END(m)
#define FIELD(m, constant, proto, json, kind, v1_5, v1_7, v1_8, v1_9, v1_10)                \
    m##_##constant = (v1_10), m##_##constant##_1_5 = (v1_5), m##_##constant##_1_7 = (v1_7), \
    m##_##constant##_1_8 = (v1_8), m##_##constant##_1_9 = (v1_9),
enum {
#include "proto/otlp/layouts/fields.def"
};
#undef MESSAGE
#undef END
#undef FIELD

/* SAMPLE_HIGHEST is the highest field of Sample in 1.10, SAMPLE_HIGHEST_OLD in any layout before. */
#define MESSAGE(m) \
    m##_HIGHEST = sizeof(union {
#define FIELD(m, constant, proto, json, kind, v1_5, v1_7, v1_8, v1_9, v1_10) char constant[v1_10];
#define END(m) \
    }),
enum {
#include "proto/otlp/layouts/fields.def"
};
#undef MESSAGE
#undef FIELD
#define MESSAGE(m) \
    m##_HIGHEST_OLD = sizeof(union {
#define FIELD(m, constant, proto, json, kind, v1_5, v1_7, v1_8, v1_9, v1_10) \
    char constant[v1_5], constant##_1_7[v1_7], constant##_1_8[v1_8], constant##_1_9[v1_9];
enum {
#include "proto/otlp/layouts/fields.def"
};
#undef MESSAGE
#undef END
#undef FIELD

enum message {
#define MESSAGE(m) MESSAGE_##m,
#define FIELD(...)
#define END(m)
#include "proto/otlp/layouts/fields.def"
#undef MESSAGE
#undef FIELD
#undef END
    MESSAGES
};

/* ROW_SAMPLE_VALUES is Sample.values' place among the rows of Sample; ROWS_SAMPLE is how many there are. */
#define MESSAGE(m)              enum {
#define FIELD(m, constant, ...) ROW_##m##_##constant,
#define END(m) \
    ROWS_##m   \
    }          \
    ;
#include "proto/otlp/layouts/fields.def"
#undef MESSAGE
#undef FIELD
#undef END

enum field_type {
    FIELD_INT32,
    FIELD_UINT32,
    FIELD_INT64,
    FIELD_UINT64,
    FIELD_FIXED64,
    FIELD_SFIXED64,
    FIELD_BOOL,
    FIELD_ENUM,
    FIELD_DOUBLE,
    FIELD_STRING,
    FIELD_BYTES,
    FIELD_TRACE_ID, /* this and the next two: bytes, which JSON has in forms of their own */
    FIELD_SPAN_ID,
    FIELD_PROFILE_ID,
    FIELD_MESSAGE,
};

/* A row of fields.def. */
struct field {
    struct bytes proto, json;
    uint8_t number[PROFILES_LAYOUTS]; /* by enum profiles_layout; 0: that layout has it not */
    uint8_t type;                     /* enum field_type */
    uint8_t message;                  /* of FIELD_MESSAGE: enum message */
    uint8_t table; /* of an index: the number of its table in ProfilesDictionary of 1.10; else 0 */
    bool repeated;
    bool optional; /* had presence up to 1.7 */
    bool quiet;    /* its JSON key is no evidence of an older layout */
};

/* The rows of a message, in the order of fields.def. */
struct fields {
    const struct field *row;
    uint32_t n;
};
struct fields fields_of(enum message message);

/* The row that has a number in a layout (of two, the first); NULL: that layout knows of none. */
const struct field *field_numbered(enum profiles_layout layout, enum message message, uint32_t number);

/* The highest number of a message in a layout; 0: it has no such message. A number above it was not given
 * yet when that layout was made. */
uint32_t field_highest(enum profiles_layout layout, enum message message);

/* The wire type of one value of it, outside of a packed list. */
enum wire_type field_wire(const struct field *f);

/* Whether a field of that type can be it: also, of a list of numbers, all of them packed. */
bool field_takes(const struct field *f, enum wire_type type);

/* [number in one layout] = the number in another; 0: it has none there. No number is above NUMBERS. */
#define FIELD_NUMBERS 32u
void fields_renumber(enum message message, enum profiles_layout from, enum profiles_layout to,
                     uint8_t ret[FIELD_NUMBERS]);

#endif
