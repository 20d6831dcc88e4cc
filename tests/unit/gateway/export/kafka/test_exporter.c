/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/config gateway/export gateway/export/kafka proto/schema */
/* The exporter against librdkafka's own mock of a cluster; tests/interop/test_kafka.py has a real one. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <librdkafka/rdkafka.h>

#include <librdkafka/rdkafka_mock.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "gateway/config/config.h"
#include "gateway/export/kafka/exporter.h"
#include "gateway/export/kafka/key.h"
#include "gateway/export/kinds.h"
#include "gateway/export/profiles.h"
#include "gateway/stats/stats.h"
#include "profiles_service.pb-c.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/io/loop.h"

#define UNTIL(loop, condition) unit_until(condition, io_loop_run_once(loop, 50 * NSEC_PER_MSEC))

/* A cluster of one broker, and one exporter to it. */
struct bed {
    rd_kafka_t *owner;
    rd_kafka_mock_cluster_t *cluster;
    struct io_loop *loop;
    struct stats *stats;
    struct budget budget;
    struct config *config;
    struct exporter *exporter;
};

/* librdkafka makes threads by thrd_create(3), which LeakSanitizer does not know: glibc keeps their vectors of
 * thread-local storage with their stacks. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
    return "leak:allocate_dtv\n";
}
const char *__lsan_default_options(void);
const char *__lsan_default_options(void)
{
    return "print_suppressions=0";
}

static void on_done(void *user)
{
    *(bool *)user = true;
}

static void make_cluster(struct bed *b)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    rd_kafka_conf_set_log_cb(conf, NULL);
    b->owner = rd_kafka_new(RD_KAFKA_PRODUCER, conf, why, sizeof why);
    ck_assert_msg(b->owner != NULL, "%s", why);
    b->cluster = unit_made(rd_kafka_mock_cluster_new(b->owner, 1));
    ck_assert_int_eq(rd_kafka_mock_topic_create(b->cluster, "otlp_profiles", 4, 1), 0);
    ck_assert_int_eq(rd_kafka_mock_topic_create(b->cluster, "otlp_metrics", 1, 1), 0);
}

static void open_bed(struct bed *b, enum config_takes signal, const char *keys)
{
    char yaml[512];
    struct error e = {""};
    *b = (struct bed){.budget = BUDGET_INIT(SIZE_MAX, NULL)};
    make_cluster(b);
    b->loop = unit_made(io_loop_new());
    b->stats = unit_made(stats_new());
    b->config = unit_made(config_new(export_kinds));
    snprintf(yaml, sizeof yaml, "exporters: { kafka/x: { brokers: [ '%s' ], producer.linger: 0s%s%s } }",
             rd_kafka_mock_cluster_bootstraps(b->cluster), keys[0] ? ", " : "", keys);
    ck_assert_msg(config_parse(b->config, "t.yaml", bytes_str(yaml), &e) == 0 &&
                      config_check(b->config, &e) == 0,
                  "%s", e.text);
    const struct config_exporter *x = unit_made(config_exporter(b->config, "kafka/x"));
    const struct export_context c = {
        .name = x->name, .signal = signal, .loop = b->loop, .stats = b->stats, .budget = &b->budget};
    ck_assert_msg(exporter_open(&b->exporter, x->kind, x->settings, &c, &e) == 0, "%s", e.text);
}

static void close_bed(struct bed *b, uint64_t patience_ns)
{
    bool done = false;
    exporter_drain(b->exporter, clock_monotonic() + patience_ns, on_done, &done);
    ck_assert(!done);
    UNTIL(b->loop, done);
    exporter_free(b->exporter);
    ck_assert_uint_eq(b->budget.used, 0);
    config_free(b->config);
    io_loop_free(b->loop);
    rd_kafka_mock_cluster_destroy(b->cluster);
    rd_kafka_destroy(b->owner);
}

static struct client_body *request(const char *name, size_t *ret_samples)
{
    size_t n;
    uint8_t *p = unit_data(name, &n);
    Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest *m =
        opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
            NULL, n, p);
    ck_assert_ptr_nonnull(m);
    *ret_samples = 0;
    for (size_t r = 0; r < m->n_resource_profiles; r++)
        for (size_t s = 0; s < m->resource_profiles[r]->n_scope_profiles; s++)
            for (size_t k = 0; k < m->resource_profiles[r]->scope_profiles[s]->n_profiles; k++)
                *ret_samples += m->resource_profiles[r]->scope_profiles[s]->profiles[k]->n_samples;
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
        m, NULL);
    return unit_made(client_body_new(p, n));
}

static void push(struct bed *b, struct client_body *body, size_t samples)
{
    ck_assert(b->exporter->kind->reserve(b->exporter, body->n));
    b->exporter->kind->push_profiles(b->exporter, body, body->n, samples, NULL);
    client_body_unref(body);
}

static uint64_t sent(const struct bed *b)
{
    return b->stats->value[STATS_EXPORT_PROFILES_SENT];
}

/* What is in the topic: messages, their samples, bytes; each key in one partition. */
struct found {
    size_t messages, samples, bytes;
    struct {
        char key[KEY_TEXT];
        int32_t partition;
    } keys[512];
    size_t n_keys;
};

