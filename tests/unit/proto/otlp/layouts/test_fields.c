/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
/* fields.def against the descriptors of proto/schema, which test_schema.py compares with the published ones.
 */
#include <ctype.h>

#include "proto/schema/profiles.pb-c.h"
#include "proto/base/macros.h"
#include "proto/otlp/layouts/fields.h"
#include "tests/lib/unit.h"

#define PROFILES(m) &opentelemetry__proto__profiles__v1development__##m##__descriptor
#define COMMON(m)   &opentelemetry__proto__common__v1__##m##__descriptor

static const ProtobufCMessageDescriptor *const described[MESSAGES] = {
    [MESSAGE_REQUEST] = PROFILES(profiles_data),
    [MESSAGE_RESOURCE_PROFILES] = PROFILES(resource_profiles),
    [MESSAGE_SCOPE_PROFILES] = PROFILES(scope_profiles),
    [MESSAGE_PROFILE] = PROFILES(profile),
    [MESSAGE_SAMPLE] = PROFILES(sample),
    [MESSAGE_VALUE_TYPE] = PROFILES(value_type),
    [MESSAGE_DICTIONARY] = PROFILES(profiles_dictionary),
    [MESSAGE_MAPPING] = PROFILES(mapping),
    [MESSAGE_LOCATION] = PROFILES(location),
    [MESSAGE_LINE] = PROFILES(line),
    [MESSAGE_FUNCTION] = PROFILES(function),
    [MESSAGE_LINK] = PROFILES(link),
    [MESSAGE_STACK] = PROFILES(stack),
    [MESSAGE_KEY_VALUE_AND_UNIT] = PROFILES(key_value_and_unit),
    [MESSAGE_RESOURCE] = &opentelemetry__proto__resource__v1__resource__descriptor,
    [MESSAGE_SCOPE] = COMMON(instrumentation_scope),
    [MESSAGE_ENTITY_REF] = COMMON(entity_ref),
    [MESSAGE_KEY_VALUE] = COMMON(key_value),
    [MESSAGE_ANY_VALUE] = COMMON(any_value),
    [MESSAGE_ARRAY_VALUE] = COMMON(array_value),
    [MESSAGE_KEY_VALUE_LIST] = COMMON(key_value_list),
}; /* AttributeUnit is older than what the schema states */

static bool same_type(const struct field *f, const ProtobufCFieldDescriptor *d)
{
    switch ((enum field_type)f->type) {
    case FIELD_INT32: return d->type == PROTOBUF_C_TYPE_INT32;
    case FIELD_UINT32: return d->type == PROTOBUF_C_TYPE_UINT32;
    case FIELD_INT64: return d->type == PROTOBUF_C_TYPE_INT64;
    case FIELD_UINT64: return d->type == PROTOBUF_C_TYPE_UINT64;
    case FIELD_FIXED64: return d->type == PROTOBUF_C_TYPE_FIXED64;
    case FIELD_BOOL: return d->type == PROTOBUF_C_TYPE_BOOL;
    case FIELD_ENUM: return d->type == PROTOBUF_C_TYPE_ENUM;
    case FIELD_DOUBLE: return d->type == PROTOBUF_C_TYPE_DOUBLE;
    case FIELD_STRING: return d->type == PROTOBUF_C_TYPE_STRING;
    case FIELD_MESSAGE: return d->type == PROTOBUF_C_TYPE_MESSAGE && d->descriptor == described[f->message];
    default: return d->type == PROTOBUF_C_TYPE_BYTES;
    }
}

UNIT(the_newest_layout_is_the_schemas)
{
    for (enum message m = 0; m < MESSAGES; m++) {
        if (!described[m])
            continue;
        struct fields fields = fields_of(m);
        uint32_t n = 0, highest = 0;
        for (uint32_t i = 0; i < fields.n; i++) {
            const struct field *f = &fields.row[i];
            uint32_t number = f->number[PROFILES_LAYOUT_1_10];
            if (number == 0)
                continue;
            const ProtobufCFieldDescriptor *d = protobuf_c_message_descriptor_get_field(described[m], number);
            ck_assert_msg(d && bytes_is(f->proto, d->name), "%s %u", described[m]->name, number);
            ck_assert_msg(same_type(f, d), "%s.%s", described[m]->name, d->name);
            ck_assert_msg(f->repeated == (d->label == PROTOBUF_C_LABEL_REPEATED), "%s.%s", described[m]->name,
                          d->name);
            highest = max_of(highest, number);
            n++;
        }
        ck_assert_msg(n == described[m]->n_fields, "%s", described[m]->name);
        ck_assert_uint_eq(field_highest(PROFILES_LAYOUT_1_10, m), highest);
    }
}

