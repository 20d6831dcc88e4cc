/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the store answers: README.md has the form of each endpoint's answer. Pure: question and store in,
 * bytes out.
 */
#ifndef GATEWAY_LOOK_ANSWER_H
#define GATEWAY_LOOK_ANSWER_H

#include "gateway/look/question.h"
#include "gateway/look/store.h"

/* Of an answer. */
#define LOOK_ANSWER_MAX ((size_t)16 << 20)

struct look_answer {
    uint32_t status;  /* of HTTP */
    const char *type; /* static */
    bool is_gzip;     /* by itself: nothing is to be packed */
    struct buffer body;
};

/* Answers; whatever is wrong is an answer, too. `deadline_ns` is monotonic. 0, or -ENOMEM: not even an error
 * could be said. The body is the caller's to release. */
int look_answer(struct look_store *s, enum look_endpoint endpoint, struct bytes query, uint64_t now_ns,
                uint64_t deadline_ns, struct look_answer *ret);

/* An error, in the form that all have. 0 or -ENOMEM. */
int look_answer_error(struct look_answer *ret, uint32_t status, const char *words);

#endif
