/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Each rule: a request that keeps all of them, and what has to be changed in it so that one is broken. What
 * profcheck (sig-profiling, d2ab6d5) answered to each of these requests is recorded beside it, but for the
 * orphans it always reports here: strings that resources and values refer to, which it does not know of.
 */
#include "proto/otlp/check/check.h"

#include <errno.h>

#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/check/prototext.h"

/* String 0 is "", 1 cpu, 2 nanoseconds, 3 /bin/program, 4 main, 5 _main, 6 main.c, 7 thread.name, 8 worker, 9
 * bytes, 10 By, 11 the comment's key, 12 a build id's, 13 the frame type's, 14 leaf, 15 host.name, 16 a host.
 */
static const char good[] =
    "resource_profiles {\n"
    "  resource {\n"
    "    attributes { key: \"service.name\" value { string_value: \"checkout\" } }\n"
    "    attributes { value { string_value_strindex: 16 } key_strindex: 15 }\n"
    "    attributes { key: \"host.ip\" value { array_value { values { string_value: \"10.0.0.1\" } } } }\n"
    "    attributes { key: \"k8s.pod.label.App\" value { kvlist_value { values { key: \"a\" value { int_value: 1 } }\n"
    "      values { key: \"b\" value { bool_value: 1 } } } } }\n"
    "    entity_refs { type: \"service\" id_keys: \"service.name\" description_keys: \"host.name\" }\n"
    "  }\n"
    "  scope_profiles {\n"
    "    scope { name: \"profiler\" version: \"1\"\n"
    "      attributes { key: \"pprof.scope.sample_type_order\" value { array_value { values { int_value: 0 } } } } }\n"
    "    profiles {\n"
    "      sample_type { type_strindex: 1 unit_strindex: 2 }\n"
    "      samples { stack_index: 1 attribute_indices: [1] link_index: 1 values: [5, 6]\n"
    "        timestamps_unix_nano: [1700000000000000000, 1700000000000000009] }\n"
    "      samples { stack_index: 2 attribute_indices: [2, 1] values: [-1] timestamps_unix_nano: [1700000000000000001] }\n"
    "      time_unix_nano: 1700000000000000000 duration_nano: 10\n"
    "      period_type { type_strindex: 1 unit_strindex: 2 } period: 1000\n"
    "      profile_id: \"0123456789abcdef\"\n"
    "      original_payload_format: \"pprof\" original_payload: \"payload\" attribute_indices: [3]\n"
    "    }\n"
    "    schema_url: \"https://opentelemetry.io/schemas/1.44.0\"\n"
    "  }\n"
    "  schema_url: \"http://localhost:80/a/schema/1\"\n"
    "}\n"
    "dictionary {\n"
    "  mapping_table {}\n"
    "  mapping_table { memory_start: 0x1000 memory_limit: 0x2000 filename_strindex: 3 attribute_indices: [4] }\n"
    "  location_table {}\n"
    "  location_table { mapping_index: 1 address: 0x1800 lines { function_index: 1 line: 7 column: 3 }\n"
    "    attribute_indices: [5] }\n"
    "  location_table { address: 0x10 lines { function_index: 2 } }\n"
    "  function_table {}\n"
    "  function_table { name_strindex: 4 system_name_strindex: 5 filename_strindex: 6 start_line: 1 }\n"
    "  function_table { name_strindex: 14 }\n"
    "  link_table {}\n"
    "  link_table { trace_id: \"0123456789abcdef\" span_id: \"01234567\" }\n"
    "  string_table: \"\" string_table: \"cpu\" string_table: \"nanoseconds\" string_table: \"/bin/program\"\n"
    "  string_table: \"main\" string_table: \"_main\" string_table: \"main.c\" string_table: \"thread.name\"\n"
    "  string_table: \"worker\" string_table: \"bytes\" string_table: \"By\" string_table: \"pprof.profile.comment\"\n"
    "  string_table: \"process.executable.build_id.htlhash\" string_table: \"profile.frame.type\" string_table: \"leaf\"\n"
    "  string_table: \"host.name\" string_table: \"a host\"\n"
    "  attribute_table {}\n"
    "  attribute_table { key_strindex: 7 value { string_value_strindex: 8 } }\n"
    "  attribute_table { key_strindex: 9 value { int_value: 64 } unit_strindex: 10 }\n"
    "  attribute_table { key_strindex: 11 value { array_value { values { string_value: \"a\" } } } }\n"
    "  attribute_table { key_strindex: 12 value { string_value: \"00112233445566778899aabbccddeeff\" } }\n"
    "  attribute_table { key_strindex: 13 value { string_value: \"native\" } }\n"
    "  stack_table {}\n"
    "  stack_table { location_indices: [2, 1] }\n"
    "  stack_table { location_indices: [1] }\n"
    "}\n";

/* A request being checked, and what came of it. */
struct checked {
    struct check *check;
    struct buffer body;
};

static struct checked checked(enum profiles_layout layout, const char *text)
{
    struct checked k = {unit_made(check_new(3, NULL)), BUFFER_INIT(0)};
    prototext(layout, text, &k.body);
    ck_assert_ptr_nonnull(buffer_cursor(&k.body, PROFILES_PADDING));
    memset(k.body.p + k.body.n, 0, PROFILES_PADDING);
    ck_assert_int_eq(check_request(k.check, buffer_bytes(&k.body), layout, true), 0);
    return k;
}

