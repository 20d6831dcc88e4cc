/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A response being gathered, bounded, and charged to a budget while it is held. For proto/http only.
 */
#ifndef PROTO_HTTP_RESPONSE_H
#define PROTO_HTTP_RESPONSE_H

#include "proto/base/budget.h"
#include "proto/http/headers.h"

struct response {
    uint32_t status;
    struct header_list headers, trailers;
    struct buffer body;
    size_t held, max;      /* bytes of all parts */
    struct budget *budget; /* NULL: unlimited */
    size_t charged;        /* for fields; beside it what the body has allocated */
};

/* Each: 0, RESPONSE_TOO_LARGE when the response passes its maximum, RESPONSE_OVER_BUDGET, -ENOMEM. */
enum { RESPONSE_TOO_LARGE = 1, RESPONSE_OVER_BUDGET };
int response_add_field(struct response *r, bool trailer, struct bytes name, struct bytes value);
int response_add_body(struct response *r, struct bytes piece);

/* Forgets an interim response (1xx). */
void response_restart(struct response *r);

/* As the caller of a call is shown it; points into r, to which nothing may be added any more. */
struct http_response response_view(struct response *r);

void response_release(struct response *r);

#endif
