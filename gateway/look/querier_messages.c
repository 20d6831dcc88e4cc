/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/querier_messages.h"

/* clang-format off */
#define I64(number, name)       {number, name, FIELD_INT64, false, NULL, NULL}
#define I32(number, name)       {number, name, FIELD_INT32, false, NULL, NULL}
#define BOOL(number, name)      {number, name, FIELD_BOOL, false, NULL, NULL}
#define F64(number, name)       {number, name, FIELD_DOUBLE, false, NULL, NULL}
#define STR(number, name)       {number, name, FIELD_STRING, false, NULL, NULL}
#define ENUM(number, name, of)  {number, name, FIELD_ENUM, false, NULL, of}
#define MSG(number, name, of)   {number, name, FIELD_MESSAGE, false, &(of), NULL}
#define STRS(number, name)      {number, name, FIELD_STRING, true, NULL, NULL}
#define I64S(number, name)      {number, name, FIELD_INT64, true, NULL, NULL}
#define MSGS(number, name, of)  {number, name, FIELD_MESSAGE, true, &(of), NULL}

static const char *const formats[] = {"PROFILE_FORMAT_UNSPECIFIED", "PROFILE_FORMAT_FLAMEGRAPH", "PROFILE_FORMAT_TREE",
                                      "PROFILE_FORMAT_DOT", "PROFILE_FORMAT_PPROF", NULL};
static const char *const aggregations[] = {"TIME_SERIES_AGGREGATION_TYPE_SUM", "TIME_SERIES_AGGREGATION_TYPE_AVERAGE", NULL};

/* ---- calls ---- */

MAPPING_TABLE(location, STR(1, "name"));
MAPPING_TABLE(go_pgo, I32(1, "keep_locations"), BOOL(2, "aggregate_callees"));
MAPPING_TABLE(stack_selector, MSGS(1, "call_site", location), MSG(2, "go_pgo", go_pgo));
MAPPING_TABLE(profile_types, I64(1, "start"), I64(2, "end"));
MAPPING_TABLE(label_names, STRS(1, "matchers"), I64(2, "start"), I64(3, "end"));
MAPPING_TABLE(label_values, STR(1, "name"), STRS(2, "matchers"), I64(3, "start"), I64(4, "end"));
MAPPING_TABLE(series, STRS(1, "matchers"), STRS(2, "label_names"), I64(3, "start"), I64(4, "end"));
MAPPING_TABLE(select_series, STR(1, "profile_typeID"), STR(2, "label_selector"), I64(3, "start"), I64(4, "end"), STRS(5, "group_by"), F64(6, "step"),
        ENUM(7, "aggregation", aggregations), MSG(8, "stack_trace_selector", stack_selector), I64(9, "limit"));
MAPPING_TABLE(stacktraces, STR(1, "profile_typeID"), STR(2, "label_selector"), I64(3, "start"), I64(4, "end"), I64(5, "max_nodes"),
        ENUM(6, "format", formats), MSG(7, "stack_trace_selector", stack_selector), STRS(8, "profile_id_selector"),
        STRS(10, "trace_id_selector"), STRS(11, "span_selector"));
MAPPING_TABLE(merge_profile, STR(1, "profile_typeID"), STR(2, "label_selector"), I64(3, "start"), I64(4, "end"), I64(5, "max_nodes"),
        MSG(6, "stack_trace_selector", stack_selector), STRS(7, "profile_id_selector"), STRS(8, "trace_id_selector"));
MAPPING_TABLE(span_profile, STR(1, "profile_typeID"), STR(2, "label_selector"), STRS(3, "span_selector"), I64(4, "start"), I64(5, "end"),
        I64(6, "max_nodes"), ENUM(7, "format", formats));
MAPPING_TABLE(diff, MSG(1, "left", stacktraces), MSG(2, "right", stacktraces));
static const struct mapping_message nothing = {NULL, 0};

/* ---- answers ---- */