static void done(struct checked *k)
{
    check_free(k->check);
    buffer_release(&k->body);
}

/* Of a case, to be read when it fails. */
static void print(const struct check *c)
{
    uint32_t n;
    const struct check_finding *f = check_findings(c, &n);
    for (uint32_t i = 0; i < n; i++)
        fprintf(stderr, "  %s at %.*s: %.*s\n", check_rule_row(f[i].rule)->id, BYTES_FMT(f[i].path),
                BYTES_FMT(f[i].text));
}

static bool is_at(const struct check *c, enum check_rule rule, const char *path)
{
    uint32_t n;
    const struct check_finding *f = check_findings(c, &n);
    for (uint32_t i = 0; i < n; i++)
        if (f[i].rule == rule && bytes_is(f[i].path, path))
            return true;
    return false;
}

/* profcheck's answer. */
enum verdict {
    PASSES,
    FAILS,
    FAILS_DUPES,   /* with -check-dupes alone */
    FAILS_ORPHANS, /* with -check-orphans alone */
    PANICS,
};

struct broken {
    enum check_rule rule;
    const char *from, *to;
    const char *path;
    enum verdict profcheck;
};

#define P "resource_profiles[0].scope_profiles[0].profiles[0]"
#define R "resource_profiles[0].resource"
#define D "dictionary."

