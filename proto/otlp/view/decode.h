/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps of profiles_decode, and what they share. Private to proto/otlp/view.
 *
 * All steps return 0, PROFILES_MALFORMED, PROFILES_OVER_BUDGET or -ENOMEM. Indices are stored as they come
 * (saturated to 32 bits) and checked at the very end, because writers put the dictionary before or behind
 * what refers to it.
 */
#ifndef PROTO_OTLP_VIEW_DECODE_H
#define PROTO_OTLP_VIEW_DECODE_H

#include "proto/otlp/layouts/layout.h"
#include "proto/otlp/view/memory.h"

struct decode {
    struct profiles *p;
    struct profiles_memory *m;
    const uint8_t *base; /* of the body */
    uint32_t depth;      /* limits.depth */
    struct error *e;
    bool asks;                           /* which layout it is: what is not of this one ends the decode */
    bool doubt;                          /* something was seen that is odd in 1.10, if it is that */
    uint32_t n_hollow;                   /* messages with hardly anything in them: decode_entry */
    struct joined resource, scope, list; /* those being read */
    uint64_t inlined;                    /* bytes: decode_inline */
};

/* Fails with words and the byte where it happened. */
int decode_malformed(struct decode *d, const uint8_t *at, const char *what);

/* To be called for each message of a repeated field that becomes an entry: counts it when it is hollow
 * (proto/otlp/layouts/layout.h). */
int decode_too_hollow(struct decode *d, const uint8_t *at);
static inline int decode_entry(struct decode *d, struct bytes message, size_t hollow)
{
    if (likely(message.n > hollow) || ++d->n_hollow <= HOLLOW_MAX)
        return 0;
    return decode_too_hollow(d, message.p);
}

/* The same for an entry of a table, which can be a small number and no more: the name of a function. */
static inline int decode_table_entry(struct decode *d, struct bytes message)
{
    if (message.n == HOLLOW_BYTES && message.p[HOLLOW_BYTES - 1] != 0)
        return 0;
    return decode_entry(d, message, HOLLOW_BYTES);
}

/* A field above those of its message: of a schema that is newer than ours. 0. */
static inline int decode_unknown(struct decode *d)
{
    d->p->unknown_fields++;
    return 0;
}

/* A known field with a wire type that is not its own. */
int decode_wrong_type(struct decode *d, const struct wire_field *f, const char *message);

/* The same in a sample or a profile, which is rejected by itself when the layout is known: 0, and
 * *unreadable. Its place in columns is kept, with UNREADABLE as its stack or its type: check.c finds the
 * words again. */
#define UNREADABLE (UINT32_MAX - 1)
int decode_misfit(struct decode *d, const struct wire_field *f, const char *message, bool *unreadable);

/* Adds the indices of a repeated int32 field, packed or not, to a pool of `group`. */
int decode_indices(struct decode *d, enum profiles_group group, struct index_pool *pool,
                   const struct wire_field *f, const char *message);

/* dictionary.c: a ProfilesDictionary is appended to the tables. */
int decode_dictionary(struct decode *d, struct bytes message);

/* tree.c: a ResourceProfiles with all below it. */
int decode_resource_profiles(struct decode *d, struct bytes message);

/* tree.c, after everything else: names, versions and attributes of resources and scopes. A resource
 * or scope whose references dangle is marked in the given arrays (may be NULL to only find out whether there
 * is one). */
int decode_scopes(struct decode *d, uint8_t *resource_bad, uint8_t *scope_bad, bool *ret_dangling);

/* value.c: one AnyValue. What *value holds already is kept unless the message says otherwise, as
 * protobuf merges. With string_value_strindex, *ret_reference becomes that index and the value an empty
 * string; otherwise INDEX_NONE. */
#define INDEX_NONE (UINT64_MAX)
int decode_any_value(struct decode *d, struct bytes message, struct attr_value *value,
                     uint64_t *ret_reference);

/* value.c: a list of a resource or a scope says the texts that it refers to, in memory of the view: whoever
 * compares or keeps it beyond its request has no string table. 0 or a condition: a reference of three bytes
 * may stand for any number, and together they stand for so many at most. */
#define INLINED_TIMES 64u /* of the body */
#define INLINED_FREE  ((uint64_t)16 << 20)
int decode_inline(struct decode *d, struct attr_value *value);

/* check.c: resolves references in the attribute table and checks every index. Where one is bad, the
 * samples that reach it are rejected and the index itself becomes 0, so that columns can be used without
 * looking. `good` is whether check_all_good said so and decode_scopes found no reference that dangles. */
int check_indices(struct decode *d, bool good);

/* fit.c: whether nothing speaks against what was decoded as 1.10 being that: each sample of it is good
 * in 1.10, so sniff.c would find no point against it. *ret_told: something speaks for it, too. Call when the
 * columns are complete and before indices are checked. */
bool decode_is_plain_1_10(const struct decode *d, bool *ret_told);

/* check.c: whether every index is in its table and no sample empty. */
bool check_all_good(const struct decode *d);

#endif
