/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/options/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "proto/base/settings/completion.h"
#include "proto/base/settings/file.h"
#include "sender/options/filter.h"
#include "sender/report/status.h"

static int invalid(struct error *e, const char *value, const char *want)
{
    return error_set(e, -EINVAL, "\"%s\" is not %s", value, want);
}

static int keep(struct arena *arena, const char *value, const char **to, struct error *e)
{
    struct bytes copy = arena_copy(arena, bytes_str(value));
    if (!copy.p)
        return error_set(e, -ENOMEM, "out of memory");
    *to = (const char *)copy.p;
    return 0;
}

static int set_endpoint(void *options, const char *value, struct arena *arena, struct error *e)
{
    struct options *o = options;
    o->path = NULL;
    return keep(arena, value, &o->endpoint, e);
}

/* The endpoint of one signal is the whole URL: its path is not added to (OTLP exporter specification,
 * "Endpoint URLs for OTLP/HTTP"). */
static int set_profiles_endpoint(void *options, const char *value, struct arena *arena, struct error *e)
{
    struct options *o = options;
    const char *host = strstr(value, "://");
    const char *path = strchr(host ? host + 3 : value, '/');
    int r = keep(arena, value, &o->endpoint, e);
    return r < 0 ? r : keep(arena, path && strncmp(value, "unix:", 5) != 0 ? path : "/", &o->path, e);
}

/* In the environment it is a number of milliseconds. */
static int set_timeout_ms(void *options, const char *value, struct arena *arena, struct error *e)
{
    uint64_t ms;
    if (quantity_u64(bytes_str(value), &ms) < 0 || ms == 0 || ms > 3600000)
        return invalid(e, value, "a number of milliseconds up to 3600000");
    ((struct options *)options)->timeout_ns = ms * NSEC_PER_MSEC;
    return 0;
}

static int set_frequency(void *options, const char *value, struct arena *arena, struct error *e)
{
    struct bytes number = bytes_str(value);
    uint64_t hz;
    if (number.n > 2 && strcmp(value + number.n - 2, "Hz") == 0)
        number.n -= 2;
    if (quantity_u64(number, &hz) < 0 || hz < 1 || hz > SAMPLER_FREQUENCY_MAX)
        return invalid(e, value, "a frequency between 1 and 10000 Hz");
    ((struct options *)options)->frequency = (uint32_t)hz;
    return 0;
}

static int set_status(void *options, const char *value, struct arena *arena, struct error *e)
{
    int r = status_check(value, e);
    return r < 0 ? r : keep(arena, value, &((struct options *)options)->status, e);
}

static int set_wait_share(void *options, const char *value, struct arena *arena, struct error *e)
{
    char *end;
    double share = strtod(value, &end);
    if (*end == '%')
        share /= 100, end++;
    /* The kernel side counts in 65536ths. */
    if (end == value || *end || !(share >= 1.0 / 65536 && share <= 1))
        return invalid(e, value, "a share: above 0 and up to 1, or with %");
    ((struct options *)options)->wait_share = share;
    return 0;
}

/* Anything but true is false (specification, "Boolean value"). */
static int set_insecure(void *options, const char *value, struct arena *arena, struct error *e)
{
    ((struct options *)options)->insecure = strcasecmp(value, "true") == 0;
    return 0;
}

/* "pid=1", "user=1000", "executable=java", "cgroup=/system.slice/x.service". */
static int read_rule(struct filter_rule *rule, struct bytes text, struct error *e)
{
    static const char *const words[FILTER_WHATS] = {[FILTER_PID] = "pid",
                                                    [FILTER_USER] = "user",
                                                    [FILTER_CGROUP] = "cgroup",
                                                    [FILTER_EXECUTABLE] = "executable"};
    const uint8_t *equals = memchr(text.p, '=', text.n);
    struct bytes word = bytes_of(text.p, equals ? (size_t)(equals - text.p) : 0);
    uint32_t what = 0;
    while (what < FILTER_WHATS && !bytes_is(word, words[what]))
        what++;
    if (what == FILTER_WHATS)
        return error_set(e, -EINVAL, "\"%.*s\" is not pid=, user=, cgroup= or executable= and a value",
                         BYTES_FMT(text));
    struct bytes value = bytes_of(equals + 1, text.n - word.n - 1);
    rule->key.what = what;
    if (what == FILTER_PID)
        return filter_number(&rule->key, value, e);
    if (what == FILTER_USER)
        return filter_user(&rule->key, value, e);
    return what == FILTER_CGROUP ? filter_cgroup(&rule->key, value, e)
                                 : filter_executable(&rule->key, value, e);
}

