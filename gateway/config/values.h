/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the keys are read into: the fields behind the rows (rows.c), and the rest of struct config. Stages do
 * not see it; main hands each of them its own options.
 */
#ifndef GATEWAY_CONFIG_VALUES_H
#define GATEWAY_CONFIG_VALUES_H

#include <stdbool.h>
#include <stdint.h>

#include "gateway/config/kind.h"
#include "gateway/export/prometheus/names.h"
#include "proto/base/arena.h"
#include "proto/base/log.h"
#include "proto/kafka/settings.h"
#include "proto/otlp/layouts/layout.h"

/* What an address shows and demands that others connect to. */
struct config_door {
    const char *tls_cert_file, *tls_key_file, *tls_client_ca_file;
    enum { CONFIG_TLS_1_2, CONFIG_TLS_1_3 } tls_min_version;
    bool tls_allow_plaintext;
    const char *auth_bearer_tokens_file, *auth_htpasswd_file;
    struct settings_strings auth_identities;
};

struct config_receiver {
    const char *endpoint;
    enum profiles_layout wire_version;         /* UNKNOWN: auto */
    struct settings_strings profiles_url_path; /* beside OTLP's own */
    struct config_door door;
};

/* Targets that are asked for profiles. */
struct config_scrape {
    const char *job_name;
    struct settings_strings targets, profiles;
    enum { CONFIG_HTTP, CONFIG_HTTPS } scheme;
    const char *path_prefix;
    uint32_t seconds;
    uint64_t interval_ns, timeout_ns, body_max;
    bool tls_skip_verify;
    const char *tls_ca_file, *tls_cert_file, *tls_key_file, *tls_server_name;
    const char *username, *password_file, *credentials_file;
    const char *tenant;
    struct settings_pairs labels;
};

/* Topics that are read. */
struct config_kafka {
    struct kafka_connection connection;
    struct settings_strings topics;
    enum kafka_encoding encoding;
    const char *group_id, *group_instance_id;
    enum { CONFIG_LATEST, CONFIG_EARLIEST } initial_offset;
    uint64_t session_timeout_ns, heartbeat_ns, fetch_wait_ns;
    uint64_t fetch_bytes, partition_bytes;
};

/* Of one client, or of one tenant; 0: no limit. */
struct config_share {
    uint64_t bytes_per_second, burst_bytes, memory;
    uint32_t connections, requests;
};

struct config_exporter {
    const char *name; /* "otlp/backend": how metrics.exporters and profiles.exporters refer to it */
    const struct config_kind *kind;
    void *settings; /* the kind's */
};

enum config_temporality { CONFIG_DELTA, CONFIG_CUMULATIVE };
enum config_when_full { CONFIG_DROP, CONFIG_REFUSE };

/* A key that is not as the file has it; "receivers.otlp" is all of them. */
struct config_flag {
    const char *key;
    struct config_flag *next;
};

struct config {
    struct arena arena;
    const char *path;                       /* of the file that was loaded; NULL: none */
    struct config_flag *flags;              /* what was set since, one by one */
    const struct config_kind *const *kinds; /* of exporters; ends with NULL */
    struct config_receiver *receivers;
    uint32_t n_receivers;
    struct config_scrape *scrapes;
    uint32_t n_scrapes;
    struct config_kafka kafka;
    bool has_kafka; /* the section is there */
    struct config_exporter *exporters;
    uint32_t n_exporters;

    struct settings_strings rules_builtin, rules_files, rules_enable;

    uint64_t flush_interval_ns, metric_expiration_ns;
    enum config_temporality temporality;
    uint32_t cardinality_limit, resource_limit, value_length_limit;
    struct settings_strings metrics_exporters, prometheus_attributes, drop_attributes;
    const char *instance_id;
    enum prometheus_strategy translation_strategy;
    bool prometheus_created, prometheus_scope_labels;

    double keep;
    uint32_t keep_seed;
    enum config_when_full when_full;
    struct settings_strings profiles_exporters;

    double check_share;
    struct settings_strings trace_labels, span_labels;

    uint64_t look_memory, look_retention_ns, look_storage_bytes;
    const char *look_storage;
    uint32_t look_samples_per_second;
    bool look_expose;

    const char *admin_endpoint;
    struct settings_strings admin_hosts;
    struct config_door admin_door;

    uint64_t request_bytes, memory, request_timeout_ns, request_rate;
    uint32_t connections;
    struct config_share per_client, per_tenant;
    const char *tenant_header;
    bool tenant_required;

    uint32_t workers;
    enum log_level log_level;
    enum log_format log_format;
    uint64_t shutdown_timeout_ns;
};

#endif