/* clang-format off */
static const struct broken cases[] = {
    {CHECK_MALFORMED, "dictionary {\n", "dictionary {\n@0affffff7f", "dictionary", FAILS},
    {CHECK_MALFORMED, "period: 1000", "@80", P, FAILS},
    {CHECK_MALFORMED, "period: 1000", "@00", P, FAILS},
    {CHECK_WIRE_TYPE, "link_index: 1", "@1a00", P ".samples[0].link_index", PASSES},
    {CHECK_WIRE_TYPE, "time_unix_nano: 1700000000000000000 duration", "@1801 duration", P ".time_unix_nano", FAILS},
    {CHECK_PACKED, "values: [5, 6]", "@220180", P ".samples[0].values[0]", FAILS},
    {CHECK_PACKED, "timestamps_unix_nano: [1700000000000000001]", "@2a03000000", P ".samples[1].timestamps_unix_nano", FAILS},
    {CHECK_INT32, "link_index: 1", "link_index: 0x100000001", P ".samples[0].link_index", PASSES},
    {CHECK_INT32, "stack_index: 2", "stack_index: 0xffffffff", P ".samples[1].stack_index", FAILS},
    {CHECK_UTF8, "\"checkout\"", "\"\\xff\"", R ".attributes[0].value.string_value", FAILS},
    {CHECK_UTF8, "\"_main\"", "\"a\\xc0\\x80\"", D "string_table[5]", FAILS},
    {CHECK_GROUP, "period: 1000", "period: 1000 @a306a406", P, PASSES},
    {CHECK_REPEATED, "period: 1000", "period: 1000 period: 1001", P ".period", PASSES},
    {CHECK_ONEOF, "string_value: \"checkout\"", "string_value: \"checkout\" int_value: 2", R ".attributes[0].value.int_value", PASSES},
    {CHECK_UNKNOWN_FIELD, "period: 1000", "period: 1000 @f80101", P, PASSES},
    {CHECK_UNPACKED, "location_indices: [1]", "location_indices: 1", D "stack_table[2].location_indices[0]", PASSES},
    {CHECK_OVERLONG, "period: 1000", "@30878000", P ".period", PASSES},
    {CHECK_OVERLONG, "location_indices: [1]", "@0a028100", D "stack_table[2].location_indices", PASSES},
    {CHECK_OVERLONG, "{ location_indices: [1]", "{ @0a810001", D "stack_table[2].location_indices", PASSES},
    {CHECK_BOOL_RANGE, "bool_value: 1", "bool_value: 2", R ".attributes[3].value.kvlist_value.values[1].value.bool_value", PASSES},
    {CHECK_ORDER, "stack_index: 1 attribute_indices: [1]", "attribute_indices: [1] stack_index: 1", P ".samples[0]", PASSES},

    {CHECK_NO_SCOPES, "dictionary {\n", "resource_profiles { resource {} }dictionary {\n", "resource_profiles[1]", FAILS},
    {CHECK_NO_PROFILES, "dictionary {\n", "resource_profiles { resource {} scope_profiles { scope {} } }dictionary {\n", "resource_profiles[1].scope_profiles[0]", FAILS},
    {CHECK_NO_SAMPLES, "    }\n    schema", "    } profiles { time_unix_nano: 1700000000000000000 }\n    schema", "resource_profiles[0].scope_profiles[0].profiles[1]", PASSES},
    {CHECK_NO_RESOURCE, "dictionary {\n", "resource_profiles {}dictionary {\n", "resource_profiles[1]", FAILS},
    {CHECK_NO_SCOPE, "dictionary {\n", "resource_profiles { scope_profiles {} }dictionary {\n", "resource_profiles[1].scope_profiles[0]", FAILS},
    {CHECK_NO_SERVICE, "service.name", "service.nam", R, PASSES},
    {CHECK_SCHEMA_URL, "https://opentelemetry.io/schemas/1.44.0", "https://opentelemetry.io", "resource_profiles[0].scope_profiles[0].schema_url", PASSES},
    {CHECK_SCHEMA_URL, "http://localhost:80/a/schema/1", "1.44.0", "resource_profiles[0].schema_url", PASSES},

    {CHECK_MAPPING_INDEX, "mapping_index: 1", "mapping_index: 2", D "location_table[1].mapping_index", FAILS},
    {CHECK_MAPPING_INDEX, "mapping_index: 1", "mapping_index: -1", D "location_table[1].mapping_index", FAILS},
    {CHECK_LOCATION_INDEX, "location_indices: [2, 1]", "location_indices: [2, 3]", D "stack_table[1].location_indices[1]", FAILS},
    {CHECK_FUNCTION_INDEX, "function_index: 1", "function_index: 3", D "location_table[1].lines[0].function_index", FAILS},
    {CHECK_LINK_INDEX, "link_index: 1", "link_index: 2", P ".samples[0].link_index", FAILS},
    {CHECK_STACK_INDEX, "stack_index: 2", "stack_index: 3", P ".samples[1].stack_index", FAILS},
    {CHECK_ATTRIBUTE_INDEX, "attribute_indices: [1]", "attribute_indices: [6]", P ".samples[0].attribute_indices[0]", FAILS},
    {CHECK_ATTRIBUTE_INDEX, "attribute_indices: [4]", "attribute_indices: [4, -5]", D "mapping_table[1].attribute_indices[1]", FAILS},
    {CHECK_STRING_INDEX, "type_strindex: 1", "type_strindex: 17", P ".sample_type.type_strindex", FAILS},
    {CHECK_STRING_INDEX, "filename_strindex: 3", "filename_strindex: 17", D "mapping_table[1].filename_strindex", FAILS},
    {CHECK_STRING_INDEX, "filename_strindex: 6", "filename_strindex: 17", D "function_table[1].filename_strindex", FAILS},
    {CHECK_STRING_INDEX, "unit_strindex: 10", "unit_strindex: 17", D "attribute_table[2].unit_strindex", FAILS},
    {CHECK_STRING_INDEX, "key_strindex: 15", "key_strindex: 17", R ".attributes[1].key_strindex", PASSES},
    {CHECK_STRING_INDEX, "string_value_strindex: 16", "string_value_strindex: 17", R ".attributes[1].value.string_value_strindex", PASSES},
    {CHECK_STRING_INDEX, "values { string_value: \"10.0.0.1\" }", "values { string_value_strindex: 99 }", R ".attributes[2].value.array_value.values[0].string_value_strindex", PASSES},
    {CHECK_NULL_IN_LIST, "location_indices: [1]", "location_indices: [1, 0]", D "stack_table[2].location_indices[1]", PASSES},
    {CHECK_NULL_IN_LIST, "attribute_indices: [3]", "attribute_indices: [3, 0]", P ".attribute_indices[1]", PASSES},

    {CHECK_ENTRY_0, "mapping_table {}", "mapping_table { file_offset: 1 }", D "mapping_table[0]", FAILS},
    {CHECK_ENTRY_0, "location_table {}", "location_table { lines {} }", D "location_table[0]", FAILS},
    {CHECK_ENTRY_0, "function_table {}", "function_table { @9a0600 }", D "function_table[0]", FAILS},
    {CHECK_ENTRY_0, "link_table {}", "link_table { trace_id: \"0123456789abcdef\" }", D "link_table[0]", FAILS},
    {CHECK_ENTRY_0, "string_table: \"\"", "string_table: \"x\"", D "string_table[0]", FAILS},
    {CHECK_ENTRY_0, "attribute_table {}", "attribute_table { value { string_value: \"\" } }", D "attribute_table[0]", FAILS},
    {CHECK_ENTRY_0, "stack_table {}", "stack_table { location_indices: [1] }", D "stack_table[0]", FAILS},
    {CHECK_LINK_0, "link_table {}", "link_table { trace_id: \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\" "
        "span_id: \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\" }", D "link_table[0]", FAILS},
    {CHECK_STRING_DUPLICATE, "\"a host\"\n", "\"a host\" string_table: \"main\"\n", D "string_table[17]", FAILS_DUPES},
    {CHECK_MAPPING_DUPLICATE, "location_table {}", "mapping_table { memory_start: 0x1000 memory_limit: 0x2000 filename_strindex: 3 attribute_indices: 4 } location_table {}", D "mapping_table[2]", FAILS_DUPES},
    {CHECK_LOCATION_DUPLICATE, "function_table {}", "location_table { address: 0x10 lines { function_index: 2 line: 0 } } function_table {}", D "location_table[3]", PASSES},
    {CHECK_FUNCTION_DUPLICATE, "link_table {}", "function_table { name_strindex: 14 start_line: 0 } link_table {}", D "function_table[3]", PASSES},
    {CHECK_LINK_DUPLICATE, "string_table: \"\"", "link_table { trace_id: \"0123456789abcdef\" span_id: \"01234567\" } string_table: \"\"", D "link_table[2]", PASSES},
    {CHECK_ATTRIBUTE_DUPLICATE, "stack_table {}", "attribute_table { key_strindex: 9 value { int_value: 64 } unit_strindex: 10 } stack_table {}", D "attribute_table[6]", PASSES},
    {CHECK_STACK_DUPLICATE, "location_indices: [1] }\n", "location_indices: [1] } stack_table { location_indices: [2, 1] }\n", D "stack_table[3]", PASSES},
    {CHECK_MAPPING_ORPHAN, "mapping_index: 1", "mapping_index: 0", D "mapping_table[1]", FAILS_ORPHANS},
    {CHECK_LOCATION_ORPHAN, "location_indices: [2, 1]", "location_indices: [1]", D "location_table[2]", FAILS_ORPHANS},
    {CHECK_FUNCTION_ORPHAN, "function_index: 2", "function_index: 1", D "function_table[2]", FAILS_ORPHANS},
    {CHECK_LINK_ORPHAN, "link_index: 1", "link_index: 0", D "link_table[1]", FAILS_ORPHANS},
    {CHECK_STRING_ORPHAN, "system_name_strindex: 5", "system_name_strindex: 0", D "string_table[5]", FAILS_ORPHANS},
    {CHECK_STRING_ORPHAN, "string_value_strindex: 16", "string_value_strindex: 8", D "string_table[16]", FAILS_ORPHANS},
    {CHECK_ATTRIBUTE_ORPHAN, "attribute_indices: [2, 1]", "attribute_indices: [1]", D "attribute_table[2]", FAILS_ORPHANS},
    {CHECK_STACK_ORPHAN, "stack_index: 2", "stack_index: 1", D "stack_table[2]", FAILS_ORPHANS},
    {CHECK_MAPPING_RANGE, "memory_limit: 0x2000", "memory_limit: 0x1000", D "mapping_table[1]", FAILS},
    {CHECK_MAPPING_RANGE, "memory_start: 0x1000 memory_limit: 0x2000", "memory_start: 1", D "mapping_table[1]", FAILS},
    {CHECK_MAPPING_BUILD_ID, "process.executable.build_id.htlhash", "x", D "mapping_table[1]", PASSES},
    {CHECK_BUILD_ID_FORM, "00112233445566778899aabbccddeeff", "00112233", D "attribute_table[4]", PASSES},
    {CHECK_BUILD_ID_FORM, "00112233445566778899aabbccddeeff", "g0112233445566778899aabbccddeeff", D "attribute_table[4]", PASSES},
    {CHECK_ADDRESS_RANGE, "address: 0x1800", "address: 0x2001", D "location_table[1].address", PASSES},
    {CHECK_ADDRESS_RANGE, "address: 0x1800", "address: 0xfff", D "location_table[1].address", PASSES},
    {CHECK_LOCATION_HOLLOW, "address: 0x10 lines { function_index: 2 }", "mapping_index: 1", D "location_table[2]", PASSES},
    {CHECK_LINE_FUNCTION, "function_index: 2", "line: 2", D "location_table[2].lines[0].function_index", PASSES},
    {CHECK_LINE_NEGATIVE, "line: 7", "line: -7", D "location_table[1].lines[0].line", FAILS},
    {CHECK_LINE_NEGATIVE, "column: 3", "column: -1", D "location_table[1].lines[0].column", FAILS},
    {CHECK_START_LINE, "start_line: 1", "start_line: -1", D "function_table[1].start_line", FAILS},
    {CHECK_FUNCTION_NAMELESS, "{ name_strindex: 14 }", "{ start_line: 3 }", D "function_table[2]", PASSES},
    {CHECK_TRACE_ID, "trace_id: \"0123456789abcdef\"", "trace_id: \"30313233343536373839616263646566\"", D "link_table[1].trace_id", FAILS},
    {CHECK_SPAN_ID, "span_id: \"01234567\"", "", D "link_table[1].span_id", FAILS},
    {CHECK_LINK_ZERO, "span_id: \"01234567\"", "span_id: \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"", D "link_table[1]", PASSES},

    {CHECK_PROFILE_ID, "profile_id: \"0123456789abcdef\"", "profile_id: \"0123\"", P ".profile_id", PASSES},
    {CHECK_PROFILE_ID_ZERO, "profile_id: \"0123456789abcdef\"", "profile_id: \"\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\\x00\"", P ".profile_id", PASSES},
    {CHECK_PROFILE_ID_TWICE, "    }\n    schema", "    } profiles { profile_id: \"0123456789abcdef\" }\n    schema", "resource_profiles[0].scope_profiles[0].profiles[1].profile_id", PASSES},
    {CHECK_PAYLOAD_PAIR, "original_payload: \"payload\"", "", P ".original_payload_format", PASSES},
    {CHECK_PAYLOAD_PAIR, "original_payload_format: \"pprof\"", "", P ".original_payload", PASSES},
    {CHECK_PAYLOAD_FORMAT, "\"pprof\"", "\"go\"", P ".original_payload_format", PASSES},
    {CHECK_SAMPLE_TYPE, "sample_type { type_strindex: 1 unit_strindex: 2 }", "", P ".sample_type", PASSES},
    {CHECK_SAMPLE_TYPE, "sample_type { type_strindex: 1", "sample_type { type_strindex: 0", P ".sample_type", PASSES},
    {CHECK_PERIOD_TYPE, "period_type { type_strindex: 1 unit_strindex: 2 }", "", P ".period_type", PASSES},
    {CHECK_PERIOD, "period: 1000", "period: -1000", P ".period", PASSES},
    {CHECK_TIME_OVERFLOW, "duration_nano: 10", "duration_nano: -1", P ".duration_nano", FAILS},
    {CHECK_TIME_UNIT, "time_unix_nano: 1700000000000000000 d", "time_unix_nano: 1700000000000000 d", P ".time_unix_nano", FAILS},
    {CHECK_SAMPLE_EMPTY, "values: [-1] timestamps_unix_nano: [1700000000000000001]", "", P ".samples[1]", FAILS},
    {CHECK_SAMPLE_LENGTHS, "values: [-1]", "values: [-1, 2]", P ".samples[1]", FAILS},
    {CHECK_SAMPLE_VALUES, "values: [5, 6]\n        timestamps_unix_nano: [1700000000000000000, 1700000000000000009]", "values: [5, 6]", P ".samples[0].values", FAILS},
    {CHECK_SAMPLE_SHAPE, "values: [-1]", "", P ".samples[1]", FAILS},
    {CHECK_TIMESTAMP_RANGE, "[1700000000000000001]", "[1700000000000000010]", P ".samples[1].timestamps_unix_nano[0]", FAILS},
    {CHECK_TIMESTAMP_RANGE, "[1700000000000000000, 1", "[1699999999999999999, 1", P ".samples[0].timestamps_unix_nano[0]", FAILS},
    {CHECK_SAMPLE_IDENTITY, "      time_unix", "samples { stack_index: 2 attribute_indices: [1, 2] values: [2] timestamps_unix_nano: [1700000000000000000] }\n      time_unix", P ".samples[2]", PASSES},
    {CHECK_SAMPLE_STACK, "stack_index: 1", "", P ".samples[0].stack_index", PASSES},

    {CHECK_ATTRIBUTE_KEYS, "attribute_indices: [2, 1]", "attribute_indices: [2, 1, 2]", P ".samples[1].attribute_indices[2]", FAILS},
    {CHECK_ATTRIBUTE_KEYS, "attribute_indices: [4]", "attribute_indices: [4, 4]", D "mapping_table[1].attribute_indices[1]", FAILS},
    {CHECK_ATTRIBUTE_KEYS, "attribute_indices: [5]", "attribute_indices: [5, 5]", D "location_table[1].attribute_indices[1]", FAILS},
    {CHECK_ATTRIBUTE_KEYS, "attribute_indices: [3]", "attribute_indices: [3, 3]", P ".attribute_indices[1]", FAILS},
    {CHECK_KEYS, "key: \"host.ip\"", "key: \"host.name\"", R ".attributes[2]", PASSES},
    {CHECK_KEYS, "key: \"b\"", "key: \"a\"", R ".attributes[3].value.kvlist_value.values[1]", PASSES},
    {CHECK_KEY_BOTH, "key_strindex: 15", "key: \"host.name\" key_strindex: 15", R ".attributes[1]", PASSES},
    {CHECK_KEY_EMPTY, "key: \"host.ip\"", "", R ".attributes[2]", PASSES},
    {CHECK_KEY_EMPTY, "key_strindex: 9 ", "", D "attribute_table[2]", PASSES},
    {CHECK_VALUE_EMPTY, "value { int_value: 64 }", "value {}", D "attribute_table[2].value", PASSES},
    {CHECK_VALUE_EMPTY, "value { string_value: \"native\" }", "", D "attribute_table[5]", PASSES},
    {CHECK_KEY_FORM, "\"bytes\"", "\"Allocated Bytes\"", D "attribute_table[2]", PASSES},
    {CHECK_UNIT, "\"By\"", "\"bytes\"", D "attribute_table[2].unit_strindex", FAILS_DUPES},
    {CHECK_CONVENTION_TYPE, "value { string_value: \"checkout\" }", "value { int_value: 3 }", R ".attributes[0]", PASSES},
    {CHECK_CONVENTION_TYPE, "values { string_value: \"10.0.0.1\" }", "values { int_value: 10 }", R ".attributes[2]", PASSES},
    {CHECK_CONVENTION_TYPE, "value { string_value_strindex: 8 }", "value { bool_value: 1 }", D "attribute_table[1]", PASSES},
    {CHECK_CONVENTION_PLACE, "attribute_indices: [2, 1]", "attribute_indices: [2, 5]", P ".samples[1].attribute_indices[1]", PASSES},
    {CHECK_CONVENTION_PLACE, "key: \"host.ip\"", "key: \"pprof.scope.default_sample_type\"", R ".attributes[2]", PASSES},
    {CHECK_CONVENTION_OLD, "key: \"host.ip\"", "key: \"deployment.environment\"", R ".attributes[2]", PASSES},
    {CHECK_FRAME_TYPE, "\"native\"", "\"zig\"", D "attribute_table[5]", PASSES},
    {CHECK_FLOAT, "value { int_value: 64 }", "value { double_value: 4618441417868443648 }", P ".samples[1].attribute_indices[0]", PASSES},
    {CHECK_ENTITY_KEY, "id_keys: \"service.name\"", "id_keys: \"service.id\"", R ".entity_refs[0].id_keys[0]", PASSES},
    {CHECK_ENTITY_FORM, "type: \"service\"", "", R ".entity_refs[0]", PASSES},
    {CHECK_ENTITY_FORM, "id_keys: \"service.name\"", "", R ".entity_refs[0]", PASSES},
};
/* clang-format on */

/* Rules that have cases of their own below: they are of a whole request. */
static const enum check_rule whole[] = {CHECK_DEPTH, CHECK_LAYOUT, CHECK_NO_RESOURCES, CHECK_NO_DICTIONARY,
                                        CHECK_TABLE_EMPTY};

UNIT(a_good_request_breaks_no_rule)
{
    struct checked k = checked(PROFILES_LAYOUT_1_10, good);
    uint32_t n;
    check_findings(k.check, &n);
    print(k.check);
    ck_assert_uint_eq(n, 0);
    done(&k);
}

UNIT(each_rule_is_broken_where_it_says)
{
    bool bad = false;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *text = prototext_replaced(good, cases[i].from, cases[i].to);
        struct checked k = checked(PROFILES_LAYOUT_1_10, text);
        if (!is_at(k.check, cases[i].rule, cases[i].path)) {
            fprintf(stderr, "case %zu, %s, is not at %s\n", i, check_rule_row(cases[i].rule)->id,
                    cases[i].path);
            print(k.check);
            bad = true;
        }
        done(&k);
    }
    ck_assert(!bad);
}

