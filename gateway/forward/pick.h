/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which samples of a request are kept, and with what probability they were: decided by seeded hashes of what
 * they say, not of how this request numbers it, so that every gateway with the same seed decides the same, on
 * every request.
 *
 * A share is of stacks (hash of stack and resource), of profiles (of the profile id), or of samples (of
 * stack, resource and the profile's time). The three are independent and one is enough.
 *
 * Shares of stacks and of samples are for a sample of mean weight among those of its type in the request: one
 * of twice that has twice the chance, and what weighs 1/share of it is always kept. What is kept is then
 * worth its weight divided by its chance, so that the totals of what is forwarded are those of all, within
 * about one part in sqrt(share × samples), however unequal they are: an allocation of a megabyte stands for
 * itself, the ones of a few bytes that are kept stand for those that are not. (With one chance for all, 10 %
 * of the stacks of an allocation profile had 0.1 % of its bytes.) Because no more than one chance is cut off
 * at 1, at most the share is kept.
 *
 * A stack's content is what is textual and the same on every host: frame types, function names, source files;
 * a frame without a function counts with its address. Mappings (paths, build ids), line numbers and
 * everything of the sample itself are left out. A resource's content is its attributes, in any order.
 */
#ifndef GATEWAY_FORWARD_PICK_H
#define GATEWAY_FORWARD_PICK_H

#include <stddef.h>
#include <stdint.h>

#include "gateway/forward/keep.h"
#include "gateway/forward/rates.h"
#include "proto/base/budget.h"
#include "proto/otlp/view/profiles.h"

/* Kept samples with one probability leave together; so many different ones a request: rules say some, and a
 * number fits a byte. */
#define PICK_GROUPS 254u

struct pick_group {
    double probability; /* of a sample of mean weight */
    bool by_rate;       /* no probability is known: it was among the first of its second or minute */
    uint64_t samples;
};

/* Samples of one type weigh against each other. Types beyond these share the last place; there all have one
 * chance, since a count would have none beside bytes or nanoseconds: that costs precision, not truth. */
#define PICK_CLASSES 16u

struct pick_class {
    uint32_t type, unit; /* strings of the view */
    double weight;       /* of all samples */
    uint64_t samples;
    bool mixed;  /* of several types */
    double left; /* of the last value rounded: the next one has it */
};

/* Memory kept from one request to the next; charged to the budget. */
struct pick {
    struct budget *budget;
    uint64_t *words;
    size_t cap;
    uint64_t *keep, *more; /* parts of it */
    int64_t *value;        /* [sample] what a kept one is worth, in groups whose probability is known */
    uint8_t *group;        /* [sample] its group + 1; 0: not kept */
    struct pick_class classes[PICK_CLASSES];
    uint32_t n_classes;
    struct pick_group groups[PICK_GROUPS];
    uint32_t n_groups;
    uint64_t kept, thinned; /* samples */
    uint64_t lost;          /* samples that are kept and belong to a group too many */
};

/* Fills all of them for a share of stacks in (0, 1], as group 0. A rejected sample is neither kept nor
 * thinned. 0, or -ENOMEM (memory or budget). */
int pick_by_share(struct pick *p, const struct profiles *view, double share, uint64_t seed);

/* The same as rules say. */
struct pick_rules {
    const struct keep_decider *decider;
    struct forward_rates *rates;
    double share; /* of stacks, for samples that no rule takes: 0 … 1 */
    uint64_t seed, now_ns;
};
int pick_by_rules(struct pick *p, const struct profiles *view, const struct pick_rules *rules);

/* The samples of a group as bits (proto/otlp/write/subset.h); until the next call. */
const uint64_t *pick_group(struct pick *p, const struct profiles *view, uint32_t group);

/* After the request: gives the memory back if it was a huge one. */
void pick_trim(struct pick *p);

void pick_release(struct pick *p);

#endif
