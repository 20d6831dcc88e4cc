/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/export proto/otlp/view */
#include "gateway/config/config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/export/kinds.h"
#include "gateway/export/otlp/exporter.h"
#include "proto/base/macros.h"
#include "proto/otlp/view/profiles.h"
#include "tests/lib/unit.h"

static struct config *new_config(void)
{
    struct config *c = unit_made(config_new(export_kinds));
    return c;
}

static int parse(struct config *c, const char *yaml, struct error *e)
{
    e->text[0] = 0;
    int r = config_parse(c, "t.yaml", bytes_str(yaml), e);
    return r < 0 ? r : config_check(c, e);
}

static const struct otlp_settings *otlp_settings(const struct config *c, const char *name)
{
    const struct config_exporter *x = config_exporter(c, name);
    ck_assert(x && x->kind == &exporter_otlp.config);
    return x->settings;
}

static void expect_error(const char *yaml, const char *text)
{
    struct config *c = new_config();
    struct error e;
    ck_assert_int_lt(parse(c, yaml, &e), 0);
    ck_assert_msg(strstr(e.text, text) != NULL, "\"%s\" does not contain \"%s\"", e.text, text);
    config_free(c);
}

UNIT(defaults_are_the_documented_ones)
{
    struct config *c = new_config();
    ck_assert_uint_eq(c->n_receivers, 2);
    ck_assert_str_eq(c->receivers[0].endpoint, "localhost:4317");
    ck_assert_str_eq(c->admin_endpoint, "localhost:9464");
    ck_assert_uint_eq(c->flush_interval_ns, 30000000000u);
    ck_assert_uint_eq(c->request_bytes, 64u << 20);
    ck_assert_uint_eq(c->temporality, CONFIG_DELTA);
    ck_assert_double_eq(c->keep, 1.0);
    ck_assert_str_eq(c->metrics_exporters.items[0], "prometheus");
    struct error e = {""};
    ck_assert_int_eq(config_check(c, &e), 0);
    config_free(c);
}

