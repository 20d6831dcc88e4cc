/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Protobuf's JSON mapping (protobuf.dev, "ProtoJSON Format") of messages that a table describes, both ways.
 * For small calls and for answers of our own; OTLP's profiles are read and written by profiles.h and write.h.
 */
#ifndef PROTO_OTLP_JSON_MAPPING_H
#define PROTO_OTLP_JSON_MAPPING_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "proto/base/json.h"
#include "proto/base/macros.h"
#include "proto/otlp/layouts/fields.h"

struct mapping_field {
    uint32_t number;
    const char
        *name; /* as the .proto has it; in JSON it is profileTypeID for profile_typeID, and both are read */
    enum field_type
        kind; /* INT64, quoted in JSON; INT32; BOOL, DOUBLE, STRING, BYTES, ENUM, MESSAGE; written, any */
    bool is_repeated;
    const struct mapping_message *message; /* of MESSAGE, or NULL: `ours` */
    const char *const *words;              /* of ENUM: [value], and NULL behind the last */
    enum message ours;                     /* of fields.def: these are only written */
};

/* Messages inside one another are as many as tables are: they do not refer to themselves. */
#define MAPPING_DEPTH_MAX 8u

struct mapping_message {
    const struct mapping_field *fields;
    uint32_t n;
};

/* A static table of these fields. */
#define MAPPING_TABLE(name, ...)                                       \
    static const struct mapping_field name##_fields[] = {__VA_ARGS__}; \
    static const struct mapping_message name = {name##_fields, ARRAY_LEN(name##_fields)}

/* Conditions. */
enum {
    MAPPING_MALFORMED = 1, /* *e says what is wrong */
};

/* Appends the message that a JSON text means; keys that the table does not have are passed over. 0,
 * MAPPING_MALFORMED, -ENOMEM or -ENOBUFS (out's maximum). */
int mapping_read(const struct mapping_message *m, struct bytes json, struct buffer *out, struct error *e);

/* What a field is called in JSON. */
#define MAPPING_NAME_MAX 64u
void mapping_name(const struct mapping_field *f, char ret[MAPPING_NAME_MAX]);

/* Writes a message as JSON (write.c); fields that the table does not have are left out. 0, MAPPING_MALFORMED,
 * or what j has. */
int mapping_write(const struct mapping_message *m, struct bytes message, struct json *j);

#endif
