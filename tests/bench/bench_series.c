/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/aggregate gateway/export/prometheus proto/otlp/metrics */
/*
 * What series cost when they leave, beside the goal: CPU time of one thread, and memory.
 *
 *     bench_series [PROCESSES [ROUNDS]]
 *
 * PROCESSES (2,000) of 70 series each, 140,000, are written as a page of /metrics. Then as many processes
 * that come and go, ten series each and all new in each round, are merged, collected as windows and encoded
 * as OTLP. For instructions:
 *
 *     valgrind --tool=callgrind --toggle-collect=measured_page bench_series 2000 1    (or measured_export)
 */
#include <fcntl.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gateway/aggregate/store.h"
#include "gateway/export/prometheus/prometheus.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

#define METRICS     10u
#define LABEL_SETS  7u
#define PIECE       ((size_t)64 << 10) /* as of an answer of the gateway */
#define LARGE_BLOCK (512 << 10)        /* as the gateway has it */
#define REQUEST_MAX ((size_t)4 << 20)
#define BEGIN_NS    (1795338000ull * NSEC_PER_SEC)
#define MIB         (1024.0 * 1024.0)

static struct aggregate_metric metrics[METRICS];
static uint64_t now = BEGIN_NS;

static void need(bool ok, const char *what)
{
    if (ok)
        return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static void make_metrics(void)
{
    static const char *const names[METRICS] = {"cpu.time",     "cpu.samples", "wait.time",     "lock.time",
                                               "gc.time",      "alloc.bytes", "alloc.objects", "io.time",
                                               "syscall.time", "crypto.time"};
    static char text[METRICS][32];
    for (uint32_t i = 0; i < METRICS; i++) {
        snprintf(text[i], sizeof text[i], "profile.%s", names[i]);
        bool is_seconds = strstr(names[i], ".time");
        metrics[i] = (struct aggregate_metric){
            .name = bytes_str(text[i]),
            .description = BYTES_LIT("What samples of profiles say, added up"),
            .unit = bytes_str(is_seconds                  ? "s"
                              : strstr(names[i], "bytes") ? "By"
                                                          : "1"),
            .kind = METRIC_SUM,
            .is_seconds = is_seconds,
        };
    }
}

static struct attr text_attr(const char *key, const char *value)
{
    return (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = bytes_str(value)}};
}

/* As a profiler in a cluster says who a process is. */
static uint32_t add_process(struct aggregate *a, uint32_t i)
{
    char pod[48], node[32], service[32];
    snprintf(pod, sizeof pod, "checkout-%u-7d4b9c6f5-%05x", i % 40, i * 2654435761u >> 12);
    snprintf(node, sizeof node, "node-%u.example.internal", i % 50);
    snprintf(service, sizeof service, "checkout-%u", i % 40);
    const struct attr attrs[] = {
        text_attr("host.name", node),
        text_attr("k8s.namespace.name", "shop"),
        text_attr("k8s.pod.name", pod),
        text_attr("process.executable.name", "java"),
        {BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = 1000 + i}},
        text_attr("service.name", service),
    };
    return aggregate_resource(a, attrs, ARRAY_LEN(attrs));
}

static uint32_t label_set(struct aggregate *a, uint32_t metric, uint32_t i)
{
    static const char *const classes[LABEL_SETS] = {"user",    "kernel",   "garbage collection", "json",
                                                    "network", "database", "encryption"};
    const struct aggregate_label labels[] = {
        {BYTES_LIT("frame.class"), bytes_str(classes[i])},
        {BYTES_LIT("state"), i & 1 ? BYTES_LIT("on cpu") : BYTES_LIT("off cpu")},
    };
    return aggregate_series(a, metric, labels, ARRAY_LEN(labels));
}

static void add_processes(struct aggregate *a, uint32_t from, uint32_t n, uint32_t n_sets)
{
    aggregate_begin(a);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t resource = add_process(a, from + i);
        for (uint32_t m = 0; m < METRICS; m++)
            for (uint32_t k = 0; k < n_sets; k++)
                aggregate_add(a, resource, label_set(a, m, k),
                              metrics[m].is_seconds ? (int64_t)(10526315 * (i % 97 + k + 1)) : 3 * i + k + 1);
    }
}

/* ---- memory ---- */

static double status_mib(const char *field)
{
    char line[256];
    double kib = 0;
    FILE *f = fopen("/proc/self/status", "re");
    need(f, "/proc/self/status");
    while (fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field)))
            kib = strtod(line + strlen(field), NULL);
    fclose(f);
    return kib / 1024;
}

/* The peak is that of what comes from here on (proc(5), clear_refs). */
static void forget_peak(void)
{
    int fd = open("/proc/self/clear_refs", O_WRONLY | O_CLOEXEC);
    need(fd >= 0 && write(fd, "5", 1) == 1, "/proc/self/clear_refs");
    close(fd);
}

/* ---- what is measured ---- */

