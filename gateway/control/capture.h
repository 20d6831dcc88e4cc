/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is kept whole for a while, whatever the share: "everything of the resources where these attributes
 * have these values, until then". A trigger or a person (capture_pages.h) asks for it, forward
 * honours it.
 *
 * The control loop begins and ends captures; each worker looks through a reader of its own. While nothing is
 * captured a reader costs one atomic load a request.
 */
#ifndef GATEWAY_CONTROL_CAPTURE_H
#define GATEWAY_CONTROL_CAPTURE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/otlp/attr.h"

/* At once. Each is asked of every resource of every request while it lasts. */
#define CAPTURES_MAX     1024u
#define CAPTURE_KEYS_MAX 8u /* as the language bounds `per` */

struct capture_rule {
    /* The attributes that a resource must have: values as text (a value of another kind than text, number or
     * bool equals nothing). values[i].p NULL: it must lack the key. None at all: every resource. */
    const struct bytes *keys, *values;
    uint32_t n;
    uint64_t until_ns; /* monotonic: it ends by itself, if nobody ends it before */
    bool by_hand;      /* a person asked, not a trigger */
};

struct captures;

/* NULL: no memory. */
struct captures *captures_new(void);
struct captures *captures_free(struct captures *c); /* after its readers */

/* Conditions of captures_begin. */
enum {
    CAPTURES_FULL = 1, /* CAPTURES_MAX last */
};

/* Begins one; what it points at is copied. *ret_id is for captures_end. 0, the condition above, -ENOMEM, or
 * -E2BIG above CAPTURE_KEYS_MAX. Control loop, and so is captures_end, which forgets an id
 * that it does not know. */
int captures_begin(struct captures *c, const struct capture_rule *rule, uint32_t *ret_id);
void captures_end(struct captures *c, uint32_t id);

/* Calls `each` for every capture that lasts, in the order they began, until it returns below 0, which is
 * given back; else 0. The rule is valid until it returns. Control loop. */
int captures_each(const struct captures *c,
                  int (*each)(void *context, uint32_t id, const struct capture_rule *rule), void *context);

/* ---- a worker's side: each reader is of one thread ---- */

struct capture_reader;
/* NULL: no memory. */
struct capture_reader *capture_reader_new(struct captures *c);
struct capture_reader *capture_reader_free(struct capture_reader *r);

/* At the beginning of each request: takes notice of what is new. Whether anything is being captured; if not,
 * there is nothing to ask. */
bool capture_reader_begin(struct capture_reader *r);

/* Whether everything of a resource with these attributes is to be kept. */
bool capture_wants(const struct capture_reader *r, const struct attr *attrs, uint32_t n_attrs);

/* An attribute's value as a trigger's group has it: text as it is, numbers and bools written out into
 * `space`; .p NULL for other kinds. */
#define CAPTURE_TEXT_MAX 32u
struct bytes capture_text(const struct attr_value *value, char space[CAPTURE_TEXT_MAX]);

#endif