MAPPING_TABLE(profile_type, STR(1, "ID"), STR(2, "name"), STR(4, "sample_type"), STR(5, "sample_unit"), STR(6, "period_type"), STR(7, "period_unit"));
MAPPING_TABLE(types_answer, MSGS(1, "profile_types", profile_type));
MAPPING_TABLE(names_answer, STRS(1, "names"));
MAPPING_TABLE(label_pair, STR(1, "name"), STR(2, "value"));
MAPPING_TABLE(label_set, MSGS(1, "labels", label_pair));
MAPPING_TABLE(series_answer, MSGS(2, "labels_set", label_set));
MAPPING_TABLE(point, F64(1, "value"), I64(2, "timestamp"));
MAPPING_TABLE(one_series, MSGS(1, "labels", label_pair), MSGS(2, "points", point));
MAPPING_TABLE(select_series_answer, MSGS(1, "series", one_series));
MAPPING_TABLE(level, I64S(1, "values"));
MAPPING_TABLE(flamegraph, STRS(1, "names"), MSGS(2, "levels", level), I64(3, "total"), I64(4, "max_self"));
MAPPING_TABLE(flamegraph_diff, STRS(1, "names"), MSGS(2, "levels", level), I64(3, "total"), I64(4, "max_self"), I64(5, "leftTicks"), I64(6, "rightTicks"));
MAPPING_TABLE(value_type, I64(1, "type"), I64(2, "unit"));
MAPPING_TABLE(sample, I64S(1, "location_id"), I64S(2, "value"));
MAPPING_TABLE(mapping, I64(1, "id"), I64(2, "memory_start"), I64(3, "memory_limit"), I64(4, "file_offset"), I64(5, "filename"), I64(6, "build_id"),
        BOOL(7, "has_functions"), BOOL(8, "has_filenames"), BOOL(9, "has_line_numbers"), BOOL(10, "has_inline_frames"));
MAPPING_TABLE(line, I64(1, "function_id"), I64(2, "line"));
MAPPING_TABLE(profile_location, I64(1, "id"), I64(2, "mapping_id"), I64(3, "address"), MSGS(4, "line", line), BOOL(5, "is_folded"));
MAPPING_TABLE(function, I64(1, "id"), I64(2, "name"), I64(3, "system_name"), I64(4, "filename"), I64(5, "start_line"));
MAPPING_TABLE(profile, MSGS(1, "sample_type", value_type), MSGS(2, "sample", sample), MSGS(3, "mapping", mapping), MSGS(4, "location", profile_location),
        MSGS(5, "function", function), STRS(6, "string_table"), I64(9, "time_nanos"), I64(10, "duration_nanos"), MSG(11, "period_type", value_type),
        I64(12, "period"));
MAPPING_TABLE(pprof, MSG(1, "profile", profile));
MAPPING_TABLE(stacktraces_answer, MSG(1, "flamegraph", flamegraph), MSG(5, "pprof", pprof));
MAPPING_TABLE(diff_answer, MSG(1, "flamegraph", flamegraph_diff));
MAPPING_TABLE(stats_answer, BOOL(1, "data_ingested"), I64(2, "oldest_profile_time"), I64(3, "newest_profile_time"));

const struct look_messages look_messages[LOOK_N_METHODS] = {
    [LOOK_CALL_PROFILE_TYPES] = {&profile_types, &types_answer},
    [LOOK_CALL_LABEL_NAMES] = {&label_names, &names_answer},
    [LOOK_CALL_LABEL_VALUES] = {&label_values, &names_answer},
    [LOOK_CALL_SERIES] = {&series, &series_answer},
    [LOOK_CALL_SELECT_SERIES] = {&select_series, &select_series_answer},
    [LOOK_CALL_SELECT_MERGE_STACKTRACES] = {&stacktraces, &stacktraces_answer},
    [LOOK_CALL_SELECT_MERGE_PROFILE] = {&merge_profile, &profile},
    [LOOK_CALL_SELECT_MERGE_SPAN_PROFILE] = {&span_profile, &nothing},
    [LOOK_CALL_DIFF] = {&diff, &diff_answer},
    [LOOK_CALL_GET_PROFILE_STATS] = {&nothing, &stats_answer},
    [LOOK_CALL_SELECT_HEATMAP] = {&nothing, &nothing},
    [LOOK_CALL_ANALYZE_QUERY] = {&nothing, &nothing},
};
/* clang-format on */
