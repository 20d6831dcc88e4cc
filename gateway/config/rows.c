/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/config/rows.h"

#include "proto/base/macros.h"

#define SEC                   1000000000ull
#define MIB                   1048576ull
#define AT(field)             offsetof(struct config, field)
#define RAT(field)            offsetof(struct config_receiver, field)
#define SAT(field)            offsetof(struct config_scrape, field)
#define KAT(field)            offsetof(struct config_kafka, field)
#define KAT_CONNECTION(field) KAT(connection.field)

/* clang-format off */
static const struct settings_word temporalities[] = {{"delta", CONFIG_DELTA}, {"cumulative", CONFIG_CUMULATIVE}, {NULL}};
static const struct settings_word when_full[] = {{"drop", CONFIG_DROP}, {"refuse", CONFIG_REFUSE}, {NULL}};
static const struct settings_word strategies[] = {
    {"UnderscoreEscapingWithSuffixes", PROMETHEUS_UNDERSCORES_WITH_SUFFIXES},
    {"UnderscoreEscapingWithoutSuffixes", PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES},
    {"NoUTF8EscapingWithSuffixes", PROMETHEUS_UTF8_WITH_SUFFIXES},
    {"NoTranslation", PROMETHEUS_NO_TRANSLATION},
    {NULL},
};
static const struct settings_word log_levels[] = {
    {"debug", LOG_LEVEL_DEBUG}, {"info", LOG_LEVEL_INFO}, {"warn", LOG_LEVEL_WARN}, {"error", LOG_LEVEL_ERROR}, {NULL}};
static const struct settings_word log_formats[] = {{"text", LOG_FORMAT_TEXT}, {"json", LOG_FORMAT_JSON}, {NULL}};
static const struct settings_word layouts[] = {
    {"auto", PROFILES_LAYOUT_UNKNOWN}, {"1.5", PROFILES_LAYOUT_1_5}, {"1.7", PROFILES_LAYOUT_1_7},
    {"1.8", PROFILES_LAYOUT_1_8}, {"1.9", PROFILES_LAYOUT_1_9}, {"1.10", PROFILES_LAYOUT_1_10}, {NULL}};
static const struct settings_word schemes[] = {{"http", CONFIG_HTTP}, {"https", CONFIG_HTTPS}, {NULL}};
static const struct settings_word initial_offsets[] = {{"latest", CONFIG_LATEST}, {"earliest", CONFIG_EARLIEST}, {NULL}};
static const struct settings_word tls_versions[] = {{"1.2", CONFIG_TLS_1_2}, {"1.3", CONFIG_TLS_1_3}, {NULL}};

static const struct settings_row rules_rows[] = {
    {"builtin", SETTINGS_STRINGS, AT(rules_builtin), "all", 0, 0, NULL,
     "shipped packs to load: all, none, or a list of names (a pack that another one uses is loaded with it)", true},
    {"files", SETTINGS_STRINGS, AT(rules_files), "", 0, 0, NULL,
     "rule files of your own, after the shipped packs; a * in the last part of a path matches files", true},
    {"enable", SETTINGS_STRINGS, AT(rules_enable), "", 0, 0, NULL,
     "metrics that a pack ships switched off, to be switched on: samples.frame_type", true},
};

