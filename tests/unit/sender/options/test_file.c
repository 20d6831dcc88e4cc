/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "sender/options/options.h"

static char path[UNIT_PATH_MAX];

static char *getvar(const char *name)
{
    return strcmp(name, "TOKEN") == 0                        ? (char *)(uintptr_t) "s3cret"
           : strcmp(name, "OTEL_EXPORTER_OTLP_TIMEOUT") == 0 ? (char *)(uintptr_t) "2000"
                                                             : NULL;
}

/* Options by a file of this text, and maybe a flag behind it. */
static int read_text(struct options *o, const char *text, const char *flag, struct error *e)
{
    char program[] = "profsend", config[] = "--config", copy[128];
    int fd = unit_new_file(path, "");
    ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
    snprintf(copy, sizeof copy, "%s", flag ? flag : "");
    char *argv[] = {program, config, path, copy, NULL};
    return options_read(o, flag ? 4 : 3, argv, getvar, e);
}

UNIT(a_file_says_what_flags_say)
{
    cleanup(options_release) struct options o;
    struct error e = {0};
    int r = read_text(&o,
                      "endpoint: https://gateway:4317\n"
                      "header: { authorization: \"Bearer ${env:TOKEN}\", x-tenant: blue }\n"
                      "frequency: 97\n"
                      "timeout: 1s\n"
                      "off_cpu: { min: 5ms, share: 25% }\n"
                      "include: [ pid=3, executable=java ]\n"
                      "block-io: true\n"
                      "idle: false\n"
                      "spool: /var/lib/profsend\n",
                      "--frequency=50", &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert_str_eq(o.endpoint, "https://gateway:4317");
    ck_assert_uint_eq(o.n_headers, 2);
    ck_assert_str_eq(o.header[0].value, "Bearer s3cret");
    ck_assert_uint_eq(o.frequency, 50);           /* a flag goes before the file */
    ck_assert_uint_eq(o.timeout_ns, 2000000000u); /* and a variable, too */
    ck_assert(o.wait && o.block && !o.idle && o.wait_min_ns == 5000000 && o.wait_share == 0.25);
    ck_assert_uint_eq(o.n_rules, 2);
    ck_assert_str_eq(o.spool, "/var/lib/profsend");
}

UNIT(rules_are_written_as_prometheus_has_them)
{
    struct options o;
    struct error e = {0};
    int r = read_text(&o,
                      "command_line: true\n"
                      "env: [STAGE, REGION]\n"
                      "relabel:\n"
                      "  - { source_labels: [service.name], regex: \"test-.*\", action: drop }\n"
                      "  - source_labels: [k8s.namespace.name, k8s.pod.name]\n"
                      "    separator: /\n"
                      "    target_label: pod\n"
                      "    replacement: $1\n",
                      "--relabel={target_label: x, replacement: y}", &e);
    ck_assert_msg(r == 0, "%s", e.text);
    ck_assert(o.command_line && o.variables.n == 2 && o.relabel);
    options_release(&o);
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"relabel: [ { action: drop } ]\n", ":1: relabel: drop needs source_labels"},
        {"relabel:\n  - { source_labels: [a], action: drop, regx: b }\n", ":2: relabel.regx: unknown key"},
        {"relabel: [ drop ]\n", ":1: relabel: a rule is a map"},
        {"relabel: drop\n", ":1: relabel: a rule is a map"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        ck_assert_int_eq(read_text(&o, bad[i].text, NULL, &e), -EINVAL);
        ck_assert_msg(strstr(e.text, bad[i].says), "%s: %s", bad[i].text, e.text);
    }
}

UNIT(an_empty_file_changes_nothing)
{
    cleanup(options_release) struct options o;
    struct error e = {0};
    ck_assert_int_eq(read_text(&o, "", NULL, &e), 0);
    ck_assert_uint_eq(o.frequency, 19);
}

UNIT(a_mistake_is_named_with_its_line)
{
    static const struct {
        const char *text, *says;
    } bad[] = {
        {"frequency: 19\nfrequncy: 3\n", ":2: frequncy: unknown key; did you mean frequency?"},
        {"frequency: fast\n", ":1: frequency"},
        {"frequency: [\n", ":2: "},
        {"- a\n", ":1: "},
        {"endpoint: ${env:NO_SUCH}\n", "variable"},
        {"endpoint: true\n", "wants a value"},
        {"block-io: yes please\n", "true or false"},
        {"off-cpu: { least: 1ms }\n", "off-cpu-least: unknown key"},
        {"headers: { a: b }\n", ":1: headers: unknown key; did you mean header?"},
        {"tls: { ca_file: x }\n", ":1: tls: unknown key"},
        {"endpoint:http://h:1\n", ":1: \"option: value\" is expected, with a blank behind the colon"},
        {"config: other.yaml\n", "config: unknown key"},
        {"help: true\n", "help: unknown key"},
        {"header: { a: [ 1 ] }\n", ":1: "},
        {"? { a: b }\n: c\n", ":1: "},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct options o;
        struct error e = {0};
        ck_assert_msg(read_text(&o, bad[i].text, NULL, &e) == -EINVAL, "%s", bad[i].text);
        ck_assert_msg(strstr(e.text, bad[i].says), "%s: %s", bad[i].text, e.text);
    }
    struct options o;
    struct error e = {0};
    char program[] = "profsend", flag[] = "--config=/no/such/file";
    char *argv[] = {program, flag, NULL};
    ck_assert_int_eq(options_read(&o, 2, argv, getvar, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "/no/such/file"));
}
