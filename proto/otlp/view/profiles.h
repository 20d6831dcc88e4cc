/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The profiles view: one ExportProfilesServiceRequest (or ProfilesData; the layouts are equal) decoded into
 * flat columns over the request's own bytes. No object per message, no copy of a string.
 *
 * Every index is checked here, once: whoever reads the columns may use them without looking. A sample that
 * refers to something that is not there, that has neither values nor timestamps, a field of another wire type
 * than the layout says, or a stack of more than PROFILES_STACK_FRAMES_MAX frames, is rejected by itself
 * (its stack becomes PROFILES_REJECTED, it is counted and the first one named); the rest goes on. A different
 * number of values and timestamps is against profiles.proto too, but the consumers there are count such
 * samples (tests/data/connector/rand-*.pb), so both counts are given and the reader decides.
 *
 * The columns follow opentelemetry/proto/profiles/v1development/profiles.proto 1.10 = 1.11, which is what
 * older layouts are translated to. Where that file says "index 0 is null", index 0 is the zero entry here
 * too, also when a producer left a table empty: every table has at least its entry 0.
 */
#ifndef PROTO_OTLP_VIEW_PROFILES_H
#define PROTO_OTLP_VIEW_PROFILES_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/base/macros.h"
#include "proto/otlp/attr.h"
#include "proto/otlp/layouts/layout.h"

/* Frames of one stack, inlined ones included. A thread's 8 MiB of stack hold some 60,000 calls if they
 * recurse without end; a sample whose stack has more is rejected. */
#define PROFILES_STACK_FRAMES_MAX 65536u

/* sample.stack of a sample that was rejected. */
#define PROFILES_REJECTED UINT32_MAX

/* [i] … [i + 1] of an `_at` column bound entry i's part of a pool, so each has n + 1 entries. */
struct profiles {
    struct bytes body; /* what the slices point into */
    enum profiles_layout layout;
    bool told;        /* where it was found out: something in the request has no other layout's meaning */
    bool contradicts; /* by itself it would surely have another than the one known of its producer */
    uint32_t unknown_fields; /* skipped, each time: of a newer schema than its layout's. Not counted in a list
                                within an attribute's value */

    struct {
        uint32_t n;
        uint64_t *span; /* offset in body | length << 32; read with profiles_string() */
    } string;
    struct {
        uint32_t n;
        uint64_t *memory_start, *memory_limit, *file_offset;
        uint32_t *filename; /* string */
        uint32_t *attrs_at; /* into attr_index */
    } mapping;
    struct {
        uint32_t n;
        uint32_t *mapping; /* 0: none */
        uint64_t *address;
        uint32_t *lines_at; /* into line; innermost first */
        uint32_t *attrs_at; /* into attr_index */
        bool several;       /* one at least has more than one line */
    } location;
    struct {
        uint32_t n; /* a pool, not a table: no zero entry */
        uint32_t *function;
        int64_t *line, *column;
    } line;
    struct {
        uint32_t n;
        uint32_t *name, *system_name, *filename; /* strings */
        int64_t *start_line;
    } function;
    struct {
        uint32_t n;
        uint64_t *trace_at; /* offset in body of 16 bytes, or 0 for an all-zero id */
        uint64_t *span_at;  /* offset in body of 8 bytes, or 0 */
    } link;
    struct {
        uint32_t n;
        uint32_t *key, *unit;     /* strings */
        struct attr_value *value; /* string_value_strindex already resolved to ATTR_STRING */
    } attribute;
    struct {
        uint32_t n;
        uint32_t *locations_at; /* into stack_location */
    } stack;
    struct {
        uint32_t n;
        uint32_t *location; /* leaf first */
    } stack_location;
    struct {
        uint32_t n;
        uint32_t *attribute; /* entries of the attribute table */
    } attr_index;            /* pool for mappings, locations, profiles and samples */

    struct {
        uint32_t n;
        struct bytes *raw; /* the Resource message: equal bytes, equal resource */
        struct bytes *schema_url;
        uint32_t *attrs_at; /* into key_value */
    } resource;             /* no zero entry: resource i is ResourceProfiles i */
    struct {
        uint32_t n;
        uint32_t *resource;
        struct bytes *name, *version, *schema_url;
        uint32_t *attrs_at; /* into key_value */
    } scope;                /* no zero entry: in order of ScopeProfiles */
    struct {
        uint32_t n;
        struct attr *attr; /* without references to strings, nested ones neither */
    } key_value;           /* pool: attributes of resources and scopes */

