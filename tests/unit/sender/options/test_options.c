/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <string.h>

#include "sender/options/options.h"

static const char *environment[8][2];

static char *getvar(const char *name)
{
    for (int i = 0; i < 8 && environment[i][0]; i++)
        if (strcmp(environment[i][0], name) == 0)
            return (char *)(uintptr_t)environment[i][1];
    return NULL;
}

static int run(struct options *o, struct error *e, const char *const *arguments)
{
    char *argv[16] = {(char *)(uintptr_t) "profsend"};
    int argc = 1;
    for (; arguments[argc - 1]; argc++)
        argv[argc] = (char *)(uintptr_t)arguments[argc - 1];
    return options_read(o, argc, argv, getvar, e);
}

#define READ(o, e, ...) run(o, e, (const char *const[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

UNIT(defaults)
{
    struct options o;
    struct error e;
    ck_assert_int_eq(READ(&o, &e), 0);
    ck_assert_str_eq(o.endpoint, "http://localhost:4317");
    ck_assert_uint_eq(o.frequency, 19);
    ck_assert_uint_eq(o.interval_ns, 10000000000u);
    ck_assert(o.protocol == OTLP_GRPC && o.compression == CLIENT_COMPRESS_GZIP && !o.print && !o.idle);
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--protocol", "http/protobuf"), 0);
    ck_assert_str_eq(o.endpoint, "http://localhost:4318");
    options_release(&o);
}

UNIT(a_flag_goes_before_the_signal_goes_before_all_signals)
{
    struct options o;
    struct error e;
    environment[0][0] = "OTEL_EXPORTER_OTLP_PROFILES_ENDPOINT", environment[0][1] = "http://p:1/v/x";
    environment[1][0] = "OTEL_EXPORTER_OTLP_ENDPOINT", environment[1][1] = "http://all:2";
    environment[2][0] = "OTEL_EXPORTER_OTLP_PROTOCOL", environment[2][1] = "http/protobuf";
    environment[3][0] = "OTEL_EXPORTER_OTLP_TIMEOUT", environment[3][1] = "2500";
    environment[4][0] = "OTEL_EXPORTER_OTLP_COMPRESSION", environment[4][1] = "";
    ck_assert_int_eq(READ(&o, &e), 0);
    ck_assert_str_eq(o.endpoint, "http://p:1/v/x");
    ck_assert_str_eq(o.path, "/v/x"); /* as it is, nothing appended */
    ck_assert_uint_eq(o.timeout_ns, 2500000000u);
    ck_assert(o.compression == CLIENT_COMPRESS_GZIP); /* empty is unset */
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--endpoint=http://flag:3"), 0);
    ck_assert_str_eq(o.endpoint, "http://flag:3");
    ck_assert_ptr_null(o.path);
    options_release(&o);
}

UNIT(headers)
{
    struct options o;
    struct error e;
    environment[0][0] = "OTEL_EXPORTER_OTLP_HEADERS", environment[0][1] = "a=1, b = x%20y ,c=2";
    environment[1][0] = "OTEL_EXPORTER_OTLP_PROFILES_HEADERS", environment[1][1] = "A=3";
    ck_assert_int_eq(READ(&o, &e, "--header", "d=4=5"), 0);
    ck_assert_uint_eq(o.n_headers, 4);
    ck_assert_str_eq(o.header[0].value, "3");
    ck_assert_str_eq(o.header[1].name, "b");
    ck_assert_str_eq(o.header[1].value, "x y");
    ck_assert_str_eq(o.header[3].value, "4=5");
    options_release(&o);
    environment[1][1] = "A=%zz";
    ck_assert_int_eq(READ(&o, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "OTEL_EXPORTER_OTLP_PROFILES_HEADERS"));
    environment[1][1] = "nothing";
    ck_assert_int_eq(READ(&o, &e), -EINVAL);
}