static int add_rule(struct options *o, const char *value, uint32_t verdict, struct error *e)
{
    struct filter_rule rule = {.verdict = verdict};
    if (o->n_rules == FILTER_RULES)
        return error_set(e, -EINVAL, "more than %u rules", FILTER_RULES);
    int r = read_rule(&rule, bytes_str(value), e);
    if (r < 0)
        return r;
    if (o->n_rules == 0)
        o->rule = arena_calloc(&o->arena, FILTER_RULES, sizeof *o->rule);
    if (!o->rule)
        return error_set(e, -ENOMEM, "out of memory");
    o->rule[o->n_rules++] = rule;
    return 0;
}

static int set_include(void *options, const char *value, struct arena *arena, struct error *e)
{
    return add_rule(options, value, FILTER_INCLUDE, e);
}
static int set_exclude(void *options, const char *value, struct arena *arena, struct error *e)
{
    return add_rule(options, value, FILTER_EXCLUDE, e);
}

/* Percent-decodes in place (the values of OTEL_EXPORTER_OTLP_HEADERS are W3C Baggage). False: a broken
 * escape. */
static bool percent_decode(char *s)
{
    char *to = s;
    for (; *s; s++) {
        if (*s != '%') {
            *to++ = *s;
            continue;
        }
        int high = bytes_hex_value((uint8_t)s[1]), low = high < 0 ? -1 : bytes_hex_value((uint8_t)s[2]);
        if (low < 0 || (high == 0 && low == 0))
            return false;
        *to++ = (char)(high << 4 | low);
        s += 2;
    }
    *to = 0;
    return true;
}

/* Adds "name=value", in place of an earlier one of that name. */
static int add_header(struct options *o, struct bytes pair, struct error *e)
{
    const uint8_t *equals = memchr(pair.p, '=', pair.n);
    if (!equals || equals == pair.p)
        return error_set(e, -EINVAL, "\"%.*s\" is not a header as name=value", BYTES_FMT(pair));
    struct bytes name = bytes_trim(bytes_of(pair.p, (size_t)(equals - pair.p)));
    struct bytes value = bytes_trim(bytes_of(equals + 1, pair.n - (size_t)(equals - pair.p) - 1));
    name = arena_copy(&o->arena, name);
    value = arena_copy(&o->arena, value);
    if (!name.p || !value.p)
        return error_set(e, -ENOMEM, "out of memory");
    if (!percent_decode((char *)value.p))
        return error_set(e, -EINVAL, "the value of header \"%s\" has a broken %%-escape",
                         (const char *)name.p);
    uint32_t i = 0;
    while (i < o->n_headers && !bytes_is_nocase(name, o->header[i].name))
        i++;
    if (i == OPTIONS_HEADERS_MAX)
        return error_set(e, -EINVAL, "more than %u headers", OPTIONS_HEADERS_MAX);
    o->header[i] = (struct client_header){(const char *)name.p, (const char *)value.p};
    o->n_headers = max_of(o->n_headers, i + 1);
    return 0;
}

static int set_headers(void *options, const char *value, struct arena *arena, struct error *e)
{
    struct bytes rest = bytes_str(value);
    while (rest.n > 0) {
        const uint8_t *comma = memchr(rest.p, ',', rest.n);
        size_t n = comma ? (size_t)(comma - rest.p) : rest.n;
        struct bytes pair = bytes_trim(bytes_of(rest.p, n));
        int r = pair.n ? add_header(options, pair, e) : 0;
        if (r < 0)
            return r;
        n += comma != NULL;
        rest = bytes_of(rest.p + n, rest.n - n);
    }
    return 0;
}

int options_add_rule(struct options *o, const struct relabel_rule *rule, struct error *e)
{
    if (!o->relabel && !(o->relabel = relabel_new()))
        return error_set(e, -ENOMEM, "out of memory");
    return relabel_add(o->relabel, rule, e);
}

