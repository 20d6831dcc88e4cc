/* SPDX-License-Identifier: Apache-2.0 */
/* needs: dep_rdkafka */
#include <check.h>

#include "proto/base/error.h"
#include "proto/kafka/connection.h"
#include "tests/lib/unit.h"

/* As librdkafka 2.0.2 has them, of brokers of any version. */
UNIT(its_guesses_of_old_brokers_are_not_passed_on)
{
    static const struct {
        const char *theirs, *ours;
    } cases[] = {
        {"kafka1:9093/bootstrap: ApiVersionRequest failed: Local: Timed out: probably due to broker version < 0.10 "
         "(see api.version.request configuration) (after 10001ms in state APIVERSION_QUERY)",
         "kafka1:9093/bootstrap: ApiVersionRequest failed: Local: Timed out: the broker takes connections and does "
         "not answer: it hangs, or its listener speaks another protocol"},
        {"kafka1:9093/1: Disconnected while requesting ApiVersion: might be caused by incorrect security.protocol "
         "configuration (connecting to a SSL listener?) or broker version is < 0.10 (see api.version.request) (after "
         "3ms in state APIVERSION_QUERY)",
         "kafka1:9093/1: the connection ended with the first request: the broker stops, or its listener speaks TLS, "
         "or we do (tls.insecure)"},
        {"kafka1:9093/1: Connect to ipv4#10.0.0.1:9093 failed: Connection refused (after 0ms in state CONNECT)",
         "kafka1:9093/1: Connect to ipv4#10.0.0.1:9093 failed: Connection refused (after 0ms in state CONNECT)"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct error e;
        kafka_words(cases[i].theirs, &e);
        ck_assert_str_eq(e.text, cases[i].ours);
    }
}