UNIT(wrong_usage_is_named)
{
    struct options o;
    struct error e;
    ck_assert_int_eq(READ(&o, &e, "--nonsense"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "--nonsense"));
    ck_assert_int_eq(READ(&o, &e, "stray"), -EINVAL);
    ck_assert_int_eq(READ(&o, &e, "--frequency"), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.text, "--frequency wants a value: HZ"));
    ck_assert_int_eq(READ(&o, &e, "--print=yes"), -EINVAL);
    static const char *const bad[][2] = {
        {"--frequency", "0"},      {"--frequency", "10001"},  {"--frequency", "x"},
        {"--interval", "10ms"},    {"--interval", "5"},       {"--protocol", "http/json"},
        {"--compression", "lzma"}, {"--timeout", "0s"},       {"--pid", "0"},
        {"--log-level", "loud"},   {"--cert-file", "/x"},     {"--status", "9464"},
        {"--status", ":9464"},     {"--status", "host:9464"}, {"--status", "127.0.0.1:x"}};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(READ(&o, &e, bad[i][0], bad[i][1]) == -EINVAL, "%s %s", bad[i][0], bad[i][1]);
}

UNIT(an_endpoint_without_scheme_is_plain_unless_told)
{
    struct options o;
    struct error e;
    ck_assert_int_eq(READ(&o, &e, "--endpoint", "h:1"), 0);
    ck_assert_str_eq(o.endpoint, "h:1");
    options_release(&o);
    environment[0][0] = "OTEL_EXPORTER_OTLP_INSECURE", environment[0][1] = "false";
    ck_assert_int_eq(READ(&o, &e, "--endpoint", "h:1"), 0);
    ck_assert_str_eq(o.endpoint, "https://h:1");
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--endpoint", "http://h:1"), 0);
    ck_assert_str_eq(o.endpoint, "http://h:1");
    options_release(&o);
}

UNIT(frequency_with_and_without_unit)
{
    cleanup(options_release) struct options o;
    struct error e;
    ck_assert_int_eq(READ(&o, &e, "--frequency=97Hz", "--idle", "--print", "--pid=12", "--duration", "1m30s"),
                     0);
    ck_assert(o.frequency == 97 && o.idle && o.print && o.pid == 12 && o.duration_ns == 90000000000u);
}

UNIT(kinds_are_what_was_asked_for)
{
    struct options o;
    struct error e;
    ck_assert_int_eq(READ(&o, &e), 0);
    ck_assert(o.kinds.at[SAMPLE_FROM_CLOCK].how == KIND_CLOCK &&
              o.kinds.at[SAMPLE_FROM_WAIT].how == KIND_OFF);
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--no-cpu", "--off-cpu", "--off-cpu-share", "10%", "--event",
                          "page-faults/8", "--alloc", "libc", "--alloc-interval", "64KiB", "--block-io"),
                     0);
    ck_assert(o.kinds.at[SAMPLE_FROM_CLOCK].how == KIND_OFF &&
              o.kinds.at[SAMPLE_FROM_BLOCK].how == KIND_BLOCK);
    ck_assert(o.kinds.at[SAMPLE_FROM_WAIT].share > 0.0999 && o.kinds.at[SAMPLE_FROM_WAIT].share < 0.1001);
    ck_assert_uint_eq(o.kinds.at[SAMPLE_FROM_OTHERS].rate, 8);
    ck_assert_uint_eq(o.kinds.at[SAMPLE_FROM_OTHERS + 1].period, 65536);
    ck_assert_uint_eq(o.kinds.n_others, 2);
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--no-cpu"), -EINVAL);
    ck_assert_int_eq(READ(&o, &e, "--off-cpu-share", "2"), -EINVAL);
    ck_assert_int_eq(READ(&o, &e, "--off-cpu-share", "x"), -EINVAL);
    ck_assert_int_eq(READ(&o, &e, "--event", "nonsense"), -EINVAL);
    ck_assert_int_eq(READ(&o, &e, "--alloc-interval", "0"), -EINVAL);
}

