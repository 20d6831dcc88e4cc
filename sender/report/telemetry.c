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

#define FIGURES_MAX 64u

struct figures {
    struct figure at[FIGURES_MAX];
    uint32_t n;
};

static void add(struct figures *f, struct figure figure)
{
    if (f->n < FIGURES_MAX)
        f->at[f->n++] = figure;
}

#define LOST "Samples and records that did not arrive, by reason"
#define ENDS "User stacks by how their unwinding ended"

static void losses(struct figures *f, const struct telemetry *t)
{
    const struct {
        const char *reason;
        uint64_t n;
    } lost[] = {
        {"ring_full", t->sampler.lost},
        {"interrupted", t->sampler.busy},
        {"malformed", t->sampler.malformed},
        {"exec_notice", t->sampler.exec_lost},
        {"window", t->window_dropped},
        {"pending", t->pending_dropped},
        {"undelivered", t->delivery.lost},
        {"rejected", t->delivery.rejected},
        {"spool_full", t->spool.dropped},
        {"process_notice", t->sampler.notices_lost},
        {"wait_without_end", t->sampler.unended},
    };
    for (size_t i = 0; i < ARRAY_LEN(lost); i++)
        add(f, (struct figure){"profsend.lost", "{sample}", LOST, METRIC_SUM, "reason", lost[i].reason,
                               (double)lost[i].n});
}

static void unwinding(struct figures *f, const struct telemetry *t)
{
    static const char *const ends[UNWIND_ENDS] = {
        [UNWIND_END_ROOT] = "complete",         [UNWIND_END_DEPTH] = "too_deep",
        [UNWIND_END_UNREADABLE] = "unreadable", [UNWIND_END_NOT_CODE] = "not_code",
        [UNWIND_END_NO_RULE] = "no_rule",       [UNWIND_END_BAD_FRAME] = "bad_frame",
        [UNWIND_END_OTHER_ABI] = "other_abi",   [UNWIND_END_MISSING] = "missing",
    };
    for (uint32_t i = 0; i < UNWIND_ENDS; i++)
        if (ends[i])
            add(f, (struct figure){"profsend.unwind.stacks", "{stack}", ENDS, METRIC_SUM, "end", ends[i],
                                   (double)t->sampler.end[i]});
}

#define TABLES "Files and pages of code whose unwind tables were not loaded, by reason"

static void refusals(struct figures *f, const struct telemetry *t)
{
    const struct {
        const char *reason;
        uint64_t n;
    } refused[] = {
        {"unpaid", t->tables_unpaid}, /* their user's programs have used up what reading them may cost */
        {"no_room", t->tables_refused},
        {"failed", t->tables_failed},
    };
    for (size_t i = 0; i < ARRAY_LEN(refused); i++)
        add(f, (struct figure){"profsend.unwind.refused", "{table}", TABLES, METRIC_SUM, "reason",
                               refused[i].reason, (double)refused[i].n});
}

static double cost(const struct telemetry *t)
{
    uint64_t all = t->cpu_ns + t->sampler.run_ns;
    return t->sampler.taken ? (double)all / (double)t->sampler.taken / NSEC_PER_SEC : 0;
}

