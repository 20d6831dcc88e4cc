/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The numbers a thread counts, and the block it counts them in. A number without a sentence cannot exist.
 *
 * Each worker has a block of its own and is its only writer, so counting is a plain addition; readers sum the
 * blocks.
 */
#ifndef GATEWAY_STATS_BLOCK_H
#define GATEWAY_STATS_BLOCK_H

#include <stdint.h>

/* clang-format off */
/*  id                       name (as Prometheus shows it)                 labels                 kind     description */
#define STATS_TABLE(X)                                                                                           \
    X(REQUESTS_OK,           "profgate_requests_total",           "outcome=\"accepted\"",  COUNTER, "Export requests, by how they were answered") \
    X(REQUESTS_CONVERTED,    "profgate_requests_total",           "outcome=\"converted\"", COUNTER, "") \
    X(REQUESTS_PARTIAL,      "profgate_requests_total",           "outcome=\"partial\"",   COUNTER, "") \
    X(REQUESTS_MALFORMED,    "profgate_requests_total",           "outcome=\"malformed\"", COUNTER, "") \
    X(REQUESTS_UNSUPPORTED,  "profgate_requests_total",           "outcome=\"unsupported\"", COUNTER, "") \
    X(REQUESTS_TOO_LARGE,    "profgate_requests_total",           "outcome=\"too_large\"", COUNTER, "") \
    X(REQUESTS_BUSY,         "profgate_requests_total",           "outcome=\"busy\"",      COUNTER, "") \
    X(REQUESTS_REFUSED,      "profgate_requests_total",           "outcome=\"refused\"",   COUNTER, "") \
    X(LAYOUT_1_5,            "profgate_requests_by_layout_total", "layout=\"1.5\"",         COUNTER, "Export requests accepted, by the wire layout of profiles they had") \
    X(LAYOUT_1_7,            "profgate_requests_by_layout_total", "layout=\"1.7\"",         COUNTER, "") \
    X(LAYOUT_1_8,            "profgate_requests_by_layout_total", "layout=\"1.8\"",         COUNTER, "") \
    X(LAYOUT_1_9,            "profgate_requests_by_layout_total", "layout=\"1.9\"",         COUNTER, "") \
    X(LAYOUT_1_10,           "profgate_requests_by_layout_total", "layout=\"1.10\"",        COUNTER, "") \
    X(LAYOUT_CONTRADICTIONS, "profgate_layout_contradictions_total", "",                   COUNTER, "Export requests accepted that by themselves had another wire layout than their producer's others") \
    X(CHECK_CHECKED,         "profgate_check_requests_total",     "outcome=\"checked\"",   COUNTER, "Export requests that were or could have been held against the rules of OTLP profiles, where check.share is not 0") \
    X(CHECK_SKIPPED,         "profgate_check_requests_total",     "outcome=\"skipped\"",   COUNTER, "") \
    X(CHECK_TOO_LARGE,       "profgate_check_requests_total",     "outcome=\"too_large\"", COUNTER, "") \
    X(REQUEST_BYTES,         "profgate_request_bytes_total",      "",                      COUNTER, "Bytes of request bodies as received") \
    X(REQUEST_BYTES_PLAIN,   "profgate_request_plain_bytes_total", "",                     COUNTER, "Bytes of request bodies after decompression") \
    X(PROFILES,              "profgate_profiles_total",           "",                      COUNTER, "Profiles received") \
    X(SAMPLES,               "profgate_samples_total",            "",                      COUNTER, "Samples received and counted") \
    X(SAMPLES_REJECTED,      "profgate_samples_rejected_total",   "",                      COUNTER, "Samples refused by themselves, for an index that leads nowhere or a field of another type") \
    X(UNKNOWN_FIELDS,        "profgate_unknown_fields_total",     "",                      COUNTER, "Fields that were skipped, of a newer schema than this version knows") \
    X(ENTRY_0,               "profgate_requests_with_entry_0_total", "",                   COUNTER, "Export requests accepted of which a table of the dictionary begins with an entry, where index 0 means that there is none") \
    X(SAMPLES_UNWEIGHED,     "profgate_samples_unweighed_total",  "",                      COUNTER, "Samples that a rule could not weigh: no time in their type, unit or period, or a negative value for a counter") \
    X(CONNECTIONS,           "profgate_connections_accepted_total", "",                      COUNTER, "Connections accepted") \
    X(CONNECTIONS_REFUSED,   "profgate_connections_refused_total", "",                     COUNTER, "Connections closed at once, for a limit") \
    X(TLS_FAILURES,          "profgate_tls_failures_total",       "",                      COUNTER, "TLS connections that failed, most of them before a request: see the log for why") \
    X(CONNECTIONS_OPEN,      "profgate_connections",              "",                      GAUGE,   "Connections open now") \
    X(LIMIT_CLIENT_BYTES,    "profgate_refused_by_limit_total",   "scope=\"client\",limit=\"bytes\"", COUNTER, "Requests and connections refused for a limit of one client or tenant") \
    X(LIMIT_CLIENT_CONNECTIONS, "profgate_refused_by_limit_total",   "scope=\"client\",limit=\"connections\"", COUNTER, "") \
    X(LIMIT_CLIENT_REQUESTS, "profgate_refused_by_limit_total",   "scope=\"client\",limit=\"requests\"", COUNTER, "") \
    X(LIMIT_CLIENT_MEMORY,   "profgate_refused_by_limit_total",   "scope=\"client\",limit=\"memory\"", COUNTER, "") \
    X(LIMIT_TENANT_BYTES,    "profgate_refused_by_limit_total",   "scope=\"tenant\",limit=\"bytes\"", COUNTER, "") \
    X(LIMIT_TENANT_REQUESTS, "profgate_refused_by_limit_total",   "scope=\"tenant\",limit=\"requests\"", COUNTER, "") \
    X(LIMIT_TENANT_MEMORY,   "profgate_refused_by_limit_total",   "scope=\"tenant\",limit=\"memory\"", COUNTER, "") \
    X(AUTH_ACCEPTED,         "profgate_auth_total",               "outcome=\"accepted\"",    COUNTER, "Requests to addresses that ask who it is, by the answer") \
    X(AUTH_MISSING,          "profgate_auth_total",               "outcome=\"missing\"",     COUNTER, "") \
    X(AUTH_WRONG,            "profgate_auth_total",               "outcome=\"wrong\"",       COUNTER, "") \
    X(AUTH_FORBIDDEN,        "profgate_auth_total",               "outcome=\"forbidden\"",   COUNTER, "") \
    X(AUTH_BUSY,             "profgate_auth_total",               "outcome=\"busy\"",        COUNTER, "") \
    X(MEMO_STRINGS,          "profgate_memo_strings",             "",                      GAUGE,   "Distinct strings whose meaning is remembered") \
    X(MEMO_RESETS,           "profgate_memo_resets_total",        "",                      COUNTER, "Times the remembered strings were forgotten for their number or size") \
    X(MEMO_FORGOTTEN,        "profgate_memory_forgotten_total",   "",                      COUNTER, "Times that a thread forgot all it remembered for speed, because limits.memory had other uses: requests are slower after it") \
    X(REGEX_GAVE_UP,         "profgate_regex_gave_up_total",      "",                      COUNTER, "Matches abandoned at the step limit, taken as no match") \
    X(FORWARD_SAMPLES,       "profgate_forward_samples_total",    "",                      COUNTER, "Samples forwarded downstream") \
    X(FORWARD_THINNED,       "profgate_forward_thinned_samples_total", "",                 COUNTER, "Samples not forwarded because the keep rate says so") \
    X(FORWARD_DROPPED,       "profgate_forward_dropped_samples_total", "",                 COUNTER, "Samples lost on the way downstream: refused for good, or out of time or memory") \
    X(EXPORT_PROFILES_SENT,  "profgate_export_requests_total",    "signal=\"profiles\",outcome=\"sent\"",    COUNTER, "Requests to destinations, by how they ended") \
    X(EXPORT_PROFILES_RETRIED, "profgate_export_requests_total",  "signal=\"profiles\",outcome=\"retried\"", COUNTER, "") \
    X(EXPORT_PROFILES_FAILED, "profgate_export_requests_total",   "signal=\"profiles\",outcome=\"failed\"",  COUNTER, "") \
    X(EXPORT_METRICS_SENT,   "profgate_export_requests_total",    "signal=\"metrics\",outcome=\"sent\"",     COUNTER, "") \
    X(EXPORT_METRICS_RETRIED, "profgate_export_requests_total",   "signal=\"metrics\",outcome=\"retried\"",  COUNTER, "") \
    X(EXPORT_METRICS_FAILED, "profgate_export_requests_total",    "signal=\"metrics\",outcome=\"failed\"",   COUNTER, "") \
    X(EXPORT_PROFILES_REJECTED, "profgate_export_profiles_rejected_total", "",            COUNTER, "Profiles that a destination refused of requests that it took") \
    X(TLS_STALE,             "profgate_tls_renewals_failed_total", "",                     COUNTER, "Connections to destinations that began with the certificates from before, because those on disk cannot be used: see the log for why") \
    X(EXPORT_POINTS_DROPPED, "profgate_export_points_dropped_total", "",                   COUNTER, "Metric points lost on the way out: queue full, refused for good, or out of time") \
    X(DEAD_LETTERS,          "profgate_dead_letters_total",       "",                      COUNTER, "Requests that were lost on the way out and are kept as files, for profgate replay") \
    X(STORAGE_DAMAGED,       "profgate_storage_damaged_total",    "",                      COUNTER, "Times that stored requests, or a whole file of them, could not be read any more") \
    X(STORAGE_FAILURES,      "profgate_storage_failures_total",   "",                      COUNTER, "Times that the disk did not take stored requests: what was in them is refused, or is in memory alone") \
    X(STORAGE_FAILING,       "profgate_storage_failing",          "",                      GAUGE,   "Storages of destinations whose disk takes nothing now") \
    X(STORAGE_FAILING_SINCE, "profgate_storage_failing_since_timestamp_seconds", "",       GAUGE,   "Since when there is always one of them (Unix time); 0: there is none") \
    X(LOST_SECONDS,          "profgate_lost_seconds_total",       "",                      COUNTER, "Seconds of metrics, at most, that were lost because the process before this one ended without a stop") \
    X(EXPORT_QUEUE_BYTES,    "profgate_export_queue_bytes",       "",                      GAUGE,   "Bytes waiting in the queues of all destinations") \
    X(SERIES,                "profgate_series",                   "",                      GAUGE,   "Series held for the exporters") \
    X(SERIES_OVERFLOW,       "profgate_series_overflow_total",    "",                      COUNTER, "Additions that went to an overflow series for a cardinality limit") \
    X(RESOURCE_OVERFLOW,     "profgate_resource_overflow_total",  "",                      COUNTER, "Additions that went to the overflow resource for metrics.resource_limit, or one client's share of it") \
    X(VALUES_CUT,            "profgate_attribute_values_cut_total", "",                    COUNTER, "Values of resource attributes and labels cut at metrics.attribute_value_length_limit, each time that they came") \
    X(SERIES_UNREAD,         "profgate_series_unread_total",      "",                      COUNTER, "Of series forgotten for metric_expiration those with counts that no reader of /metrics had seen") \
    X(SERIES_EXPIRED,        "profgate_series_expired_total",     "",                      COUNTER, "Series forgotten because nothing was added to them for metric_expiration")