/* What it refuses is an error here; what it refuses only when asked to, a warning. */
UNIT(what_profcheck_refuses_is_worse_than_a_note)
{
    bool bad = false;
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        autofree char *text = prototext_replaced(good, cases[i].from, cases[i].to);
        struct checked k = checked(PROFILES_LAYOUT_1_10, text);
        uint64_t of[CHECK_SEVERITIES] = {0};
        for (uint32_t r = 0; r < CHECK_RULES; r++)
            of[check_rule_row((enum check_rule)r)->severity] += check_count(k.check, (enum check_rule)r);
        const bool agrees = cases[i].rule == CHECK_LINK_0  ? of[CHECK_WARNING] > 0
                            : cases[i].profcheck == PASSES ? true
                            : cases[i].profcheck == FAILS_DUPES || cases[i].profcheck == FAILS_ORPHANS
                                ? of[CHECK_WARNING] > 0
                                : of[CHECK_ERROR] > 0;
        if (!agrees) {
            fprintf(stderr, "case %zu, %s\n", i, check_rule_row(cases[i].rule)->id);
            print(k.check);
            bad = true;
        }
        done(&k);
    }
    ck_assert(!bad);
}

UNIT(every_rule_has_a_case)
{
    for (uint32_t r = 0; r < CHECK_RULES; r++) {
        bool found = false;
        for (size_t i = 0; i < ARRAY_LEN(cases); i++)
            found |= cases[i].rule == r;
        for (size_t i = 0; i < ARRAY_LEN(whole); i++)
            found |= whole[i] == r;
        ck_assert_msg(found, "%s", check_rule_row((enum check_rule)r)->id);
    }
    ck_assert_uint_ge(CHECK_RULES, 45);
}

