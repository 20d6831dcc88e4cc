/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/options/rows.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/base/quantity.h"
#include "sender/options/filter.h"

static int invalid(struct error *e, const char *value, const char *want)
{
    return error_set(e, -EINVAL, "\"%s\" is not %s", value, want);
}

static int keep(struct options *o, const char *value, const char **to, struct error *e)
{
    struct bytes copy = arena_copy(&o->arena, bytes_str(value));
    if (!copy.p)
        return error_set(e, -ENOMEM, "out of memory");
    *to = (const char *)copy.p;
    return 0;
}

static int set_endpoint(struct options *o, const char *value, struct error *e)
{
    o->path = NULL;
    return keep(o, value, &o->endpoint, e);
}

/* The endpoint of one signal is the whole URL: its path is not added to (OTLP exporter specification,
 * "Endpoint URLs for OTLP/HTTP"). */
static int set_profiles_endpoint(struct options *o, const char *value, struct error *e)
{
    const char *host = strstr(value, "://");
    const char *path = strchr(host ? host + 3 : value, '/');
    int r = keep(o, value, &o->endpoint, e);
    return r < 0 ? r : keep(o, path && strncmp(value, "unix:", 5) != 0 ? path : "/", &o->path, e);
}

static int set_protocol(struct options *o, const char *value, struct error *e)
{
    if (strcmp(value, "grpc") == 0)
        o->protocol = OTLP_GRPC;
    else if (strcmp(value, "http/protobuf") == 0)
        o->protocol = OTLP_HTTP;
    else
        return invalid(e, value, "a protocol we speak: grpc or http/protobuf");
    return 0;
}

static int set_compression(struct options *o, const char *value, struct error *e)
{
    if (strcmp(value, "none") == 0)
        o->compression = OTLP_COMPRESS_NONE;
    else if (strcmp(value, "gzip") == 0)
        o->compression = OTLP_COMPRESS_GZIP;
    else if (strcmp(value, "zstd") == 0)
        o->compression = OTLP_COMPRESS_ZSTD;
    else
        return invalid(e, value, "a compression: gzip, zstd or none");
    return 0;
}

static int duration(const char *value, uint64_t least, uint64_t most, uint64_t *to, struct error *e)
{
    uint64_t ns;
    if (quantity_duration(bytes_str(value), &ns) < 0 || ns < least || ns > most)
        return error_set(e, -EINVAL, "\"%s\" is not a duration (such as 5s) between %llu ms and %llu s",
                         value, (unsigned long long)(least / NSEC_PER_MSEC),
                         (unsigned long long)(most / NSEC_PER_SEC));
    *to = ns;
    return 0;
}

#define SECONDS(n) ((n) * (uint64_t)NSEC_PER_SEC)

static int set_timeout(struct options *o, const char *value, struct error *e)
{
    return duration(value, NSEC_PER_MSEC, SECONDS(3600), &o->timeout_ns, e);
}

/* In the environment it is a number of milliseconds. */
static int set_timeout_ms(struct options *o, const char *value, struct error *e)
{
    uint64_t ms;
    if (quantity_u64(bytes_str(value), &ms) < 0 || ms == 0 || ms > 3600000)
        return invalid(e, value, "a number of milliseconds up to 3600000");
    o->timeout_ns = ms * NSEC_PER_MSEC;
    return 0;
}

static int set_interval(struct options *o, const char *value, struct error *e)
{
    return duration(value, SECONDS(1), SECONDS(300), &o->interval_ns, e);
}

static int set_duration(struct options *o, const char *value, struct error *e)
{
    return duration(value, NSEC_PER_MSEC, SECONDS(365 * 86400), &o->duration_ns, e);
}

static int set_frequency(struct options *o, const char *value, struct error *e)
{
    struct bytes number = bytes_str(value);
    uint64_t hz;
    if (number.n > 2 && strcmp(value + number.n - 2, "Hz") == 0)
        number.n -= 2;
    if (quantity_u64(number, &hz) < 0 || hz < 1 || hz > SAMPLER_FREQUENCY_MAX)
        return invalid(e, value, "a frequency between 1 and 10000 Hz");
    o->frequency = (uint32_t)hz;
    return 0;
}

