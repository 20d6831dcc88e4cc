/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The connector's configuration as a value. What it counts, and what is said about a wrong one, is tried with
 * the program (tests/e2e/test_connector_model.py).
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "gateway/connector/config.h"
#include "tests/lib/unit.h"

static const struct connector_metric *metric(const struct connector_config *c, const char *name)
{
    for (uint32_t i = 0; i < CONNECTOR_METRICS; i++)
        if (strcmp(c->metrics[i].name, name) == 0)
            return &c->metrics[i];
    ck_abort_msg("no metric %s", name);
    return NULL;
}

UNIT(a_section_is_found_wherever_it_stands)
{
    static const char *const texts[] = {
        "flush_interval: 5s\naggregations: [{ match: a$$b, label: c }]",
        "profilingmetrics: { flush_interval: 5s, aggregations: [{ label: c, match: a$$b }] }",
        "connectors: { profilingmetrics: { aggregations: [{ match: a$$b, label: c }], flush_interval: 5s } }\nservice: 1",
    };
    for (size_t i = 0; i < 3; i++) {
        cleanup(connector_config_release) struct connector_config c;
        struct error e = {""};
        ck_assert_msg(connector_config_read(&c, "c.yaml", bytes_str(texts[i]), NULL, &e) == 0, "%s", e.text);
        ck_assert_str_eq(c.flush_interval, "5s");
        ck_assert_uint_eq(c.n_aggregations, 1);
        ck_assert_str_eq(c.aggregations[0].match, "a$b");
        ck_assert_str_eq(c.aggregations[0].label, "c");
        ck_assert_uint_eq(c.aggregations[0].match_at.line, i == 0 ? 2 : 1);
    }
}

UNIT(switches_and_what_nobody_said)
{
    cleanup(connector_config_release) struct connector_config c;
    struct error e = {""};
    struct bytes text =
        BYTES_LIT("metrics:\n"
                  "  samples.go.count: { enabled: false }\n"
                  "  samples.frame_type: { enabled: true, aggregation_strategy: sum, attributes: [] }\n");
    ck_assert_msg(connector_config_read(&c, "c.yaml", text, NULL, &e) == 0, "%s", e.text);
    ck_assert(!metric(&c, "samples.go.count")->enabled && metric(&c, "samples.go.count")->enabled_at_first);
    ck_assert(metric(&c, "samples.frame_type")->enabled &&
              !metric(&c, "samples.frame_type")->enabled_at_first);
    ck_assert_int_eq(metric(&c, "samples.frame_type")->strategy, CONNECTOR_SUM);
    ck_assert_uint_eq(metric(&c, "samples.frame_type")->attributes, 0);
    ck_assert(!metric(&c, "samples.classification")->enabled && metric(&c, "samples.user.count")->enabled);
    ck_assert_ptr_null(c.flush_interval);
}

UNIT(durations_are_those_of_go)
{
    static const char *const good[] = {"0", "0s", "30s", "1h2m3s", "1.5h", ".5s", "100ms", "7us", "7µs"};
    static const char *const bad[] = {"30", "s", "1x", "-1s", "1s ", "1..5s", "."};
    for (size_t i = 0; i < sizeof good / sizeof *good + sizeof bad / sizeof *bad; i++) {
        size_t n = sizeof good / sizeof *good;
        cleanup(connector_config_release) struct connector_config c;
        struct error e = {""};
        char text[64];
        snprintf(text, sizeof text, "flush_interval: '%s'", i < n ? good[i] : bad[i - n]);
        int r = connector_config_read(&c, "c.yaml", bytes_str(text), NULL, &e);
        ck_assert_msg(r == (i < n ? 0 : -EINVAL), "%s: %s", text, e.text);
    }
}