/* A rule as it would stand in a file, on one line. */
static int set_relabel(void *options, const char *value, struct arena *arena, struct error *e)
{
    const struct settings_file_options reading = {
        .arena = arena, .no_variables = "a flag expands no variables", .lines_only = true};
    struct options *o = options;
    struct settings_file *file;
    struct relabel_rule rule = {0};
    int r = settings_file_open(&file, value, bytes_str(value), &reading, e);
    if (r < 0)
        return r;
    const struct settings_node *root = settings_root(file);
    if (!root || !settings_is(root, SETTINGS_MAP))
        r = invalid(e, value, "a rule: { source_labels: [...], regex: ..., action: ... }");
    else if ((r = settings_defaults(&relabel_section, &rule, arena)) == 0 &&
             (r = settings_take_map(file, &relabel_section, &rule, root, "relabel")) == 0)
        r = options_add_rule(o, &rule, e);
    settings_file_close(file);
    return r;
}

static const struct settings_word protocols[] = {{"grpc", OTLP_GRPC}, {"http/protobuf", OTLP_HTTP}, {NULL}};
static const struct settings_word compressions[] = {
    {"none", CLIENT_COMPRESS_NONE}, {"gzip", CLIENT_COMPRESS_GZIP}, {"zstd", CLIENT_COMPRESS_ZSTD}, {NULL}};
static const struct settings_word symbolizing[] = {{"full", false}, {"none", true}, {NULL}};
static const struct settings_word log_levels[] = {{"debug", LOG_LEVEL_DEBUG},
                                                  {"info", LOG_LEVEL_INFO},
                                                  {"warn", LOG_LEVEL_WARN},
                                                  {"error", LOG_LEVEL_ERROR},
                                                  {NULL}};

#define OTLP(name)  "OTEL_EXPORTER_OTLP_" name
#define OURS(name)  "OTEL_EXPORTER_OTLP_PROFILES_" name
#define AT(field)   offsetof(struct options, field)
#define SECONDS(n)  ((n) * (uint64_t)NSEC_PER_SEC)
#define TIME(range) "a duration (such as 5s) between " range

/* A variable of the signal goes before that of all signals (OTLP exporter specification), which is why it
 * stands behind it: the later row wins. */
