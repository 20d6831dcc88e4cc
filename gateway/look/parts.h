/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of an answer: each endpoint belongs to a file, which answer.c asks.
 */
#ifndef GATEWAY_LOOK_PARTS_H
#define GATEWAY_LOOK_PARTS_H

#include "gateway/look/question.h"
#include "gateway/look/tree.h"
#include "proto/base/json.h"

/* What an answer may take beside the store. */
#define LOOK_QUESTION_BYTES ((size_t)64 << 20)

/* With less left in its body the answer was too large. */
#define LOOK_ANSWER_ROOM ((size_t)64 << 10)

struct look_asked {
    struct look_store *store;
    const struct look_question *question;
    uint64_t deadline_ns;
    struct budget *budget; /* of the answer */
};

/* Each writes the whole answer. 0, LOOK_TOO_LONG, a condition of judge.h, -ENOMEM or -ENOBUFS. */
int look_write_lists(const struct look_asked *asked, struct json *j); /* types, services */
int look_write_labels(const struct look_asked *asked, struct json *j);
int look_write_series(const struct look_asked *asked, struct json *j);
int look_write_examples(const struct look_asked *asked, struct json *j);
int look_write_folded(const struct look_asked *asked, struct buffer *out);
int look_write_pprof(const struct look_asked *asked, struct buffer *out);

/* Members of an answer about a selection that look_tree_of has made: all, or all but those that they have
 * alike. Likewise. */
int look_write_flame(const struct look_asked *asked, const struct look_tree *tree,
                     const struct look_found *found, struct json *j);
int look_write_diff(const struct look_asked *asked, const struct look_tree *tree,
                    const struct look_found *found, struct json *j);
int look_write_sandwich(const struct look_asked *asked, const struct look_tree *tree,
                        const struct look_found *found, struct json *j);
int look_write_top(const struct look_asked *asked, const struct look_tree *tree,
                   const struct look_found *found, struct json *j);
int look_write_rules(const struct look_asked *asked, const struct look_tree *tree,
                     const struct look_found *found, struct json *j);

/* The texts of types or labels, sorted, each shown once. As look_visit. */
int look_each_text(const struct look_asked *asked, void (*each)(void *context, struct bytes text),
                   void *context);

/* Appends a selection that look_tree_of has made as a profile.proto. 0, -ENOMEM or -ENOBUFS. */
int look_write_profile(const struct look_asked *asked, const struct look_tree *tree,
                       const struct look_found *found, struct buffer *out);

/* A selection as a tree with its totals, filtered as asked; of diff with both. The `most` heaviest nodes, or
 * more of them, are in it. 0 or as look_visit. */
int look_tree_of(const struct look_asked *asked, uint32_t most, struct look_tree *ret,
                 struct look_found found[LOOK_SIDES]);

/* One of the parts between colons of a type's id. */
#define LOOK_TYPE_PARTS 5u
struct bytes look_type_part(struct bytes id, uint32_t part);

/* Members that all answers about a selection have: window, type and unit; seen, kept, p and not_kept, which
 * is what of the tree has no stack. seen and kept are of the tree, once look_tree_sum has made its totals. */
void look_put_window(struct json *j, const struct look_found *found);
void look_put_type(struct json *j, const struct look_question *q, struct bytes unit);
void look_put_counts(struct json *j, const struct look_found *found, const struct look_tree *t,
                     uint32_t side);

/* Samples of a count in 1/LOOK_SEEN_ONE. */
static inline uint64_t look_samples(uint64_t seen)
{
    return seen / LOOK_SEEN_ONE + (seen % LOOK_SEEN_ONE >= LOOK_SEEN_ONE / 2);
}

/* A group of series or frames with a number, ordered by it. */
struct look_ranked {
    uint64_t value;
    uint32_t group;
};
/* The largest first, of equal ones the lower group. */
int look_by_rank(const void *a, const void *b);

#endif