static int set_pid(struct options *o, const char *value, struct error *e)
{
    uint64_t pid;
    if (quantity_u64(bytes_str(value), &pid) < 0 || pid < 1 || pid > INT32_MAX)
        return invalid(e, value, "a process id");
    o->pid = (uint32_t)pid;
    return 0;
}

static int set_symbolize(struct options *o, const char *value, struct error *e)
{
    if (strcmp(value, "full") != 0 && strcmp(value, "none") != 0)
        return invalid(e, value, "full or none");
    o->addresses_only = *value == 'n';
    return 0;
}

static int set_config(struct options *o, const char *value, struct error *e)
{
    return keep(o, value, &o->config, e);
}
static int set_spool(struct options *o, const char *value, struct error *e)
{
    return keep(o, value, &o->spool, e);
}
static int set_status(struct options *o, const char *value, struct error *e)
{
    return keep(o, value, &o->status, e);
}
static int set_metrics_endpoint(struct options *o, const char *value, struct error *e)
{
    return keep(o, value, &o->metrics_endpoint, e);
}

static int set_spool_bytes(struct options *o, const char *value, struct error *e)
{
    if (quantity_size(bytes_str(value), &o->spool_bytes) < 0 || o->spool_bytes < 1u << 20)
        return invalid(e, value, "a size (such as 256MiB) of 1MiB or more");
    return 0;
}

static int set_without_cpu(struct options *o, const char *v, struct error *e)
{
    return o->without_cpu = true, 0;
}
static int set_wait(struct options *o, const char *v, struct error *e)
{
    return o->wait = true, 0;
}
static int set_wait_by_ticket(struct options *o, const char *v, struct error *e)
{
    return o->wait_by_ticket = true, 0;
}
static int set_block(struct options *o, const char *v, struct error *e)
{
    return o->block = true, 0;
}

static int set_lock(struct options *o, const char *v, struct error *e)
{
    return o->lock = true, 0;
}
static int set_trace_map(struct options *o, const char *v, struct error *e)
{
    return keep(o, v, &o->trace_map, e);
}
static int set_lock_min(struct options *o, const char *value, struct error *e)
{
    return duration(value, 0, SECONDS(60), &o->lock_min_ns, e);
}

static int set_wait_min(struct options *o, const char *value, struct error *e)
{
    return duration(value, 0, SECONDS(60), &o->wait_min_ns, e);
}

static int set_wait_share(struct options *o, const char *value, struct error *e)
{
    char *end;
    o->wait_share = strtod(value, &end);
    if (*end == '%')
        o->wait_share /= 100, end++;
    /* The kernel side counts in 65536ths. */
    if (end == value || *end || !(o->wait_share >= 1.0 / 65536 && o->wait_share <= 1))
        return invalid(e, value, "a share: above 0 and up to 1, or with %");
    return 0;
}

static int append(struct options *o, const char *value, const char *list[SAMPLE_OTHERS_MAX], uint32_t *n,
                  struct error *e)
{
    if (*n == SAMPLE_OTHERS_MAX)
        return error_set(e, -EINVAL, "given more than %u times", SAMPLE_OTHERS_MAX);
    return keep(o, value, &list[(*n)++], e);
}

static int set_event(struct options *o, const char *value, struct error *e)
{
    return append(o, value, o->event, &o->n_events, e);
}
static int set_probe(struct options *o, const char *value, struct error *e)
{
    return append(o, value, o->probe, &o->n_probes, e);
}
static int set_alloc(struct options *o, const char *value, struct error *e)
{
    return append(o, value, o->alloc, &o->n_allocs, e);
}