/* clang-format off */
static const struct settings_row rows[] = {
    {"endpoint", SETTINGS_OWN, .set = set_endpoint, .metavar = "URL", .variable = OTLP("ENDPOINT"),
     .doc = "where profiles go; default http://localhost:4317 (http/protobuf: 4318)"},
    {NULL, SETTINGS_OWN, .set = set_profiles_endpoint, .variable = OURS("ENDPOINT")},
#define PROTOCOL SETTINGS_CHOICE, AT(protocol), .words = protocols, .want = "a protocol we speak: grpc or http/protobuf"
    {"protocol", PROTOCOL, .metavar = "NAME", .variable = OTLP("PROTOCOL"), .doc = "grpc (default) or http/protobuf"},
    {NULL, PROTOCOL, .variable = OURS("PROTOCOL")},
    {"header", SETTINGS_OWN, .set = set_headers, .metavar = "NAME=VALUE", .variable = OTLP("HEADERS"),
     .doc = "sent along with each request; may be repeated"},
    {NULL, SETTINGS_OWN, .set = set_headers, .variable = OURS("HEADERS")},
#define COMPRESSION SETTINGS_CHOICE, AT(compression), .words = compressions, .want = "a compression: gzip, zstd or none"
    {"compression", COMPRESSION, .metavar = "NAME", .variable = OTLP("COMPRESSION"), .doc = "gzip (default), zstd or none"},
    {NULL, COMPRESSION, .variable = OURS("COMPRESSION")},
    {"timeout", SETTINGS_DURATION, AT(timeout_ns), NULL, NSEC_PER_MSEC, SECONDS(3600), .want = TIME("1 ms and 3600 s"),
     .metavar = "TIME", .doc = "for one attempt to send; default 10s (the variables: milliseconds)"},
    {NULL, SETTINGS_OWN, .set = set_timeout_ms, .variable = OTLP("TIMEOUT")},
    {NULL, SETTINGS_OWN, .set = set_timeout_ms, .variable = OURS("TIMEOUT")},
    {"ca-file", SETTINGS_TEXT, AT(tls.ca_file), .metavar = "FILE", .variable = OTLP("CERTIFICATE"),
     .doc = "certificates to trust instead of the system's"},
    {NULL, SETTINGS_TEXT, AT(tls.ca_file), .variable = OURS("CERTIFICATE")},
    {"cert-file", SETTINGS_TEXT, AT(tls.cert_file), .metavar = "FILE", .variable = OTLP("CLIENT_CERTIFICATE"),
     .doc = "our own certificate (mTLS)"},
    {NULL, SETTINGS_TEXT, AT(tls.cert_file), .variable = OURS("CLIENT_CERTIFICATE")},
    {"key-file", SETTINGS_TEXT, AT(tls.key_file), .metavar = "FILE", .variable = OTLP("CLIENT_KEY"), .doc = "and its key"},
    {NULL, SETTINGS_TEXT, AT(tls.key_file), .variable = OURS("CLIENT_KEY")},
    {NULL, SETTINGS_OWN, .set = set_insecure, .variable = OTLP("INSECURE")},
    {NULL, SETTINGS_OWN, .set = set_insecure, .variable = OURS("INSECURE")},
    {"spool", SETTINGS_TEXT, AT(spool), .metavar = "FOLDER",
     .doc = "keep requests here until they are acknowledged, over restarts too"},
    {"spool-size", SETTINGS_SIZE, AT(spool_bytes), NULL, 1u << 20, .want = "a size (such as 256MiB) of 1MiB or more",
     .metavar = "SIZE", .doc = "of which the oldest go when it is full; default 256MiB"},
    {"name-cache", SETTINGS_TEXT, AT(name_cache), .metavar = "FOLDER",
     .doc = "keep names of functions here for the next start, or none; default: the StateDirectory of systemd's unit"},
    {"name-cache-size", SETTINGS_SIZE, AT(name_cache_bytes), NULL, 1u << 20,
     .want = "a size (such as 32MiB) of 1MiB or more", .metavar = "SIZE",
     .doc = "of which the names used the longest ago go when it is full; default 32MiB"},
    {"status", SETTINGS_OWN, .set = set_status, .metavar = "ADDRESS:PORT", .doc = "serve a page of our own figures there, and /metrics for Prometheus"},
    {"metrics-endpoint", SETTINGS_TEXT, AT(metrics_endpoint), .metavar = "URL", .variable = OTLP("METRICS_ENDPOINT"),
     .doc = "send our own figures there as OTLP metrics"},
    {"frequency", SETTINGS_OWN, .set = set_frequency, .metavar = "HZ", .doc = "samples a second and CPU; default 19"},
    {"interval", SETTINGS_DURATION, AT(interval_ns), NULL, SECONDS(1), SECONDS(300), .want = TIME("1000 ms and 300 s"),
     .metavar = "TIME", .doc = "between reports, give or take 20 %, the first after half of it; default 10s"},
    {"duration", SETTINGS_DURATION, AT(duration_ns), NULL, NSEC_PER_MSEC, SECONDS(365 * 86400),
     .want = TIME("1 ms and 31536000 s"), .metavar = "TIME",
     .doc = "stop after this long; default: when told to (SIGTERM, SIGINT)"},
    {"pid", SETTINGS_COUNT, AT(pid), NULL, 1, INT32_MAX, .want = "a process id", .metavar = "PID", .doc = "only this process"},
    {"include", SETTINGS_OWN, .set = set_include, .metavar = "RULE",
     .doc = "only pid=, user=, executable= or cgroup= VALUE; may be repeated"},
    {"exclude", SETTINGS_OWN, .set = set_exclude, .metavar = "RULE", .doc = "not these; goes before --include"},
    {"no-cpu", SETTINGS_BOOL, AT(without_cpu), .doc = "no CPU samples: only what is asked for here"},
    {"off-cpu", SETTINGS_BOOL, AT(wait), .doc = "also time off the CPU, by stack and state"},
#define WAIT_MIN(field) SETTINGS_DURATION, AT(field), NULL, 0, SECONDS(60), .want = TIME("0 ms and 60 s"), .metavar = "TIME", \
     .doc = "shorter waits are left out; default 1ms"
    {"off-cpu-min", WAIT_MIN(wait_min_ns)},
    {"off-cpu-share", SETTINGS_OWN, .set = set_wait_share, .metavar = "SHARE",
     .doc = "look at so many waits and scale up; default: the longer, the likelier"},
    {"off-cpu-at-leave", SETTINGS_BOOL, AT(wait_by_ticket), .doc = "stacks as threads leave the CPU, as before Linux 6.16"},
    {"block-io", SETTINGS_BOOL, AT(block), .doc = "also latencies of block devices, by the stack that asked"},
    {"lock-wait", SETTINGS_BOOL, AT(lock), .doc = "also time waited for locks (futexes), by the stack that waits"},
    {"lock-wait-min", WAIT_MIN(lock_min_ns)},
#define REPEATED(field) SETTINGS_REPEATED, AT(field), NULL, 0, SAMPLE_OTHERS_MAX
    {"event", REPEATED(events), .metavar = "NAME", .doc = "also a counter: page-faults, cache-misses/1000, cycles@97, …"},
    {"alloc", REPEATED(allocs), .metavar = "FILE", .doc = "also bytes asked of the malloc in FILE; libc is our own C library"},
    {"alloc-interval", SETTINGS_SIZE, AT(alloc_interval), NULL, 1, 1u << 30,
     .want = "a number of bytes (such as 512KiB) up to 1GiB", .metavar = "BYTES",
     .doc = "one sample in so many bytes; default 512KiB"},
    {"probe", REPEATED(probes), .metavar = "FILE:SYMBOL", .doc = "also calls of a function"},
    {"trace-map", SETTINGS_TEXT, AT(trace_map), .metavar = "FILE",
     .doc = "OBI's map of traces, pinned: /sys/fs/bpf/otel/traces_ctx_v1"},
    {"idle", SETTINGS_BOOL, AT(idle), .doc = "also idle CPUs, as pid 0"},
    {"command-line", SETTINGS_BOOL, AT(command_line), .doc = "also say process.command_line, without what is named a secret"},
    {"owner", SETTINGS_BOOL, AT(owner), .doc = "also say process.owner, by /etc/passwd"},
    {"env", SETTINGS_REPEATED, AT(variables), NULL, 0, OPTIONS_VARIABLES_MAX, .metavar = "NAME",
     .doc = "also say process.environment_variable.NAME; may be repeated"},
    {"kubernetes", SETTINGS_TEXT, AT(kubernetes), .metavar = "WHERE",
     .doc = "also say k8s names; unix:/run/containerd/containerd.sock (CRI), or a kubelet's http://127.0.0.1:10255"},
    {"relabel", SETTINGS_OWN, .set = set_relabel, .metavar = "RULE",
     .doc = "as Prometheus's relabel_config, over resource attributes; also { action: sample, share: 10% }; may be repeated"},
    {"symbolize", SETTINGS_CHOICE, AT(addresses_only), .words = symbolizing, .want = "full or none", .metavar = "WHAT",
     .doc = "full (default), or none: native code as addresses and build ids only"},
    {"print", SETTINGS_BOOL, AT(print), .doc = "write a summary to standard output instead of sending"},
    {"config", SETTINGS_TEXT, AT(config), .metavar = "FILE", .doc = "read options from a YAML file first; SIGHUP reads it again"},
    {"log-level", SETTINGS_CHOICE, AT(log_level), .words = log_levels, .want = "debug, info, warn or error",
     .metavar = "LEVEL", .doc = "debug, info (default), warn or error"},
    {"version", SETTINGS_BOOL, AT(version), .doc = "print the version"},
    {"completion", SETTINGS_CHOICE, AT(completion), .words = completion_shells, .want = "a shell: bash, zsh or fish",
     .metavar = "SHELL", .doc = "print a script by which bash, zsh or fish completes options"},
    {"manual", SETTINGS_BOOL, AT(manual), .doc = "print profsend(8), as a page for man"},
};
/* clang-format on */

const struct settings_section options_section = {.rows = rows, .n_rows = ARRAY_LEN(rows)};

const struct settings_command options_command = {
    .name = "profsend",
    .usage = "[OPTION]...",
    .doc = "samples what runs on this machine and sends it as OTLP profiles",
    .text =
        "Samples what runs on this machine, kernel to user stacks, and sends it as OTLP profiles. Needs CAP_BPF\n"
        "and CAP_PERFMON to sample; CAP_SYS_PTRACE and CAP_DAC_READ_SEARCH to see other users' processes;\n"
        "CAP_CHECKPOINT_RESTORE for files that were replaced; CAP_SYSLOG for kernel addresses. Linux 5.10 or later.\n",
    .flags = &options_section,
    .exits = "  0  done\n"
             "  1  failed\n"
             "  2  wrong usage\n"
             "  3  this machine does not allow it (the reason is logged)\n",
};

bool options_is_of_command(const struct settings_row *row)
{
    return row->offset == AT(config) || row->offset == AT(version) || row->offset == AT(completion) ||
           row->offset == AT(manual);
}