UNIT(a_request_of_nothing)
{
    struct checked k = checked(PROFILES_LAYOUT_1_10, "");
    ck_assert_uint_eq(check_count(k.check, CHECK_NO_RESOURCES), 1);
    ck_assert_uint_eq(check_count(k.check, CHECK_NO_DICTIONARY), 1);
    done(&k);
}

/* profcheck ends in a panic on each of these. */
UNIT(no_dictionary_and_empty_tables)
{
    const char *sample =
        "resource_profiles { resource {} scope_profiles { scope {} profiles { samples { values: [1] } } } }";
    struct checked k = checked(PROFILES_LAYOUT_1_10, sample);
    ck_assert_uint_eq(check_count(k.check, CHECK_NO_DICTIONARY), 1);
    ck_assert_uint_eq(check_count(k.check, CHECK_TABLE_EMPTY), 0);
    done(&k);
    char *text = prototext_replaced("X dictionary {}", "X", sample);
    k = checked(PROFILES_LAYOUT_1_10, text);
    ck_assert_uint_eq(check_count(k.check, CHECK_TABLE_EMPTY), 7);
    ck_assert(is_at(k.check, CHECK_TABLE_EMPTY, "dictionary.mapping_table"));
    done(&k);
    free(text);
    text = prototext_replaced(
        good, "link_table {}\n  link_table { trace_id: \"0123456789abcdef\" span_id: \"01234567\" }", "");
    k = checked(PROFILES_LAYOUT_1_10, text);
    ck_assert(is_at(k.check, CHECK_TABLE_EMPTY, "dictionary.link_table"));
    ck_assert(is_at(k.check, CHECK_LINK_INDEX, P ".samples[0].link_index"));
    done(&k);
    free(text);
}