static const struct settings_row metrics_rows[] = {
    {"flush_interval", SETTINGS_DURATION, AT(flush_interval_ns), "30s", SEC / 10, 3600 * SEC, NULL,
     "how often metrics leave for the exporters (Prometheus sees them at every scrape)", true},
    {"temporality", SETTINGS_CHOICE, AT(temporality), "delta", 0, 0, temporalities,
     "of counters sent by OTLP and to files; an exporter may say otherwise. Prometheus is always cumulative"},
    {"cardinality_limit", SETTINGS_COUNT, AT(cardinality_limit), "2000", 1, 1000000, NULL,
     "label sets per metric and resource; what comes beyond is added up under otel.metric.overflow=true"},
    {"resource_limit", SETTINGS_COUNT, AT(resource_limit), "20000", 1, 1000000, NULL,
     "resources (in profiles: processes) of each exporter; beyond, idle ones leave, then new ones are added up under "
     "otel.metric.overflow=true. One client or tenant has three quarters at most"},
    {"attribute_value_length_limit", SETTINGS_COUNT, AT(value_length_limit), "1024", 16, 65536, NULL,
     "bytes of a resource attribute's or label's value in metrics; longer ones are cut (raw profiles keep them)", true},
    {"metric_expiration", SETTINGS_DURATION, AT(metric_expiration_ns), "5m", 0, 7 * 86400 * SEC, NULL,
     "a series nothing was added to for this long is forgotten; 0 keeps all for ever. Longer than the longest scrape interval, or "
     "counts are lost (profgate_series_unread_total)"},
    {"exporters", SETTINGS_STRINGS, AT(metrics_exporters), "prometheus", 0, 0, NULL,
     "where metrics go: prometheus (the admin address's /metrics) and names from exporters"},
    {"prometheus_attributes", SETTINGS_STRINGS, AT(prometheus_attributes), "default", 0, 0, NULL,
     "resource attributes that become labels at /metrics; default is a list without process ids"},
    {"drop_attributes", SETTINGS_STRINGS, AT(drop_attributes), "", 0, 0, NULL,
     "resource attributes that do not leave by OTLP or to files; resources equal without them are added up"},
    {"instance_id", SETTINGS_TEXT, AT(instance_id), "", 0, 0, NULL,
     "set it where several gateways may see the same resources: the attribute profgate.instance.id of all that leaves; "
     "the same after a restart, different between gateways; auto is the host's name"},
    {"translation_strategy", SETTINGS_CHOICE, AT(translation_strategy), "UnderscoreEscapingWithSuffixes", 0, 0,
     strategies,
     "of names at /metrics and in remote write"},
    {"prometheus_scope_labels", SETTINGS_BOOL, AT(prometheus_scope_labels), "false", 0, 0, NULL,
     "otel_scope_name and otel_scope_version on each series at /metrics and in remote write"},
    {"prometheus_created", SETTINGS_BOOL, AT(prometheus_created), "false", 0, 0, NULL,
     "OpenMetrics: a line NAME_created, when it began, for each counter whose name ends in _total, which needs a "
     "translation_strategy with suffixes"},
};

static const struct settings_row profiles_rows[] = {
    {"keep", SETTINGS_SHARE, AT(keep), "100%", 0, 0, NULL,
     "share of raw profiles to forward, decided stack by stack after everything was counted; 100% passes bytes through", true},
    {"keep_seed", SETTINGS_COUNT, AT(keep_seed), "1", 0, UINT32_MAX, NULL,
     "gateways with the same seed keep the same stacks", true},
    {"when_full", SETTINGS_CHOICE, AT(when_full), "drop", 0, 0, when_full,
     "what becomes of raw profiles that a destination's queue, storage or limits.memory has no room for: drop counts the request and drops "
     "them there; refuse has the producer send it again, also for the others and for the metrics", true},
    {"exporters", SETTINGS_STRINGS, AT(profiles_exporters), "", 0, 0, NULL,
     "where raw profiles go: names from exporters; none forwards nothing"},
};

static const struct settings_row check_rows[] = {
    {"share", SETTINGS_SHARE, AT(check_share), "0%", 0, 0, NULL,
     "of each thread's time, that may go into holding requests against the rules of OTLP profiles; 1% is 600 KB of requests a "
     "second. What is wrong, and whose it is, says /metrics (profgate_check_findings_total) and /api/v1/check; nothing is refused for it", true},
};

