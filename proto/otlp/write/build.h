/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request under construction: an ExportProfilesServiceRequest (OTLP 1.10 = 1.11) built entry by entry.
 *
 * The dictionary is deduplicated by content and has its zero entries, all of them empty messages (README.md,
 * "What is stored"); keys are written inline (no
 * key_strindex), as the Collector's receiver wants them (up to v0.159 it resolves no references). The tree is
 * written in document order: resource, then its scopes, then their profiles, then their samples. Meant for
 * one request every few seconds, so an entry is kept as its encoded bytes: little memory, and finishing is a
 * copy.
 *
 *     build_begin(b);
 *     build_resource(b, attrs, n_attrs, schema_url);
 *     build_scope(b, name, version, NULL, 0, no_url);
 *     build_profile(b, &(struct build_profile){ .type = build_string(b, BYTES_LIT("samples")), … });
 *     build_sample(b, &(struct build_sample){ .stack = build_stack(b, locations, n), .values = &one,
 * .n_values = 1 }); r = build_finish(b, &out);
 *
 * Failure is remembered, not returned: once memory or the budget is out, adding does nothing, indices are 0
 * (which is always valid), and build_finish says so. One thread at a time.
 */
#ifndef PROTO_OTLP_WRITE_BUILD_H
#define PROTO_OTLP_WRITE_BUILD_H

#include <stddef.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/bytes.h"
#include "proto/otlp/attr.h"

struct build;

/* A builder, begun; NULL when memory is out. Strings and entries are charged to `budget` (may be NULL). */
struct build *build_new(struct budget *budget);
struct build *build_free(struct build *b); /* returns NULL */

/* Forgets everything, a remembered failure too, and keeps the memory for the next request. */
void build_begin(struct build *b);

/* From the next build_begin on, mappings, functions and locations of equal content have entries of their own:
 * what is translated keeps those it had. */
void build_keep_equal(struct build *b);

/* About how long the encoded request would be now, in bytes: to split before a receiver's limit (usually 4
 * MiB for gRPC) is reached. Never less than the true size. */
size_t build_size(const struct build *b);

/* --- The dictionary: each returns the entry's index, the same one for the same content; 0 for the zero
 * value. Slices and arrays are copied. Indices in arguments are what these functions returned since the last
 * build_begin. */

uint32_t build_string(struct build *b, struct bytes s); /* must be UTF-8 (protobuf `string`) */

/* An attribute of samples, profiles, mappings or locations. `unit` is a string index, UCUM, usually 0. */
uint32_t build_attribute(struct build *b, struct bytes key, const struct attr_value *value, uint32_t unit);
uint32_t build_attribute_text(struct build *b, const char *key, struct bytes value);
uint32_t build_attribute_int(struct build *b, const char *key, int64_t value);

struct build_mapping {
    uint64_t memory_start, memory_limit, file_offset;
    uint32_t filename;     /* string */
    const uint32_t *attrs; /* attributes: here belongs process.executable.build_id.* (mappings.md) */
    uint32_t n_attrs;
};
uint32_t build_mapping(struct build *b, const struct build_mapping *m);

struct build_function {
    uint32_t name, system_name, filename; /* strings; at least one of them is set */
    int64_t start_line;                   /* 0: not known */
};
uint32_t build_function(struct build *b, const struct build_function *f);

struct build_line {
    uint32_t function;
    int64_t line, column; /* from 1; 0: not known */
};
struct build_location {
    uint32_t mapping; /* 0: none */
    uint64_t address;
    const struct build_line *lines; /* innermost inlined function first */
    uint32_t n_lines;
    const uint32_t *attrs; /* here belongs profile.frame.type */
    uint32_t n_attrs;
};
uint32_t build_location(struct build *b, const struct build_location *l);

uint32_t build_stack(struct build *b, const uint32_t *locations, uint32_t n); /* leaf first */
/* The same of a Stack's encoded fields, of which location_indices is all; stays: they are not copied, and
 * must be there until build_finish. *ret_is_new: no stack had been encoded so. */
uint32_t build_stack_encoded(struct build *b, struct bytes fields, bool stays, bool *ret_is_new);
uint32_t build_link(struct build *b, const uint8_t trace_id[16],
                    const uint8_t span_id[8]); /* both all zero: 0 */

/* --- The tree: each opens a new one inside the last opened parent, and closes what was open of its own kind.
 */

void build_resource(struct build *b, const struct attr *attrs, uint32_t n_attrs, struct bytes schema_url);
void build_scope(struct build *b, struct bytes name, struct bytes version, const struct attr *attrs,
                 uint32_t n_attrs, struct bytes schema_url);

struct build_profile {
    uint32_t type, unit;               /* strings: samples/count, cpu/nanoseconds, … */
    uint32_t period_type, period_unit; /* strings; both 0: an empty period_type */
    int64_t period;
    uint64_t time_unix_nano, duration_nano;
    const uint8_t *profile_id; /* 16 bytes, not all zero; or NULL */
    const uint32_t *attrs;
    uint32_t n_attrs;
};
void build_profile(struct build *b, const struct build_profile *p);

/* At least one value or timestamp; if both, as many of each (profiles.proto, Sample). The keys of attrs
 * differ. The caller merges samples of one identity (stack, attributes, link); the builder does not. */
struct build_sample {
    uint32_t stack, link;
    const uint32_t *attrs;
    uint32_t n_attrs;
    const int64_t *values;
    uint32_t n_values;
    const uint64_t *timestamps; /* Unix nanoseconds */
    uint32_t n_timestamps;
};
void build_sample(struct build *b, const struct build_sample *s);

/* Before the first resource, when all stacks are there: the tree is written behind what `out` has, instead of
 * being kept and copied when all is done. build_finish is given the same buffer, which nobody else may change
 * until then; what failed leaves it as it was only then. */
void build_into(struct build *b, struct buffer *out);

/* Closes what is open and appends the encoded request to `out`. 0, -ENOMEM (memory or the budget was out at
 * some point), -ENOBUFS (out's maximum), or -EINVAL (a child was added without its parent); on failure
 * nothing is added. The builder must be begun again. */
int build_finish(struct build *b, struct buffer *out);

/* The same after build_into, in pieces, and what was written there is one of them: so that all of it never
 * stands in memory. `out` is empty afterwards. 0, as above, or what `put` returns, which ends it. */
typedef int build_put(void *user, struct bytes piece);
int build_finish_pieces(struct build *b, struct buffer *out, build_put *put, void *user);

#endif