UNIT(rules_say_whom)
{
    struct options o;
    struct error e;
    ck_assert_int_eq(
        READ(&o, &e, "--include", "pid=7", "--exclude", "user=root", "--include", "executable=java"), 0);
    ck_assert_uint_eq(o.n_rules, 3);
    ck_assert(o.rule[0].key.what == FILTER_PID && o.rule[0].key.id == 7 &&
              o.rule[0].verdict == FILTER_INCLUDE);
    ck_assert(o.rule[1].key.what == FILTER_USER && o.rule[1].key.id == 0 &&
              o.rule[1].verdict == FILTER_EXCLUDE);
    ck_assert_str_eq(o.rule[2].key.name, "java");
    options_release(&o);
    static const char *const bad[] = {"pid=0",
                                      "pid=x",
                                      "pid",
                                      "=7",
                                      "user=nobody-by-this-name",
                                      "executable=/bin/x",
                                      "executable=",
                                      "cgroup=/no/such/group",
                                      "size=3"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(READ(&o, &e, "--include", bad[i]) == -EINVAL, "%s", bad[i]);
}

UNIT(what_is_said_of_processes_besides)
{
    struct options o;
    struct error e;
    ck_assert_int_eq(READ(&o, &e), 0);
    ck_assert(!o.command_line && !o.owner && o.variables.n == 0);
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--command-line", "--owner", "--env", "STAGE", "--env=REGION"), 0);
    ck_assert(o.command_line && o.owner && o.variables.n == 2);
    ck_assert_str_eq(o.variables.items[1], "REGION");
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--env", "A=1"), -EINVAL);
    ck_assert_str_eq(e.text, "\"A=1\" is not the name of a variable");
    ck_assert_int_eq(READ(&o, &e, "--env", ""), -EINVAL);
}

UNIT(rules_over_what_is_said)
{
    struct options o;
    struct error e;
    ck_assert_int_eq(READ(&o, &e), 0);
    ck_assert_ptr_null(o.relabel);
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--relabel", "{source_labels: [a, b], regex: 'x;(.*)', target_label: c}",
                          "--relabel={source_labels: [service.name], action: sample, share: 10%}"),
                     0);
    ck_assert_ptr_nonnull(o.relabel);
    options_release(&o);
    static const char *const bad[] = {"x",
                                      "",
                                      "{",
                                      "{action: drop}",
                                      "{source_labels: [a], action: x}",
                                      "{target_label: x, replacement: '${env:HOME}'}"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(READ(&o, &e, "--relabel", bad[i]) == -EINVAL, "%s", bad[i]);
}

UNIT(where_pods_are_asked_for)
{
    struct options o;
    struct error e;
    static const char *const good[] = {"unix:/run/containerd/containerd.sock", "http://127.0.0.1:10255",
                                       "http://node:10255/pods"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        ck_assert_int_eq(READ(&o, &e, "--kubernetes", good[i]), 0);
        ck_assert_str_eq(o.kubernetes, good[i]);
        options_release(&o);
    }
    ck_assert_int_eq(READ(&o, &e, "--kubernetes", "https://127.0.0.1:10250"), -EINVAL);
    ck_assert_int_eq(READ(&o, &e, "--kubernetes", "ftp://x"), -EINVAL);
}

UNIT(names_are_kept_where_the_service_has_its_state_unless_it_is_said)
{
    struct options o;
    struct error e;
    environment[0][0] = "STATE_DIRECTORY", environment[0][1] = "/var/lib/one:/var/lib/two";
    ck_assert_int_eq(READ(&o, &e), 0);
    ck_assert_str_eq(o.name_cache, "/var/lib/one");
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--name-cache", "/cache"), 0);
    ck_assert_str_eq(o.name_cache, "/cache");
    options_release(&o);
    ck_assert_int_eq(READ(&o, &e, "--name-cache", "none"), 0);
    ck_assert_ptr_null(o.name_cache);
    options_release(&o);
    environment[0][1] = "";
    ck_assert_int_eq(READ(&o, &e), 0);
    ck_assert_ptr_null(o.name_cache);
    options_release(&o);
}

