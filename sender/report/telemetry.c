/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/report/telemetry.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/otlp/metrics/metrics.h"

/* A figure: a sum since the start, or what is now (gauge). One attribute at most. */
struct figure {
    const char *name, *unit, *help;
    enum metric_kind kind;
    const char *key, *value;
    double number;
};

struct figures {
    struct figure at[64];
    uint32_t n;
};

static double cost(const struct telemetry *t)
{
    uint64_t all = t->cpu_ns + t->sampler.run_ns;
    return t->sampler.taken ? (double)all / (double)t->sampler.taken / NSEC_PER_SEC : 0;
}

/* Figures of one name stand together. */
static const char refused[] = "profsend.unwind.refused", lost[] = "profsend.lost",
                  stacks[] = "profsend.unwind.stacks";

/* clang-format off */
#define SUM(name, unit, number, help)   {name, unit, help, METRIC_SUM, NULL, NULL, (double)(number)}
#define GAUGE(name, unit, number, help) {name, unit, help, METRIC_GAUGE, NULL, NULL, (double)(number)}
#define BY_REASON(name, unit, help, reason, number) {name, unit, help, METRIC_SUM, "reason", reason, (double)(number)}
#define REFUSED(reason, number) \
    BY_REASON(refused, "{table}", "Files and pages of code whose unwind tables were not loaded, by reason", reason, number)
#define LOST(reason, number) BY_REASON(lost, "{sample}", "Samples and records that did not arrive, by reason", reason, number)
#define ENDED(how, n) {stacks, "{stack}", "User stacks by how their unwinding ended", METRIC_SUM, "end", how, (double)(n)}
#define SECONDS(ns)   ((double)(ns) / NSEC_PER_SEC)