static const struct settings_row look_rows[] = {
    {"memory", SETTINGS_SIZE, AT(look_memory), "0", 0, 65536 * MIB, NULL,
     "for stacks of recent times, which /api/v1/look shows: 64MiB are hours of some hosts. At most an eighth of limits.memory; "
     "0 keeps none"},
    {"retention", SETTINGS_DURATION, AT(look_retention_ns), "24h", 60 * SEC, 90 * 86400 * SEC, NULL,
     "how long a stack is kept, if memory allows"},
    {"storage", SETTINGS_TEXT, AT(look_storage), "", 0, 0, NULL,
     "a folder of this process alone, in which stacks survive a restart and are kept that memory has no room for; none: memory only"},
    {"storage_bytes", SETTINGS_SIZE, AT(look_storage_bytes), "1GiB", MIB, 1048576 * MIB, NULL,
     "of files there; the oldest goes first"},
    {"samples_per_second", SETTINGS_COUNT, AT(look_samples_per_second), "5000", 1, 1000000, NULL,
     "samples kept; of more, those of the services that send most are thinned, and the rest stands for them"},
    {"expose", SETTINGS_BOOL, AT(look_expose), "false", 0, 0, NULL,
     "shows stacks to everybody who can reach admin.endpoint, where other machines can and admin.auth asks nobody who he is"},
};

/* Of an address that others connect to; at the offset of its struct config_door. */
#define DOOR_ROWS(door) \
    {"tls.cert_file", SETTINGS_TEXT, (door) + offsetof(struct config_door, tls_cert_file), "", 0, 0, NULL, \
     "PEM certificate (chain) of this address; with it the address speaks TLS 1.2 and 1.3. Read again on SIGHUP"}, \
    {"tls.key_file", SETTINGS_TEXT, (door) + offsetof(struct config_door, tls_key_file), "", 0, 0, NULL, "PEM key of it"}, \
    {"tls.client_ca_file", SETTINGS_TEXT, (door) + offsetof(struct config_door, tls_client_ca_file), "", 0, 0, NULL, \
     "PEM; clients must show a certificate that one of these signed (mTLS)"}, \
    {"tls.min_version", SETTINGS_CHOICE, (door) + offsetof(struct config_door, tls_min_version), "1.2", 0, 0, tls_versions, "oldest TLS taken"}, \
    {"tls.allow_plaintext", SETTINGS_BOOL, (door) + offsetof(struct config_door, tls_allow_plaintext), "false", 0, 0, NULL, \
     "take connections without TLS on the same port; the first byte tells them apart"}, \
    {"auth.bearer_tokens_file", SETTINGS_TEXT, (door) + offsetof(struct config_door, auth_bearer_tokens_file), "", 0, 0, NULL, \
     "one token a line, and behind it the client's name if it shall have one. Read again on SIGHUP"}, \
    {"auth.htpasswd_file", SETTINGS_TEXT, (door) + offsetof(struct config_door, auth_htpasswd_file), "", 0, 0, NULL, \
     "users and crypt(3) hashes for HTTP basic authentication. Read again on SIGHUP"}, \
    {"auth.identities", SETTINGS_STRINGS, (door) + offsetof(struct config_door, auth_identities), "", 0, 0, NULL, \
     "names in client certificates that may ask or send: spiffe://prod/*; none given: every verified one"}

static const struct settings_row admin_rows[] = {
    {"endpoint", SETTINGS_TEXT, AT(admin_endpoint), "localhost:9464", 0, 0, NULL,
     "address of /metrics, /healthz, /readyz and of the page for people; with admin.auth all but the two in the middle ask who it is"},
    {"hosts", SETTINGS_STRINGS, AT(admin_hosts), "", 0, 0, NULL,
     "names by which people and scrapers reach that address, beside its own, those without a dot and IP addresses; * is any. "
     "Others are refused: a page of the web may have its name point here"},
    DOOR_ROWS(AT(admin_door)),
};

