/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of layouts: protobuf bytes of a known layout written as OTLP/JSON, by tables of our own of what
 * the .proto files of the releases say (v1.5.0, v1.7.0, v1.8.0, v1.9.0, v1.10.0), not from the reader's.
 */
#ifndef TESTS_UNIT_PROTO_OTLP_LAYOUTS_LEGACY_JSON_H
#define TESTS_UNIT_PROTO_OTLP_LAYOUTS_LEGACY_JSON_H

#include <inttypes.h>

#include "proto/wire/reader.h"
#include "tests/unit/proto/otlp/view/handmade.h"

/* i: number, I: number as a string (64 bits), b: bool, d: double, s: string, h: hex, p: base64; m: message.
 */
struct json_row {
    uint32_t number;
    const char *name;
    char type;
    bool repeated;
    const struct json_row *message;
};

#define ROW(number, name, type)         \
    {                                   \
        number, name, type, false, NULL \
    }
#define ROWS(number, name, type)       \
    {                                  \
        number, name, type, true, NULL \
    }
#define ROW_OF(number, name, message)     \
    {                                     \
        number, name, 'm', false, message \
    }
#define ROWS_OF(number, name, message)   \
    {                                    \
        number, name, 'm', true, message \
    }
#define LAST                    \
    {                           \
        0, NULL, 0, false, NULL \
    }

/* clang-format off */
static const struct json_row j_any[], j_key_value[];
static const struct json_row j_array[] = {ROWS_OF(1, "values", j_any), LAST};
static const struct json_row j_list[] = {ROWS_OF(1, "values", j_key_value), LAST};
static const struct json_row j_any[] = {
    ROW(1, "stringValue", 's'), ROW(2, "boolValue", 'b'), ROW(3, "intValue", 'I'), ROW(4, "doubleValue", 'd'),
    ROW_OF(5, "arrayValue", j_array), ROW_OF(6, "kvlistValue", j_list), ROW(7, "bytesValue", 'p'), LAST};
static const struct json_row j_key_value[] = {ROW(1, "key", 's'), ROW_OF(2, "value", j_any), LAST};
static const struct json_row j_resource[] = {ROWS_OF(1, "attributes", j_key_value), LAST};
static const struct json_row j_scope[] = {
    ROW(1, "name", 's'), ROW(2, "version", 's'), ROWS_OF(3, "attributes", j_key_value), LAST};
static const struct json_row j_type_old[] = {
    ROW(1, "typeStrindex", 'i'), ROW(2, "unitStrindex", 'i'), ROW(3, "aggregationTemporality", 'i'), LAST};
static const struct json_row j_link[] = {ROW(1, "traceId", 'h'), ROW(2, "spanId", 'h'), LAST};
static const struct json_row j_line[] = {
    ROW(1, "functionIndex", 'i'), ROW(2, "line", 'I'), ROW(3, "column", 'I'), LAST};
static const struct json_row j_function[] = {
    ROW(1, "nameStrindex", 'i'), ROW(2, "systemNameStrindex", 'i'), ROW(3, "filenameStrindex", 'i'),
    ROW(4, "startLine", 'I'), LAST};
static const struct json_row j_stack[] = {ROWS(1, "locationIndices", 'i'), LAST};
static const struct json_row j_attribute[] = {
    ROW(1, "keyStrindex", 'i'), ROW_OF(2, "value", j_any), ROW(3, "unitStrindex", 'i'), LAST};
static const struct json_row j_unit[] = {ROW(1, "attributeKeyStrindex", 'i'), ROW(2, "unitStrindex", 'i'), LAST};
static const struct json_row j_mapping[] = { /* 6 … 9 up to 1.7 */
    ROW(1, "memoryStart", 'I'), ROW(2, "memoryLimit", 'I'), ROW(3, "fileOffset", 'I'),
    ROW(4, "filenameStrindex", 'i'), ROWS(5, "attributeIndices", 'i'), ROW(6, "hasFunctions", 'b'),
    ROW(7, "hasFilenames", 'b'), ROW(8, "hasLineNumbers", 'b'), ROW(9, "hasInlineFrames", 'b'), LAST};

