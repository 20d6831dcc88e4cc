/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One OTLP destination, as it is asked for: where, in which words, with which patience.
 */
#ifndef PROTO_CLIENT_OPTIONS_H
#define PROTO_CLIENT_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/budget.h"
#include "proto/client/retry.h"
#include "proto/http/exchange.h"

enum otlp_protocol { OTLP_GRPC, OTLP_HTTP /* protobuf */ };
enum otlp_signal { OTLP_PROFILES, OTLP_METRICS };

/* AS_RECEIVED: each request in the coding it came in, if that is none, gzip or zstd; what came in another
 * one, or was made here, in gzip, which every OTLP receiver takes. */
enum client_compression {
    CLIENT_COMPRESS_NONE,
    CLIENT_COMPRESS_GZIP,
    CLIENT_COMPRESS_ZSTD,
    CLIENT_COMPRESS_AS_RECEIVED,
};

struct client_header {
    const char *name, *value; /* any case; sent in lower case. Pseudo and hop-by-hop names are refused. */
};

struct client_tls {
    const char *ca_file;              /* NULL: the system's */
    const char *cert_file, *key_file; /* of the client; both or neither */
    const char *server_name; /* checked and sent as SNI instead of the endpoint's host; NULL: the host */
    bool insecure_skip_verify;
};

/* What a server answered, for who wants to know more than whether it took the request. The header fields are
 * valid during the call. */
struct client_answer {
    uint32_t status; /* of HTTP */
    const struct http_header *headers;
    uint32_t n_headers;
    uint64_t items; /* of the request, as given to push */
};
typedef void (*client_answer_fn)(void *user, const struct client_answer *answer);

/* OTLP_HTTP: bodies and answers that are not OTLP protobuf (JSON; another protocol, as Prometheus remote
 * write). Zeroed: OTLP protobuf. */
struct client_dialect {
    const char *content_type;     /* NULL: application/x-protobuf */
    const char *content_encoding; /* bodies that are encoded before they are pushed; NULL: they are not. Only
                                     without compression. */
    bool any_success;             /* a 2xx acknowledges whatever its body is; else it must speak OTLP */
    bool retry_5xx;               /* every 5xx is repeated, not only 502, 503 and 504 */
    client_answer_fn on_answer;   /* after each complete answer, before its event; NULL: nobody asks. Its user
                                   is   on_event's. */
};

/* OAuth 2.0 client credentials (RFC 6749 §4.4): each call has a bearer token of token_url. */
struct client_oauth2 {
    const char *token_url; /* NULL: none */
    const char *client_id, *client_secret;
    const char *scope;                  /* with blanks between; NULL: none */
    const struct client_header *params; /* more fields of the request for a token */
    uint32_t n_params;
    const char *ca_file;       /* of the token's server; NULL: the system's */
    uint64_t expiry_buffer_ns; /* a token is replaced so long before it expires */
};

struct client_endpoint {
    const char *endpoint;
    uint32_t weight; /* of its turns; 0 is 1 */
};

#define CLIENT_ENDPOINTS_MAX 16u

struct client_options {
    /* "http://host:port/path", "https://…", "host:port", "unix:/path". No scheme: plain. No port: 4317 or
     * 4318. The path counts for OTLP_HTTP: the signal's own is appended to it, unless path is set. */
    const char *endpoint;
    /* More of them, which take and say the same; n_others up to CLIENT_ENDPOINTS_MAX - 1. */
    const struct client_endpoint *others;
    uint32_t n_others;
    uint32_t weight; /* of the first one; 0 is 1 */
    bool failover;   /* the first that is well, in their order; else by turns */
    const char
        *path; /* the whole HTTP path instead (metrics_endpoint, profiles_endpoint); NULL: by the signal */
    enum otlp_protocol protocol;
    enum otlp_signal signal;
    enum client_compression compression;
    int compression_level; /* of what is compressed here; 0: the coding's usual one (proto/coding/coding.h) */
    struct client_dialect dialect;
    const struct client_header *headers;
    uint32_t n_headers;
    const char *user_agent; /* put after our own "OTel-OTLP-Exporter-C/VERSION"; NULL: "profgate" */
    struct client_oauth2 oauth2;
    const char *proxy_url;      /* "http://user:password@host:port", by which it is reached; NULL: directly */
    uint64_t connection_age_ns; /* a connection that is older is opened anew; 0: none is */
    struct client_tls tls;
    uint64_t timeout_ns;       /* one attempt: connect, send and receive */
    size_t max_request_bytes;  /* before compression; a larger one is dropped (E1) */
    size_t max_response_bytes; /* after decompression; a larger one is a final failure (E4) */
    struct retry_options retry;
    bool retry_exhausted; /* gRPC's RESOURCE_EXHAUSTED is repeated without RetryInfo, too: a limit of rate */
    struct {
        uint32_t num_consumers; /* calls in flight at once, 1 … CLIENT_CONSUMERS_MAX */
        uint32_t queue_size;    /* requests, those in flight included, 1 … CLIENT_QUEUE_SIZE_MAX */
        size_t queue_bytes;     /* likewise, of bodies as they were pushed */
        /* What the queue holds and has reserved is charged here too: spent, it is as if the queue were full.
         * NULL: unlimited. Must outlive the client. A body that several queues hold is charged by each. */
        struct budget *budget;
    } queue;
};

#define CLIENT_CONSUMERS_MAX 64u
#define CLIENT_QUEUE_SIZE_MAX \
    100000u /* entries are allocated up front, so that a reservation cannot fail later */

#define CLIENT_DEFAULT                                                                              \
    {                                                                                               \
        .endpoint = "localhost", .protocol = OTLP_GRPC, .compression = CLIENT_COMPRESS_GZIP,        \
        .timeout_ns = 10000000000u, .max_request_bytes = 64u << 20, .max_response_bytes = 4u << 20, \
        .retry = RETRY_OPTIONS_DEFAULT, .queue = {                                                  \
            .num_consumers = 4,                                                                     \
            .queue_size = 1000,                                                                     \
            .queue_bytes = 256u << 20                                                               \
        }                                                                                           \
    }

#endif