static void collect(struct figures *f, const struct telemetry *t)
{
    const struct figure all[] = {
        SUM("profsend.samples", "{sample}", t->sampler.taken, "Samples taken, lost ones included"),
        SUM("profsend.sent", "{sample}", t->delivery.sent, "Samples acknowledged by the receiver"),
        SUM("profsend.unwanted", "{sample}", t->unwanted, "Samples that the rules of --relabel left out"),
        SUM("profsend.relabel.given_up", "{match}", t->matches_given_up,
            "Matches that the rules of --relabel gave up: too long, or too dear"),
        SUM("profsend.pods.asked", "{request}", t->pods.asked, "Times that a runtime or kubelet was asked for names of pods"),
        SUM("profsend.pods.failed", "{request}", t->pods.failed, "Of these, without an answer"),
        SUM("profsend.requests", "{request}", t->delivery.requests, "Requests handed to the exporter"),
        SUM("profsend.retries", "{attempt}", t->delivery.retries, "Attempts that failed and were repeated"),
        SUM("profsend.windows", "{window}", t->windows, "Windows of samples that were named"),
        SUM("profsend.windows.stretched", "{window}", t->windows_stretched,
            "Ends of windows that waited for the names of the window before"),
        SUM("profsend.naming.time", "s", SECONDS(t->naming_ns), "Time that names and requests took, beside the sampling"),
        SUM("profsend.labels.left_out", "{sample}", t->sampler.labels_left, "Samples of Go whose goroutine has more labels than are taken"),
        SUM("profsend.places.refused", "{process}", t->sampler.places_refused,
            "Processes whose runtime or thread contexts the kernel side has no room for"),
        SUM("profsend.frames.replaced", "{frame}", t->frames_replaced,
            "Frames without a name, whose file was gone or another before it was known"),
        SUM("profsend.waits", "{wait}", t->sampler.waits, "Times that threads were off the CPU"),
        SUM("profsend.waits.short", "{wait}", t->sampler.waits_short, "Of these, shorter than the minimum"),
        SUM("profsend.waits.time", "s", SECONDS(t->sampler.wait_ns), "Time that threads were off the CPU, short waits included"),
        SUM("profsend.lock.waits", "{wait}", t->sampler.locks, "Waits for a lock"),
        SUM("profsend.lock.waits.short", "{wait}", t->sampler.locks_short, "Of these, shorter than the minimum"),
        SUM("process.cpu.time", "s", SECONDS(t->cpu_ns), "CPU time of profsend"),
        SUM("profsend.bpf.time", "s", SECONDS(t->sampler.run_ns), "Time in the kernel side; 0 unless kernel.bpf_stats_enabled is 1"),
        GAUGE("process.memory.usage", "By", t->memory, "Resident memory of profsend"),
        GAUGE("profsend.cost", "s", cost(t), "CPU time of profsend a sample, the kernel side's as far as it is known"),
        GAUGE("profsend.processes", "{process}", t->processes, "Processes known"),
        GAUGE("profsend.files", "{file}", t->files, "Binaries whose names are known"),
        GAUGE("profsend.pending", "{stack}", t->pending, "Stacks that wait for their weight"),
        GAUGE("profsend.spool.files", "{request}", t->spool.requests, "Requests on disk, synced"),
        GAUGE("profsend.spool.waiting", "{request}", t->spool.waiting, "Requests that wait to be written"),
        GAUGE("profsend.spool.size", "By", t->spool.bytes, "Bytes on disk"),
        REFUSED("unpaid", t->tables_unpaid), /* their user's programs have used up what reading them may cost */
        REFUSED("no_room", t->tables_refused),
        REFUSED("failed", t->tables_failed),
        LOST("ring_full", t->sampler.lost),
        LOST("interrupted", t->sampler.busy),
        LOST("malformed", t->sampler.malformed),
        LOST("exec_notice", t->sampler.exec_lost),
        LOST("window", t->window_dropped),
        LOST("pending", t->pending_dropped),
        LOST("undelivered", t->delivery.lost),
        LOST("rejected", t->delivery.rejected),
        LOST("spool_full", t->spool.dropped),
        LOST("process_notice", t->sampler.notices_lost),
        LOST("wait_without_end", t->sampler.unended),
        ENDED("complete", t->sampler.end[UNWIND_END_ROOT]),
        ENDED("too_deep", t->sampler.end[UNWIND_END_DEPTH]),
        ENDED("unreadable", t->sampler.end[UNWIND_END_UNREADABLE]),
        ENDED("not_code", t->sampler.end[UNWIND_END_NOT_CODE]),
        ENDED("no_rule", t->sampler.end[UNWIND_END_NO_RULE]),
        ENDED("bad_frame", t->sampler.end[UNWIND_END_BAD_FRAME]),
        ENDED("other_abi", t->sampler.end[UNWIND_END_OTHER_ABI]),
        ENDED("missing", t->sampler.end[UNWIND_END_MISSING]),
    };
    _Static_assert(sizeof all <= sizeof f->at, "there is room");
    memcpy(f->at, all, sizeof all);
    f->n = ARRAY_LEN(all);
}
/* clang-format on */

/* One metric for each run of figures of one name. False: out of memory. */
static bool fill(struct metric_batch *b, const struct figures *f, const struct telemetry *t)
{
    struct metric *metric = arena_calloc(&b->arena, f->n, sizeof *metric);
    struct metric_point *point = arena_calloc(&b->arena, f->n, sizeof *point);
    struct attr *attr = arena_calloc(&b->arena, f->n, sizeof *attr);
    struct attr *about = arena_calloc(&b->arena, 2, sizeof *about);
    struct metric_resource *resource = arena_calloc(&b->arena, 1, sizeof *resource);
    if (!metric || !point || !attr || !about || !resource)
        return false;
    about[0] = (struct attr){BYTES_LIT("service.name"), {.kind = ATTR_STRING, .text = BYTES_LIT("profsend")}};
    about[1] = (struct attr){BYTES_LIT("host.name"), {.kind = ATTR_STRING, .text = bytes_str(t->host_name)}};
    uint32_t n = 0;
    for (uint32_t i = 0; i < f->n; i++) {
        const struct figure *x = &f->at[i];
        if (i == 0 || x->name != f->at[i - 1].name)
            metric[n++] = (struct metric){.name = bytes_str(x->name),
                                          .description = bytes_str(x->help),
                                          .unit = bytes_str(x->unit),
                                          .kind = x->kind,
                                          .temporality = METRIC_CUMULATIVE,
                                          .points = &point[i]};
        metric[n - 1].n_points++;
        point[i] = (struct metric_point){
            .start_unix_nano = t->begun, .time_unix_nano = t->now, .is_double = true, .real = x->number};
        if (x->key) {
            attr[i] = (struct attr){bytes_str(x->key), {.kind = ATTR_STRING, .text = bytes_str(x->value)}};
            point[i].attrs = &attr[i];
            point[i].n_attrs = 1;
        }
    }
    *resource = (struct metric_resource){.attrs = about, .n_attrs = 2, .metrics = metric, .n_metrics = n};
    b->scope_name = BYTES_LIT("profsend");
    b->scope_version = BYTES_LIT(PROFGATE_VERSION);
    b->resources = resource;
    b->n_resources = 1;
    return true;
}