static const struct settings_row limits_rows[] = {
    {"request_bytes", SETTINGS_SIZE, AT(request_bytes), "64MiB", 1024, 1024 * MIB, NULL,
     "largest request body, before and after decompression (OTLP recommends 64 MiB)"},
    {"memory", SETTINGS_SIZE, AT(memory), "512MiB", 16 * MIB, 1048576 * MIB, NULL,
     "memory that requests, tables and queues may hold together; beyond it requests are refused with a retry hint. In a cgroup that allows "
     "less than twice the default, it is half of that unless it is said, and request_bytes half of it"},
    {"request_timeout", SETTINGS_DURATION, AT(request_timeout_ns), "60s", SEC, 3600 * SEC, NULL,
     "how long a request's body may take to come, and a second more for each request_rate bytes of it"},
    {"request_rate", SETTINGS_SIZE, AT(request_rate), "16KiB", 1, 1024 * MIB, NULL,
     "bytes a second that a large body has to keep: it holds memory while it comes"},
    {"connections", SETTINGS_COUNT, AT(connections), "10000", 1, 1000000, NULL,
     "connections open at once; more are closed as they come"},
    {"per_client.bytes_per_second", SETTINGS_SIZE, AT(per_client.bytes_per_second), "0", 0, 1048576 * MIB, NULL,
     "request bytes a second from one client (its name if it says who it is, else its address); 0 is no limit"},
    {"per_client.burst_bytes", SETTINGS_SIZE, AT(per_client.burst_bytes), "0", 0, 1048576 * MIB, NULL,
     "of these at once, after a rest; 0 is one second's worth. A larger request is let in after a rest, too, and then paid"},
    {"per_client.connections", SETTINGS_COUNT, AT(per_client.connections), "0", 0, 1000000, NULL,
     "connections of one address open at once; 0 is no limit"},
    {"per_client.requests", SETTINGS_COUNT, AT(per_client.requests), "0", 0, 1000000, NULL,
     "requests of one client under way at once; 0 is no limit"},
    {"per_client.memory", SETTINGS_SIZE, AT(per_client.memory), "0", 0, 1048576 * MIB, NULL,
     "memory that the requests of one client may hold, and again what is held while they are counted; 0 is a quarter of limits.memory (or one largest request, "
     "up to half of it); as much as limits.memory is no limit"},
    {"per_tenant.bytes_per_second", SETTINGS_SIZE, AT(per_tenant.bytes_per_second), "0", 0, 1048576 * MIB, NULL,
     "request bytes a second from one tenant; 0 is no limit"},
    {"per_tenant.burst_bytes", SETTINGS_SIZE, AT(per_tenant.burst_bytes), "0", 0, 1048576 * MIB, NULL,
     "of these at once, after a rest; 0 is one second's worth"},
    {"per_tenant.requests", SETTINGS_COUNT, AT(per_tenant.requests), "0", 0, 1000000, NULL,
     "requests of one tenant under way at once; 0 is no limit"},
    {"per_tenant.memory", SETTINGS_SIZE, AT(per_tenant.memory), "0", 0, 1048576 * MIB, NULL,
     "memory that the requests of one tenant may hold; 0 is no limit but limits.memory"},
};

static const struct settings_row tenants_rows[] = {
    {"header", SETTINGS_TEXT, AT(tenant_header), "", 0, 0, NULL,
     "request header that names the tenant (X-Scope-OrgID); without it there are no tenants"},
    {"required", SETTINGS_BOOL, AT(tenant_required), "false", 0, 0, NULL, "refuse requests without that header"},
};

static const struct settings_row pprof_rows[] = {
    {"trace_id_labels", SETTINGS_STRINGS, AT(trace_labels), "trace_id", 0, 0, NULL,
     "labels that may hold a trace's id, 32 digits in lower-case hex: with a span's id the sample is linked to the span"},
    {"span_id_labels", SETTINGS_STRINGS, AT(span_labels), "span_id", 0, 0, NULL,
     "labels that may hold a span's id, 16 digits: span_id, profile_id; without any, labels stay what they are"},
};

static const struct settings_row service_rows[] = {
    {"workers", SETTINGS_COUNT, AT(workers), "0", 0, 256, NULL,
     "threads that receive and count; 0 is one for each CPU this process may run on"},
    {"log_level", SETTINGS_CHOICE, AT(log_level), "info", 0, 0, log_levels,
     "what is written to standard error", true},
    {"log_format", SETTINGS_CHOICE, AT(log_format), "text", 0, 0, log_formats,
     "text is TIME LEVEL message key=value, json an object a line", true},
    {"shutdown_timeout", SETTINGS_DURATION, AT(shutdown_timeout_ns), "10s", 0, 600 * SEC, NULL,
     "how long a stop waits for requests to finish, and once more for queues to be sent, with repetitions", true},
};

