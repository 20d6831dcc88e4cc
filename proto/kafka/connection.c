/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/kafka/connection.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "proto/base/clock.h"
#include "proto/base/library/library.h"
#include "proto/base/macros.h"

static bool has_tls(const struct kafka_connection *c)
{
    return c->tls == KAFKA_TLS_ON ||
           (c->tls == KAFKA_TLS_AUTO && (c->tls_skip_verify || c->tls_ca_file || c->tls_cert_file));
}

/* 2.6.1, as rd_kafka_version() says it. */
#define SCRAM_IS_RIGHT 0x020601ff

const char *kafka_warning(const struct kafka_connection *c)
{
    const bool is_scram = c->sasl == KAFKA_SASL_SCRAM_SHA_256 || c->sasl == KAFKA_SASL_SCRAM_SHA_512;
    return is_scram && rd_kafka_version() < SCRAM_IS_RIGHT
               ? "the SCRAM of librdkafka before 2.6.1 is refused by Kafka 4.0 and newer (invalid credentials): "
                 "PLAIN over TLS is taken by all"
               : NULL;
}

const char *kafka_fix(rd_kafka_resp_err_t error)
{
    switch (error) {
    case RD_KAFKA_RESP_ERR_TOPIC_AUTHORIZATION_FAILED:
        return "an ACL that allows us DESCRIBE and READ, or WRITE, on the topic";
    case RD_KAFKA_RESP_ERR_GROUP_AUTHORIZATION_FAILED: return "an ACL that allows us READ on the group";
    case RD_KAFKA_RESP_ERR_UNKNOWN_TOPIC_OR_PART:
    case RD_KAFKA_RESP_ERR__UNKNOWN_TOPIC:
    case RD_KAFKA_RESP_ERR__UNKNOWN_PARTITION:
        return "make the topic, which was deleted or never there, or let brokers do so";
    case RD_KAFKA_RESP_ERR_MSG_SIZE_TOO_LARGE:
        return "a larger max.message.bytes of the topic, or a smaller producer.max_message_bytes";
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS:
    case RD_KAFKA_RESP_ERR_NOT_ENOUGH_REPLICAS_AFTER_APPEND:
        return "bring its replicas back, or a smaller min.insync.replicas";
    default: return NULL;
    }
}

int kafka_conf_set(rd_kafka_conf_t *conf, struct error *e, const char *name, const char *format, ...)
{
    char value[512], why[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (n >= (int)sizeof value)
        return error_set(e, -EINVAL, "%s is too long", name);
    if (rd_kafka_conf_set(conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        return error_set(e, -EINVAL, "%s", why);
    return 0;
}

int kafka_conf_set_text(rd_kafka_conf_t *conf, struct error *e, const char *name, const char *value)
{
    char why[256];
    if (!value || rd_kafka_conf_set(conf, name, value, why, sizeof why) == RD_KAFKA_CONF_OK)
        return 0;
    return error_set(e, -EINVAL, "librdkafka does not take %s", name);
}

static int set_brokers(rd_kafka_conf_t *conf, const struct kafka_connection *c, struct error *e)
{
    cleanup(buffer_release) struct buffer list = BUFFER_INIT(0);
    int r = 0;
    for (uint32_t i = 0; i < c->brokers.n && r == 0; i++)
        r = buffer_printf(&list, "%s%s", i > 0 ? "," : "", c->brokers.items[i]);
    r = r < 0 ? r : buffer_add(&list, "", 1);
    r = r < 0 ? error_set(e, r, "out of memory")
              : kafka_conf_set_text(conf, e, "bootstrap.servers", (char *)list.p);
    return r;
}

/* librdkafka says of what it cannot read "system lib". */
static int check_files(const struct kafka_connection *c, struct error *e)
{
    const struct {
        const char *key, *path;
    } files[] = {{"ca_file", c->tls_ca_file}, {"cert_file", c->tls_cert_file}, {"key_file", c->tls_key_file}};
    for (size_t i = 0; i < ARRAY_LEN(files); i++)
        if (files[i].path && access(files[i].path, R_OK) < 0)
            return error_set(e, -EINVAL, "tls.%s %s: %s", files[i].key, files[i].path, strerror(errno));
    return 0;
}

/* A broker that returns is found so soon. */
#define RECONNECT_MS 2000

static int set_all(rd_kafka_conf_t *conf, const struct kafka_connection *c, struct error *e)
{
    const bool tls = has_tls(c), sasl = c->sasl != KAFKA_SASL_NONE;
    int r = set_brokers(conf, c, e);
    r = r < 0 ? r : kafka_conf_set_text(conf, e, "client.id", c->client_id);
    r = r < 0 ? r
              : kafka_conf_set(conf, e, "security.protocol", "%s%s", sasl ? "sasl_" : "",
                               tls ? "ssl" : "plaintext");
    r = r < 0 ? r
              : kafka_conf_set(conf, e, "topic.metadata.refresh.interval.ms", "%" PRIu64,
                               c->metadata_ns / NSEC_PER_MSEC);
    r = r < 0 ? r : kafka_conf_set(conf, e, "reconnect.backoff.max.ms", "%d", RECONNECT_MS);
    if (r == 0 && sasl) {
        r = kafka_conf_set(conf, e, "sasl.mechanism", "%s", kafka_sasl_words[c->sasl].word);
        r = r < 0 ? r : kafka_conf_set_text(conf, e, "sasl.username", c->username);
        r = r < 0 ? r : kafka_conf_set_text(conf, e, "sasl.password", c->password);
    }
    if (r == 0 && tls) {
        r = check_files(c, e);
        r = r < 0 ? r : kafka_conf_set_text(conf, e, "ssl.ca.location", c->tls_ca_file);
        r = r < 0 ? r : kafka_conf_set_text(conf, e, "ssl.certificate.location", c->tls_cert_file);
        r = r < 0 ? r : kafka_conf_set_text(conf, e, "ssl.key.location", c->tls_key_file);
        /* librdkafka 2.0 does not ask by itself whether a certificate is the broker's. */
        r = r < 0 ? r
                  : kafka_conf_set(conf, e, "ssl.endpoint.identification.algorithm", "%s",
                                   c->tls_skip_verify ? "none" : "https");
        r = r < 0 ? r
                  : kafka_conf_set(conf, e, "enable.ssl.certificate.verification", "%s",
                                   c->tls_skip_verify ? "false" : "true");
    }
    return r;
}

int kafka_conf_new(rd_kafka_conf_t **ret, const struct kafka_connection *c, struct error *e)
{
    int r = library_load(&library_rdkafka, e);
    if (r < 0)
        return r;
    rd_kafka_conf_t *conf = rd_kafka_conf_new();
    if (!conf)
        return error_set(e, -ENOMEM, "out of memory");
    rd_kafka_conf_set_log_cb(conf, NULL);
    r = set_all(conf, c, e);
    if (r < 0)
        rd_kafka_conf_destroy(conf);
    else
        *ret = conf;
    return r;
}
