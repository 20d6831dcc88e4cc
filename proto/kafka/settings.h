/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How a Kafka cluster is reached: the configuration rows that whoever writes to one and whoever reads from
 * one have in common, with the Collector's names.
 */
#ifndef PROTO_KAFKA_SETTINGS_H
#define PROTO_KAFKA_SETTINGS_H

#include "proto/base/error.h"
#include "proto/base/settings/settings.h"

struct kafka_connection {
    struct settings_strings brokers;
    const char *client_id;
    uint64_t metadata_ns;
    enum { KAFKA_TLS_AUTO, KAFKA_TLS_OFF, KAFKA_TLS_ON } tls;
    bool tls_skip_verify;
    const char *tls_ca_file, *tls_cert_file, *tls_key_file;
    enum { KAFKA_SASL_NONE, KAFKA_SASL_PLAIN, KAFKA_SASL_SCRAM_SHA_256, KAFKA_SASL_SCRAM_SHA_512 } sasl;
    const char *username, *password;
};

extern const struct settings_word kafka_tls_words[], kafka_sasl_words[], kafka_encodings[];

/* What messages are: one OTLP request each. */
enum kafka_encoding { KAFKA_OTLP_PROTO, KAFKA_OTLP_JSON };

/* Rows; `at(field)` is the field's offset in the settings. */
/* clang-format off */
#define KAFKA_CONNECTION_ROWS(at, default_brokers)                                                                            \
    {"brokers", SETTINGS_STRINGS, at(brokers), default_brokers, 0, 0, NULL, "host:port of some of them; these tell of the others"}, \
    {"client_id", SETTINGS_TEXT, at(client_id), "profgate", 0, 0, NULL, "what brokers call us in their logs and quotas"},        \
    {"metadata.refresh_interval", SETTINGS_DURATION, at(metadata_ns), "10m", 1000000000, 3600000000000, NULL,                    \
     "how often brokers are asked who leads which partition, beside when one says that it does not"},                          \
    {"auth.sasl.mechanism", SETTINGS_CHOICE, at(sasl), "none", 0, 0, kafka_sasl_words, "how a name and a password are told"},    \
    {"auth.sasl.username", SETTINGS_TEXT, at(username), "", 0, 0, NULL, "who we are"},                                          \
    {"auth.sasl.password", SETTINGS_TEXT, at(password), "", 0, 0, NULL, "and the password", .secret = true},                    \
    {"tls.insecure", SETTINGS_CHOICE, at(tls), "auto", 0, 0, kafka_tls_words,                                                   \
     "false speaks TLS, true does not; auto does where another key of tls says something"},                                    \
    {"tls.insecure_skip_verify", SETTINGS_BOOL, at(tls_skip_verify), "false", 0, 0, NULL, "take any broker's certificate"},      \
    {"tls.ca_file", SETTINGS_TEXT, at(tls_ca_file), "", 0, 0, NULL, "PEM; default is the system's store"},                      \
    {"tls.cert_file", SETTINGS_TEXT, at(tls_cert_file), "", 0, 0, NULL, "PEM client certificate for mTLS"},                     \
    {"tls.key_file", SETTINGS_TEXT, at(tls_key_file), "", 0, 0, NULL, "PEM key of it"}
/* clang-format on */

/* What only all keys together can tell: 0, or -EINVAL with *e. */
int kafka_check(const struct kafka_connection *c, struct error *e);

/* Whether brokers take such a name, of a topic or of a member (Kafka's Topic.validate); NULL is none. Without
 * one *e begins with `key`. 0 or -EINVAL. */
int kafka_check_name(const char *key, const char *name, struct error *e);

/* The same of the i-th of topics that are read, each once: names, and behind ^ regular expressions as
 * librdkafka has them (regex(7)). */
int kafka_check_topic(const char *key, const struct settings_strings *topics, uint32_t i, struct error *e);

#endif