static const struct json_row j_location_1_7[] = {
    ROW(1, "mappingIndex", 'i'), ROW(2, "address", 'I'), ROWS_OF(3, "line", j_line), ROW(4, "isFolded", 'b'),
    ROWS(5, "attributeIndices", 'i'), LAST};
static const struct json_row j_location_1_8[] = {
    ROW(1, "mappingIndex", 'i'), ROW(2, "address", 'I'), ROWS_OF(3, "line", j_line),
    ROWS(4, "attributeIndices", 'i'), LAST};
static const struct json_row j_location_1_9[] = {
    ROW(1, "mappingIndex", 'i'), ROW(2, "address", 'I'), ROWS_OF(3, "lines", j_line),
    ROWS(4, "attributeIndices", 'i'), LAST};

static const struct json_row j_sample_1_7[] = {
    ROW(1, "locationsStartIndex", 'i'), ROW(2, "locationsLength", 'i'), ROWS(3, "value", 'I'),
    ROWS(4, "attributeIndices", 'i'), ROW(5, "linkIndex", 'i'), ROWS(6, "timestampsUnixNano", 'I'), LAST};
static const struct json_row j_sample_1_9[] = {
    ROW(1, "stackIndex", 'i'), ROWS(2, "values", 'I'), ROWS(3, "attributeIndices", 'i'), ROW(4, "linkIndex", 'i'),
    ROWS(5, "timestampsUnixNano", 'I'), LAST};
static const struct json_row j_sample_1_10[] = {
    ROW(1, "stackIndex", 'i'), ROWS(2, "attributeIndices", 'i'), ROW(3, "linkIndex", 'i'), ROWS(4, "values", 'I'),
    ROWS(5, "timestampsUnixNano", 'I'), LAST};

static const struct json_row j_profile_1_5[] = {
    ROWS_OF(1, "sampleType", j_type_old), ROWS_OF(2, "sample", j_sample_1_7), ROWS_OF(3, "mappingTable", j_mapping),
    ROWS_OF(4, "locationTable", j_location_1_7), ROWS(5, "locationIndices", 'i'),
    ROWS_OF(6, "functionTable", j_function), ROWS_OF(7, "attributeTable", j_key_value),
    ROWS_OF(8, "attributeUnits", j_unit), ROWS_OF(9, "linkTable", j_link), ROWS(10, "stringTable", 's'),
    ROW(11, "timeNanos", 'I'), ROW(12, "durationNanos", 'I'), ROW_OF(13, "periodType", j_type_old),
    ROW(14, "period", 'I'), ROWS(15, "commentStrindices", 'i'), ROW(16, "defaultSampleTypeStrindex", 'i'),
    ROW(17, "profileId", 'h'), ROW(19, "droppedAttributesCount", 'i'), ROW(20, "originalPayloadFormat", 's'),
    ROW(21, "originalPayload", 'p'), ROWS(22, "attributeIndices", 'i'), LAST};
static const struct json_row j_profile_1_7[] = {
    ROWS_OF(1, "sampleType", j_type_old), ROWS_OF(2, "sample", j_sample_1_7), ROWS(3, "locationIndices", 'i'),
    ROW(4, "timeNanos", 'I'), ROW(5, "durationNanos", 'I'), ROW_OF(6, "periodType", j_type_old),
    ROW(7, "period", 'I'), ROWS(8, "commentStrindices", 'i'), ROW(9, "defaultSampleTypeIndex", 'i'),
    ROW(10, "profileId", 'p'), ROW(11, "droppedAttributesCount", 'i'), ROW(12, "originalPayloadFormat", 's'),
    ROW(13, "originalPayload", 'p'), ROWS(14, "attributeIndices", 'i'), LAST};
