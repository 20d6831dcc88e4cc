/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/kafka/settings.h"

#include <errno.h>
#include <regex.h>
#include <stdio.h>
#include <string.h>

const struct settings_word kafka_tls_words[] = {{"auto", KAFKA_TLS_AUTO},
                                                {"true", KAFKA_TLS_OFF},
                                                {"false", KAFKA_TLS_ON},
                                                {NULL}},
                           kafka_sasl_words[] = {{"none", KAFKA_SASL_NONE},
                                                 {"PLAIN", KAFKA_SASL_PLAIN},
                                                 {"SCRAM-SHA-256", KAFKA_SASL_SCRAM_SHA_256},
                                                 {"SCRAM-SHA-512", KAFKA_SASL_SCRAM_SHA_512},
                                                 {NULL}},
                           kafka_encodings[] = {
                               {"otlp_proto", KAFKA_OTLP_PROTO}, {"otlp_json", KAFKA_OTLP_JSON}, {NULL}};

/* librdkafka takes one list with commas, and a scheme in front of a host: each is to be what it looks like.
 */
static int check_broker(const char *broker, struct error *e)
{
    const char *colon = strrchr(broker, ':');
    unsigned port;
    char behind;
    if (strpbrk(broker, ", \t/") || !colon || colon == broker ||
        sscanf(colon + 1, "%u%c", &port, &behind) != 1 || port < 1 || port > 65535)
        return error_set(e, -EINVAL, "brokers: \"%s\" is not host:port", broker);
    return 0;
}

int kafka_check(const struct kafka_connection *c, struct error *e)
{
    if (c->brokers.n == 0)
        return error_set(e, -EINVAL, "brokers are missing");
    for (uint32_t i = 0; i < c->brokers.n; i++) {
        int r = check_broker(c->brokers.items[i], e);
        if (r < 0)
            return r;
    }
    if (c->sasl != KAFKA_SASL_NONE && (!c->username || !c->password))
        return error_set(e, -EINVAL, "auth.sasl needs a username and a password");
    if (c->sasl == KAFKA_SASL_NONE && (c->username || c->password))
        return error_set(e, -EINVAL, "auth.sasl needs a mechanism");
    if ((c->tls_cert_file == NULL) != (c->tls_key_file == NULL))
        return error_set(e, -EINVAL, "tls.cert_file and tls.key_file go together");
    if (c->tls == KAFKA_TLS_OFF && (c->tls_ca_file || c->tls_cert_file || c->tls_skip_verify))
        return error_set(e, -EINVAL, "tls.insecure: true leaves nothing to the other keys of tls");
    return 0;
}

#define NAME_MAX_BYTES 249u

static const char name_letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

int kafka_check_name(const char *key, const char *name, struct error *e)
{
    char proposal[NAME_MAX_BYTES + 1];
    const size_t n = name ? strlen(name) : 0;
    if (n == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return error_set(e, -EINVAL, "%s: \"%s\" is no name", key, n > 0 ? name : "");
    if (n > NAME_MAX_BYTES)
        return error_set(e, -EINVAL, "%s: %.32s… is longer than %u letters", key, name, NAME_MAX_BYTES);
    if (strspn(name, name_letters) == n)
        return 0;
    memcpy(proposal, name, n + 1);
    for (size_t i = 0; i < n; i++)
        if (!strchr(name_letters, proposal[i]))
            proposal[i] = '_';
    return error_set(
        e, -EINVAL,
        "%s: \"%s\" has what Kafka has in no name (letters, digits, \".\", \"_\" and \"-\"); did you "
        "mean %s?",
        key, name, proposal);
}

static int check_pattern(const char *key, const char *pattern, struct error *e)
{
    regex_t regex;
    char why[128];
    int r = regcomp(&regex, pattern, REG_EXTENDED | REG_NOSUB);
    if (r == 0) {
        regfree(&regex);
        return 0;
    }
    regerror(r, &regex, why, sizeof why);
    return error_set(e, -EINVAL, "%s: \"%s\" is no regular expression: %s", key, pattern, why);
}

static int check_topic(const char *key, const char *topic, struct error *e)
{
    if (topic[0] == '^')
        return check_pattern(key, topic, e);
    if (strpbrk(topic, "*+?()[]|\\"))
        return error_set(e, -EINVAL, "%s: \"%s\" is no name; did you mean the regular expression ^%s$?", key,
                         topic, topic);
    return kafka_check_name(key, topic, e);
}

int kafka_check_topic(const char *key, const struct settings_strings *topics, uint32_t i, struct error *e)
{
    int r = check_topic(key, topics->items[i], e);
    for (uint32_t n = 0; n < i && r == 0; n++)
        if (strcmp(topics->items[i], topics->items[n]) == 0)
            r = error_set(e, -EINVAL, "%s: %s is there twice", key, topics->items[i]);
    return r;
}