    struct {
        uint32_t n;
        uint32_t *scope;
        uint32_t *type, *unit;               /* sample_type, strings */
        uint32_t *period_type, *period_unit; /* strings; 0 when there is no period_type */
        int64_t *period;
        uint64_t *time_unix_nano, *duration_nano;
        struct bytes *profile_id; /* 0 or 16 bytes */
        struct bytes *sibling_id; /* what siblings share: the id, or, of one without, that of the one before
                                   * it, if that is of the same scope, time and duration */
        struct bytes *raw;        /* the Profile message */
        uint32_t *attrs_at;       /* into attr_index */
        uint32_t *samples_at;     /* into sample */
    } profile;                    /* no zero entry */
    struct {
        uint32_t n;
        uint32_t *stack; /* or PROFILES_REJECTED */
        uint32_t *link;
        uint32_t *attrs_at; /* into attr_index; n + 1 */
        uint32_t *n_values, *n_timestamps;
        int64_t *value_sum; /* Σ values; saturates at INT64_MIN/MAX */
    } sample;               /* no zero entry; grouped by profile */

    struct {
        uint32_t samples; /* rejected by themselves */
        uint32_t
            profiles; /* those with at least one rejected sample, or unusable as a whole: OTLP counts these */
        struct error
            first; /* names the place: "resource_profiles[0].scope_profiles[0].profiles[2].samples[17]: …" */
    } rejected;

    struct profiles_memory *memory; /* how the columns are kept; private */
};

/* Sets up an empty view. The columns' memory is kept from one request to the next; it is charged to `budget`.
 */
int profiles_init(struct profiles *p, struct budget *budget);
void profiles_release(struct profiles *p);

/* Decodes `body`, which must stay in place, unchanged, as long as the view is read, with PROFILES_PADDING
 * readable bytes behind it. Replaces what the view held. Iterative, bounded by the limits, safe on any bytes.
 * 0, a condition of layout.h with *e set to say where, or -ENOMEM. Afterwards on failure the view is empty.
 */
int profiles_decode(struct profiles *p, struct bytes body, const struct profiles_limits *limits,
                    struct error *e);

/* The same for a body whose layout is known: it is not asked for, and what does not fit it is malformed or
 * rejected. UNKNOWN is profiles_decode.
 *
 * A body of a layout before 1.10 is translated first (proto/otlp/layouts/legacy.h), into memory of the view:
 * `body` of the view and all slices then are of the translation, `layout` still says what came, and places in
 * words are places in the translation. */
int profiles_decode_as(struct profiles *p, struct bytes body, enum profiles_layout layout,
                       const struct profiles_limits *limits, struct error *e);

/* The same for a body of a producer of which a layout is known, with a weight: what the request says of its
 * own layout (proto/otlp/layouts/sniff.c) may be more. `contradicts` tells when it surely says another one.
 */
int profiles_decode_of(struct profiles *p, struct bytes body, const struct profiles_producer *producer,
                       const struct profiles_limits *limits, struct error *e);

/* Gives the memory back if it is more than keep_max, for a process that has seen one huge request.
 * Then the view is empty. */
void profiles_trim(struct profiles *p, size_t keep_max);

/* Bytes held in columns, for messages that came in pieces, and for a translated body, now. */
size_t profiles_memory_used(const struct profiles *p);

/* What a sample counts as one number: the sum of its values; of one that has only timestamps how many they
 * are. */
static inline int64_t profiles_sample_value(const struct profiles *p, uint32_t sample)
{
    return p->sample.n_values[sample] ? p->sample.value_sum[sample] : p->sample.n_timestamps[sample];
}

/* The profile that has a sample, or the next one's if there is no such sample. */
static inline uint32_t profiles_profile_of(const struct profiles *p, uint32_t sample)
{
    return first_where(p->profile.n, i, p->profile.samples_at[i + 1] > sample);
}

/* Whether two profiles of one scope are of one measurement, which each says in its way. */
static inline bool profiles_are_siblings(const struct profiles *p, uint32_t i, uint32_t j)
{
    return p->profile.time_unix_nano[i] == p->profile.time_unix_nano[j] &&
           p->profile.duration_nano[i] == p->profile.duration_nano[j] &&
           bytes_eq(p->profile.sibling_id[i], p->profile.sibling_id[j]);
}

/* Whether a table of the dictionary begins with an entry: what refers to 0, and says so that there is none,
 * has that one here. An id of zero bytes is none. */
bool profiles_has_entry_0(const struct profiles *p);

/* String i (i < string.n). */
static inline struct bytes profiles_string(const struct profiles *p, uint32_t i)
{
    return bytes_of(p->body.p + (uint32_t)p->string.span[i], (size_t)(p->string.span[i] >> 32));
}

#endif
