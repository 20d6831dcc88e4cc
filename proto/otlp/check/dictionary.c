/* SPDX-License-Identifier: Apache-2.0 */
#include <inttypes.h>

#include "proto/otlp/check/parts.h"

/* Whether the attributes in c->list have one of mappings.md. */
static bool has_build_id(const struct check *c)
{
    for (uint32_t i = 0; i < c->list.n; i++) {
        const uint32_t at = c->list.p[i];
        const struct check_name *name =
            at < c->table[DICTIONARY_ATTRIBUTE_TABLE].at.n ? c->attribute[at].name : NULL;
        if (name && bytes_starts(bytes_str(name->name), "process.executable.build_id."))
            return true;
    }
    return false;
}

/* What the kernel compiles (profsend's "bpf"), and what it names in brackets: "[stack]". */
static bool is_no_file(struct bytes name)
{
    return bytes_is(name, "bpf") || bytes_starts(name, "[");
}

static void read_mapping(struct check *c, struct bytes message, struct check_range *ret,
                         uint32_t *ret_filename)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    *ret_filename = 0;
    vec_clear(&c->list);
    for (uint32_t row; (row = check_next(c, MESSAGE_MAPPING, &r, &f)) != NOWHERE;) {
        if (row == ROW_MAPPING_MEMORY_START)
            ret->start = f.value;
        else if (row == ROW_MAPPING_MEMORY_LIMIT)
            ret->limit = f.value;
        else if (row == ROW_MAPPING_FILENAME_STRINDEX)
            *ret_filename = check_index(f.value);
        else if (row == ROW_MAPPING_ATTRIBUTE_INDICES)
            check_list(c, &f);
    }
}

void check_mappings_of_table(struct check *c)
{
    const uint32_t n = c->table[DICTIONARY_MAPPING_TABLE].at.n;
    uint32_t filename;
    c->mapping = check_column(c, n, sizeof *c->mapping);
    if (!c->mapping)
        return;
    for (uint32_t i = 0; i < n; i++)
        read_mapping(c, check_entry(c, DICTIONARY_MAPPING_TABLE, i), &c->mapping[i], &filename);
}

void check_mapping(struct check *c, struct bytes message)
{
    struct check_range m = {0};
    uint32_t filename;
    read_mapping(c, message, &m, &filename);
    check_attribute_list(c, PLACE_MAPPING);
    if ((m.start | m.limit) != 0 && m.start >= m.limit)
        check_found(c, CHECK_MAPPING_RANGE, NULL, NOWHERE, "from 0x%" PRIx64 " to 0x%" PRIx64, m.start,
                    m.limit);
    if (!has_build_id(c) && !is_no_file(check_string(c, filename)))
        check_found(c, CHECK_MAPPING_BUILD_ID, NULL, NOWHERE, "%s", "");
}

void check_location(struct check *c, struct bytes message)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    uint32_t mapping = 0, lines = 0;
    uint64_t address = 0;
    vec_clear(&c->list);
    for (uint32_t row; (row = check_next(c, MESSAGE_LOCATION, &r, &f)) != NOWHERE;)
        switch (row) {
        case ROW_LOCATION_MAPPING_INDEX: mapping = check_index(f.value); break;
        case ROW_LOCATION_ADDRESS: address = f.value; break;
        case ROW_LOCATION_LINES: lines++; break;
        case ROW_LOCATION_ATTRIBUTE_INDICES: check_list(c, &f); break;
        default: break;
        }
    check_attribute_list(c, PLACE_LOCATION);
    if (address == 0 && lines == 0)
        check_found(c, CHECK_LOCATION_HOLLOW, NULL, NOWHERE, "%s", "");
    if (mapping == 0 || mapping >= c->table[DICTIONARY_MAPPING_TABLE].at.n || address == 0)
        return;
    const struct check_range m = c->mapping[mapping];
    if ((m.start | m.limit) != 0 && (address < m.start || address > m.limit))
        check_found(c, CHECK_ADDRESS_RANGE, "address", NOWHERE,
                    "0x%" PRIx64 ", not in [0x%" PRIx64 ", 0x%" PRIx64 "]", address, m.start, m.limit);
}

/* A message of numbers: the last one of each row. */
static void read_numbers(const struct check *c, enum message of, struct bytes message, uint64_t *value)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    for (uint32_t row; (row = check_next(c, of, &r, &f)) != NOWHERE;)
        value[row] = f.value;
}

void check_line(struct check *c, struct bytes message)
{
    uint64_t value[ROWS_LINE] = {0};
    read_numbers(c, MESSAGE_LINE, message, value);
    if (value[ROW_LINE_FUNCTION_INDEX] == 0)
        check_found(c, CHECK_LINE_FUNCTION, "function_index", NOWHERE, "%s", "");
    if ((int64_t)value[ROW_LINE_LINE] < 0)
        check_found(c, CHECK_LINE_NEGATIVE, "line", NOWHERE, "%" PRId64, (int64_t)value[ROW_LINE_LINE]);
    if ((int64_t)value[ROW_LINE_COLUMN] < 0)
        check_found(c, CHECK_LINE_NEGATIVE, "column", NOWHERE, "%" PRId64, (int64_t)value[ROW_LINE_COLUMN]);
}

void check_function(struct check *c, struct bytes message)
{
    uint64_t value[ROWS_FUNCTION] = {0};
    read_numbers(c, MESSAGE_FUNCTION, message, value);
    if ((value[ROW_FUNCTION_NAME_STRINDEX] | value[ROW_FUNCTION_SYSTEM_NAME_STRINDEX] |
         value[ROW_FUNCTION_FILENAME_STRINDEX]) == 0)
        check_found(c, CHECK_FUNCTION_NAMELESS, NULL, NOWHERE, "%s", "");
    if ((int64_t)value[ROW_FUNCTION_START_LINE] < 0)
        check_found(c, CHECK_START_LINE, "start_line", NOWHERE, "%" PRId64,
                    (int64_t)value[ROW_FUNCTION_START_LINE]);
}

void check_link(struct check *c, struct bytes message)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    struct bytes id[ROWS_LINK] = {{0}};
    for (uint32_t row; (row = check_next(c, MESSAGE_LINK, &r, &f)) != NOWHERE;)
        id[row] = f.bytes;
    const struct bytes trace = id[ROW_LINK_TRACE_ID], span = id[ROW_LINK_SPAN_ID];
    if (trace.n != 16)
        check_found(c, CHECK_TRACE_ID, "trace_id", NOWHERE, "%zu bytes", trace.n);
    if (span.n != 8)
        check_found(c, CHECK_SPAN_ID, "span_id", NOWHERE, "%zu bytes", span.n);
    if ((trace.n == 16 && check_is_zeros(trace)) || (span.n == 8 && check_is_zeros(span)))
        check_found(c, CHECK_LINK_ZERO, NULL, NOWHERE, "%s", "");
}