static const struct json_row j_profile_1_8[] = {
    ROW_OF(1, "sampleType", j_type_old), ROWS_OF(2, "sample", j_sample_1_9), ROW(3, "timeUnixNano", 'I'),
    ROW(4, "durationNano", 'I'), ROW_OF(5, "periodType", j_type_old), ROW(6, "period", 'I'),
    ROWS(7, "commentStrindices", 'i'), ROW(8, "profileId", 'h'), ROW(9, "droppedAttributesCount", 'i'),
    ROW(10, "originalPayloadFormat", 's'), ROW(11, "originalPayload", 'p'), ROWS(12, "attributeIndices", 'i'), LAST};
#define PROFILE_REST \
    ROW(3, "timeUnixNano", 'I'), ROW(4, "durationNano", 'I'), ROW_OF(5, "periodType", j_type_old), \
    ROW(6, "period", 'I'), ROW(7, "profileId", 'h'), ROW(8, "droppedAttributesCount", 'i'), \
    ROW(9, "originalPayloadFormat", 's'), ROW(10, "originalPayload", 'p'), ROWS(11, "attributeIndices", 'i'), LAST
static const struct json_row j_profile_1_9[] = {
    ROW_OF(1, "sampleType", j_type_old), ROWS_OF(2, "samples", j_sample_1_9), PROFILE_REST};
static const struct json_row j_profile_1_10[] = {
    ROW_OF(1, "sampleType", j_type_old), ROWS_OF(2, "samples", j_sample_1_10), PROFILE_REST};

#define J_TABLES(location) \
    ROWS_OF(1, "mappingTable", j_mapping), ROWS_OF(2, "locationTable", location), \
    ROWS_OF(3, "functionTable", j_function), ROWS_OF(4, "linkTable", j_link), ROWS(5, "stringTable", 's')
static const struct json_row j_dictionary_1_7[] = {
    J_TABLES(j_location_1_7), ROWS_OF(6, "attributeTable", j_key_value), ROWS_OF(7, "attributeUnits", j_unit), LAST};
static const struct json_row j_dictionary_1_8[] = {
    J_TABLES(j_location_1_8), ROWS_OF(6, "attributeTable", j_attribute), ROWS_OF(7, "stackTable", j_stack), LAST};
static const struct json_row j_dictionary_1_9[] = {
    J_TABLES(j_location_1_9), ROWS_OF(6, "attributeTable", j_attribute), ROWS_OF(7, "stackTable", j_stack), LAST};

#define J_LAYOUT(x, dictionary)                                                                               \
    static const struct json_row j_scopes_##x[] = {                                                            \
        ROW_OF(1, "scope", j_scope), ROWS_OF(2, "profiles", j_profile_##x), ROW(3, "schemaUrl", 's'), LAST};   \
    static const struct json_row j_resources_##x[] = {ROW_OF(1, "resource", j_resource),                       \
                                                      ROWS_OF(2, "scopeProfiles", j_scopes_##x),               \
                                                      ROW(3, "schemaUrl", 's'), LAST};                         \
    static const struct json_row j_request_##x[] = {                                                           \
        ROWS_OF(1, "resourceProfiles", j_resources_##x), ROW_OF(2, "dictionary", dictionary), LAST}
J_LAYOUT(1_5, j_dictionary_1_7);
J_LAYOUT(1_7, j_dictionary_1_7);
J_LAYOUT(1_8, j_dictionary_1_8);
J_LAYOUT(1_9, j_dictionary_1_9);
J_LAYOUT(1_10, j_dictionary_1_9);
/* clang-format on */

static inline void json_base64(struct buffer *out, struct bytes b)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < b.n; i += 3) {
        uint32_t v =
            (uint32_t)b.p[i] << 16 | (i + 1 < b.n ? b.p[i + 1] << 8 : 0) | (i + 2 < b.n ? b.p[i + 2] : 0);
        buffer_printf(out, "%c%c%c%c", digits[v >> 18], digits[v >> 12 & 63],
                      i + 1 < b.n ? digits[v >> 6 & 63] : '=', i + 2 < b.n ? digits[v & 63] : '=');
    }
}

