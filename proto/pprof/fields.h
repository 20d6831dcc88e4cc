/* SPDX-License-Identifier: Apache-2.0 */
/*
 * pprof's messages by field number: what each holds and where it goes in our structs, for who reads and who
 * writes them. google/pprof/proto/profile.proto at b9395ee. For proto/pprof only.
 */
#ifndef PROTO_PPROF_FIELDS_H
#define PROTO_PPROF_FIELDS_H

#include <stdint.h>

enum pprof_kind {
    PPROF_UNKNOWN,
    PPROF_U64,
    PPROF_I64,
    PPROF_FLAG,
    PPROF_STRING, /* uint32_t: its place in the string table, an int64 on the wire */
    PPROF_MAPPING,
    PPROF_FUNCTION, /* uint32_t: place + 1, an id on the wire */
    PPROF_OTHER,    /* a message or a list: read and written by hand */
};

struct pprof_field {
    const char *name;
    enum pprof_kind kind;
    uint32_t offset;
};

struct pprof_message {
    const char *name;                 /* as its table is called in Profile */
    const struct pprof_field *fields; /* [number] */
    uint32_t n_fields;
};

extern const struct pprof_message pprof_profile, pprof_value_type, pprof_label, pprof_mapping, pprof_location,
    pprof_line, pprof_function;

/* Fields that are read and written by hand, by message. */
enum {
    PROFILE_SAMPLE_TYPE = 1,
    PROFILE_SAMPLE = 2,
    PROFILE_MAPPING = 3,
    PROFILE_LOCATION = 4,
    PROFILE_FUNCTION = 5,
    PROFILE_STRING_TABLE = 6,
    PROFILE_TIME_NANOS = 9,
    PROFILE_PERIOD_TYPE = 11,
    PROFILE_COMMENT = 13,
    PROFILE_DEFAULT_SAMPLE_TYPE = 14,

    SAMPLE_LOCATION_ID = 1,
    SAMPLE_VALUE = 2,
    SAMPLE_LABEL = 3,

    LOCATION_LINE = 4,
};

#endif