const struct settings_section config_fixed[] = {
    {"rules", "what is counted", rules_rows, ARRAY_LEN(rules_rows)},
    {"metrics", "how counters leave", metrics_rows, ARRAY_LEN(metrics_rows)},
    {"profiles", "which raw profiles go on", profiles_rows, ARRAY_LEN(profiles_rows)},
    {"check", "what is wrong with requests", check_rows, ARRAY_LEN(check_rows)},
    {"look", "stacks of recent times, to be looked at", look_rows, ARRAY_LEN(look_rows)},
    {"pprof", "what pprof says as OTLP, however it comes", pprof_rows, ARRAY_LEN(pprof_rows)},
    {"admin", "the address for people and scrapers", admin_rows, ARRAY_LEN(admin_rows)},
    {"limits", "what a peer may make us hold", limits_rows, ARRAY_LEN(limits_rows)},
    {"tenants", "on whose behalf requests come", tenants_rows, ARRAY_LEN(tenants_rows)},
    {"service", "the process", service_rows, ARRAY_LEN(service_rows)},
    {NULL, NULL, NULL, 0},
};

static const struct settings_row receiver_rows[] = {
    {"endpoint", SETTINGS_TEXT, RAT(endpoint), "", 0, 0, NULL,
     "host:port or unix:/path; takes OTLP/gRPC and OTLP/HTTP protobuf and JSON, HTTP/1.1 and HTTP/2 alike"},
    {"wire_version", SETTINGS_CHOICE, RAT(wire_version), "auto", 0, 0, layouts,
     "layout of v1development that comes here; auto looks at each request"},
    {"profiles_url_path", SETTINGS_STRINGS, RAT(profiles_url_path), "", 0, 0, NULL,
     "more HTTP paths that take OTLP profiles here, beside /v1development/profiles"},
    DOOR_ROWS(RAT(door)),
};

static const struct settings_row scrape_rows[] = {
    {"job_name", SETTINGS_TEXT, SAT(job_name), "pprof", 0, 0, NULL,
     "service.name of what comes from there, unless labels say another one", true},
    {"targets", SETTINGS_STRINGS, SAT(targets), "", 0, 0, NULL, "host:port of each process; service.instance.id of what comes from it", true},
    {"profiles", SETTINGS_STRINGS, SAT(profiles), "profile,heap,goroutine,mutex,block", 0, 0, NULL,
     "what each is asked for: names behind path_prefix, or whole paths: /debug/fgprof?seconds=5", true},
    {"scheme", SETTINGS_CHOICE, SAT(scheme), "http", 0, 0, schemes, "http or https", true},
    {"path_prefix", SETTINGS_TEXT, SAT(path_prefix), "/debug/pprof", 0, 0, NULL, "where the profiles are", true},
    {"profile_seconds", SETTINGS_COUNT, SAT(seconds), "10", 1, 600, NULL, "how long a CPU profile (`profile`) is", true},
    {"scrape_interval", SETTINGS_DURATION, SAT(interval_ns), "60s", SEC, 86400 * SEC, NULL,
     "how often; the first time is anywhere within it, so that targets are not all asked at once", true},
    {"scrape_timeout", SETTINGS_DURATION, SAT(timeout_ns), "30s", SEC / 10, 3600 * SEC, NULL,
     "for one answer; more than profile_seconds, less than scrape_interval", true},
    {"body_size_limit", SETTINGS_SIZE, SAT(body_max), "16MiB", MIB / 1024, 1024 * MIB, NULL, "of one answer, as it comes", true},
    {"labels", SETTINGS_PAIRS, SAT(labels), "", 0, 0, NULL, "attributes of the resources: { deployment.environment.name: prod }", true},
    {"tenant", SETTINGS_TEXT, SAT(tenant), "", 0, 0, NULL,
     "on whose behalf: as if what is fetched had been sent with that in tenants.header", true},
    {"basic_auth.username", SETTINGS_TEXT, SAT(username), "", 0, 0, NULL, "of HTTP basic authentication", true},
    {"basic_auth.password_file", SETTINGS_TEXT, SAT(password_file), "", 0, 0, NULL, "one line: the password", true},
    {"authorization.credentials_file", SETTINGS_TEXT, SAT(credentials_file), "", 0, 0, NULL, "one line: a bearer token", true},
    {"tls.ca_file", SETTINGS_TEXT, SAT(tls_ca_file), "", 0, 0, NULL, "PEM; default is the system's store", true},
    {"tls.cert_file", SETTINGS_TEXT, SAT(tls_cert_file), "", 0, 0, NULL, "PEM client certificate for mTLS", true},
    {"tls.key_file", SETTINGS_TEXT, SAT(tls_key_file), "", 0, 0, NULL, "PEM key of it", true},
    {"tls.server_name_override", SETTINGS_TEXT, SAT(tls_server_name), "", 0, 0, NULL,
     "name the certificate must bear, where it is not the target's host", true},
    {"tls.insecure_skip_verify", SETTINGS_BOOL, SAT(tls_skip_verify), "false", 0, 0, NULL, "take any server certificate", true},
};

