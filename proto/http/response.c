/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/response.h"

/* What an empty buffer begins with at most. */
#define RESPONSE_FIRST_MAX 4096u

static int hold(struct response *r, size_t n)
{
    if (n > r->max - r->held)
        return RESPONSE_TOO_LARGE;
    r->held += n;
    return 0;
}

int response_add_field(struct response *r, bool trailer, struct bytes name, struct bytes value)
{
    const size_t n = name.n + value.n + HEADER_OVERHEAD;
    int e = hold(r, n);
    if (e == 0 && !budget_charge(r->budget, n))
        e = RESPONSE_OVER_BUDGET;
    r->charged += e == 0 ? n : 0;
    return e != 0 ? e : header_list_add(trailer ? &r->trailers : &r->headers, name, value);
}

/* A buffer that grows takes no more than twice what it needs; what it did not take is given back. */
static int make_room(struct response *r, size_t n)
{
    const size_t was = r->body.cap, most = 2 * (r->body.n + n) + RESPONSE_FIRST_MAX;
    if (n <= was - r->body.n)
        return 0;
    if (!budget_charge(r->budget, most))
        return RESPONSE_OVER_BUDGET;
    int e = buffer_reserve(&r->body, n);
    budget_refund(r->budget, most - (r->body.cap - was));
    return e;
}

int response_add_body(struct response *r, struct bytes piece)
{
    int e = hold(r, piece.n);
    e = e != 0 ? e : make_room(r, piece.n);
    return e != 0 ? e : buffer_add_bytes(&r->body, piece);
}

void response_restart(struct response *r)
{
    header_list_clear(&r->headers, SIZE_MAX);
    budget_refund(r->budget, r->charged);
    r->status = 0;
    r->held = r->charged = 0;
}

struct http_response response_view(struct response *r)
{
    header_list_seal(&r->headers);
    header_list_seal(&r->trailers);
    return (struct http_response){
        .status = r->status,
        .headers = r->headers.items.p,
        .n_headers = r->headers.items.n,
        .trailers = r->trailers.items.p,
        .n_trailers = r->trailers.items.n,
        .body = buffer_bytes(&r->body),
    };
}

void response_release(struct response *r)
{
    budget_refund(r->budget, r->charged + r->body.cap);
    r->charged = 0;
    header_list_release(&r->headers);
    header_list_release(&r->trailers);
    buffer_release(&r->body);
}