/* clang-format on */

enum stats_id {
#define STATS_ENUM(id, ...) STATS_##id,
    STATS_TABLE(STATS_ENUM)
#undef STATS_ENUM
        STATS_N
};

/* Producers that are told apart by name, and the wire layouts they may speak (producers.h). */
#define STATS_PRODUCERS 64
#define STATS_LAYOUTS   (STATS_LAYOUT_1_10 - STATS_LAYOUT_1_5 + 1)

/* Distributions (histograms.h), and how many bounds each may have. */
enum stats_histogram {
    STATS_HTTP_DURATION,
    STATS_HTTP_SIZE,
    STATS_RPC_DURATION,
    STATS_RPC_SIZE,
    STATS_HISTOGRAMS
};
#define STATS_BUCKETS 19

struct stats_distribution {
    uint64_t bucket[STATS_BUCKETS + 1], sum; /* a bucket's own; the last one is of what passes all bounds */
};

struct stats {
    uint64_t value[STATS_N];
    struct stats_distribution histogram[STATS_HISTOGRAMS];
    uint64_t producer[STATS_PRODUCERS + 1][STATS_LAYOUTS]; /* requests; the last row is of all others */
    struct stats *next;                                    /* all registered blocks; private */
};

/* A block for one thread, registered for readers, zeroed; NULL when memory is out. Blocks live until the
 * process ends. */
struct stats *stats_new(void);

/* By the block's own thread. A NULL block counts nothing. */
static inline void stats_add(struct stats *s, enum stats_id id, uint64_t n)
{
    if (s)
        __atomic_store_n(&s->value[id], s->value[id] + n, __ATOMIC_RELAXED);
}
static inline void stats_set(struct stats *s, enum stats_id id, uint64_t v)
{
    if (s)
        __atomic_store_n(&s->value[id], v, __ATOMIC_RELAXED);
}

/* Sum over all blocks. Any thread. */
uint64_t stats_read(enum stats_id id);

/* All blocks, newest first, for who adds up more than a row. Any thread; read what others write with relaxed
 * atomics. */
const struct stats *stats_blocks(void);

#endif
