/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One OTLP destination: a bounded queue, some calls at a time, retry by OTLP's rules. The gateway's exporters
 * and the sender use the same one.
 *
 * It lives on one loop (proto/io/loop.h). Requests come in from any thread (reserve, cancel, push, evict),
 * everything else, callbacks included, happens on the loop's thread. Compression runs on libuv's thread pool.
 */
#ifndef PROTO_CLIENT_EXPORTER_H
#define PROTO_CLIENT_EXPORTER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/base/error.h"
#include "proto/client/body.h"
#include "proto/client/retry.h"
#include "proto/http/exchange.h"

struct io_loop;
struct otlp_exporter;

enum otlp_protocol { OTLP_GRPC, OTLP_HTTP /* protobuf */ };
enum otlp_signal { OTLP_PROFILES, OTLP_METRICS };
enum otlp_compression { OTLP_COMPRESS_NONE, OTLP_COMPRESS_GZIP, OTLP_COMPRESS_ZSTD };

struct otlp_header {
    const char *name, *value; /* any case; sent in lower case. Pseudo and hop-by-hop names are refused. */
};

struct otlp_tls {
    const char *ca_file;              /* NULL: the system's */
    const char *cert_file, *key_file; /* of the client; both or neither */
    const char *server_name; /* checked and sent as SNI instead of the endpoint's host; NULL: the host */
    bool insecure_skip_verify;
};

/* What a server answered, for who wants to know more than whether it took the request. The header fields are
 * valid during the call. */
struct otlp_answer {
    uint32_t status; /* of HTTP */
    const struct http_header *headers;
    uint32_t n_headers;
    uint64_t items; /* of the request, as given to push */
};
typedef void (*otlp_answer_fn)(void *user, const struct otlp_answer *answer);

/* OTLP_HTTP: bodies and answers that are not OTLP protobuf (JSON; another protocol, as Prometheus remote
 * write). Zeroed: OTLP protobuf. */
struct otlp_dialect {
    const char *content_type;     /* NULL: application/x-protobuf */
    const char *content_encoding; /* bodies that are encoded before they are pushed; NULL: they are not. Only
                                     without compression. */
    bool any_success;             /* a 2xx acknowledges whatever its body is; else it must speak OTLP */
    bool retry_5xx;               /* every 5xx is repeated, not only 502, 503 and 504 */
    otlp_answer_fn on_answer; /* after each complete answer, before its event; NULL: nobody asks. Its user is
                                 on_event's. */
};

struct otlp_exporter_options {
    /* "http://host:port/path", "https://…", "host:port", "unix:/path". No scheme: plain. No port: 4317 or
     * 4318. The path counts for OTLP_HTTP: the signal's own is appended to it, unless path is set. */
    const char *endpoint;
    const char
        *path; /* the whole HTTP path instead (metrics_endpoint, profiles_endpoint); NULL: by the signal */
    enum otlp_protocol protocol;
    enum otlp_signal signal;
    enum otlp_compression compression;
    struct otlp_dialect dialect;
    const struct otlp_header *headers;
    uint32_t n_headers;
    const char *user_agent; /* put after our own "OTel-OTLP-Exporter-C/VERSION"; NULL: "profgate" */
    struct otlp_tls tls;
    uint64_t timeout_ns;       /* one attempt: connect, send and receive */
    size_t max_request_bytes;  /* before compression; a larger one is dropped (E1) */
    size_t max_response_bytes; /* after decompression; a larger one is a final failure (E4) */
    struct retry_options retry;
    struct {
        uint32_t num_consumers; /* calls in flight at once, 1 … OTLP_CONSUMERS_MAX */
        uint32_t queue_size;    /* requests, those in flight included, 1 … OTLP_QUEUE_SIZE_MAX */
        size_t queue_bytes;     /* uncompressed, likewise */
        /* What the queue holds and has reserved is charged here too: spent, it is as if the queue were full.
         * NULL: unlimited. Must outlive the exporter. A body that several queues hold is charged by each. */
        struct budget *budget;
    } queue;
};

#define OTLP_CONSUMERS_MAX 64u
#define OTLP_QUEUE_SIZE_MAX \
    100000u /* entries are allocated up front, so that a reservation cannot fail later */

