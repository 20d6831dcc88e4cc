#include "proto/otlp/profiles_names.h"

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

/* clang-format off */
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
    MESSAGE_LIST(sample, sample, 2, SAMPLE), /* 1.8 */
};
static const struct name_field sample[] = {
    ONE(stackIndex, stack_index, 1, INT32),
    LIST(attributeIndices, attribute_indices, 2, INT32),
    ONE(linkIndex, link_index, 3, INT32),
    LIST(values, values, 4, INT64),
    LIST(timestampsUnixNano, timestamps_unix_nano, 5, FIXED64),
    ONE(locationsStartIndex, locations_start_index, 1, OLD),
    ONE(locationsLength, locations_length, 2, OLD),
    ONE(value, value, 3, OLD),
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
};
static const struct name_field mapping[] = {
    ONE(memoryStart, memory_start, 1, UINT64),
    ONE(memoryLimit, memory_limit, 2, UINT64),
    ONE(fileOffset, file_offset, 3, UINT64),
    ONE(filenameStrindex, filename_strindex, 4, INT32),
    LIST(attributeIndices, attribute_indices, 5, INT32),
};
static const struct name_field location[] = {
    ONE(mappingIndex, mapping_index, 1, INT32),
    ONE(address, address, 2, UINT64),
    MESSAGE_LIST(lines, lines, 3, LINE),
    LIST(attributeIndices, attribute_indices, 4, INT32),
    MESSAGE_LIST(line, line, 3, LINE), /* 1.8 */
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
/* clang-format on */

#define FIELDS(rows)          \
    {                         \
        rows, ARRAY_LEN(rows) \
    }
const struct name_fields name_messages[MESSAGES] = {
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
    [MESSAGE_RESOURCE] = FIELDS(resource),
    [MESSAGE_SCOPE] = FIELDS(scope),
    [MESSAGE_ENTITY_REF] = FIELDS(entity_ref),
    [MESSAGE_KEY_VALUE] = FIELDS(key_value),
    [MESSAGE_ANY_VALUE] = FIELDS(any_value),
    [MESSAGE_ARRAY_VALUE] = FIELDS(array_value),
    [MESSAGE_KEY_VALUE_LIST] = FIELDS(key_value_list),
};

const struct name_field *name_find(enum name_message message, struct bytes key, uint32_t *hint)
{
    const struct name_fields *m = &name_messages[message];
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
