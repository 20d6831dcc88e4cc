/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/kafka/settings.h"

#include <errno.h>
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