#define OTLP_EXPORTER_DEFAULT                                                                       \
    {                                                                                               \
        .endpoint = "localhost", .protocol = OTLP_GRPC, .compression = OTLP_COMPRESS_GZIP,          \
        .timeout_ns = 10000000000u, .max_request_bytes = 64u << 20, .max_response_bytes = 4u << 20, \
        .retry = RETRY_OPTIONS_DEFAULT, .queue = {                                                  \
            .num_consumers = 4,                                                                     \
            .queue_size = 1000,                                                                     \
            .queue_bytes = 256u << 20                                                               \
        }                                                                                           \
    }

/* What becomes of requests; told on the loop's thread. `message` is for a person and valid during the call.
 */
enum otlp_event_kind {
    OTLP_SENT,          /* acknowledged, all of it. items; message may carry the server's warning */
    OTLP_PARTIAL,       /* acknowledged; the server rejected `rejected` of it for good (E5) */
    OTLP_RETRIED,       /* an attempt failed and will be repeated */
    OTLP_REFUSED,       /* lost: the server refused it for good, or the answer cannot be trusted */
    OTLP_OUT_OF_TIME,   /* lost: max_elapsed_time passed, or retries are off */
    OTLP_EVICTED,       /* lost: made room for newer ones (otlp_exporter_push_newest) */
    OTLP_TOO_LARGE,     /* lost: above max_request_bytes, never sent */
    OTLP_OUT_OF_MEMORY, /* lost */
    OTLP_SHUT_DOWN,     /* lost: still here when the shutdown's deadline passed, or pushed after it began */
};

struct otlp_event {
    enum otlp_event_kind kind;
    uint64_t requests; /* 1, or for losses outside a call all those since the last event */
    uint64_t items;    /* of these requests, as given to push */
    uint64_t rejected; /* OTLP_PARTIAL: profiles or data points */
    uint64_t attempts; /* made so far */
    const char *message;
};

/* Whether the request is lost with this event. */
static inline bool otlp_event_is_loss(enum otlp_event_kind kind)
{
    return kind >= OTLP_REFUSED;
}

typedef void (*otlp_event_fn)(void *user, const struct otlp_event *event);

/* Checks the options and copies what it needs of them; opens nothing yet (the first request connects).
 * on_event may be NULL. 0, -EINVAL for options, -ENOMEM, or the errno of reading TLS files; *e says what.
 * Loop thread. */
int otlp_exporter_new(struct otlp_exporter **ret, struct io_loop *loop,
                      const struct otlp_exporter_options *options, otlp_event_fn on_event, void *user,
                      struct error *e);

/* Reserves room for one request of n bytes, or nothing and false. False after shutdown began. Reservations
 * are sums: what was reserved may be pushed and given back in other portions, as long as requests and bytes
 * add up to the same. Any thread. */
bool otlp_exporter_reserve(struct otlp_exporter *x, size_t n);

/* Gives a reservation of n bytes back. Any thread. */
void otlp_exporter_cancel(struct otlp_exporter *x, size_t n);

/* Queues a request under a reservation of `reserved` >= body->n bytes. Takes a reference of its own: the
 * caller still gives his back. `items` is what events report (samples, points). Any thread. */
void otlp_exporter_push(struct otlp_exporter *x, struct client_body *body, size_t reserved, uint64_t items);

/* Queues a request without a reservation; where there is no room, the oldest ones that are waiting are
 * dropped, and if that is not enough, this one. Takes a reference of its own, likewise. Any thread. */
void otlp_exporter_push_newest(struct otlp_exporter *x, struct client_body *body, uint64_t items);

/* Bytes reserved and queued, calls in flight included. Any thread. */
size_t otlp_exporter_queued_bytes(const struct otlp_exporter *x);

/* Has fn(user) called from the loop, soon after requests came in: for a gauge of the queue. Loop thread. */
void otlp_exporter_on_queued(struct otlp_exporter *x, void (*fn)(void *user), void *user);

/* Sends what is queued (what waits for its next attempt is tried once more at once), until everything is
 * settled or the monotonic time deadline_ns; what is left then is reported as OTLP_SHUT_DOWN. Then closes its
 * handles and calls `done` from the loop, after which the only thing allowed is otlp_exporter_free. Once.
 * Loop thread. */
void otlp_exporter_shutdown(struct otlp_exporter *x, uint64_t deadline_ns, void (*done)(void *user),
                            void *user);

/* Frees it; only after `done`, and when no other thread will call. NULL is fine. Returns NULL. */
struct otlp_exporter *otlp_exporter_free(struct otlp_exporter *x);

#endif