int telemetry_encode(const struct telemetry *t, struct buffer *out)
{
    struct figures f = {.n = 0};
    uint32_t from = 0, place = 0;
    collect(&f, t);
    struct metric_batch *b = metric_batch_new(NULL);
    int r = b && fill(b, &f, t) ? metrics_encode_proto(b, SIZE_MAX, &from, &place, out) : -ENOMEM;
    metric_batch_free(b);
    return r;
}

int telemetry_text(const struct telemetry *t, struct buffer *out)
{
    struct figures f = {.n = 0};
    char line[256];
    collect(&f, t);
    int n = snprintf(line, sizeof line, "profsend %s on %.64s, up %.0f s, sending to %.100s\n\n",
                     PROFGATE_VERSION, t->host_name, (double)(t->now - t->begun) / NSEC_PER_SEC, t->endpoint);
    int r = buffer_add_bytes(out, bytes_of(line, (size_t)n));
    for (uint32_t i = 0; r == 0 && i < f.n; i++) {
        const struct figure *x = &f.at[i];
        char name[96];
        if (x->key)
            snprintf(name, sizeof name, "%s{%s=%s}", x->name, x->key, x->value);
        else
            snprintf(name, sizeof name, "%s", x->name);
        n = snprintf(line, sizeof line, "%-44s %16.10g %s\n", name, x->number, x->unit);
        r = buffer_add_bytes(out, bytes_of(line, (size_t)n));
    }
    return r;
}

/* A figure's name as Prometheus has it. */
static void exposed_name(const struct figure *x, char ret[96])
{
    const char *unit = strcmp(x->unit, "s") == 0 ? "_seconds" : strcmp(x->unit, "By") == 0 ? "_bytes" : "";
    snprintf(ret, 96, "%s%s%s", x->name, unit, x->kind == METRIC_SUM ? "_total" : "");
    for (char *c = ret; *c; c++)
        *c = *c == '.' ? '_' : *c;
}

int telemetry_exposition(const struct telemetry *t, struct buffer *out)
{
    struct figures f = {.n = 0};
    char line[512], name[96];
    int r = 0;
    collect(&f, t);
    for (uint32_t i = 0; r == 0 && i < f.n; i++) {
        const struct figure *x = &f.at[i];
        int n = 0;
        exposed_name(x, name);
        if (i == 0 || x->name != f.at[i - 1].name)
            n = snprintf(line, sizeof line, "# HELP %s %s\n# TYPE %s %s\n", name, x->help, name,
                         x->kind == METRIC_SUM ? "counter" : "gauge");
        if (x->key)
            n += snprintf(line + n, sizeof line - (size_t)n, "%s{%s=\"%s\"} %.17g\n", name, x->key, x->value,
                          x->number);
        else
            n += snprintf(line + n, sizeof line - (size_t)n, "%s %.17g\n", name, x->number);
        r = buffer_add_bytes(out, bytes_of(line, (size_t)n));
    }
    return r;
}
