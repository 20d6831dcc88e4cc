/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An intake: one way in which profiles may be sent. What a request for it looks like, how its body becomes
 * what ingest decodes, and how its answers are worded. intakes.c lists them; serve knows none by name.
 *
 * What every HTTP and every gRPC exchange has (codings, limits, credentials, status codes, Retry-After,
 * gRPC's frames and trailers) is serve's; an intake brings what its own format says.
 */
#ifndef GATEWAY_SERVE_INTAKE_H
#define GATEWAY_SERVE_INTAKE_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/serve/refusal.h"
#include "proto/base/budget.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"
#include "proto/otlp/view/profiles.h"

struct from_pprof_links;
struct grpc_status;

enum intake_protocol {
    INTAKE_HTTP, /* the request's body is the message */
    INTAKE_GRPC, /* a unary call: the message has a prefix, the answer has trailers. HTTP/2 */
};

/* What an intake may want to know of a request's head; as it came. */
struct intake_head {
    struct bytes query;                   /* without its '?', still percent-encoded */
    struct bytes type, accept;            /* Content-Type with its parameters; Accept */
    const struct from_pprof_links *links; /* of every request: how labels name spans; NULL: as usual */
};

/* How answers are worded. */
struct intake_words {
    struct bytes media_type;   /* of each answer */
    struct bytes refusal_type; /* of a refusal, where it is another one; else empty */
    /* Appends the body (gRPC: the message): the request was taken, but for rejected_profiles; message: "", or
     * why they were rejected, or a warning. 0 or a negative errno. */
    int (*accepted)(struct buffer *out, uint64_t rejected_profiles, struct bytes message);
    /* Appends the body of a refusal over HTTP. 0 or a negative errno. Of gRPC NULL: it is in the trailers. */
    int (*refused)(struct buffer *out, const struct grpc_status *why);
};

/* In a row's list: whatever the type is, also none. Such rows stand last in intakes.c. */
#define INTAKE_ANY_MEDIA "*/*"

struct intake {
    enum intake_protocol protocol;
    struct bytes method, path; /* of gRPC "/package.Service/Method" */
    const char *const *media;  /* types without parameters, any of them, or INTAKE_ANY_MEDIA; NULL ends the
                                  list */
    bool is_protobuf; /* an OTLP message, of any wire layout; else of none that a client may claim but
                         the newest */
    bool reads_head;  /* `decode` and `answer` are given the head; else an empty one */
    /* The body, out of its codings, written to `out` (empty, out->max bounds it, its memory is on the budget)
     * as an ExportProfilesServiceRequest of ret->layout, with PROFILES_PADDING readable bytes behind it: a
     * view stands on the bytes of such a request, which may be passed on as they are. REFUSAL_NONE, or why
     * not: then *why has words of its own, or none where the refusal's words say it all. NULL: it is one. On
     * a worker's or a lane's thread. */
    enum refusal (*decode)(const struct intake_head *head, struct bytes body, struct buffer *out,
                           struct budget *budget, struct profiles_written *ret, struct error *why);
    /* Where it is set, requests are not for ingest: what it writes to `out`, likewise, is the answer, of the
     * media type *ret_type. */
    enum refusal (*answer)(const struct intake_head *head, struct bytes body, struct buffer *out,
                           struct budget *budget, const char **ret_type, struct error *why);
    /* How many bytes `decode` works on, where they are more than the body's and its head tells: what is large
     * is not done on a worker. NULL: they are the body's. */
    size_t (*size)(struct bytes body);
    const struct intake_words *words;
};

#endif