static void add_found(struct found *f, const rd_kafka_message_t *m)
{
    Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest *q =
        opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack(
            NULL, m->len, m->payload);
    size_t i = 0;
    ck_assert_ptr_nonnull(q);
    f->messages++;
    f->bytes += m->len;
    for (size_t r = 0; r < q->n_resource_profiles; r++)
        for (size_t s = 0; s < q->resource_profiles[r]->n_scope_profiles; s++)
            for (size_t k = 0; k < q->resource_profiles[r]->scope_profiles[s]->n_profiles; k++)
                f->samples += q->resource_profiles[r]->scope_profiles[s]->profiles[k]->n_samples;
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked(
        q, NULL);
    if (!m->key)
        return;
    ck_assert_uint_eq(m->key_len, KEY_TEXT - 1);
    while (i < f->n_keys && memcmp(f->keys[i].key, m->key, m->key_len) != 0)
        i++;
    ck_assert_uint_lt(i, ARRAY_LEN(f->keys));
    if (i == f->n_keys) {
        memcpy(f->keys[i].key, m->key, m->key_len);
        f->keys[f->n_keys++].partition = m->partition;
    }
    ck_assert_int_eq(f->keys[i].partition, m->partition);
}

static void read_topic(const struct bed *b, const char *topic, int32_t partitions, size_t messages,
                       struct found *ret)
{
    char why[256];
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    *ret = (struct found){0};
    rd_kafka_conf_set_log_cb(conf, NULL);
    rd_kafka_conf_set(conf, "bootstrap.servers", rd_kafka_mock_cluster_bootstraps(b->cluster), why,
                      sizeof why);
    rd_kafka_conf_set(conf, "group.id", "test", why, sizeof why);
    rd_kafka_t *rk = rd_kafka_new(RD_KAFKA_CONSUMER, conf, why, sizeof why);
    ck_assert_msg(rk != NULL, "%s", why);
    rd_kafka_poll_set_consumer(rk);
    rd_kafka_topic_partition_list_t *all = rd_kafka_topic_partition_list_new(partitions);
    for (int32_t i = 0; i < partitions; i++)
        rd_kafka_topic_partition_list_add(all, topic, i)->offset = RD_KAFKA_OFFSET_BEGINNING;
    ck_assert_int_eq(rd_kafka_assign(rk, all), 0);
    rd_kafka_topic_partition_list_destroy(all);
    const uint64_t until = clock_monotonic() + unit_patience(10 * (uint64_t)NSEC_PER_SEC);
    while (ret->messages < messages) {
        rd_kafka_message_t *m = rd_kafka_consumer_poll(rk, 100);
        ck_assert_msg(clock_monotonic() < until, "only %zu messages", ret->messages);
        if (m && !m->err)
            add_found(ret, m);
        if (m)
            rd_kafka_message_destroy(m);
    }
    rd_kafka_consumer_close(rk);
    rd_kafka_destroy(rk);
}

#define EBPF "connector/ebpf-cpp-0002.pb"

static size_t push_one(struct bed *b)
{
    size_t samples;
    struct client_body *body = request(EBPF, &samples);
    push(b, body, samples);
    return samples;
}

/* Of attributes that refer to a string table there is no key; who wants none takes requests as they came. */
UNIT(references_are_written_out_for_keys_alone)
{
    struct bed b;
    open_bed(&b, CONFIG_TAKES_PROFILES, "");
    ck_assert(b.exporter->terms.no_references);
    close_bed(&b, NSEC_PER_SEC);
    open_bed(&b, CONFIG_TAKES_PROFILES, "partition_profiles_by_resource_attributes: false");
    ck_assert(!b.exporter->terms.no_references);
    close_bed(&b, NSEC_PER_SEC);
}