static int set_alloc_interval(struct options *o, const char *value, struct error *e)
{
    uint64_t bytes;
    if (quantity_size(bytes_str(value), &bytes) < 0 || bytes < 1 || bytes > 1u << 30)
        return invalid(e, value, "a number of bytes (such as 512KiB) up to 1GiB");
    o->alloc_interval = bytes;
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

static int set_include(struct options *o, const char *value, struct error *e)
{
    return add_rule(o, value, FILTER_INCLUDE, e);
}
static int set_exclude(struct options *o, const char *value, struct error *e)
{
    return add_rule(o, value, FILTER_EXCLUDE, e);
}

static int set_log_level(struct options *o, const char *value, struct error *e)
{
    return log_level_parse(value, &o->log_level) ? 0 : invalid(e, value, "debug, info, warn or error");
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
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
        int high = hex_digit(s[1]), low = high < 0 ? -1 : hex_digit(s[2]);
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
    o->header[i] = (struct otlp_header){(const char *)name.p, (const char *)value.p};
    o->n_headers = max_of(o->n_headers, i + 1);
    return 0;
}

static int set_headers(struct options *o, const char *value, struct error *e)
{
    struct bytes rest = bytes_str(value);
    while (rest.n > 0) {
        const uint8_t *comma = memchr(rest.p, ',', rest.n);
        size_t n = comma ? (size_t)(comma - rest.p) : rest.n;
        struct bytes pair = bytes_trim(bytes_of(rest.p, n));
        int r = pair.n ? add_header(o, pair, e) : 0;
        if (r < 0)
            return r;
        n += comma != NULL;
        rest = bytes_of(rest.p + n, rest.n - n);
    }
    return 0;
}

static int set_insecure(struct options *o, const char *value, struct error *e)
{
    o->insecure =
        strcasecmp(value, "true") == 0; /* anything else is false (specification, "Boolean value") */
    return 0;
}

static int set_ca(struct options *o, const char *v, struct error *e)
{
    return keep(o, v, &o->tls.ca_file, e);
}
static int set_cert(struct options *o, const char *v, struct error *e)
{
    return keep(o, v, &o->tls.cert_file, e);
}
static int set_key(struct options *o, const char *v, struct error *e)
{
    return keep(o, v, &o->tls.key_file, e);
}

static int set_help(struct options *o, const char *v, struct error *e)
{
    return o->help = true, 0;
}
static int set_version(struct options *o, const char *v, struct error *e)
{
    return o->version = true, 0;
}
static int set_print(struct options *o, const char *v, struct error *e)
{
    return o->print = true, 0;
}
static int set_idle(struct options *o, const char *v, struct error *e)
{
    return o->idle = true, 0;
}

#define OTLP(name) "OTEL_EXPORTER_OTLP_" name
#define OURS(name) "OTEL_EXPORTER_OTLP_PROFILES_" name

const struct options_row options_row[] = {
    /* clang-format off */
    {"--endpoint", OTLP("ENDPOINT"), "URL", set_endpoint, "where profiles go; default http://localhost:4317 (http/protobuf: 4318)"},
    {NULL, OURS("ENDPOINT"), "URL", set_profiles_endpoint, NULL},
    {"--protocol", OTLP("PROTOCOL"), "NAME", set_protocol, "grpc (default) or http/protobuf"},
    {NULL, OURS("PROTOCOL"), "NAME", set_protocol, NULL},
    {"--header", OTLP("HEADERS"), "NAME=VALUE", set_headers, "sent along with each request; may be repeated"},
    {NULL, OURS("HEADERS"), "NAME=VALUE", set_headers, NULL},
    {"--compression", OTLP("COMPRESSION"), "NAME", set_compression, "gzip (default), zstd or none"},
    {NULL, OURS("COMPRESSION"), "NAME", set_compression, NULL},
    {"--timeout", NULL, "TIME", set_timeout, "for one attempt to send; default 10s (the variables: milliseconds)"},
    {NULL, OTLP("TIMEOUT"), "MS", set_timeout_ms, NULL},
    {NULL, OURS("TIMEOUT"), "MS", set_timeout_ms, NULL},
    {"--ca-file", OTLP("CERTIFICATE"), "FILE", set_ca, "certificates to trust instead of the system's"},
    {NULL, OURS("CERTIFICATE"), "FILE", set_ca, NULL},
    {"--cert-file", OTLP("CLIENT_CERTIFICATE"), "FILE", set_cert, "our own certificate (mTLS)"},
    {NULL, OURS("CLIENT_CERTIFICATE"), "FILE", set_cert, NULL},
    {"--key-file", OTLP("CLIENT_KEY"), "FILE", set_key, "and its key"},
    {NULL, OURS("CLIENT_KEY"), "FILE", set_key, NULL},
    {NULL, OTLP("INSECURE"), "BOOL", set_insecure, NULL},
    {NULL, OURS("INSECURE"), "BOOL", set_insecure, NULL},
    {"--spool", NULL, "FOLDER", set_spool, "keep requests here until they are acknowledged, over restarts too"},
    {"--spool-size", NULL, "SIZE", set_spool_bytes, "of which the oldest go when it is full; default 256MiB"},
    {"--status", NULL, "ADDRESS:PORT", set_status, "serve a page of our own figures there"},
    {"--metrics-endpoint", OTLP("METRICS_ENDPOINT"), "URL", set_metrics_endpoint, "send our own figures there as OTLP metrics"},
    {"--frequency", NULL, "HZ", set_frequency, "samples a second and CPU; default 19"},
    {"--interval", NULL, "TIME", set_interval, "between reports, give or take 20 %; default 5s"},
    {"--duration", NULL, "TIME", set_duration, "stop after this long; default: when told to (SIGTERM, SIGINT)"},
    {"--pid", NULL, "PID", set_pid, "only this process"},
    {"--include", NULL, "RULE", set_include, "only pid=, user=, executable= or cgroup= VALUE; may be repeated"},
    {"--exclude", NULL, "RULE", set_exclude, "not these; goes before --include"},
    {"--no-cpu", NULL, NULL, set_without_cpu, "no CPU samples: only what is asked for here"},
    {"--off-cpu", NULL, NULL, set_wait, "also time off the CPU, by stack and state"},
    {"--off-cpu-min", NULL, "TIME", set_wait_min, "shorter waits are left out; default 1ms"},
    {"--off-cpu-share", NULL, "SHARE", set_wait_share, "look at so many waits and scale up; default: the longer, the likelier"},
    {"--off-cpu-at-leave", NULL, NULL, set_wait_by_ticket, "stacks as threads leave the CPU, as before Linux 6.16"},
    {"--block-io", NULL, NULL, set_block, "also latencies of block devices, by the stack that asked"},
    {"--lock-wait", NULL, NULL, set_lock, "also time waited for locks (futexes), by the stack that waits"},
    {"--lock-wait-min", NULL, "TIME", set_lock_min, "shorter waits are left out; default 1ms"},
    {"--event", NULL, "NAME", set_event, "also a counter: page-faults, cache-misses/1000, cycles@97, …"},
    {"--alloc", NULL, "FILE", set_alloc, "also bytes asked of the malloc in FILE; libc is our own C library"},
    {"--alloc-interval", NULL, "BYTES", set_alloc_interval, "one sample in so many bytes; default 512KiB"},
    {"--probe", NULL, "FILE:SYMBOL", set_probe, "also calls of a function"},
    {"--trace-map", NULL, "FILE", set_trace_map, "OBI's map of traces, pinned: /sys/fs/bpf/otel/traces_ctx_v1"},
    {"--idle", NULL, NULL, set_idle, "also idle CPUs, as pid 0"},
    {"--symbolize", NULL, "WHAT", set_symbolize, "full (default), or none: native code as addresses and build ids only"},
    {"--print", NULL, NULL, set_print, "write a summary to standard output instead of sending"},
    {"--config", NULL, "FILE", set_config, "read options from a YAML file first; SIGHUP reads it again", true},
    {"--log-level", NULL, "LEVEL", set_log_level, "debug, info (default), warn or error"},
    {"--version", NULL, NULL, set_version, "print the version", true},
    {"--help", NULL, NULL, set_help, "print this", true},
    /* clang-format on */
};

const size_t options_rows = ARRAY_LEN(options_row);