const struct settings_section config_scrape_section = {
    "receivers.pprof_scrape", "processes to ask for profiles (a list), as net/http/pprof and its like serve them",
    scrape_rows, ARRAY_LEN(scrape_rows)};

static const struct settings_row kafka_rows[] = {
    KAFKA_CONNECTION_ROWS(KAT_CONNECTION, "localhost:9092"),
    {"profiles.topics", SETTINGS_STRINGS, KAT(topics), "otlp_profiles", 0, 0, NULL, "what is read; ^ begins a regular expression"},
    {"profiles.encoding", SETTINGS_CHOICE, KAT(encoding), "otlp_proto", 0, 0, kafka_encodings,
     "of a message, which is one ExportProfilesServiceRequest"},
    {"group_id", SETTINGS_TEXT, KAT(group_id), "profgate", 0, 0, NULL, "gateways of one group share the partitions"},
    {"group_instance_id", SETTINGS_TEXT, KAT(group_instance_id), "", 0, 0, NULL,
     "a name of this gateway in its group, which keeps its partitions over a restart within session_timeout; none: they move at once"},
    {"initial_offset", SETTINGS_CHOICE, KAT(initial_offset), "latest", 0, 0, initial_offsets,
     "where a group begins that has read nothing of a partition yet"},
    {"session_timeout", SETTINGS_DURATION, KAT(session_timeout_ns), "10s", SEC, 1800 * SEC, NULL,
     "a gateway that says nothing for so long has its partitions taken"},
    {"heartbeat_interval", SETTINGS_DURATION, KAT(heartbeat_ns), "3s", SEC / 10, 600 * SEC, NULL, "how often it says something"},
    {"max_fetch_size", SETTINGS_SIZE, KAT(fetch_bytes), "1MiB", 1024, 256 * MIB, NULL, "bytes that a broker is asked for at once, and at least one message"},
    {"max_partition_fetch_size", SETTINGS_SIZE, KAT(partition_bytes), "1MiB", 1024, 256 * MIB, NULL, "of them of one partition"},
    {"max_fetch_wait", SETTINGS_DURATION, KAT(fetch_wait_ns), "250ms", SEC / 1000, 60 * SEC, NULL, "how long it may wait for the first"},
};

const struct settings_section config_kafka_section = {
    "receivers.kafka", "Kafka topics to read; nothing is read where the section is missing", kafka_rows, ARRAY_LEN(kafka_rows)};

const struct settings_section config_receiver_section = {
    "receivers.otlp", "addresses to listen on (a list); default localhost:4317 and localhost:4318",
    receiver_rows, ARRAY_LEN(receiver_rows)};

/* clang-format on */