UNIT(values_within_values_are_followed_as_far_as_readers_do)
{
    for (uint32_t levels = 40; levels <= 60; levels += 20) { /* each is two messages */
        cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
        for (uint32_t i = 0; i < levels; i++)
            buffer_add_str(&text, "array_value { values { ");
        buffer_add_str(&text, "string_value_strindex: 99 ");
        for (uint32_t i = 0; i < levels; i++)
            buffer_add_str(&text, "} } ");
        buffer_add(&text, "", 1);
        autofree char *request = prototext_replaced(good, "int_value: 64", (const char *)text.p);
        struct checked k = checked(PROFILES_LAYOUT_1_10, request);
        ck_assert_uint_eq(check_count(k.check, CHECK_DEPTH), levels == 60);
        ck_assert_uint_eq(check_count(k.check, CHECK_STRING_INDEX), levels == 40);
        done(&k);
    }
}

/* What is near to a broken rule and keeps it. */
UNIT(what_keeps_the_rules)
{
    static const struct {
        const char *from, *to;
        enum check_rule rule;
    } near[] = {
        {"[1700000000000000001]", "[1700000000000000000]", CHECK_TIMESTAMP_RANGE},
        {"memory_start: 0x1000 memory_limit: 0x2000", "", CHECK_MAPPING_RANGE},
        {"memory_start: 0x1000 memory_limit: 0x2000", "", CHECK_ADDRESS_RANGE},
        {"address: 0x1800", "address: 0x2000", CHECK_ADDRESS_RANGE},
        {"attribute_table {}", "attribute_table { value {} }", CHECK_ENTRY_0},
        {"attribute_table {}", "attribute_table { value {} }", CHECK_VALUE_EMPTY},
        {"mapping_table {}", "mapping_table { file_offset: 0 }", CHECK_ENTRY_0},
        {"values: [5, 6]", "values: [5] @220106", CHECK_SAMPLE_LENGTHS},
        {"period: 1000", "period: 0", CHECK_PERIOD_TYPE},
        {"values: [-1]", "values: [0x8000000000000000]", CHECK_INT32},
        {"mapping_index: 1", "mapping_index: -1", CHECK_INT32},
        {"string_value: \"native\"", "string_value_strindex: 8", CHECK_CONVENTION_TYPE},
        {"\"bytes\"", "\"my.attribute_name\"", CHECK_KEY_FORM},
        {"values { string_value: \"10.0.0.1\" }", "", CHECK_CONVENTION_TYPE},
        {"process.executable.build_id.htlhash", "process.executable.build_id.gnu", CHECK_MAPPING_BUILD_ID},
        {"process.executable.build_id.htlhash", "process.executable.build_id.gnu", CHECK_BUILD_ID_FORM},
        {"\"a\" } } } }\n  attribute_table { key_strindex: 12",
         "\"\" } } } }\n  attribute_table { key_strindex: 12", CHECK_VALUE_EMPTY},
    };
    for (size_t i = 0; i < ARRAY_LEN(near); i++) {
        autofree char *text = prototext_replaced(good, near[i].from, near[i].to);
        struct checked k = checked(PROFILES_LAYOUT_1_10, text);
        if (check_count(k.check, near[i].rule) > 0)
            print(k.check);
        ck_assert_msg(check_count(k.check, near[i].rule) == 0, "%zu", i);
        done(&k);
    }
}

