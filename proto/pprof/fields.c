/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pprof/fields.h"

#include <stddef.h>

#include "proto/pprof/pprof.h"

#define MESSAGE(symbol, text) \
    const struct pprof_message symbol = {text, symbol##_fields, ARRAY_LEN(symbol##_fields)}

/* clang-format off */
#define AT(field) offsetof(struct pprof, field)
static const struct pprof_field pprof_profile_fields[] = {
    [1] = {"sample_type", PPROF_OTHER, 0},
    [2] = {"sample", PPROF_OTHER, 0},
    [3] = {"mapping", PPROF_OTHER, 0},
    [4] = {"location", PPROF_OTHER, 0},
    [5] = {"function", PPROF_OTHER, 0},
    [6] = {"string_table", PPROF_OTHER, 0},
    [7] = {"drop_frames", PPROF_STRING, AT(drop_frames)},
    [8] = {"keep_frames", PPROF_STRING, AT(keep_frames)},
    [9] = {"time_nanos", PPROF_I64, AT(time_nanos)},
    [10] = {"duration_nanos", PPROF_I64, AT(duration_nanos)},
    [11] = {"period_type", PPROF_OTHER, 0},
    [12] = {"period", PPROF_I64, AT(period)},
    [13] = {"comment", PPROF_OTHER, 0},
    [14] = {"default_sample_type", PPROF_STRING, AT(default_type)},
    [15] = {"doc_url", PPROF_STRING, AT(doc_url)},
};
MESSAGE(pprof_profile, "profile");
#undef AT

#define AT(field) offsetof(struct pprof_type, field)
static const struct pprof_field pprof_value_type_fields[] = {
    [1] = {"type", PPROF_STRING, AT(type)},
    [2] = {"unit", PPROF_STRING, AT(unit)},
};
MESSAGE(pprof_value_type, "sample_type");
#undef AT

#define AT(field) offsetof(struct pprof_label, field)
static const struct pprof_field pprof_label_fields[] = {
    [1] = {"key", PPROF_STRING, AT(key)},
    [2] = {"str", PPROF_STRING, AT(text)},
    [3] = {"num", PPROF_I64, AT(number)},
    [4] = {"num_unit", PPROF_STRING, AT(unit)},
};
MESSAGE(pprof_label, "label");
#undef AT

#define AT(field) offsetof(struct pprof_mapping, field)
static const struct pprof_field pprof_mapping_fields[] = {
    [1] = {"id", PPROF_U64, AT(id)},
    [2] = {"memory_start", PPROF_U64, AT(start)},
    [3] = {"memory_limit", PPROF_U64, AT(limit)},
    [4] = {"file_offset", PPROF_U64, AT(offset)},
    [5] = {"filename", PPROF_STRING, AT(filename)},
    [6] = {"build_id", PPROF_STRING, AT(build_id)},
    [7] = {"has_functions", PPROF_FLAG, AT(has_functions)},
    [8] = {"has_filenames", PPROF_FLAG, AT(has_filenames)},
    [9] = {"has_line_numbers", PPROF_FLAG, AT(has_line_numbers)},
    [10] = {"has_inline_frames", PPROF_FLAG, AT(has_inline_frames)},
};
MESSAGE(pprof_mapping, "mapping");
#undef AT

#define AT(field) offsetof(struct pprof_location, field)
static const struct pprof_field pprof_location_fields[] = {
    [1] = {"id", PPROF_U64, AT(id)},
    [2] = {"mapping_id", PPROF_MAPPING, AT(mapping)},
    [3] = {"address", PPROF_U64, AT(address)},
    [4] = {"line", PPROF_OTHER, 0},
    [5] = {"is_folded", PPROF_FLAG, AT(is_folded)},
};
MESSAGE(pprof_location, "location");
#undef AT

#define AT(field) offsetof(struct pprof_line, field)
static const struct pprof_field pprof_line_fields[] = {
    [1] = {"function_id", PPROF_FUNCTION, AT(function)},
    [2] = {"line", PPROF_I64, AT(line)},
    [3] = {"column", PPROF_I64, AT(column)},
};
MESSAGE(pprof_line, "line");
#undef AT

#define AT(field) offsetof(struct pprof_function, field)
static const struct pprof_field pprof_function_fields[] = {
    [1] = {"id", PPROF_U64, AT(id)},
    [2] = {"name", PPROF_STRING, AT(name)},
    [3] = {"system_name", PPROF_STRING, AT(system_name)},
    [4] = {"filename", PPROF_STRING, AT(filename)},
    [5] = {"start_line", PPROF_I64, AT(start_line)},
};
MESSAGE(pprof_function, "function");
#undef AT
/* clang-format on */