static inline void json_scalar(struct buffer *out, char type, uint64_t v, struct bytes b)
{
    double real;
    memcpy(&real, &v, sizeof real);
    switch (type) {
    case 'i': buffer_printf(out, "%" PRId64, (int64_t)v); break;
    case 'I': buffer_printf(out, "\"%" PRIu64 "\"", v); break; /* see json_of for int64 */
    case 'S': buffer_printf(out, "\"%" PRId64 "\"", (int64_t)v); break;
    case 'b': buffer_add_str(out, v ? "true" : "false"); break;
    case 'd': buffer_printf(out, "%.17g", real); break;
    default:
        buffer_add_str(out, "\"");
        if (type == 's')
            buffer_add_bytes(out, b); /* the models have no character that JSON escapes */
        else if (type == 'p')
            json_base64(out, b);
        else
            for (size_t i = 0; i < b.n; i++)
                buffer_printf(out, "%02x", b.p[i]);
        buffer_add_str(out, "\"");
    }
}

/* uint64 and fixed64; all other numbers of 64 bits have a sign. */
static inline bool json_is_unsigned(const char *name)
{
    static const char *const names[] = {"memoryStart",  "memoryLimit",  "fileOffset",        "address",
                                        "timeUnixNano", "durationNano", "timestampsUnixNano"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++)
        if (strcmp(names[i], name) == 0)
            return true;
    return false;
}

static inline void json_of(struct buffer *out, const struct json_row *rows, struct bytes message);

/* All values of a field, packed or not; the name is written with the first. */
static inline uint32_t json_field(struct buffer *out, const struct json_row *row, struct bytes message,
                                  bool comma)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    const char type = row->type == 'I' && !json_is_unsigned(row->name) ? 'S' : row->type;
    const bool number = strchr("iIbd", row->type) != NULL;
    uint32_t n = 0;
    while (wire_next(&in, &f) == 0) {
        struct wire_rest rest = {0};
        uint64_t v = f.value;
        if (f.number != row->number)
            continue;
        const enum wire_type each =
            strcmp(row->name, "timestampsUnixNano") == 0 && f.number == 5 ? WIRE_I64 : WIRE_VARINT;
        const bool packed = number && row->repeated && f.type == WIRE_LEN;
        while (!packed || wire_next_repeated(&f, each, &rest, &v) == 0) {
            if (n == 0)
                buffer_printf(out, "%s\"%s\":%s", comma ? "," : "", row->name, row->repeated ? "[" : "");
            else
                buffer_add_str(out, ",");
            n++;
            if (row->message)
                json_of(out, row->message, f.bytes);
            else
                json_scalar(out, type, v, f.bytes);
            if (!packed)
                break;
        }
    }
    if (n > 0 && row->repeated)
        buffer_add_str(out, "]");
    return n;
}

static inline void json_of(struct buffer *out, const struct json_row *rows, struct bytes message)
{
    bool comma = false;
    buffer_add_str(out, "{");
    for (; rows->name; rows++)
        comma |= json_field(out, rows, message, comma) > 0;
    buffer_add_str(out, "}");
}

/* A request of that layout as JSON, appended. */
static inline void json_of_request(struct buffer *out, enum profiles_layout layout, struct bytes body)
{
    static const struct json_row *const requests[] = {
        [PROFILES_LAYOUT_1_5] = j_request_1_5,   [PROFILES_LAYOUT_1_7] = j_request_1_7,
        [PROFILES_LAYOUT_1_8] = j_request_1_8,   [PROFILES_LAYOUT_1_9] = j_request_1_9,
        [PROFILES_LAYOUT_1_10] = j_request_1_10,
    };
    json_of(out, requests[layout], body);
}

#endif