UNIT(what_is_no_file_needs_no_build_id)
{
    static const char *const names[] = {"bpf", "[stack]", "bpf.so"};
    for (size_t i = 0; i < ARRAY_LEN(names); i++) {
        char with[64];
        snprintf(with, sizeof with, "\"a host\" string_table: \"%s\"\n", names[i]);
        autofree char *strings = prototext_replaced(good, "\"a host\"\n", with);
        autofree char *text = prototext_replaced(strings, "filename_strindex: 3 attribute_indices: [4]",
                                                 "filename_strindex: 17");
        struct checked k = checked(PROFILES_LAYOUT_1_10, text);
        ck_assert_uint_eq(check_count(k.check, CHECK_MAPPING_BUILD_ID), i == 2);
        done(&k);
    }
}

/* Equal by value, recursively: through strings that are there twice. */
UNIT(equal_entries_are_found_through_equal_strings)
{
    autofree char *strings = prototext_replaced(good, "\"a host\"\n", "\"a host\" string_table: \"leaf\"\n");
    autofree char *text =
        prototext_replaced(strings, "link_table {}", "function_table { name_strindex: 17 } link_table {}");
    struct checked k = checked(PROFILES_LAYOUT_1_10, text);
    ck_assert(is_at(k.check, CHECK_STRING_DUPLICATE, "dictionary.string_table[17]"));
    ck_assert(is_at(k.check, CHECK_FUNCTION_DUPLICATE, "dictionary.function_table[3]"));
    done(&k);
}

/* protobuf merges them; a path is one of the merged message. */
UNIT(two_dictionaries_are_one)
{
    char *text = prototext_replaced(good, "  link_table {}\n", "} dictionary { link_table {}\n");
    struct checked k = checked(PROFILES_LAYOUT_1_10, text);
    ck_assert_uint_eq(check_count(k.check, CHECK_REPEATED), 1);
    ck_assert_uint_eq(check_count(k.check, CHECK_TABLE_EMPTY), 0);
    done(&k);
    free(text);
    text = prototext_replaced(good, "  attribute_table {}\n", "  attribute_table {} } dictionary {\n");
    char *odd = prototext_replaced(text, "\"native\"", "\"zig\"");
    k = checked(PROFILES_LAYOUT_1_10, odd);
    ck_assert(is_at(k.check, CHECK_FRAME_TYPE, "dictionary.attribute_table[5]"));
    done(&k);
    free(odd);
    free(text);
}

UNIT(findings_are_counted_and_the_first_are_kept)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    for (uint32_t i = 0; i < 500; i++)
        buffer_add_str(&text, "stack_table { location_indices: [9] } ");
    buffer_add(&text, "", 1);
    autofree char *request = prototext_replaced(good, "stack_table {}", (const char *)text.p);
    struct checked k = checked(PROFILES_LAYOUT_1_10, request);
    uint32_t n, kept = 0;
    const struct check_finding *f = check_findings(k.check, &n);
    for (uint32_t i = 0; i < n; i++)
        kept += f[i].rule == CHECK_LOCATION_INDEX;
    ck_assert_uint_eq(kept, 3);
    ck_assert_uint_eq(check_count(k.check, CHECK_LOCATION_INDEX), 500);
    check_clear(k.check);
    check_findings(k.check, &n);
    ck_assert_uint_eq(n, 0);
    ck_assert_uint_eq(check_count(k.check, CHECK_LOCATION_INDEX), 0);
    done(&k);
}