__attribute__((noinline)) static uint64_t measured_page(struct output *output)
{
    struct metric_batch *batch;
    struct output_receipt *receipt;
    struct prometheus_page *page;
    const struct prometheus_options options = {.own_target = true};
    struct buffer out = BUFFER_INIT(0);
    uint64_t bytes = 0;
    need(output_show(output, now, &batch, &receipt) == 0, "show");
    need(prometheus_page_new(&page, batch, &options) == 0, "page");
    for (int r = 0; r == 0;) {
        out.n = 0;
        r = prometheus_page_next(page, PIECE, &out);
        need(r >= 0, "piece");
        bytes += out.n;
    }
    prometheus_page_free(page);
    metric_batch_free(batch);
    output_told(output, receipt);
    output_receipt_free(receipt);
    buffer_release(&out);
    return bytes;
}

/* A hand-over and a flush. Returns the bytes that leave. */
__attribute__((noinline)) static uint64_t measured_export(struct store *store, struct output *output,
                                                          struct aggregate *a)
{
    struct metric_batch *batch;
    uint32_t from = 0, place = 0;
    uint64_t bytes = 0;
    store_apply(store, 0, aggregate_take(a), now);
    need(output_collect(output, now, &batch) == 0, "collect");
    while (from < batch->n_resources) {
        struct buffer out = BUFFER_INIT(0);
        need(metrics_encode_proto(batch, REQUEST_MAX, &from, &place, &out) == 0, "encode");
        bytes += out.n;
        buffer_release(&out);
    }
    metric_batch_free(batch);
    return bytes;
}

static int by_size(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static uint64_t median(uint64_t *times, uint32_t n)
{
    qsort(times, n, sizeof *times, by_size);
    return times[n / 2];
}

static void page(uint32_t n_processes, uint32_t n_rounds, uint64_t *times)
{
    double empty = status_mib("VmRSS:");
    struct aggregate *a = aggregate_new(metrics, METRICS, NULL);
    struct store *store = store_new(metrics, METRICS, 1, NULL, NULL);
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.projection = PROJECT_KEEP;
    options.keys = output_prometheus_keys;
    options.n_keys = OUTPUT_PROMETHEUS_KEYS;
    options.temporality = METRIC_CUMULATIVE;
    options.max_resources = max_of(options.max_resources, 2 * n_processes);
    options.is_pulled = true;
    struct output *output = a && store ? store_add_output(store, &options, now) : NULL;
    need(output, "out of memory");
    for (uint32_t i = 0; i < n_processes; i += 100) {
        add_processes(a, i, min_of(n_processes - i, 100u), LABEL_SETS);
        store_apply(store, 0, aggregate_take(a), now += NSEC_PER_SEC);
    }
    aggregate_free(a);
    malloc_trim(0);
    const double held = status_mib("VmRSS:");
    double peak = 0;
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < n_rounds; i++) {
        now += NSEC_PER_SEC;
        forget_peak();
        const uint64_t from = clock_thread();
        bytes = measured_page(output);
        times[i] = clock_thread() - from;
        peak = max_of(peak, status_mib("VmHWM:"));
        malloc_trim(0);
    }
    const uint64_t n_series = store_series(store);
    printf("a page of %llu series, %.1f MiB: %.1f ms, of 140,000 %.1f (<= 60)\n",
           (unsigned long long)n_series, (double)bytes / MIB, (double)median(times, n_rounds) / 1e6,
           (double)median(times, n_rounds) / 1e6 * 140000 / (double)n_series);
    printf("the store %.1f MiB, beside it while the page is written %.1f: %.2f times the store (<= 1.3)\n",
           held - empty, peak - held, (peak - empty) / (held - empty));
    store_free(store);
}

static void export(uint32_t n_processes, uint32_t n_rounds, uint64_t *times)
{
    struct aggregate *a = aggregate_new(metrics, METRICS, NULL);
    struct store *store = store_new(metrics, METRICS, 1, NULL, NULL);
    struct output_options options = OUTPUT_OPTIONS_DEFAULT;
    options.max_resources = max_of(options.max_resources, 2 * n_processes);
    struct output *output = a && store ? store_add_output(store, &options, now) : NULL;
    uint64_t bytes = 0;
    need(output, "out of memory");
    for (uint32_t i = 0; i < n_rounds; i++) {
        add_processes(a, i * n_processes, n_processes, 1);
        now += NSEC_PER_SEC;
        const uint64_t from = clock_thread();
        bytes = measured_export(store, output, a);
        times[i] = clock_thread() - from;
    }
    printf("processes that come and go, of %u series and %.0f bytes: %.2f us each (<= 5)\n", METRICS,
           (double)bytes / n_processes, (double)median(times, n_rounds) / 1e3 / n_processes);
    aggregate_free(a);
    store_free(store);
}

int main(int argc, char **argv)
{
    const uint32_t n_processes = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 2000;
    const uint32_t n_rounds = argc > 2 ? (uint32_t)strtoul(argv[2], NULL, 10) : 15;
    need(n_processes > 0 && n_rounds > 0, "usage: bench_series [PROCESSES [ROUNDS]]");
    autofree uint64_t *times = calloc(n_rounds, sizeof *times);
    need(times, "out of memory");
    mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK);
    make_metrics();
    page(n_processes, n_rounds, times);
    export(n_processes, n_rounds, times);
    return 0;
}