UNIT(what_a_resource_sends_is_in_one_partition)
{
    struct bed b;
    struct found found;
    size_t samples;
    open_bed(&b, CONFIG_TAKES_PROFILES, "");
    struct client_body *body = request(EBPF, &samples);
    const size_t n = body->n;
    push(&b, body, samples);
    UNTIL(b.loop, sent(&b) > 1 && b.stats->value[STATS_EXPORT_QUEUE_BYTES] == 0);
    read_topic(&b, "otlp_profiles", 4, sent(&b), &found);
    ck_assert_uint_eq(found.samples, samples);
    ck_assert_uint_gt(found.n_keys, 1);
    ck_assert_uint_gt(found.bytes, n); /* a dictionary for each */
    ck_assert_uint_eq(b.stats->value[STATS_FORWARD_DROPPED], 0);
    close_bed(&b, NSEC_PER_SEC);
}

UNIT(a_request_with_one_key_goes_as_it_came)
{
    struct bed b;
    struct found found;
    size_t samples;
    open_bed(&b, CONFIG_TAKES_PROFILES, "partition_attributes: [ no.such.attribute ]");
    struct client_body *body = client_body_ref(request(EBPF, &samples));
    push(&b, body, samples);
    UNTIL(b.loop, sent(&b) == 1);
    read_topic(&b, "otlp_profiles", 4, 1, &found);
    ck_assert_uint_eq(found.samples, samples);
    ck_assert_uint_eq(found.bytes, body->n);
    ck_assert_uint_eq(found.n_keys, 1);
    client_body_unref(body);
    close_bed(&b, NSEC_PER_SEC);
}

/* The pieces of a request are more than one, and there is one place: it goes whole, and is not lost. */
UNIT(without_room_for_pieces_it_goes_whole)
{
    struct bed b;
    struct found found;
    size_t samples;
    open_bed(&b, CONFIG_TAKES_PROFILES, "sending_queue: { queue_size: 1 }");
    struct client_body *body = client_body_ref(request(EBPF, &samples));
    push(&b, body, samples);
    UNTIL(b.loop, sent(&b) == 1);
    read_topic(&b, "otlp_profiles", 4, 1, &found);
    ck_assert_uint_eq(found.bytes, body->n);
    client_body_unref(body);
    close_bed(&b, NSEC_PER_SEC);
}

/* What the broker refuses for a time is sent again, and is there once. */
UNIT(what_fails_for_now_is_repeated_and_there_once)
{
    struct bed b;
    struct found found;
    size_t samples;
    char log[8192] = "";
    const int standard_error = dup(STDERR_FILENO), written = memfd_create("log", MFD_CLOEXEC);
    ck_assert(written >= 0 && dup2(written, STDERR_FILENO) >= 0);
    open_bed(&b, CONFIG_TAKES_PROFILES,
             "partition_profiles_by_resource_attributes: false, "
             "retry_on_failure: { initial_interval: 10ms, max_interval: 20ms }");
    rd_kafka_mock_push_request_errors(b.cluster, 0 /* Produce */, 4, RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS,
                                      RD_KAFKA_RESP_ERR_NOT_LEADER_FOR_PARTITION,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED,
                                      RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED);
    samples = push_one(&b);
    UNTIL(b.loop, sent(&b) == 1);
    dup2(standard_error, STDERR_FILENO);
    ck_assert(pread(written, log, sizeof log - 1, 0) > 0);
    ck_assert_msg(strstr(log, "will be repeated destination=kafka/x attempt=1 "), "%s", log);
    close(written);
    close(standard_error);
    ck_assert_uint_ge(b.stats->value[STATS_EXPORT_PROFILES_RETRIED], 1);
    ck_assert_uint_eq(b.stats->value[STATS_EXPORT_PROFILES_FAILED], 0);
    read_topic(&b, "otlp_profiles", 4, 1, &found);
    ck_assert_uint_eq(found.samples, samples);
    ck_assert_uint_eq(found.n_keys, 0);
    close_bed(&b, NSEC_PER_SEC);
}