static void collect(struct figures *f, const struct telemetry *t)
{
    const struct figure rest[] = {
        {"profsend.samples", "{sample}", "Samples taken, lost ones included", METRIC_SUM, NULL, NULL,
         (double)t->sampler.taken},
        {"profsend.sent", "{sample}", "Samples acknowledged by the receiver", METRIC_SUM, NULL, NULL,
         (double)t->delivery.sent},
        {"profsend.unwanted", "{sample}", "Samples that the rules of --relabel left out", METRIC_SUM, NULL,
         NULL, (double)t->unwanted},
        {"profsend.relabel.given_up", "{match}",
         "Matches that the rules of --relabel gave up: too long, or too dear", METRIC_SUM, NULL, NULL,
         (double)t->matches_given_up},
        {"profsend.pods.asked", "{request}", "Times that a runtime or kubelet was asked for names of pods",
         METRIC_SUM, NULL, NULL, (double)t->pods.asked},
        {"profsend.pods.failed", "{request}", "Of these, without an answer", METRIC_SUM, NULL, NULL,
         (double)t->pods.failed},
        {"profsend.requests", "{request}", "Requests handed to the exporter", METRIC_SUM, NULL, NULL,
         (double)t->delivery.requests},
        {"profsend.retries", "{attempt}", "Attempts that failed and were repeated", METRIC_SUM, NULL, NULL,
         (double)t->delivery.retries},
        {"profsend.windows", "{window}", "Windows of samples that were named", METRIC_SUM, NULL, NULL,
         (double)t->windows},
        {"profsend.windows.stretched", "{window}",
         "Ends of windows that waited for the names of the window before", METRIC_SUM, NULL, NULL,
         (double)t->windows_stretched},
        {"profsend.naming.time", "s", "Time that names and requests took, beside the sampling", METRIC_SUM,
         NULL, NULL, (double)t->naming_ns / NSEC_PER_SEC},
        {"profsend.labels.left_out", "{sample}",
         "Samples of Go whose goroutine has more labels than are taken", METRIC_SUM, NULL, NULL,
         (double)t->sampler.labels_left},
        {"profsend.places.refused", "{process}",
         "Processes whose runtime or thread contexts the kernel side has no room for", METRIC_SUM, NULL, NULL,
         (double)t->sampler.places_refused},
        {"profsend.waits", "{wait}", "Times that threads were off the CPU", METRIC_SUM, NULL, NULL,
         (double)t->sampler.waits},
        {"profsend.waits.short", "{wait}", "Of these, shorter than the minimum", METRIC_SUM, NULL, NULL,
         (double)t->sampler.waits_short},
        {"profsend.waits.time", "s", "Time that threads were off the CPU, short waits included", METRIC_SUM,
         NULL, NULL, (double)t->sampler.wait_ns / NSEC_PER_SEC},
        {"profsend.lock.waits", "{wait}", "Waits for a lock", METRIC_SUM, NULL, NULL,
         (double)t->sampler.locks},
        {"profsend.lock.waits.short", "{wait}", "Of these, shorter than the minimum", METRIC_SUM, NULL, NULL,
         (double)t->sampler.locks_short},
        {"process.cpu.time", "s", "CPU time of profsend", METRIC_SUM, NULL, NULL,
         (double)t->cpu_ns / NSEC_PER_SEC},
        {"profsend.bpf.time", "s", "Time in the kernel side; 0 unless kernel.bpf_stats_enabled is 1",
         METRIC_SUM, NULL, NULL, (double)t->sampler.run_ns / NSEC_PER_SEC},
        {"process.memory.usage", "By", "Resident memory of profsend", METRIC_GAUGE, NULL, NULL,
         (double)t->memory},
        {"profsend.cost", "s", "CPU time of profsend a sample, the kernel side's as far as it is known",
         METRIC_GAUGE, NULL, NULL, cost(t)},
        {"profsend.processes", "{process}", "Processes known", METRIC_GAUGE, NULL, NULL, t->processes},
        {"profsend.files", "{file}", "Binaries whose names are known", METRIC_GAUGE, NULL, NULL, t->files},
        {"profsend.pending", "{stack}", "Stacks that wait for their weight", METRIC_GAUGE, NULL, NULL,
         t->pending},
        {"profsend.spool.files", "{request}", "Requests on disk, synced", METRIC_GAUGE, NULL, NULL,
         (double)t->spool.requests},
        {"profsend.spool.waiting", "{request}", "Requests that wait to be written", METRIC_GAUGE, NULL, NULL,
         (double)t->spool.waiting},
        {"profsend.spool.size", "By", "Bytes on disk", METRIC_GAUGE, NULL, NULL, (double)t->spool.bytes},
    };
    for (size_t i = 0; i < ARRAY_LEN(rest); i++)
        add(f, rest[i]);
    refusals(f, t);
    losses(f, t);
    unwinding(f, t);
}

/* One metric for each run of figures of one name. False: out of memory. */
static bool fill(struct metric_batch *b, const struct figures *f, const struct telemetry *t)
{
    struct metric *metric = arena_calloc(&b->arena, FIGURES_MAX, sizeof *metric);
    struct metric_point *point = arena_calloc(&b->arena, FIGURES_MAX, sizeof *point);
    struct attr *attr = arena_calloc(&b->arena, FIGURES_MAX, sizeof *attr);
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
