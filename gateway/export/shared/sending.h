/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What exporters that send requests have in common: their configuration rows, and a sender (sender.h) whose
 * events are counted and told. A kind's struct begins with a `struct sending`; what it does not do itself it
 * takes from here.
 */
#ifndef GATEWAY_EXPORT_SHARED_SENDING_H
#define GATEWAY_EXPORT_SHARED_SENDING_H

#include <stdatomic.h>

#include "gateway/export/shared/outcome.h"
#include "gateway/export/shared/sender.h"
#include "proto/base/arena.h"
#include "proto/base/buffer.h"

struct sending_settings {
    const char *endpoint;
    const char *proxy_url;
    const char *oauth2_id, *oauth2_secret, *oauth2_url, *oauth2_ca_file;
    struct settings_strings oauth2_scopes;
    struct settings_pairs oauth2_params;
    uint64_t oauth2_expiry_ns;
    uint64_t connection_age_ns;
    struct settings_pairs headers;
    uint64_t timeout_ns;
    bool tls_insecure, tls_skip_verify;
    const char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;
    bool retry_enabled;
    uint64_t retry_initial_ns, retry_max_ns, retry_elapsed_ns;
    double retry_multiplier, retry_jitter;
    uint32_t queue_size;
    uint64_t queue_bytes, request_bytes;
    const char *storage;
    uint64_t storage_bytes, storage_age_ns;
    bool dead_letters;
};

#define SENDING_SEC 1000000000ull
#define SENDING_MIB 1048576ull

/* A request of metrics before compression: what gRPC servers take by default (4 MiB) with room for the
 * envelope, though OTLP now recommends 64 MiB. A window is flushed when storage has room for one: the
 * smallest storage_size has. */
#define SENDING_METRICS_MAX ((4u << 20) - (64u << 10))

/* Rows of all that speak HTTP but endpoint and request_bytes, whose meaning is the kind's, and behind them
 * those of all; `at(field)` is the field's offset in the kind's settings. */
/* clang-format off */
#define SENDING_ROWS(at) SENDING_HTTP_ROWS(at), SENDING_QUEUE_ROWS(at)
#define SENDING_HTTP_ROWS(at)                                                                                                 \
    {"headers", SETTINGS_PAIRS, at(headers), "", 0, 0, NULL, "sent with every request (gRPC: metadata)", .secret = true},        \
    {"proxy_url", SETTINGS_TEXT, at(proxy_url), "", 0, 0, NULL,                                                               \
     "http://host:port or http://user:password@host:port of a proxy that tunnels there (CONNECT); none goes directly", .secret = true}, \
    {"max_connection_age", SETTINGS_DURATION, at(connection_age_ns), "5m", 0, 86400 * SENDING_SEC, NULL,                      \
     "a connection that is older is opened anew between two requests: the name is looked up again; 0 never does"},            \
    {"oauth2.token_url", SETTINGS_TEXT, at(oauth2_url), "", 0, 0, NULL,                                                       \
     "of an authorization server that gives a bearer token for each call (client credentials, RFC 6749); none: calls have none"}, \
    {"oauth2.client_id", SETTINGS_TEXT, at(oauth2_id), "", 0, 0, NULL, "who asks there"},                                      \
    {"oauth2.client_secret", SETTINGS_TEXT, at(oauth2_secret), "", 0, 0, NULL, "and the password", .secret = true},             \
    {"oauth2.scopes", SETTINGS_STRINGS, at(oauth2_scopes), "", 0, 0, NULL, "what the token is to be good for"},                 \
    {"oauth2.endpoint_params", SETTINGS_PAIRS, at(oauth2_params), "", 0, 0, NULL, "more fields of what is asked there (audience)", .secret = true}, \
    {"oauth2.expiry_buffer", SETTINGS_DURATION, at(oauth2_expiry_ns), "5m", 0, 86400 * SENDING_SEC, NULL,                       \
     "a token is replaced so long before it expires, or when half of its time is over"},                                      \
    {"oauth2.tls.ca_file", SETTINGS_TEXT, at(oauth2_ca_file), "", 0, 0, NULL, "PEM for token_url; default is the system's store"}, \
    {"timeout", SETTINGS_DURATION, at(timeout_ns), "10s", SENDING_SEC / 1000, 600 * SENDING_SEC, NULL, "of one attempt"},       \
    {"tls.insecure", SETTINGS_BOOL, at(tls_insecure), "false", 0, 0, NULL,                                                      \
     "host:port without a scheme is spoken to without TLS (http:// and https:// decide by themselves)"},                      \
    {"tls.insecure_skip_verify", SETTINGS_BOOL, at(tls_skip_verify), "false", 0, 0, NULL,                                       \
     "take any server certificate"},                                                                                          \
    {"tls.ca_file", SETTINGS_TEXT, at(tls_ca_file), "", 0, 0, NULL, "PEM; default is the system's store"},                      \
    {"tls.cert_file", SETTINGS_TEXT, at(tls_cert_file), "", 0, 0, NULL, "PEM client certificate for mTLS"},                     \
    {"tls.key_file", SETTINGS_TEXT, at(tls_key_file), "", 0, 0, NULL, "PEM key of it"},                                         \
    {"tls.server_name_override", SETTINGS_TEXT, at(tls_server_name), "", 0, 0, NULL,                                            \
     "name the certificate must bear, where it is not the endpoint's host"}
