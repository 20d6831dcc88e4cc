/* SPDX-License-Identifier: Apache-2.0 */
/*
 * With keys a request goes in as many messages as its resources have keys: what stands together in it, in
 * one. All of them have room, or none: then the request goes whole, by its first resource's key, since what
 * was reserved for it is kept.
 */
#include "gateway/export/kafka/exporter.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/kafka/key.h"
#include "gateway/export/kafka/producer.h"
#include "gateway/export/shared/pieces.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"
#include "proto/io/tls.h"

#define AT(field)            offsetof(struct kafka_settings, field)
#define SENT(field)          AT(sending.field)
#define OF_CONNECTION(field) AT(connection.field)

static const struct settings_word
    acks[] = {{"all", KAFKA_ACKS_ALL}, {"-1", KAFKA_ACKS_ALL}, {"1", KAFKA_ACKS_LEADER}, {NULL}},
    compressions[] = {{"none", KAFKA_PLAIN}, {"gzip", KAFKA_GZIP}, {"snappy", KAFKA_SNAPPY},
                      {"lz4", KAFKA_LZ4},    {"zstd", KAFKA_ZSTD}, {NULL}},
    hashers[] = {{"sarama_compat", KAFKA_SARAMA_COMPAT}, {"murmur2", KAFKA_MURMUR2}, {NULL}},
    temporalities[] = EXPORT_TEMPORALITIES;

/* clang-format off */
static const struct settings_row rows[] = {
    KAFKA_CONNECTION_ROWS(OF_CONNECTION, "localhost:9092"),
    {"profiles.topic", SETTINGS_TEXT, AT(profiles_topic), "otlp_profiles", 0, 0, NULL, "where raw profiles go"},
    {"profiles.encoding", SETTINGS_CHOICE, AT(profiles_encoding), "otlp_proto", 0, 0, kafka_encodings,
     "of a message, which is one ExportProfilesServiceRequest"},
    {"metrics.topic", SETTINGS_TEXT, AT(metrics_topic), "otlp_metrics", 0, 0, NULL, "where metrics go"},
    {"metrics.encoding", SETTINGS_CHOICE, AT(metrics_encoding), "otlp_proto", 0, 0, kafka_encodings,
     "of a message, which is one ExportMetricsServiceRequest"},
    {"partition_profiles_by_resource_attributes", SETTINGS_BOOL, AT(profiles_by_resource), "true", 0, 0, NULL,
     "a message has profiles of one resource, whose attributes are its key: what a resource sends is in one partition"},
    {"partition_metrics_by_resource_attributes", SETTINGS_BOOL, AT(metrics_by_resource), "false", 0, 0, NULL,
     "the same of metrics, in otlp_proto"},
    {"partition_attributes", SETTINGS_STRINGS, AT(key_attributes), "", 0, 0, NULL,
     "the attributes that make the key: [host.name] sends a host's resources in one message; none given: all"},
    {"record_partitioner.sticky_key.hasher", SETTINGS_CHOICE, AT(hasher), "sarama_compat", 0, 0, hashers,
     "which partition a key is: as the Collector's exporter or as Java's clients have it"},
    {"producer.required_acks", SETTINGS_CHOICE, AT(acks), "all", 0, 0, acks,
     "all in-sync replicas, and the producer is idempotent; or the leader alone, which may lose and double what it had when it ends"},
    {"producer.max_message_bytes", SETTINGS_SIZE, SENT(request_bytes), "1000000", 16384, 256 * SENDING_MIB, NULL,
     "of a message before compression; larger requests are split. Brokers have message.max.bytes"},
    {"producer.compression", SETTINGS_CHOICE, AT(compression), "none", 0, 0, compressions, "of batches of messages"},
    {"producer.compression_params.level", SETTINGS_COUNT, AT(compression_level), "0", 0, 12, NULL, "of gzip, lz4 and zstd; 0 is the usual one"},
    {"producer.flush_max_messages", SETTINGS_COUNT, AT(flush_max_messages), "10000", 1, 1000000, NULL, "messages in a batch"},
    {"producer.linger", SETTINGS_DURATION, AT(linger_ns), "10ms", 0, 10 * SENDING_SEC, NULL, "how long a message waits for others to be sent with"},
    {"producer.allow_auto_topic_creation", SETTINGS_BOOL, AT(creates_topics), "true", 0, 0, NULL, "brokers that do so may make the topic"},
    {"temporality", SETTINGS_CHOICE, AT(temporality), "default", 0, 0, temporalities,
     "of counters sent here; default is metrics.temporality"},
    {"timeout", SETTINGS_DURATION, SENT(timeout_ns), "5s", SENDING_SEC, 600 * SENDING_SEC, NULL, "of one attempt"},
    SENDING_QUEUE_ROWS(SENT),
};
/* clang-format on */

