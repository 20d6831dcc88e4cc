/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/names.h"

#include "proto/base/macros.h"

#define ROW(json_, proto_, number_, type_, message_, repeated_)                                             \
    {                                                                                                       \
        .json = {(const uint8_t *)#json_, sizeof #json_ - 1},                                               \
        .proto = {(const uint8_t *)#proto_, sizeof #proto_ - 1}, .number = (number_), .type = NAME_##type_, \
        .message = (message_), .repeated = (repeated_)                                                      \
    }
#define ONE(json, proto, number, type)          ROW(json, proto, number, type, 0, false)
#define LIST(json, proto, number, type)         ROW(json, proto, number, type, 0, true)
#define MESSAGE(json, proto, number, what)      ROW(json, proto, number, MESSAGE, MESSAGE_##what, false)
#define MESSAGE_LIST(json, proto, number, what) ROW(json, proto, number, MESSAGE, MESSAGE_##what, true)
/* A key that only layouts up to this one have. */
#define OLD(json, proto, layout) ROW(json, proto, 0, OLD, PROFILES_LAYOUT_##layout, false)

/* clang-format off */
/* Profile's own tables, until 1.5. */
#define OLDER_IN_PROFILE                                    \
    OLD(stringTable, string_table, 1_5),                    \
    OLD(mappingTable, mapping_table, 1_5),                  \
    OLD(locationTable, location_table, 1_5),                \
    OLD(functionTable, function_table, 1_5),                \
    OLD(linkTable, link_table, 1_5),                        \
    OLD(attributeTable, attribute_table, 1_5),              \
    OLD(attributeUnits, attribute_units, 1_5),              \
    OLD(defaultSampleTypeStrindex, default_sample_type_strindex, 1_5)

/* profiles_service.proto, profiles.proto */
static const struct name_field request[] = { /* and ProfilesData, which is laid out alike */
    MESSAGE_LIST(resourceProfiles, resource_profiles, 1, RESOURCE_PROFILES),
    MESSAGE(dictionary, dictionary, 2, DICTIONARY),
};
static const struct name_field resource_profiles[] = {
    MESSAGE(resource, resource, 1, RESOURCE),
    MESSAGE_LIST(scopeProfiles, scope_profiles, 2, SCOPE_PROFILES),
    ONE(schemaUrl, schema_url, 3, STRING),
};
static const struct name_field scope_profiles[] = {
    MESSAGE(scope, scope, 1, SCOPE),
    MESSAGE_LIST(profiles, profiles, 2, PROFILE),
    ONE(schemaUrl, schema_url, 3, STRING),
};
static const struct name_field profile[] = {
    MESSAGE(sampleType, sample_type, 1, VALUE_TYPE),
    MESSAGE_LIST(samples, samples, 2, SAMPLE),
    ONE(timeUnixNano, time_unix_nano, 3, FIXED64),
    ONE(durationNano, duration_nano, 4, UINT64),
    MESSAGE(periodType, period_type, 5, VALUE_TYPE),
    ONE(period, period, 6, INT64),
    ONE(profileId, profile_id, 7, PROFILE_ID),
    ONE(droppedAttributesCount, dropped_attributes_count, 8, UINT32),
    ONE(originalPayloadFormat, original_payload_format, 9, STRING),
    ONE(originalPayload, original_payload, 10, BYTES),
    LIST(attributeIndices, attribute_indices, 11, INT32),
    OLD(sample, sample, 1_8),
    OLD(commentStrindices, comment_strindices, 1_8),
    OLD(timeNanos, time_nanos, 1_7),
    OLD(durationNanos, duration_nanos, 1_7),
    OLD(locationIndices, location_indices, 1_7),
    OLD(defaultSampleTypeIndex, default_sample_type_index, 1_7),
    OLDER_IN_PROFILE,
};
static const struct name_field sample[] = {
    ONE(stackIndex, stack_index, 1, INT32),
    LIST(attributeIndices, attribute_indices, 2, INT32),
    ONE(linkIndex, link_index, 3, INT32),
    LIST(values, values, 4, INT64),
    LIST(timestampsUnixNano, timestamps_unix_nano, 5, FIXED64),
    OLD(locationsStartIndex, locations_start_index, 1_7),
    OLD(locationsLength, locations_length, 1_7),
    OLD(value, value, 1_7),
};
static const struct name_field value_type[] = {
    ONE(typeStrindex, type_strindex, 1, INT32),
    ONE(unitStrindex, unit_strindex, 2, INT32),
};
static const struct name_field dictionary[] = {
    MESSAGE_LIST(mappingTable, mapping_table, 1, MAPPING),
    MESSAGE_LIST(locationTable, location_table, 2, LOCATION),
    MESSAGE_LIST(functionTable, function_table, 3, FUNCTION),
    MESSAGE_LIST(linkTable, link_table, 4, LINK),
    LIST(stringTable, string_table, 5, STRING),
    MESSAGE_LIST(attributeTable, attribute_table, 6, KEY_VALUE_AND_UNIT),
    MESSAGE_LIST(stackTable, stack_table, 7, STACK),
    OLD(attributeUnits, attribute_units, 1_7),
};
static const struct name_field mapping[] = {
    ONE(memoryStart, memory_start, 1, UINT64),
    ONE(memoryLimit, memory_limit, 2, UINT64),
    ONE(fileOffset, file_offset, 3, UINT64),
    ONE(filenameStrindex, filename_strindex, 4, INT32),
    LIST(attributeIndices, attribute_indices, 5, INT32),
    OLD(hasFunctions, has_functions, 1_7),
    OLD(hasFilenames, has_filenames, 1_7),
    OLD(hasLineNumbers, has_line_numbers, 1_7),
    OLD(hasInlineFrames, has_inline_frames, 1_7),
};
static const struct name_field location[] = {
    ONE(mappingIndex, mapping_index, 1, INT32),
    ONE(address, address, 2, UINT64),
    MESSAGE_LIST(lines, lines, 3, LINE),
    LIST(attributeIndices, attribute_indices, 4, INT32),
    OLD(line, line, 1_8),
    OLD(isFolded, is_folded, 1_7),
};
static const struct name_field line[] = {
    ONE(functionIndex, function_index, 1, INT32),
    ONE(line, line, 2, INT64),
    ONE(column, column, 3, INT64),
};
static const struct name_field function[] = {
    ONE(nameStrindex, name_strindex, 1, INT32),
    ONE(systemNameStrindex, system_name_strindex, 2, INT32),
    ONE(filenameStrindex, filename_strindex, 3, INT32),
    ONE(startLine, start_line, 4, INT64),
};
static const struct name_field link_[] = {
    ONE(traceId, trace_id, 1, TRACE_ID),
    ONE(spanId, span_id, 2, SPAN_ID),
};
static const struct name_field stack[] = {
    LIST(locationIndices, location_indices, 1, INT32),
};
static const struct name_field key_value_and_unit[] = {
    ONE(keyStrindex, key_strindex, 1, INT32),
    MESSAGE(value, value, 2, ANY_VALUE),
    ONE(unitStrindex, unit_strindex, 3, INT32),
};

/* resource.proto, common.proto */
static const struct name_field resource[] = {
    MESSAGE_LIST(attributes, attributes, 1, KEY_VALUE),
    ONE(droppedAttributesCount, dropped_attributes_count, 2, UINT32),
    MESSAGE_LIST(entityRefs, entity_refs, 3, ENTITY_REF),
};
static const struct name_field scope[] = {
    ONE(name, name, 1, STRING),
    ONE(version, version, 2, STRING),
    MESSAGE_LIST(attributes, attributes, 3, KEY_VALUE),
    ONE(droppedAttributesCount, dropped_attributes_count, 4, UINT32),
};
static const struct name_field entity_ref[] = {
    ONE(schemaUrl, schema_url, 1, STRING),
    ONE(type, type, 2, STRING),
    LIST(idKeys, id_keys, 3, STRING),
    LIST(descriptionKeys, description_keys, 4, STRING),
};
static const struct name_field key_value[] = {
    ONE(key, key, 1, STRING),
    MESSAGE(value, value, 2, ANY_VALUE),
    ONE(keyStrindex, key_strindex, 3, INT32),
};
static const struct name_field any_value[] = {
    ONE(stringValue, string_value, 1, STRING),
    ONE(boolValue, bool_value, 2, BOOL),
    ONE(intValue, int_value, 3, INT64),
    ONE(doubleValue, double_value, 4, DOUBLE),
    MESSAGE(arrayValue, array_value, 5, ARRAY_VALUE),
    MESSAGE(kvlistValue, kvlist_value, 6, KEY_VALUE_LIST),
    ONE(bytesValue, bytes_value, 7, BYTES),
    ONE(stringValueStrindex, string_value_strindex, 8, INT32),
};
static const struct name_field array_value[] = {MESSAGE_LIST(values, values, 1, ANY_VALUE)};
static const struct name_field key_value_list[] = {MESSAGE_LIST(values, values, 1, KEY_VALUE)};

/* The messages that were other ones: profiles.proto at v1.8.0, */
static const struct name_field profile_1_8[] = {
    MESSAGE(sampleType, sample_type, 1, VALUE_TYPE),
    MESSAGE_LIST(sample, sample, 2, SAMPLE),
    ONE(timeUnixNano, time_unix_nano, 3, FIXED64),
    ONE(durationNano, duration_nano, 4, UINT64),
    MESSAGE(periodType, period_type, 5, VALUE_TYPE),
    ONE(period, period, 6, INT64),
    LIST(commentStrindices, comment_strindices, 7, INT32),
    ONE(profileId, profile_id, 8, PROFILE_ID),
    ONE(droppedAttributesCount, dropped_attributes_count, 9, UINT32),
    ONE(originalPayloadFormat, original_payload_format, 10, STRING),
    ONE(originalPayload, original_payload, 11, BYTES),
    LIST(attributeIndices, attribute_indices, 12, INT32),
    MESSAGE_LIST(samples, samples, 2, SAMPLE), /* who mixes names means the same */
    OLD(timeNanos, time_nanos, 1_7),
    OLD(durationNanos, duration_nanos, 1_7),
    OLD(locationIndices, location_indices, 1_7),
    OLD(defaultSampleTypeIndex, default_sample_type_index, 1_7),
    OLDER_IN_PROFILE,
};
static const struct name_field sample_1_8[] = {
    ONE(stackIndex, stack_index, 1, INT32),
    LIST(values, values, 2, INT64),
    LIST(attributeIndices, attribute_indices, 3, INT32),
    ONE(linkIndex, link_index, 4, INT32),
    LIST(timestampsUnixNano, timestamps_unix_nano, 5, FIXED64),
    OLD(locationsStartIndex, locations_start_index, 1_7),
    OLD(locationsLength, locations_length, 1_7),
    OLD(value, value, 1_7),
};
static const struct name_field location_1_8[] = {
    ONE(mappingIndex, mapping_index, 1, INT32),
    ONE(address, address, 2, UINT64),
    MESSAGE_LIST(line, line, 3, LINE),
    LIST(attributeIndices, attribute_indices, 4, INT32),
    MESSAGE_LIST(lines, lines, 3, LINE),
    OLD(isFolded, is_folded, 1_7),
};

/* at v1.7.0, */
static const struct name_field profile_1_7[] = {
    MESSAGE_LIST(sampleType, sample_type, 1, VALUE_TYPE),
    MESSAGE_LIST(sample, sample, 2, SAMPLE),
    LIST(locationIndices, location_indices, 3, INT32),
    ONE(timeNanos, time_nanos, 4, INT64),
    ONE(durationNanos, duration_nanos, 5, INT64),
    MESSAGE(periodType, period_type, 6, VALUE_TYPE),
    ONE(period, period, 7, INT64),
    LIST(commentStrindices, comment_strindices, 8, INT32),
    ONE(defaultSampleTypeIndex, default_sample_type_index, 9, INT32),
    ONE(profileId, profile_id, 10, PROFILE_ID),
    ONE(droppedAttributesCount, dropped_attributes_count, 11, UINT32),
    ONE(originalPayloadFormat, original_payload_format, 12, STRING),
    ONE(originalPayload, original_payload, 13, BYTES),
    LIST(attributeIndices, attribute_indices, 14, INT32),
    OLDER_IN_PROFILE,
};
static const struct name_field sample_1_7[] = {
    ONE(locationsStartIndex, locations_start_index, 1, INT32),
    ONE(locationsLength, locations_length, 2, INT32),
    LIST(value, value, 3, INT64),
    LIST(attributeIndices, attribute_indices, 4, INT32),
    ONE(linkIndex, link_index, 5, INT32),
    LIST(timestampsUnixNano, timestamps_unix_nano, 6, UINT64),
};
static const struct name_field dictionary_1_7[] = {
    MESSAGE_LIST(mappingTable, mapping_table, 1, MAPPING),
    MESSAGE_LIST(locationTable, location_table, 2, LOCATION),
    MESSAGE_LIST(functionTable, function_table, 3, FUNCTION),
    MESSAGE_LIST(linkTable, link_table, 4, LINK),
    LIST(stringTable, string_table, 5, STRING),
    MESSAGE_LIST(attributeTable, attribute_table, 6, KEY_VALUE),
    MESSAGE_LIST(attributeUnits, attribute_units, 7, ATTRIBUTE_UNIT),
};
static const struct name_field mapping_1_7[] = {
    ONE(memoryStart, memory_start, 1, UINT64),
    ONE(memoryLimit, memory_limit, 2, UINT64),
    ONE(fileOffset, file_offset, 3, UINT64),
    ONE(filenameStrindex, filename_strindex, 4, INT32),
    LIST(attributeIndices, attribute_indices, 5, INT32),
    ONE(hasFunctions, has_functions, 6, BOOL),
    ONE(hasFilenames, has_filenames, 7, BOOL),
    ONE(hasLineNumbers, has_line_numbers, 8, BOOL),
    ONE(hasInlineFrames, has_inline_frames, 9, BOOL),
};
static const struct name_field location_1_7[] = {
    ONE(mappingIndex, mapping_index, 1, INT32),
    ONE(address, address, 2, UINT64),
    MESSAGE_LIST(line, line, 3, LINE),
    ONE(isFolded, is_folded, 4, BOOL),
    LIST(attributeIndices, attribute_indices, 5, INT32),
};
static const struct name_field attribute_unit[] = {
    ONE(attributeKeyStrindex, attribute_key_strindex, 1, INT32),
    ONE(unitStrindex, unit_strindex, 2, INT32),
};

/* and at v1.5.0; `attributes` was in v1.4.0. */
static const struct name_field profile_1_5[] = {
    MESSAGE_LIST(sampleType, sample_type, 1, VALUE_TYPE),
    MESSAGE_LIST(sample, sample, 2, SAMPLE),
    MESSAGE_LIST(mappingTable, mapping_table, 3, MAPPING),
    MESSAGE_LIST(locationTable, location_table, 4, LOCATION),
    LIST(locationIndices, location_indices, 5, INT32),
    MESSAGE_LIST(functionTable, function_table, 6, FUNCTION),
    MESSAGE_LIST(attributeTable, attribute_table, 7, KEY_VALUE),
    MESSAGE_LIST(attributeUnits, attribute_units, 8, ATTRIBUTE_UNIT),
    MESSAGE_LIST(linkTable, link_table, 9, LINK),
    LIST(stringTable, string_table, 10, STRING),
    ONE(timeNanos, time_nanos, 11, INT64),
    ONE(durationNanos, duration_nanos, 12, INT64),
    MESSAGE(periodType, period_type, 13, VALUE_TYPE),
    ONE(period, period, 14, INT64),
    LIST(commentStrindices, comment_strindices, 15, INT32),
    ONE(defaultSampleTypeStrindex, default_sample_type_strindex, 16, INT32),
    ONE(profileId, profile_id, 17, PROFILE_ID),
    MESSAGE_LIST(attributes, attributes, 18, KEY_VALUE),
    ONE(droppedAttributesCount, dropped_attributes_count, 19, UINT32),
    ONE(originalPayloadFormat, original_payload_format, 20, STRING),
    ONE(originalPayload, original_payload, 21, BYTES),
    LIST(attributeIndices, attribute_indices, 22, INT32),
};
/* clang-format on */

#define FIELDS(rows)          \
    {                         \
        rows, ARRAY_LEN(rows) \
    }
static const struct name_fields messages[MESSAGES] = {
    [MESSAGE_REQUEST] = FIELDS(request),
    [MESSAGE_RESOURCE_PROFILES] = FIELDS(resource_profiles),
    [MESSAGE_SCOPE_PROFILES] = FIELDS(scope_profiles),
    [MESSAGE_PROFILE] = FIELDS(profile),
    [MESSAGE_SAMPLE] = FIELDS(sample),
    [MESSAGE_VALUE_TYPE] = FIELDS(value_type),
    [MESSAGE_DICTIONARY] = FIELDS(dictionary),
    [MESSAGE_MAPPING] = FIELDS(mapping),
    [MESSAGE_LOCATION] = FIELDS(location),
    [MESSAGE_LINE] = FIELDS(line),
    [MESSAGE_FUNCTION] = FIELDS(function),
    [MESSAGE_LINK] = FIELDS(link_),
    [MESSAGE_STACK] = FIELDS(stack),
    [MESSAGE_KEY_VALUE_AND_UNIT] = FIELDS(key_value_and_unit),
    [MESSAGE_ATTRIBUTE_UNIT] = FIELDS(attribute_unit),
    [MESSAGE_RESOURCE] = FIELDS(resource),
    [MESSAGE_SCOPE] = FIELDS(scope),
    [MESSAGE_ENTITY_REF] = FIELDS(entity_ref),
    [MESSAGE_KEY_VALUE] = FIELDS(key_value),
    [MESSAGE_ANY_VALUE] = FIELDS(any_value),
    [MESSAGE_ARRAY_VALUE] = FIELDS(array_value),
    [MESSAGE_KEY_VALUE_LIST] = FIELDS(key_value_list),
};

/* What is not here is as in 1.10. */
static const struct name_fields older[PROFILES_LAYOUT_1_9][MESSAGES] = {
    [PROFILES_LAYOUT_1_8] = {[MESSAGE_PROFILE] = FIELDS(profile_1_8),
                             [MESSAGE_SAMPLE] = FIELDS(sample_1_8),
                             [MESSAGE_LOCATION] = FIELDS(location_1_8)},
    [PROFILES_LAYOUT_1_7] = {[MESSAGE_PROFILE] = FIELDS(profile_1_7),
                             [MESSAGE_SAMPLE] = FIELDS(sample_1_7),
                             [MESSAGE_DICTIONARY] = FIELDS(dictionary_1_7),
                             [MESSAGE_MAPPING] = FIELDS(mapping_1_7),
                             [MESSAGE_LOCATION] = FIELDS(location_1_7)},
    [PROFILES_LAYOUT_1_5] = {[MESSAGE_PROFILE] = FIELDS(profile_1_5),
                             [MESSAGE_SAMPLE] = FIELDS(sample_1_7),
                             [MESSAGE_DICTIONARY] = FIELDS(dictionary_1_7), /* there was none */
                             [MESSAGE_MAPPING] = FIELDS(mapping_1_7),
                             [MESSAGE_LOCATION] = FIELDS(location_1_7)},
};

const struct name_fields *name_fields(enum profiles_layout layout, enum name_message message)
{
    if (layout < ARRAY_LEN(older) && older[layout][message].n > 0)
        return &older[layout][message];
    return &messages[message];
}

const struct name_field *name_find(enum profiles_layout layout, enum name_message message, struct bytes key,
                                   uint32_t *hint)
{
    const struct name_fields *m = name_fields(layout, message);
    uint32_t row = *hint;
    for (uint32_t i = 0; i < m->n; i++, row++) {
        row = row < m->n ? row : 0;
        if (bytes_eq(key, m->field[row].json) || bytes_eq(key, m->field[row].proto)) {
            *hint = row + 1;
            return &m->field[row];
        }
    }
    return NULL;
}
