/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A part of a request as a request of its own: some of the samples of a profiles view, and of the dictionary
 * only what they reach. This is how raw profiles are thinned, routed and split before they are forwarded.
 */
#ifndef PROTO_OTLP_WRITE_SUBSET_H
#define PROTO_OTLP_WRITE_SUBSET_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/otlp/view/profiles.h"

/* Which samples: bit i % 64 of word i / 64 is sample i of the view. */
static inline bool subset_has(const uint64_t *keep, uint32_t sample)
{
    return keep[sample / 64] >> (sample % 64) & 1;
}

static inline void subset_add(uint64_t *keep, uint32_t sample)
{
    keep[sample / 64] |= (uint64_t)1 << (sample % 64);
}

#define SUBSET_WORDS(n_samples) (((size_t)(n_samples) + 63) / 64)

/* Says in the request that it was thinned, so that a reader can scale back. An attribute `key` with the
 * probability (a double) goes to each sample, or each profile, that does not have one yet (a sample also
 * counts as having its profile's); where the key is there already, from a gateway before this one, its value
 * is multiplied instead. */
struct subset_mark {
    struct bytes key;
    double probability; /* that a sample was kept: 0 < … <= 1 */
    bool on_profiles;   /* else on samples */
    /* [sample of the view] what it is worth now, written as its one value instead of its values and
     * timestamps; NULL: these stay as they are. */
    const int64_t *values;
};

/* How a reader wants it who does not take all that the protocol allows. Zeroed: as it is. Lists end with
 * NULL. */
struct subset_form {
    bool functions_twice; /* each function has two entries, and lines name the second: for who reads the one
                             before it */
    bool untimed;     /* one value a sample and no timestamps, but samples/count that has timestamps alone */
    bool sums;        /* several values without timestamps become their sum */
    bool clamps;      /* no timestamp outside its profile */
    bool plain_types; /* no '-' in what is measured: '_' */
    bool names_service;         /* a resource without service.name has the executable's, or unknown_service */
    bool no_blank_frames;       /* stacks are without locations that have neither line nor address */
    uint32_t frames_max;        /* of a stack, from the leaf; 0: all */
    uint32_t samples_max;       /* of a profile: the rest is in others like it; 0: all */
    const char *scope_name;     /* of every scope; NULL: its own */
    const char *const *without; /* attributes of resources that are left out; NULL: none */
    const char *const *texts;   /* attributes, of anything, whose integers become text; NULL: none */
};

/* What is known of a view before parts of it are written: a pass over all of it, made once. */
struct subset;

/* Memory comes from `memory`, which keeps it: 16 bytes a sample, about 5 a table entry. View and mark (may be
 * NULL) stay as they are as long as it is used. NULL: no memory. */
struct subset *subset_new(const struct profiles *p, const struct subset_mark *mark, struct arena *memory);

/* From here on in this form, which stays as it is as long as it is used. 0 or -ENOMEM. */
int subset_shape(struct subset *s, const struct subset_form *form, struct arena *memory);

/* As profiles_subset, of the kept samples in [from, to) alone. Time is proportional to them and what they
 * reach, and to the part of the tables that fits 4096 times into them. 0, -ENOMEM; SUBSET_TOO_LARGE: it
 * passes out's maximum, and nothing is appended. */
enum { SUBSET_TOO_LARGE = 1 };
int subset_write(struct subset *s, const uint64_t *keep, uint32_t from, uint32_t to, struct buffer *out);

/* Appends an ExportProfilesServiceRequest (1.10) with the kept samples, in their order, to `out`.
 *
 * Resources, scopes and profiles without a kept sample are left out; so are rejected samples, whatever `keep`
 * says. All indices are renumbered; entry 0 of each table stays. Attribute references (key_strindex,
 * string_value_strindex) become inline text, also in nested values. Values and timestamps are copied as they
 * are encoded. A profile that lost samples loses its original_payload, which no longer is what it came from.
 *
 * keep: SUBSET_WORDS(p->sample.n) words, or NULL for all. mark: may be NULL. scratch: working memory, as of
 * subset_new, the caller's to reset. Time is proportional to the view. Any thread, as long as the
 * view stays unchanged. 0, -ENOMEM, SUBSET_TOO_LARGE (out's maximum): then nothing is added. */
int profiles_subset(const struct profiles *p, const uint64_t *keep, const struct subset_mark *mark,
                    struct arena *scratch, struct buffer *out);

#endif