/* From 1.8 on a layout has its own numbers: nothing but the layout is found in a good request. */
UNIT(older_layouts_by_their_own_numbers)
{
    autofree char *plain = prototext_replaced(good, "value { string_value_strindex: 16 } key_strindex: 15",
                                              "key: \"host.name\" value { string_value: \"a host\" }");
    autofree char *text =
        prototext_replaced(plain, "{ string_value_strindex: 8 }", "{ string_value: \"worker\" }");
    for (enum profiles_layout layout = PROFILES_LAYOUT_1_8; layout <= PROFILES_LAYOUT_1_9; layout++) {
        struct checked k = checked(layout, text);
        for (uint32_t r = 0; r < CHECK_RULES; r++)
            if (r != CHECK_LAYOUT && r != CHECK_ORDER && r != CHECK_STRING_ORPHAN)
                ck_assert_msg(check_count(k.check, (enum check_rule)r) == 0, "%s",
                              check_rule_row((enum check_rule)r)->id);
        ck_assert_uint_eq(check_count(k.check, CHECK_LAYOUT), 1);
        done(&k);
        autofree char *odd = prototext_replaced(text, "link_index: 1", "link_index: 7");
        k = checked(layout, odd);
        ck_assert(is_at(k.check, CHECK_LINK_INDEX, P ".samples[0].link_index"));
        done(&k);
    }
}

/* Before, what it says is checked as it reads in 1.10. */
UNIT(oldest_layouts_as_translated)
{
    struct checked k = checked(
        PROFILES_LAYOUT_1_7,
        "resource_profiles { resource {} scope_profiles { scope {} profiles { sample_type { type_strindex: 1 }"
        "sample { locations_length: 1 value: [1] } location_indices: [0] period: 1000 @f80101 } } }"
        "dictionary { string_table: \"\" string_table: \"cpu\" location_table { address: 1 } }");
    ck_assert(is_at(k.check, CHECK_UNKNOWN_FIELD, P));
    ck_assert(is_at(k.check, CHECK_SAMPLE_TYPE, "(as 1.10) " P ".sample_type"));
    ck_assert_uint_eq(check_count(k.check, CHECK_TABLE_EMPTY), 0);
    done(&k);
}

/* Whatever is cut off or altered, it ends and stays in its bounds. */
UNIT(any_prefix_and_any_bit)
{
    struct checked k = checked(PROFILES_LAYOUT_1_10, good);
    struct check *c = unit_made(check_new(2, NULL));
    uint8_t *body = unit_made(malloc(k.body.n + PROFILES_PADDING));
    for (size_t n = 0; n < k.body.n; n++) {
        memset(body, 0, k.body.n + PROFILES_PADDING);
        memcpy(body, k.body.p, n);
        ck_assert_int_eq(check_request(c, bytes_of(body, n), PROFILES_LAYOUT_UNKNOWN, true), 0);
    }
    for (size_t bit = 0; bit < 8 * k.body.n; bit++) {
        memcpy(body, k.body.p, k.body.n);
        body[bit / 8] ^= (uint8_t)(1u << bit % 8);
        for (enum profiles_layout layout = PROFILES_LAYOUT_UNKNOWN; layout < PROFILES_LAYOUTS; layout++)
            ck_assert_int_eq(check_request(c, bytes_of(body, k.body.n), layout, true), 0);
        check_clear(c);
    }
    free(body);
    check_free(c);
    done(&k);
}

/* Memory is on the budget, all of it comes back, and too little of it is said. */
UNIT(memory_is_charged)
{
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct checked k = checked(PROFILES_LAYOUT_1_10, good);
    struct check *c = unit_made(check_new(2, &budget));
    ck_assert_int_eq(check_request(c, buffer_bytes(&k.body), PROFILES_LAYOUT_1_10, true), 0);
    ck_assert_uint_gt(budget.used, 0);
    check_free(c);
    ck_assert_uint_eq(budget.used, 0);
    for (budget.limit = 0; budget.limit < 4096; budget.limit += 64) {
        c = unit_made(check_new(2, &budget));
        const int r = check_request(c, buffer_bytes(&k.body), PROFILES_LAYOUT_1_10, true);
        ck_assert(r == 0 || r == -ENOMEM);
        check_free(c);
        ck_assert_uint_eq(budget.used, 0);
    }
    done(&k);
}

/* What is only looked at in passing, too: the one form of a location that has many lines. */
UNIT(memory_to_compare_entries_is_charged)
{
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    for (uint32_t i = 0; i < 20000; i++)
        buffer_add_str(&text, "lines { line: 1 } ");
    buffer_add(&text, "", 1);
    autofree char *request = prototext_replaced(good, "lines { function_index: 2 }", (const char *)text.p);
    struct checked k = checked(PROFILES_LAYOUT_1_10, request);
    for (uint32_t i = 0; i < 2; i++) {
        struct budget budget = BUDGET_INIT(i == 0 ? 100000 : 1000000, NULL);
        struct check *c = unit_made(check_new(2, &budget));
        const int r = check_request(c, buffer_bytes(&k.body), PROFILES_LAYOUT_1_10, true);
        ck_assert_int_eq(r, i == 0 ? -ENOMEM : 0);
        check_free(c);
        ck_assert_uint_eq(budget.used, 0);
    }
    done(&k);
}