static char vain[512];

static void note(const char *option, const char *why)
{
    size_t n = strlen(vain);
    snprintf(vain + n, sizeof vain - n, "%s %s\n", option, why);
}

#define VAIN(...)                                         \
    ({                                                    \
        struct options o_;                                \
        struct error e_;                                  \
        ck_assert_int_eq(READ(&o_, &e_, __VA_ARGS__), 0); \
        *vain = 0;                                        \
        options_vain(&o_, note);                          \
        options_release(&o_);                             \
        vain;                                             \
    })

UNIT(what_is_asked_for_in_vain_is_said)
{
    ck_assert_str_eq(VAIN("--frequency", "97"), "");
    ck_assert_str_eq(VAIN("--ca-file", "/dev/null", "--endpoint", "https://a:1"), "");
    ck_assert_str_eq(VAIN("--ca-file", "/dev/null", "--metrics-endpoint", "https://a:1"), "");
    ck_assert_ptr_nonnull(strstr(VAIN("--ca-file", "x", "--endpoint", "http://a:1"), "--ca-file without"));
    ck_assert_ptr_nonnull(strstr(VAIN("--ca-file", "x", "--endpoint", "a:1"), "--ca-file without"));
    ck_assert_ptr_nonnull(strstr(VAIN("--cert-file", "x", "--key-file", "y"), "--cert-file without"));
    ck_assert_str_eq(VAIN("--off-cpu-min", "5ms", "--off-cpu-share", "5%"),
                     "--off-cpu-min without --off-cpu\n--off-cpu-share without --off-cpu\n");
    ck_assert_str_eq(VAIN("--off-cpu-min", "5ms", "--off-cpu"), "");
    ck_assert_str_eq(VAIN("--off-cpu-at-leave"), "--off-cpu-at-leave without --off-cpu\n");
    ck_assert_str_eq(VAIN("--lock-wait-min", "5ms"), "--lock-wait-min without --lock-wait\n");
    ck_assert_str_eq(VAIN("--alloc-interval", "5"), "--alloc-interval without --alloc\n");
    ck_assert_str_eq(VAIN("--spool", "x", "--print"), "--spool with --print\n");
    ck_assert_str_eq(VAIN("--spool-size", "5MiB"), "--spool-size without --spool\n");
    ck_assert_str_eq(VAIN("--name-cache-size", "5MiB"), "--name-cache-size without --name-cache\n");
    ck_assert_str_eq(VAIN("--idle", "--no-cpu", "--off-cpu"), "--idle with --no-cpu\n");
}

/* A reload reads options before it ends what goes on, and opens nothing. */
UNIT(a_destination_that_cannot_be_one_is_refused)
{
    struct options o;
    struct error e;
    ck_assert_int_lt(READ(&o, &e, "--endpoint", "foo://x"), 0);
    ck_assert_ptr_nonnull(strstr(e.text, "foo"));
    ck_assert_int_lt(READ(&o, &e, "--metrics-endpoint", "foo://x", "--print"), 0);
    ck_assert_int_lt(READ(&o, &e, "--endpoint", "https://x:1", "--ca-file", "/no/such"), 0);
    ck_assert_ptr_nonnull(strstr(e.text, "/no/such: No such file"));
    ck_assert_int_lt(
        READ(&o, &e, "--endpoint", "https://x:1", "--cert-file", "/dev/null", "--key-file", "/no"), 0);
    ck_assert_int_eq(READ(&o, &e, "--endpoint", "http://x:1", "--ca-file", "/no/such"), 0);
    options_release(&o);
}