/* Key and framing of a message beside its request. */
#define MESSAGE_OVERHEAD 512u

/* What a request of profiles becomes in JSON at most, nearly always; one that becomes more is lost and
 * counted. */
#define JSON_GROWTH 8u

struct kafka {
    struct sending sending;
    bool is_keyed, is_json;
    const struct settings_strings *key_of;
    struct pieces *pieces; /* of profiles with keys */
};

static int check(const char *name, const void *settings, struct error *e)
{
    const struct kafka_settings *s = settings;
    int r = kafka_check(&s->connection, e);
    r = r < 0 ? r : kafka_check_name("profiles.topic", s->profiles_topic, e);
    r = r < 0 ? r : kafka_check_name("metrics.topic", s->metrics_topic, e);
    if (r == 0 && s->metrics_by_resource && s->metrics_encoding == KAFKA_OTLP_JSON)
        r = error_set(e, -EINVAL,
                      "partition_metrics_by_resource_attributes needs metrics.encoding: otlp_proto");
    return r < 0 ? error_prefix(e, r, "exporters.%s: ", name) : sending_check_queue(name, &s->sending, e);
}

static void stream(const void *settings, struct export_stream *ret)
{
    const struct kafka_settings *s = settings;
    ret->temporality = s->temporality;
}

/* ---- metrics ---- */

static void push_metrics(struct exporter *x, const struct metric_batch *batch)
{
    struct kafka *k = container_of(x, struct kafka, sending.base);
    struct metric_batch part = *batch; /* what it has stays the batch's */
    part.n_resources = k->is_keyed ? 1 : batch->n_resources;
    for (uint32_t i = 0; i < batch->n_resources; i += part.n_resources) {
        part.resources = &batch->resources[i];
        sending_push_metrics(&k->sending, &part, k->is_json);
    }
    sending_window_ends(&k->sending);
}

/* ---- profiles: any thread ---- */

static uint32_t resource_of(const struct profiles *p, uint32_t profile)
{
    return p->scope.resource[p->profile.scope[profile]];
}

/* Where another key begins. */
static uint32_t end_of_key(const void *user, const struct profiles *p, uint32_t from)
{
    const struct kafka *k = user;
    uint32_t profile = profiles_profile_of(p, from), resource = resource_of(p, profile);
    const uint64_t key = key_of_resource(p->resource.raw[resource], k->key_of);
    for (; profile < p->profile.n; profile++) {
        const uint32_t next = resource_of(p, profile);
        if (next != resource && key_of_resource(p->resource.raw[next], k->key_of) != key)
            break;
        resource = next;
    }
    return max_of(p->profile.samples_at[profile], from + 1);
}

struct piece {
    struct client_body *body;
    uint64_t samples;
};

struct cutting {
    VEC(struct piece) pieces;
    size_t bytes;
    uint64_t samples;
};

static void add_piece(void *user, uint8_t *p, size_t n, uint64_t samples)
{
    struct cutting *c = user;
    struct piece piece = {client_body_new(p, n), samples};
    if (piece.body && vec_append(&c->pieces, piece) < 0)
        piece.body = client_body_unref(piece.body);
    if (!piece.body)
        return;
    c->bytes += n;
    c->samples += samples;
}

/* Room for all of them in place of what the request has: a sum of as many requests. */
static bool reserve_all(struct kafka *k, const struct cutting *c, size_t reserved)
{
    uint32_t more = 0;
    size_t bytes = c->bytes > reserved ? c->bytes - reserved : 0;
    while (more + 1 < c->pieces.n && sending_reserve(&k->sending.base, more == 0 ? bytes : 0))
        more++;
    if (more + 1 == c->pieces.n)
        return true;
    for (uint32_t i = 0; i < more; i++)
        sending_cancel(&k->sending.base, i == 0 ? bytes : 0);
    return false;
}

static void push_pieces(struct kafka *k, const struct cutting *c, size_t reserved, struct promise *safe)
{
    size_t left = max_of(reserved, c->bytes);
    for (uint32_t i = 0; i < c->pieces.n; i++) {
        const struct piece *piece = &c->pieces.p[i];
        const size_t own = i + 1 < c->pieces.n ? piece->body->n : left;
        sending_push(&k->sending, piece->body, own, piece->samples, safe);
        left -= own;
    }
}