UNIT(a_whole_file_is_read)
{
    struct config *c = new_config();
    struct error e;
    setenv("PG_TEST_TOKEN", "s3cret", 1);
    int r = parse(
        c,
        "receivers:\n  otlp: [{ endpoint: 0.0.0.0:14317 }]\n"
        "rules: { builtin: [connector], files: [/etc/a.rules, /etc/b.rules] }\n"
        "metrics: { flush_interval: 5s, temporality: cumulative, exporters: [prometheus, otlp/m] }\n"
        "profiles: { keep: 1%, exporters: otlp/p }\n"
        "exporters:\n"
        "  otlp/m: { endpoint: http://c:4317, headers: { Authorization: \"Bearer ${env:PG_TEST_TOKEN}\" } }\n"
        "  otlp/p: { endpoint: https://c:4318, protocol: http, tls: { ca_file: /ca.pem },\n"
        "            retry_on_failure: { initial_interval: 100ms }, sending_queue: { queue_bytes: 1MiB } }\n",
        &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_uint_eq(c->n_receivers, 1);
    ck_assert_str_eq(c->receivers[0].endpoint, "0.0.0.0:14317");
    ck_assert_uint_eq(c->rules_files.n, 2);
    ck_assert_double_eq_tol(c->keep, 0.01, 1e-12);
    ck_assert_uint_eq(c->temporality, CONFIG_CUMULATIVE);
    const struct otlp_settings *m = otlp_settings(c, "otlp/m"), *p = otlp_settings(c, "otlp/p");
    ck_assert_str_eq(m->sending.headers.items[0].value, "Bearer s3cret");
    ck_assert_uint_eq(m->compression, CLIENT_COMPRESS_AS_RECEIVED);
    ck_assert_uint_eq(m->wire_version, OTLP_LAYOUT_1_10);
    ck_assert_uint_eq(p->protocol, OTLP_HTTP);
    ck_assert_str_eq(p->sending.tls_ca_file, "/ca.pem");
    ck_assert_uint_eq(p->sending.retry_initial_ns, 100000000u);
    ck_assert_uint_eq(p->sending.queue_bytes, 1u << 20);
    config_free(c);
}

UNIT(an_address_has_keys_of_its_own)
{
    struct config *c = new_config();
    struct error e;
    int r = parse(
        c,
        "receivers:\n  otlp:\n"
        "    - { endpoint: \":4317\", wire_version: 1.8,\n"
        "        tls: { cert_file: c.pem, key_file: k.pem, client_ca_file: ca.pem, min_version: 1.3 },\n"
        "        auth: { bearer_tokens_file: t, identities: [spiffe://a/*, b] } }\n"
        "    - { endpoint: unix:/run/profgate.sock, profiles_url_path: [/v1/profiles, /p] }\n"
        "limits: { per_client: { bytes_per_second: 1MiB, connections: 7 } }\n"
        "tenants: { header: X-Scope-OrgID, required: true }\n",
        &e);
    ck_assert_msg(r == 0, "%s", e.text);
    const struct config_receiver *first = &c->receivers[0], *second = &c->receivers[1];
    ck_assert_uint_eq(c->n_receivers, 2);
    ck_assert_uint_eq(first->wire_version, PROFILES_LAYOUT_1_8);
    ck_assert_str_eq(first->door.tls_client_ca_file, "ca.pem");
    ck_assert_uint_eq(first->door.tls_min_version, CONFIG_TLS_1_3);
    ck_assert_str_eq(first->door.auth_bearer_tokens_file, "t");
    ck_assert_uint_eq(first->door.auth_identities.n, 2);
    ck_assert_str_eq(second->endpoint, "unix:/run/profgate.sock");
    ck_assert_uint_eq(second->wire_version, PROFILES_LAYOUT_UNKNOWN);
    ck_assert_uint_eq(first->profiles_url_path.n, 0);
    ck_assert_uint_eq(second->profiles_url_path.n, 2);
    ck_assert_str_eq(second->profiles_url_path.items[1], "/p");
    ck_assert_ptr_null(second->door.tls_cert_file);
    ck_assert_uint_eq(c->per_client.bytes_per_second, 1u << 20);
    ck_assert_uint_eq(c->per_client.connections, 7);
    ck_assert_uint_eq(c->per_tenant.requests, 0);
    ck_assert_str_eq(c->tenant_header, "X-Scope-OrgID");
    config_free(c);
}

UNIT(keys_of_addresses_that_do_not_fit_together_are_named)
{
    expect_error("receivers: { otlp: [{ endpoint: \"a:1\", tls: { cert_file: c } }] }",
                 "receivers.otlp a:1: tls.cert_file and tls.key_file go together");
    expect_error("receivers: { otlp: [{ endpoint: \"a:1\", tls: { client_ca_file: c } }] }",
                 "means nothing without tls.cert_file");
    expect_error("receivers: { otlp: [{ endpoint: \"a:1\", auth: { identities: x } }] }",
                 "tls.client_ca_file must say");
    expect_error("receivers: { otlp: [{ endpoint: \"a:1\", wire_version: 1.6 }] }",
                 "receivers.otlp.wire_version: \"1.6\" is not one of auto|1.5");
    expect_error("receivers: { otlp: [{ endpoint: \"a:1\", profiles_url_path: [/p, v1/profiles] }] }",
                 "receivers.otlp a:1: profiles_url_path: v1/profiles is no path");
    expect_error("limits: { per_tenant: { requests: 3 } }", "limits.per_tenant means nothing without");
    expect_error("tenants: { required: true }", "tenants.required means nothing without");
}

UNIT(targets_to_scrape_have_their_keys)
{
    struct config *c = new_config();
    struct error e;
    int r = parse(
        c,
        "receivers:\n  pprof_scrape:\n"
        "    - { targets: [a:1, b:2], scheme: https, labels: { region: eu }, tls: { ca_file: ca.pem } }\n"
        "    - { job_name: x, targets: [c:3], profiles: [heap, /p?q=1], scrape_interval: 10s,\n"
        "        scrape_timeout: 5s, basic_auth: { username: u, password_file: p } }\n",
        &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert(c->n_scrapes == 2 && c->n_receivers == 2);
    const struct config_scrape *first = &c->scrapes[0], *second = &c->scrapes[1];
    ck_assert(first->targets.n == 2 && first->scheme == CONFIG_HTTPS && first->profiles.n == 5);
    ck_assert(first->interval_ns == 60000000000 && first->seconds == 10 && first->labels.n == 1);
    ck_assert(second->profiles.n == 2 && second->timeout_ns == 5000000000);
    ck_assert_str_eq(second->path_prefix, "/debug/pprof");
    config_free(c);
    c = new_config();
    r = parse(c,
              "receivers: { pprof_scrape: [{ targets: a, profiles: heap }, { targets: a, profiles: mutex },\n"
              "  { job_name: other, targets: a, profiles: heap }] }\n",
              &e);
    ck_assert_msg(r == 0, "%s", e.text);
    config_free(c);
    expect_error("receivers: { pprof_scrape: { targets: a } }", "a list of 1 to 64");
    expect_error("receivers: { pprof_scrape: [{ targets: a, tenant: t }] }", "tenant means nothing");
    expect_error("receivers: { pprof_scrape: [{ targets: a }] }\ntenants: { header: x, required: true }",
                 "tenant is missing");
    expect_error("receivers: { pprof_scrape: [{ scheme: http }] }", "targets are missing");
    expect_error("receivers: { pprof: [] }", "the receivers are otlp, pprof_scrape and kafka");
    expect_error("receivers: { pprof_scrape: [{ targets: a, scrape_timeout: 2m }] }",
                 "longer than scrape_interval");
    expect_error("receivers: { pprof_scrape: [{ targets: a, profile_seconds: 30 }] }", "never comes within");
    expect_error("receivers: { pprof_scrape: [{ targets: a, basic_auth: { username: u } }] }",
                 "basic_auth is");
    expect_error("receivers: { pprof_scrape: [{ targets: a, tls: { ca_file: c } }] }",
                 "without scheme: https");
    expect_error(
        "receivers: { pprof_scrape: [{ targets: [\"http://app:6060/debug/pprof\"] }] }",
        "the target \"http://app:6060/debug/pprof\" is host:port, not a URL: write app:6060 (and scheme, path_prefix)");
    expect_error("receivers: { pprof_scrape: [{ targets: a, scheme: ftp }] }", "is not one of http|https");
    expect_error("receivers: { pprof_scrape: [{ targets: [a, b, a], profiles: heap }] }",
                 "a is asked for heap twice");
    expect_error("receivers: { pprof_scrape: [{ targets: a, profiles: [heap, mutex, heap] }] }",
                 "a is asked for heap twice");
    expect_error("receivers: { pprof_scrape: [{ targets: [b, a], profiles: [heap, mutex] }, { targets: a, "
                 "profiles: mutex }] }",
                 "a is asked for mutex twice");
}

UNIT(errors_name_the_place_and_what_may_stand_there)
{
    expect_error("metrics: { flush_interval: soon }",
                 "t.yaml:1:28: metrics.flush_interval: \"soon\" is not a duration");
    expect_error("metrics:\n  temporality: sum\n",
                 "t.yaml:2:16: metrics.temporality: \"sum\" is not one of delta|cumulative");
    expect_error("metrics:\n  intervall: 3s\n",
                 "t.yaml:2:3: metrics.intervall: unknown key; known here: flush_interval");
    expect_error("metric: {}",
                 "t.yaml:1:1: metric: unknown section; did you mean metrics? There are receivers");
    expect_error("metrics: { temporality: Delta }", "is not one of delta|cumulative; did you mean delta?");
    expect_error("receivers: { otlp: { endpoint: a } }",
                 "t.yaml:1:20: receivers.otlp: a list belongs here, not a map: [{ endpoint: host:port }]");
    expect_error("receivers: { otlp: [{ endpoint: \"\" }] }", "t.yaml:1:21: receivers.otlp: ");
    expect_error("admin: {}\nlimits: {}\nadmin: {}", "t.yaml:3:1: admin: this key stands in line 1 already");
    expect_error("exporters: { otlp/backend: { endpoint: e } }\nprofiles: { exporters: [otlp/bakend] }",
                 "is not among exporters; did you mean otlp/backend?");
    expect_error("limits: { request_bytes: 1 }", "1 is out of range: 1KiB to 1GiB");
    expect_error("a: [", "t.yaml:2:1: ");
    expect_error("profiles: { exporters: [otlp/x] }",
                 "profiles.exporters names otlp/x, which is not among exporters");
    expect_error("exporters: { otlp: {} }", "exporters.otlp has no endpoint");
    expect_error("exporters: { rabbit/x: {} }", "rabbit/x");
    expect_error("exporters: { otlpx: {} }",
                 "an exporter is called otlp, file, kafka or prometheusremotewrite");
    expect_error(
        "exporters: { prometheusremotewrite/f: { endpoint: p } }\nprofiles: { exporters: [prometheusremotewrite/f] }",
        "names prometheusremotewrite/f, which takes metrics only");
    expect_error("exporters: { prometheusremotewrite: { endpoint: e, protobuf_message: 3 } }",
                 "3 is out of range: 1 to 2");
    expect_error("admin: { endpoint: \"${env:PG_SURELY_NOT_SET}\" }", "no variable PG_SURELY_NOT_SET");
    expect_error("limits: { request_bytes: 512MiB }", "at most half of limits.memory");
}

UNIT(what_is_shown_reads_back_the_same)
{
    struct config *a = new_config(), *b = new_config();
    struct error e;
    struct buffer first = {0}, second = {0};
    ck_assert_int_eq(
        parse(
            a,
            "receivers: { otlp: [{ endpoint: \"a:1\", tls: { cert_file: c, key_file: k } }, { endpoint: \"b:2\" }] }\n"
            "profiles: { keep: 12.5%, exporters: [otlp] }\n"
            "exporters: { prometheusremotewrite/m: { endpoint: http://m/api/v1/write, protobuf_message: 2 },\n"
            "             otlp: { endpoint: \"h:1\", encoding: json, headers: { k: v },\n"
            "                     tls: { ca_file: 'v \"q\" $$x' } }, file/a: { path: /x } }",
            &e),
        0);
    ck_assert_str_eq(otlp_settings(a, "otlp")->sending.tls_ca_file, "v \"q\" $x");
    ck_assert_int_eq(config_show(a, &first), 0);
    int r = config_parse(b, "printed", buffer_bytes(&first), &e);
    ck_assert_msg(r == 0, "%s\n%.*s", e.text, (int)first.n, (char *)first.p);
    ck_assert_str_eq(otlp_settings(b, "otlp")->sending.tls_ca_file, "v \"q\" $x");
    ck_assert_int_eq(config_show(b, &second), 0);
    ck_assert(bytes_eq(buffer_bytes(&first), buffer_bytes(&second)));
    buffer_release(&first);
    buffer_release(&second);
    config_free(a);
    config_free(b);
}

/* What a choice is by its place in the list is an enum's value elsewhere. */
UNIT(secrets_are_masked_where_it_is_shown)
{
    struct config *c = new_config();
    struct error e;
    struct buffer out = BUFFER_INIT(0);
    const char *yaml = "exporters: { otlp/x: { endpoint: e, headers: { Authorization: Bearer s3cret } } }";
    ck_assert_int_eq(parse(c, yaml, &e), 0);
    ck_assert_int_eq(config_show(c, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "headers: {\"Authorization\": \"[REDACTED]\"}"));
    ck_assert_ptr_null(strstr((char *)out.p, "s3cret"));
    buffer_release(&out);
    config_free(c);
}

UNIT(topics_to_read_have_their_keys)
{
    struct config *c = new_config();
    struct error e;
    struct buffer out = BUFFER_INIT(0);
    ck_assert(!c->has_kafka);
    ck_assert_int_eq(parse(c,
                           "receivers: { kafka: { profiles: { topics: [a, b], encoding: otlp_json },\n"
                           "  auth: { sasl: { mechanism: PLAIN, username: u, password: s3cret } } } }",
                           &e),
                     0);
    ck_assert(c->has_kafka);
    ck_assert_str_eq(c->kafka.connection.brokers.items[0], "localhost:9092");
    ck_assert_uint_eq(c->kafka.topics.n, 2);
    ck_assert_int_eq(c->kafka.encoding, KAFKA_OTLP_JSON);
    ck_assert_str_eq(c->kafka.group_id, "profgate");
    ck_assert_int_eq(config_set(c, "receivers.kafka.group_id", "g", &e), 0);
    ck_assert_int_eq(config_show(c, &out) | buffer_add(&out, "", 1), 0);
    ck_assert_ptr_nonnull(strstr((char *)out.p, "  kafka:\n    brokers: [\"localhost:9092\"]\n"));
    ck_assert_ptr_nonnull(strstr((char *)out.p, "sasl.password: \"[REDACTED]\""));
    ck_assert_ptr_nonnull(strstr((char *)out.p, "group_id: \"g\""));
    ck_assert_ptr_null(strstr((char *)out.p, "s3cret"));
    buffer_release(&out);
    config_free(c);
    expect_error("receivers: { kafka: { brokers: [] } }", "receivers.kafka: brokers are missing");
    expect_error("receivers: { kafka: { profiles: { topics: [] } } }",
                 "receivers.kafka: profiles.topics are missing");
    expect_error("receivers: { kafka: { session_timeout: 3s } }",
                 "heartbeat_interval is not shorter than session_timeout");
    expect_error("receivers: { kafka: { topic: x } }", "receivers.kafka.topic: unknown key");
    expect_error("receivers: { kafkas: {} }",
                 "the receivers are otlp, pprof_scrape and kafka in this version");
}

UNIT(choices_are_numbers_of_those_who_use_them)
{
    static const struct {
        const char *name;
        enum prometheus_strategy strategy;
    } rows[] = {
        {"UnderscoreEscapingWithSuffixes", PROMETHEUS_UNDERSCORES_WITH_SUFFIXES},
        {"UnderscoreEscapingWithoutSuffixes", PROMETHEUS_UNDERSCORES_WITHOUT_SUFFIXES},
        {"NoUTF8EscapingWithSuffixes", PROMETHEUS_UTF8_WITH_SUFFIXES},
        {"NoTranslation", PROMETHEUS_NO_TRANSLATION},
    };
    struct config *c = new_config();
    struct error e;
    for (size_t i = 0; i < ARRAY_LEN(rows); i++) {
        ck_assert_int_eq(config_set(c, "metrics.translation_strategy", rows[i].name, &e), 0);
        ck_assert_uint_eq(c->translation_strategy, rows[i].strategy);
    }
    for (unsigned layout = PROFILES_LAYOUT_1_5; layout <= PROFILES_LAYOUT_1_10; layout++) {
        ck_assert_int_eq(config_set(c, "receivers.otlp.wire_version", profiles_layout_name(layout), &e), 0);
        ck_assert_uint_eq(c->receivers[1].wire_version, layout);
    }
    ck_assert_int_eq(config_set(c, "service.log_level", "warn", &e), 0);
    ck_assert_uint_eq(c->log_level, LOG_LEVEL_WARN);
    config_free(c);
}

UNIT(a_single_key_can_be_set)
{
    struct config *c = new_config();
    struct error e;
    ck_assert_int_eq(config_set(c, "metrics.flush_interval", "250ms", &e), 0);
    ck_assert_uint_eq(c->flush_interval_ns, 250000000u);
    static const char *const missed[][2] = {
        {"metrics.nothing", "there is no key \"metrics.nothing\" (profgate serve --help-config"},
        {"limits.memroy", "there is no key \"limits.memroy\"; did you mean limits.memory?"},
        {"limit.request_bytes",
         "there is no key \"limit.request_bytes\"; did you mean limits.request_bytes?"},
        {"flush_interval", "there is no key \"flush_interval\"; did you mean metrics.flush_interval?"},
        {"look.memory ", "there is no key \"look.memory \"; did you mean look.memory?"},
        {"", "there is no key \"\" (profgate serve --help-config"}};
    for (size_t i = 0; i < ARRAY_LEN(missed); i++) {
        ck_assert_int_eq(config_set(c, missed[i][0], "1", &e), -EINVAL);
        ck_assert_msg(strncmp(e.text, missed[i][1], strlen(missed[i][1])) == 0, "%s", e.text);
    }
    ck_assert_int_eq(config_set(c, "rules.builtin", "connector, cpu", &e), 0);
    ck_assert_uint_eq(c->rules_builtin.n, 2);
    ck_assert_int_eq(config_set(c, "receivers.otlp.tls.cert_file", "c.pem", &e), 0);
    ck_assert_str_eq(c->receivers[1].door.tls_cert_file, "c.pem");
    ck_assert_int_eq(config_set(c, "receivers.otlp.endpoint", "a:1", &e), -EINVAL);
    config_free(c);
}

static void note(void *user, const char *key)
{
    strcat(user, key);
    strcat(user, " ");
}

UNIT(what_a_reload_cannot_change_is_named)
{
    struct config *a = new_config(), *b = new_config();
    struct error e;
    char keys[400] = "";
    ck_assert_int_eq(config_restart_keys(a, b, note, keys), 0);
    ck_assert_str_eq(keys, "");
    ck_assert_int_eq(parse(b,
                           "receivers: { otlp: [{ endpoint: \"a:1\" }] }\nrules: { files: [/x.rules] }\n"
                           "limits: { memory: 1GiB }\nprofiles: { keep: 1% }\n"
                           "exporters: { file: { path: /x } }\n",
                           &e),
                     0);
    ck_assert_int_eq(config_restart_keys(a, b, note, keys), 0);
    ck_assert_str_eq(keys, "receivers limits.memory exporters ");
    config_free(a);
    config_free(b);
}

UNIT(every_key_is_in_the_reference)
{
    struct config *c = new_config();
    struct buffer out = {0};
    ck_assert_int_eq(config_reference(c, &out), 0);
    ck_assert_ptr_nonnull(memmem(out.p, out.n, "sending_queue.queue_bytes", 25));
    ck_assert_ptr_nonnull(memmem(out.p, out.n, "flush_interval", 14));
    buffer_release(&out);
    config_free(c);
}
