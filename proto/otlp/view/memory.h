/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory behind a profiles view: columns that grow geometrically, are charged for, and are kept from one
 * request to the next (giving pages back between requests costs four times the decode: 41 µs become 184).
 * Private to proto/otlp/view.
 */
#ifndef PROTO_OTLP_VIEW_MEMORY_H
#define PROTO_OTLP_VIEW_MEMORY_H

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/otlp/view/profiles.h"
#include "proto/otlp/view/shape.h"
#include "proto/wire/load.h"

/* Columns of one group have the same number of entries and grow together. */
enum profiles_group {
    GROUP_STRING,
    GROUP_MAPPING,
    GROUP_LOCATION,
    GROUP_LINE,
    GROUP_FUNCTION,
    GROUP_LINK,
    GROUP_ATTRIBUTE,
    GROUP_STACK,
    GROUP_STACK_LOCATION,
    GROUP_ATTR_INDEX,
    GROUP_RESOURCE,
    GROUP_SCOPE,
    GROUP_KEY_VALUE,
    GROUP_PROFILE,
    GROUP_SAMPLE,
    GROUP_MAPPING_ATTR,
    GROUP_LOCATION_ATTR,
    GROUP_PROFILE_ATTR,
    GROUP_REFERENCE,
    GROUPS
};

/* Every column has this many entries behind its capacity: one for the end of an `_at` column, the rest for
 * the packed reader, which stores whole vectors. */
#define COLUMN_SLACK (WIRE_PACKED_SLACK + 1)

struct index_pool {
    uint32_t n;
    uint32_t *index;
};

struct profiles_memory {
    struct budget *budget;
    size_t used, limit; /* bytes of columns now, and what they may be during this decode */
    uint32_t cap[GROUPS];

    /* Fields come in any order, so while decoding each kind of owner fills a pool of its own; afterwards they
     * are appended to attr_index, where the samples' (the most) already are. */
    struct index_pool mapping_attr, location_attr, profile_attr;

    /* Entries of the attribute table whose value is a string_value_strindex: resolved when all strings are
     * known. */
    struct {
        uint32_t n;
        uint32_t *attribute, *string;
    } reference;

    struct bytes *scope_raw; /* of the scope table: the InstrumentationScope message */

    /* Messages that came in several pieces, joined: protobuf says that concatenating two encodings merges
     * them. */
    struct budget joined_budget;
    struct arena joined;

    struct shapes shapes; /* of locations, from one request to the next */

    struct buffer translated; /* the body, when it came in an older layout; by the rules of
                                 proto/otlp/layouts/legacy.h */
};

/* Makes room for `need` entries in the columns of a group. 0, PROFILES_OVER_BUDGET, or -ENOMEM. */
int profiles_grow(struct profiles *p, enum profiles_group group, size_t need);

/* Makes room for one more when there is none: to be called before an entry is added. */
static inline int profiles_room(struct profiles *p, enum profiles_group group, uint32_t n)
{
    return likely(n < p->memory->cap[group]) ? 0 : profiles_grow(p, group, (size_t)n + 1);
}

/* Scratch memory for the time of a call, charged like columns; give the same n back. NULL when refused. */
void *profiles_scratch(struct profiles *p, size_t n);
void profiles_scratch_free(struct profiles *p, void *scratch, size_t n);

/* A message of which a further piece may come: where it was joined last, and the bytes it may grow to there.
 * Begins zeroed. */
struct joined {
    uint8_t *p;
    size_t room;
};

/* a then b in one piece, padded; a is a slice of the body or what was returned of the same `j`. Any number of
 * pieces takes a few times their bytes. .p is NULL when memory or the limit is out (and neither is empty). */
struct bytes profiles_join(struct profiles *p, struct joined *j, struct bytes a, struct bytes b);

/* Sets every count to 0. */
void profiles_empty(struct profiles *p);

#endif