static void push_profiles(struct exporter *x, struct client_body *body, size_t reserved, uint64_t n_samples,
                          struct promise *safe)
{
    struct kafka *k = container_of(x, struct kafka, sending.base);
    struct cutting c = {0};
    if (!body) {
        sending_lost(&k->sending, n_samples);
        sending_cancel(x, reserved);
        return;
    }
    if (k->is_keyed && !key_is_one(client_body_bytes(body), k->key_of))
        pieces_write(k->pieces, body, add_piece, &c);
    if (c.pieces.n > 0 && c.samples == n_samples && reserve_all(k, &c, reserved))
        push_pieces(k, &c, reserved, safe);
    else
        sending_push(&k->sending, body, reserved, n_samples, safe);
    for (uint32_t i = 0; i < c.pieces.n; i++)
        client_body_unref(c.pieces.p[i].body);
    vec_release(&c.pieces);
}

/* ---- life ---- */

static struct producer_options options_of(const struct kafka_settings *s, const struct export_context *c,
                                          size_t request_max)
{
    static const char *const partitioners[] = {
        [KAFKA_SARAMA_COMPAT] = "fnv1a_random", [KAFKA_MURMUR2] = "murmur2_random"};
    const bool profiles = c->signal == CONFIG_TAKES_PROFILES;
    return (struct producer_options){
        .connection = &s->connection,
        .topic = profiles ? s->profiles_topic : s->metrics_topic,
        .json = profiles && s->profiles_encoding == KAFKA_OTLP_JSON,
        .keyed = profiles ? s->profiles_by_resource : s->metrics_by_resource,
        .key_of = &s->key_attributes,
        .acks_all = s->acks == KAFKA_ACKS_ALL,
        .compression = compressions[s->compression].word,
        .partitioner = partitioners[s->hasher],
        .compression_level = s->compression_level > 0 ? (int)s->compression_level : -1,
        .linger_ns = s->linger_ns,
        .batch_messages = s->flush_max_messages,
        .request_max = request_max,
        .message_max = s->sending.request_bytes,
        .creates_topics = s->creates_topics,
        .timeout_ns = s->sending.timeout_ns,
        .retry = sending_retry(&s->sending),
        .queue_size = s->sending.queue_size,
        .queue_bytes = s->sending.queue_bytes,
        .budget = c->budget,
    };
}

static int open_kafka(struct exporter *x, const void *given, const struct export_context *c, struct error *e)
{
    struct kafka *k = container_of(x, struct kafka, sending.base);
    const struct kafka_settings *s = given;
    const bool profiles = c->signal == CONFIG_TAKES_PROFILES;
    struct sending_settings settings = s->sending;
    struct sender sender;
    k->is_keyed = profiles ? s->profiles_by_resource : s->metrics_by_resource;
    k->is_json = (profiles ? s->profiles_encoding : s->metrics_encoding) == KAFKA_OTLP_JSON;
    k->key_of = &s->key_attributes;
    settings.request_bytes -= MESSAGE_OVERHEAD;
    if (profiles && k->is_json)
        settings.request_bytes /= JSON_GROWTH;
    const struct producer_options options = options_of(s, c, settings.request_bytes);
    const struct pieces_options pieces = {
        .request_max = settings.request_bytes, .budget = c->budget, .end = end_of_key, .user = k};
    if (profiles && k->is_keyed && !(k->pieces = pieces_new(&pieces)))
        return error_set(e, -ENOMEM, "out of memory");
    int r = sending_init(&k->sending, c, &settings, e);
    if (r == 0)
        r = producer_new(&sender, c->loop, &options, sending_on_event, sending_on_queued, &k->sending, e);
    if (r < 0)
        return r;
    k->sending.tls_expiry = tls_file_expiry(s->connection.tls_cert_file); /* which is read at a start alone */
    k->sending.base.terms.no_references = k->is_keyed; /* keys are made of what is written out */
    return sending_start(&k->sending, sender, c, &settings, e);
}

static void release_kafka(struct exporter *x)
{
    struct kafka *k = container_of(x, struct kafka, sending.base);
    sending_release(&k->sending);
    pieces_free(k->pieces);
}

const struct exporter_kind exporter_kafka = {
    .config =
        {
            .type = "kafka",
            .section = {"exporters.kafka/NAME", "a Kafka topic for metrics, one for raw profiles, or both",
                        rows, ARRAY_LEN(rows)},
            .size = sizeof(struct kafka_settings),
            .takes = CONFIG_TAKES_METRICS | CONFIG_TAKES_PROFILES,
            .check = check,
        },
    .size = sizeof(struct kafka),
    .stream = stream,
    .open = open_kafka,
    .push_metrics = push_metrics,
    .push_profiles = push_profiles,
    SENDING_FUNCTIONS,
    .release = release_kafka,
};