#define SENDING_QUEUE_ROWS(at)                                                                                                \
    {"retry_on_failure.enabled", SETTINGS_BOOL, at(retry_enabled), "true", 0, 0, NULL,                                          \
     "repeat what the protocol calls retryable"},                                                                             \
    {"retry_on_failure.initial_interval", SETTINGS_DURATION, at(retry_initial_ns), "5s", SENDING_SEC / 1000, 600 * SENDING_SEC, NULL,\
     "first wait"},                                                                                                           \
    {"retry_on_failure.multiplier", SETTINGS_FACTOR, at(retry_multiplier), "1.5", 1, 100, NULL, "what a wait grows by each time"}, \
    {"retry_on_failure.randomization_factor", SETTINGS_SHARE, at(retry_jitter), "50%", 0, 0, NULL,                              \
     "by what share a wait is shorter or longer at random, so that not all come back at once"},                               \
    {"retry_on_failure.max_interval", SETTINGS_DURATION, at(retry_max_ns), "30s", SENDING_SEC / 1000, 3600 * SENDING_SEC, NULL, \
     "longest wait"},                                                                                                         \
    {"retry_on_failure.max_elapsed_time", SETTINGS_DURATION, at(retry_elapsed_ns), "5m", 0, 86400 * SENDING_SEC, NULL,          \
     "after this a request is dropped and counted; 0 never gives up"},                                                        \
    {"sending_queue.queue_size", SETTINGS_COUNT, at(queue_size), "1000", 1, 100000, NULL, "requests waiting"},                  \
    {"sending_queue.queue_bytes", SETTINGS_SIZE, at(queue_bytes), "64MiB", SENDING_MIB / 16, 65536 * SENDING_MIB, NULL,         \
     "bytes waiting; of raw profiles that find no room profiles.when_full says what becomes"},                                 \
    {"sending_queue.storage", SETTINGS_TEXT, at(storage), "", 0, 0, NULL,                                                       \
     "a folder in which requests wait on disk, too: producers are answered when theirs is safe there or delivered, and what is "\
     "left is sent after a restart; none keeps them in memory alone"},                                                         \
    {"sending_queue.storage_size", SETTINGS_SIZE, at(storage_bytes), "1GiB", 4 * SENDING_MIB, 1048576 * SENDING_MIB, NULL,      \
     "bytes of requests waiting on disk"},                                                                                    \
    {"sending_queue.storage_age", SETTINGS_DURATION, at(storage_age_ns), "24h", 0, 366 * 86400 * SENDING_SEC, NULL,             \
     "what waits longer on disk is dropped and counted; 0 keeps it"},                                                         \
    {"sending_queue.dead_letters", SETTINGS_BOOL, at(dead_letters), "false", 0, 0, NULL,                                        \
     "keep what is refused for good, or passes max_elapsed_time, as files in the storage: profgate replay sends them again"}
