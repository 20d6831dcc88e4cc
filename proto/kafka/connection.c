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

void kafka_words(const char *reason, struct error *ret)
{
    static const struct {
        const char *theirs, *ours;
    } guesses[] = {
        {": probably due to broker version",
         ": the broker takes connections and does not answer: it hangs, or its listener speaks another protocol"},
        {"Disconnected while requesting ApiVersion",
         "the connection ended with the first request: the broker stops, or its listener speaks TLS, or we do "
         "(tls.insecure)"},
    };
    for (size_t i = 0; i < ARRAY_LEN(guesses); i++) {
        const char *at = strstr(reason, guesses[i].theirs);
        if (at) {
            error_set(ret, 0, "%.*s%s", (int)min_of((size_t)(at - reason), (size_t)200), reason,
                      guesses[i].ours);
            return;
        }
    }
    error_set(ret, 0, "%s", reason);
}

void kafka_conf_set(struct kafka_conf *k, const char *name, const char *format, ...)
{
    char value[512], why[256];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(value, sizeof value, format, args);
    va_end(args);
    if (k->r < 0)
        return;
    if (n >= (int)sizeof value)
        k->r = error_set(k->e, -EINVAL, "%s is too long", name);
    else if (rd_kafka_conf_set(k->conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        k->r = error_set(k->e, -EINVAL, "%s", why);
}

void kafka_conf_set_text(struct kafka_conf *k, const char *name, const char *value)
{
    char why[256];
    if (k->r == 0 && value && rd_kafka_conf_set(k->conf, name, value, why, sizeof why) != RD_KAFKA_CONF_OK)
        k->r = error_set(k->e, -EINVAL, "librdkafka does not take %s", name);
}

static void set_brokers(struct kafka_conf *k, const struct kafka_connection *c)
{
    cleanup(buffer_release) struct buffer list = BUFFER_INIT(0);
    int r = 0;
    for (uint32_t i = 0; i < c->brokers.n && r == 0; i++)
        r = buffer_printf(&list, "%s%s", i > 0 ? "," : "", c->brokers.items[i]);
    r = r < 0 ? r : buffer_add(&list, "", 1);
    if (r < 0)
        k->r = error_set(k->e, r, "out of memory");
    else
        kafka_conf_set_text(k, "bootstrap.servers", (char *)list.p);
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

static void set_all(struct kafka_conf *k, const struct kafka_connection *c)
{
    const bool tls = has_tls(c), sasl = c->sasl != KAFKA_SASL_NONE;
    set_brokers(k, c);
    kafka_conf_set_text(k, "client.id", c->client_id);
    kafka_conf_set(k, "security.protocol", "%s%s", sasl ? "sasl_" : "", tls ? "ssl" : "plaintext");
    kafka_conf_set(k, "topic.metadata.refresh.interval.ms", "%" PRIu64, c->metadata_ns / NSEC_PER_MSEC);
    kafka_conf_set(k, "reconnect.backoff.max.ms", "%d", RECONNECT_MS);
    if (sasl) {
        kafka_conf_set(k, "sasl.mechanism", "%s", kafka_sasl_words[c->sasl].word);
        kafka_conf_set_text(k, "sasl.username", c->username);
        kafka_conf_set_text(k, "sasl.password", c->password);
    }
    if (tls && k->r == 0) {
        k->r = check_files(c, k->e);
        kafka_conf_set_text(k, "ssl.ca.location", c->tls_ca_file);
        kafka_conf_set_text(k, "ssl.certificate.location", c->tls_cert_file);
        kafka_conf_set_text(k, "ssl.key.location", c->tls_key_file);
        /* librdkafka 2.0 does not ask by itself whether a certificate is the broker's. */
        kafka_conf_set(k, "ssl.endpoint.identification.algorithm", "%s",
                       c->tls_skip_verify ? "none" : "https");
        kafka_conf_set(k, "enable.ssl.certificate.verification", "%s", c->tls_skip_verify ? "false" : "true");
    }
}

struct kafka_conf kafka_conf_begin(const struct kafka_connection *c, struct error *e)
{
    struct kafka_conf k = {.e = e, .r = library_load(&library_rdkafka, e)};
    if (k.r == 0 && !(k.conf = rd_kafka_conf_new()))
        k.r = error_set(e, -ENOMEM, "out of memory");
    if (k.r < 0)
        return k;
    rd_kafka_conf_set_log_cb(k.conf, NULL);
    set_all(&k, c);
    return k;
}

int kafka_conf_end(struct kafka_conf *k)
{
    if (k->r < 0 && k->conf)
        rd_kafka_conf_destroy(take_ptr(k->conf));
    return k->r;
}
