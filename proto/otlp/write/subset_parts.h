/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A subset in progress: what is known of the view, and of the piece being written. For subset*.c only.
 */
#ifndef PROTO_OTLP_WRITE_SUBSET_PARTS_H
#define PROTO_OTLP_WRITE_SUBSET_PARTS_H

#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/view/profiles.h"
#include "proto/otlp/write/renumber.h"
#include "proto/otlp/write/subset.h"
#include "proto/wire/writer.h"

/* A stretch of a profile's message. */
struct stretch {
    const uint8_t *p;
    size_t n;
};

/* Messages of the request as they stand there, in order. */
struct subset_raw {
    struct bytes *at;
    uint32_t n, room;
};

struct subset {
    const struct profiles *p;
    const struct subset_mark *mark;
    const struct subset_form *form; /* never NULL */
    uint64_t *types;                /* with plain_types: bits of the strings that say what is measured */
    uint64_t *times;                /* with clamps: room for a sample's */
    struct renumber string, mapping, location, function, link, attribute, stack;
    uint32_t mark_string;  /* of the mark's key in the view; p->string.n: it has none */
    uint32_t *attrs;       /* room for the longest list of attributes, and one more */
    struct bytes *samples; /* [sample]: its message */
    struct stretch *own;   /* what profiles have beside samples and what is renumbered, in order */
    uint32_t *own_at;      /* [profile], and one more */
    uint32_t n_own, cap_own;
    /* Of a request with fields that we do not know; else empty. */
    struct subset_raw raw_resource, raw_scope, raw_entry[DICTIONARY_HIGHEST + 1]; /* [field of Dictionary] */
    /* of the piece being written */
    const uint64_t *keep;
    uint32_t from, to;   /* samples */
    uint32_t first, end; /* profiles that have them */
    struct wire_writer w;
    uint32_t mark_key,
        mark_attribute; /* numbers in the new request, of the key's string and the added attribute */
};

/* Whether a sample is in the piece. */
static inline bool subset_keeps(const struct subset *s, uint32_t sample)
{
    return sample >= s->from && sample < s->to && s->p->sample.stack[sample] != PROFILES_REJECTED &&
           (!s->keep || subset_has(s->keep, sample));
}

/* Whether a profile has a sample in the piece; *ret_whole: all of them. */
bool subset_keeps_profile(const struct subset *s, uint32_t profile, bool *ret_whole);

static inline bool subset_is_payload(uint32_t field)
{
    return field == PROFILE_ORIGINAL_PAYLOAD_FORMAT || field == PROFILE_ORIGINAL_PAYLOAD;
}

/* subset_unknown.c: finds the messages that may have such fields. 0 or -ENOMEM. */
int subset_find_unknown(struct subset *s, struct arena *memory);

/* Those of a message whose known ones are up to `highest`; of the i-th; of the message in that field. */
void subset_put_unknown(struct subset *s, struct bytes message, uint32_t highest);
void subset_put_unknown_of(struct subset *s, const struct subset_raw *raw, uint32_t i, uint32_t highest);
void subset_put_unknown_in(struct subset *s, struct bytes message, uint32_t field, uint32_t highest);

/* subset_shape.c: what a form changes. */

/* A string of the dictionary. */
void subset_put_string(struct subset *s, uint32_t i);

/* A sample's values and timestamps; false: they are to be copied as they are. */
bool subset_put_worth(struct subset *s, uint32_t profile, uint32_t sample, struct bytes message);

/* The attributes of a resource and what else is in its message; false: it is to be copied as it is. */
bool subset_put_resource(struct subset *s, uint32_t resource);

/* The value as it is written: *room has at least 24 bytes. */
struct attr_value subset_value(const struct subset *s, struct bytes key, const struct attr_value *value,
                               char *room);

/* How many of the locations [from, to) of the pool a stack keeps, and whether one is passed over. */
uint32_t subset_stack_end(const struct subset *s, uint32_t from, uint32_t to);
bool subset_is_blank(const struct subset *s, uint32_t location);

/* subset_encode.c: appends the request to s->w, when what is reached has its numbers. */
void subset_encode(struct subset *s);

#endif