/* clang-format on */

/* What only all keys together can tell: 0, or -EINVAL with *e. The second of SENDING_QUEUE_ROWS alone. */
int sending_check(const char *name, const struct sending_settings *settings, struct error *e);
int sending_check_queue(const char *name, const struct sending_settings *settings, struct error *e);

/* What retry_on_failure says. */
struct retry_options sending_retry(const struct sending_settings *settings);

struct sending {
    struct exporter base;
    struct outcome outcome;
    struct sender sender;
    struct client *client; /* which it is; NULL: it is another one */
    struct stored *stored; /* on disk, too; NULL: in memory alone */
    int64_t tls_expiry;    /* of a sender that is no client, as sending_tls_expiry says it; 0: it has none */
    size_t request_max;    /* before compression: the settings', and of metrics SENDING_METRICS_MAX at most */
    atomic_uint_fast64_t unbuilt; /* samples or points lost to out of memory elsewhere; counted on the loop */
    void (*done)(void *user);
    void *done_user;
    uint64_t deadline_ns; /* of the stop */
};

/* How the sender wants an endpoint: host:port without a scheme is TLS, as the Collector has it, unless
 * tls.insecure says otherwise. NULL: memory is out. */
const char *sending_endpoint(const struct sending_settings *s, const char *endpoint, struct arena *arena);

/* The sender's options by the settings; the rest as the defaults are. What they point at is the settings' and
 * the arena's; there is room for one header more. 0 or -ENOMEM with *e. */
int sending_options(const struct sending_settings *settings, const struct export_context *c,
                    struct arena *arena, struct client_options *ret, struct error *e);

/* Starts a client: the rest of the open of a kind that speaks HTTP. The dialect's on_answer gets `s`. 0, or
 * negative with *e. */
int sending_open(struct sending *s, const struct export_context *c, const struct client_options *options,
                 const struct sending_settings *settings, struct error *e);

/* The same of a kind with a sender of its own: init, then the sender is made, which tells the two functions
 * (loop's thread) of events and that it got or lost requests, then start. 0, or negative with *e. */
int sending_init(struct sending *s, const struct export_context *c, const struct sending_settings *settings,
                 struct error *e);
void sending_on_event(void *sending, const struct client_event *event);
void sending_on_queued(void *sending);
int sending_start(struct sending *s, struct sender sender, const struct export_context *c,
                  const struct sending_settings *settings, struct error *e);

/* For a kind's push_profiles: takes a reference of its own. */
void sending_push(struct sending *s, struct client_body *body, size_t reserved, uint64_t samples,
                  struct promise *safe);

/* For a kind's push_metrics: all of the batch was pushed. */
void sending_window_ends(struct sending *s);

/* Queues a body that holds some points, in place of the oldest where there is no room; takes it over. */
void sending_push_newest(struct sending *s, struct buffer *body, uint64_t points);

/* Queues a batch likewise, in as few requests below request_max as it fits. */
void sending_push_metrics(struct sending *s, const struct metric_batch *batch, bool json);

/* Samples or points that no memory was there for; any thread. */
void sending_lost(struct sending *s, uint64_t n);

/* For exporter_kind: all that a kind does not do itself, but for push_metrics and push_profiles. */
#define SENDING_FUNCTIONS                                                               \
    .is_ready = sending_is_ready, .reserve = sending_reserve, .cancel = sending_cancel, \
    .drain = sending_drain, .tls_expiry = sending_tls_expiry
int64_t sending_tls_expiry(const struct exporter *x);
bool sending_is_ready(struct exporter *x);
bool sending_reserve(struct exporter *x, size_t n);
void sending_cancel(struct exporter *x, size_t n);
void sending_drain(struct exporter *x, uint64_t deadline_ns, void (*done)(void *user), void *user);
void sending_release(struct sending *s);

#endif