/* protobuf.dev, "ProtoJSON": the name in lowerCamelCase. */
UNIT(json_names_are_those_of_protobuf)
{
    for (enum message m = 0; m < MESSAGES; m++) {
        struct fields fields = fields_of(m);
        for (uint32_t i = 0; i < fields.n; i++) {
            const struct bytes proto = fields.row[i].proto;
            char camel[64];
            size_t n = 0;
            ck_assert_uint_lt(proto.n, sizeof camel);
            for (size_t k = 0; k < proto.n; k++)
                camel[n++] = (char)(proto.p[k] == '_' ? toupper(proto.p[++k]) : proto.p[k]);
            ck_assert_msg(bytes_eq(fields.row[i].json, bytes_of(camel, n)), "%.*s", BYTES_FMT(proto));
        }
    }
}

/* A number is one field: rows that share one are two names of it, the newer one first. */
UNIT(a_number_means_one_thing)
{
    for (enum message m = 0; m < MESSAGES; m++) {
        struct fields fields = fields_of(m);
        for (enum profiles_layout layout = PROFILES_LAYOUT_1_5; layout <= PROFILES_LAYOUT_1_10; layout++)
            for (uint32_t i = 0; i < fields.n; i++) {
                const struct field *f = &fields.row[i];
                if (f->number[layout] == 0)
                    continue;
                const struct field *first = field_numbered(layout, m, f->number[layout]);
                ck_assert_uint_lt(f->number[layout], FIELD_NUMBERS);
                ck_assert_uint_le(f->number[layout], field_highest(layout, m));
                ck_assert_msg(first == f ||
                                  (first < f && first->type == f->type && first->message == f->message &&
                                   first->repeated == f->repeated && first->number[PROFILES_LAYOUT_1_10] > 0),
                              "message %d, layout %s, field %u", (int)m, profiles_layout_name(layout),
                              f->number[layout]);
            }
    }
}

UNIT(constants_and_table_are_one)
{
    ck_assert_uint_eq(SAMPLE_HIGHEST, field_highest(PROFILES_LAYOUT_1_10, MESSAGE_SAMPLE));
    ck_assert_uint_eq(SAMPLE_HIGHEST_OLD, field_highest(PROFILES_LAYOUT_1_7, MESSAGE_SAMPLE));
    ck_assert_uint_eq(PROFILE_HIGHEST_OLD, field_highest(PROFILES_LAYOUT_1_5, MESSAGE_PROFILE));
    ck_assert_uint_eq(field_highest(PROFILES_LAYOUT_1_9, MESSAGE_KEY_VALUE), 2);
    ck_assert_uint_eq(field_highest(PROFILES_LAYOUT_1_7, MESSAGE_STACK), 0);
    const struct field *values = &fields_of(MESSAGE_SAMPLE).row[ROW_SAMPLE_VALUES];
    ck_assert_ptr_eq(values, field_numbered(PROFILES_LAYOUT_1_9, MESSAGE_SAMPLE, SAMPLE_VALUES_1_9));
    ck_assert_ptr_null(field_numbered(PROFILES_LAYOUT_1_9, MESSAGE_SAMPLE, SAMPLE_HIGHEST + 1));
    ck_assert_int_eq(field_wire(values), WIRE_VARINT);
}

UNIT(fields_are_renumbered)
{
    uint8_t to[FIELD_NUMBERS];
    fields_renumber(MESSAGE_SAMPLE, PROFILES_LAYOUT_1_9, PROFILES_LAYOUT_1_10, to);
    ck_assert_uint_eq(to[SAMPLE_VALUES_1_9], SAMPLE_VALUES);
    ck_assert_uint_eq(to[SAMPLE_LINK_INDEX_1_9], SAMPLE_LINK_INDEX);
    fields_renumber(MESSAGE_PROFILE, PROFILES_LAYOUT_1_8, PROFILES_LAYOUT_1_10, to);
    ck_assert_uint_eq(to[PROFILE_SAMPLE_1_8], PROFILE_SAMPLES);
    ck_assert_uint_eq(to[PROFILE_COMMENT_STRINDICES_1_8], 0);
    ck_assert_uint_eq(to[PROFILE_ATTRIBUTE_INDICES_1_8], PROFILE_ATTRIBUTE_INDICES);
}
