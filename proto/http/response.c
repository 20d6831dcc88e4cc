/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/response.h"

static int hold(struct response *r, size_t n)
{
    if (n > r->max - r->held)
        return RESPONSE_TOO_LARGE;
    r->held += n;
    return 0;
}

int response_add_field(struct response *r, bool trailer, struct bytes name, struct bytes value)
{
    int e = hold(r, name.n + value.n + HEADER_OVERHEAD);
    return e != 0 ? e : header_list_add(trailer ? &r->trailers : &r->headers, name, value);
}

int response_add_body(struct response *r, struct bytes piece)
{
    int e = hold(r, piece.n);
    return e != 0 ? e : buffer_add_bytes(&r->body, piece);
}

void response_restart(struct response *r)
{
    header_list_clear(&r->headers, SIZE_MAX);
    r->status = 0;
    r->held = 0;
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
    header_list_release(&r->headers);
    header_list_release(&r->trailers);
    buffer_release(&r->body);
}