UNIT(what_no_broker_will_ever_take_is_lost_and_counted)
{
    struct bed b;
    size_t samples;
    open_bed(&b, CONFIG_TAKES_PROFILES, "partition_profiles_by_resource_attributes: false");
    /* in company, it may be; and alone */
    rd_kafka_mock_push_request_errors(b.cluster, 0, 2, RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE,
                                      RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE);
    samples = push_one(&b);
    UNTIL(b.loop, b.stats->value[STATS_EXPORT_PROFILES_FAILED] == 1);
    ck_assert_uint_eq(b.stats->value[STATS_EXPORT_PROFILES_RETRIED], 1);
    ck_assert_uint_eq(b.stats->value[STATS_FORWARD_DROPPED], samples);
    ck_assert_uint_eq(b.stats->value[STATS_EXPORT_QUEUE_BYTES], 0);
    close_bed(&b, NSEC_PER_SEC);
}

/* Whatever the broker does, an end comes in time, and what it did not take is counted. */
UNIT(a_stop_waits_for_reports_and_no_longer)
{
    struct bed b;
    size_t samples;
    open_bed(&b, CONFIG_TAKES_PROFILES, "partition_profiles_by_resource_attributes: false");
    samples = push_one(&b);
    close_bed(
        &b, unit_patience(60 * (uint64_t)NSEC_PER_SEC)); /* an end that waited for that long would be seen */
    open_bed(&b, CONFIG_TAKES_PROFILES, "partition_profiles_by_resource_attributes: false");
    rd_kafka_mock_broker_set_down(b.cluster, 1);
    samples = push_one(&b);
    bool done = false;
    exporter_drain(b.exporter, clock_monotonic(), on_done, &done);
    UNTIL(b.loop, done);
    ck_assert_uint_eq(b.stats->value[STATS_FORWARD_DROPPED], samples);
    exporter_free(b.exporter);
    ck_assert_uint_eq(b.budget.used, 0);
    config_free(b.config);
    io_loop_free(b.loop);
    rd_kafka_mock_cluster_destroy(b.cluster);
    rd_kafka_destroy(b.owner);
}

static void complains(const char *keys, const char *complaint)
{
    char yaml[512];
    struct error e = {""};
    struct config *c = unit_made(config_new(export_kinds));
    snprintf(yaml, sizeof yaml, "exporters: { kafka/x: { %s } }", keys);
    int r = config_parse(c, "t.yaml", bytes_str(yaml), &e);
    r = r < 0 ? r : config_check(c, &e);
    ck_assert_int_eq(r, -EINVAL);
    ck_assert_msg(strstr(e.text, complaint) != NULL, "%s", e.text);
    config_free(c);
}

UNIT(keys_that_do_not_fit_together_are_named)
{
    complains("brokers: []", "exporters.kafka/x: brokers are missing");
    complains("brokers: [ 'h' ]", "brokers: \"h\" is not host:port");
    complains("brokers: [ 'ssl://h:1' ]", "brokers: \"ssl://h:1\" is not host:port");
    complains("brokers: [ 'h:70000' ]", "brokers: \"h:70000\" is not host:port");
    complains("auth: { sasl: { mechanism: PLAIN, username: u } }",
              "auth.sasl needs a username and a password");
    complains("auth: { sasl: { username: u, password: p } }", "auth.sasl needs a mechanism");
    complains("auth: { sasl: { mechanism: GSSAPI } }",
              "\"GSSAPI\" is not one of none|PLAIN|SCRAM-SHA-256|SCRAM-SHA-512");
    complains("tls: { cert_file: c }", "tls.cert_file and tls.key_file go together");
    complains("tls: { insecure: true, ca_file: c }", "tls.insecure: true leaves nothing");
    complains("partition_metrics_by_resource_attributes: true, metrics: { encoding: otlp_json }",
              "needs metrics.encoding: otlp_proto");
    complains("sending_queue: { dead_letters: true }",
              "sending_queue.dead_letters needs sending_queue.storage");
}

UNIT(its_password_is_for_nobodys_eyes)
{
    struct config *c = unit_made(config_new(export_kinds));
    struct error e = {""};
    struct buffer out = BUFFER_INIT(0);
    const char *yaml =
        "exporters: { kafka/x: { auth: { sasl: { mechanism: PLAIN, username: u, password: s3cret } } } }";
    ck_assert_msg(config_parse(c, "t.yaml", bytes_str(yaml), &e) == 0, "%s", e.text);
    ck_assert_int_eq(config_show(c, &out) | buffer_add(&out, "", 1), 0);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "sasl.password: \"[REDACTED]\""));
    ck_assert_ptr_null(strstr((char *)out.p, "s3cret"));
    buffer_release(&out);
    config_free(c);
}
