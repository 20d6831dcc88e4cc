/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A translation from an older layout in progress, and the tables of the dictionary it writes. Private to this
 * folder.
 *
 * A table is a set of encoded entries (struct intern): equal entries are one, and the empty entry, which is
 * what 1.10 has at index 0 for "none", is number 0. Up to 1.7 there was no such entry: index 0 was the first
 * real one and absence was a field that is not there. So old indices are always looked up in a list of new
 * ones.
 *
 * All functions return 0, PROFILES_MALFORMED, PROFILES_OVER_BUDGET or -ENOMEM unless they say otherwise.
 */
#ifndef PROTO_OTLP_LAYOUTS_LEGACY_PARTS_H
#define PROTO_OTLP_LAYOUTS_LEGACY_PARTS_H

#include "proto/base/arena.h"
#include "proto/base/intern.h"
#include "proto/base/budget.h"
#include "proto/base/macros.h"
#include "proto/base/error.h"
#include "proto/base/vec.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* An index that leads nowhere. No table reaches it: each entry is charged for. */
#define NOWHERE UINT32_MAX

/* Table t is field t + 1 of ProfilesDictionary in 1.10. */
/* clang-format off */
#define T(name) TABLE_##name = DICTIONARY_##name##_TABLE - 1
enum legacy_table {
    T(MAPPING), T(LOCATION), T(FUNCTION), T(LINK), T(STRING), T(ATTRIBUTE), T(STACK), TABLES = DICTIONARY_HIGHEST
};
#undef T
/* clang-format on */

VEC_AS(numbers, uint32_t); /* on the translation's budget */

/* The tables of one dictionary (1.7) or one profile (1.5): new numbers by old index. */
struct legacy_source {
    struct numbers to[TABLES]; /* [TABLE_STACK] stays empty */
    uint32_t id;               /* sources are numbered, so that units of one do not leak into the next */
};

struct legacy {
    enum profiles_layout from;
    struct bytes body;
    const struct profiles_limits *limits;
    struct budget budget; /* of this translation, inside the caller's */
    struct error *e;

    struct buffer *out;
    struct wire_writer w; /* to out */
    struct buffer entry;
    struct wire_writer ew; /* to entry: a table's next entry while it is being written */

    struct arena arena;
    struct intern table[TABLES];
    struct intern unit_key; /* {source, number of a key} → index into unit */
    struct numbers unit;    /* numbers of strings */
    size_t entries_charged;

    uint8_t renumber[MESSAGES][FIELD_NUMBERS]; /* [message][number in from] = in 1.10 */

    struct bytes dictionary; /* all pieces joined; up to 1.5 there is none */
    struct legacy_source source;

    struct numbers attrs;               /* new numbers: of the entry or sample at hand */
    struct numbers of_profile;          /* … of the profile at hand */
    struct numbers comments;            /* of the profile at hand: string numbers */
    struct numbers path;                /* 1.5, 1.7: Profile.location_indices, as new numbers */
    struct numbers stacks;              /* 1.5, 1.7: stack by sample of the profile at hand */
    uint64_t path_steps, comment_bytes; /* what slices and comments repeat of the body: bounded */

    bool strings_read;                /* 1.8: source.to[TABLE_STRING] is filled */
    uint32_t n_strings, n_attributes; /* 1.8: in the dictionary as it came */
};

/* Words for what is wrong, and where. */
int legacy_malformed(struct legacy *t, const uint8_t *at, const char *what);
int legacy_wrong_type(struct legacy *t, const struct wire_field *f, const char *message);

/* After a loop over wire_next that ended with r: 0 when that was the end. */
int legacy_ended(struct legacy *t, int r, const struct wire_reader *in, const char *message);

/* Makes `more` bytes behind b->n writable and charges for them, so that a writer never fails for room. */
int legacy_room(struct legacy *t, struct buffer *b, size_t more);

/* What an encoded message of n bytes can take in 1.10 at most: a timestamp or an index of one byte becomes
 * eight or five, an empty Line of two bytes eight; and the slack a writer asks for. */
static inline size_t legacy_grown(size_t n)
{
    return 8 * n + 256;
}

/* 0 or PROFILES_OVER_BUDGET. */
int numbers_add(struct legacy *t, struct numbers *list, uint32_t number);

/* Its place in t->source.to and t->table, of a field that is an index. */
static inline enum legacy_table table_of(const struct field *f)
{
    return (enum legacy_table)(f->table - 1);
}

/* The new number of old index i. */
static inline uint32_t numbers_at(const struct numbers *list, uint64_t i)
{
    if (i >= list->n)
        return i == 0 ? 0 : NOWHERE; /* 0 in an empty table is how "nothing" is encoded */
    return list->p[i];
}

/* Adds the new numbers of a repeated int32 field's indices, packed or not, to `list`. */
int legacy_indices(struct legacy *t, const struct wire_field *f, const struct numbers *to,
                   struct numbers *list, const char *message);

/* Begins an entry of at most `size` bytes in t->ew; add makes it one of the table and gives its number. */
int legacy_entry_begin(struct legacy *t, size_t size);
int legacy_entry_add(struct legacy *t, enum legacy_table table, uint32_t *ret);

int legacy_string(struct legacy *t, struct bytes s, uint32_t *ret);

/* KeyValue with its key as text → KeyValueAndUnit. */
int legacy_attribute(struct legacy *t, struct bytes key_value, uint32_t *ret);

/* The attribute pprof.profile.comment (semantic-conventions, registry/attributes/pprof: string[]) of the
 * texts in t->comments, under the key number `key`. */
int legacy_comment_attribute(struct legacy *t, uint32_t key, uint32_t *ret);
#define LEGACY_COMMENT_KEY "pprof.profile.comment"

/* Reads the tables of t->from (1.5 or 1.7) in a message into t->source, replacing what it holds, and what
 * they hold into t->table. */
int legacy_read_source(struct legacy *t, struct bytes message);

/* Only the strings, from fields `number`. */
int legacy_read_strings(struct legacy *t, struct bytes message, uint32_t number);

/* Writes t->table as a ProfilesDictionary. */
int legacy_write_dictionary(struct legacy *t);

/* A Profile of t->from as one or more profiles of ScopeProfiles in t->w. */
int legacy_profile_1_7(struct legacy *t, struct bytes message);
int legacy_profile_1_9(struct legacy *t, struct bytes message);

/* legacy_profile_1_9.c: the dictionary as it came, with what the profiles added. */
int legacy_write_dictionary_1_9(struct legacy *t);

#endif
