/* SPDX-License-Identifier: Apache-2.0 */
/* Remote write requests, read back field by field. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/export/remote_write/remote_write.h"
#include "proto/base/macros.h"
#include "proto/wire/reader.h"

#define MS 1000000u

static struct attr text(const char *key, const char *value)
{
    return (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = bytes_str(value)}};
}

static struct metric_exemplar exemplar_of(uint64_t time, int64_t value)
{
    struct metric_exemplar e = {.time_unix_nano = time, .integer = value};
    memset(e.trace_id, 0xa1, sizeof e.trace_id);
    memset(e.span_id, 0x0b, sizeof e.span_id);
    return e;
}

/* ---- a reader: one line a series, as text ---- */

struct parsed {
    struct bytes symbols[20000];
    uint32_t n_symbols, n_series;
    struct buffer text;
};

static double double_of(uint64_t bits)
{
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

/* name="value", of label messages or of refs */
static void add_label(struct parsed *p, struct bytes name, struct bytes value)
{
    buffer_printf(&p->text, "%.*s=%.*s,", BYTES_FMT(name), BYTES_FMT(value));
}

static void read_label(struct parsed *p, struct bytes message)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    struct bytes part[3] = {{0}};
    while (wire_next(&r, &f) == 0) {
        ck_assert(f.type == WIRE_LEN && (f.number == 1 || f.number == 2));
        part[f.number] = f.bytes;
    }
    add_label(p, part[1], part[2]);
}

static void read_refs(struct parsed *p, struct bytes packed)
{
    struct bytes name = {0};
    uint64_t v = 0;
    unsigned shift = 0, n = 0;
    for (size_t i = 0; i < packed.n; i++) {
        v |= (uint64_t)(packed.p[i] & 0x7f) << shift;
        shift = packed.p[i] & 0x80 ? shift + 7 : 0;
        if (shift)
            continue;
        ck_assert_uint_lt(v, p->n_symbols);
        if (n++ % 2 == 0)
            name = p->symbols[v];
        else
            add_label(p, name, p->symbols[v]);
        v = 0;
    }
    ck_assert_uint_eq(n % 2, 0);
}

/* Sample, Exemplar or Metadata: numbers by field, labels through fn. */
static void read_parts(struct parsed *p, const char *what, struct bytes message,
                       void (*labels)(struct parsed *p, struct bytes b))
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    buffer_printf(&p->text, " %s(", what);
    while (wire_next(&r, &f) == 0) {
        if (f.type == WIRE_LEN)
            labels(p, f.bytes);
        else if (f.type == WIRE_I64 && isnan(double_of(f.value)))
            buffer_printf(&p->text, "%llx ", (unsigned long long)f.value);
        else if (f.type == WIRE_I64)
            buffer_printf(&p->text, "%g ", double_of(f.value));
        else
            buffer_printf(&p->text, "%u:%lld ", f.number, (long long)f.value);
    }
    ck_assert_uint_gt(p->text.n, 0);
    p->text.n -= p->text.p[p->text.n - 1] == ' ';
    buffer_add_str(&p->text, ")");
}

static void read_series(struct parsed *p, struct bytes message, int version)
{
    struct wire_reader r = wire_reader(message);
    struct wire_field f;
    while (wire_next(&r, &f) == 0) {
        if (f.number == 1 && version == 1)
            read_label(p, f.bytes);
        else if (f.number == 1)
            read_refs(p, f.bytes);
        else if (f.number == 2)
            read_parts(p, "sample", f.bytes, read_label);
        else if (f.number == (version == 1 ? 3 : 4))
            read_parts(p, "exemplar", f.bytes, version == 1 ? read_label : read_refs);
        else if (f.number == 5 && version == 2) {
            struct wire_reader inner = wire_reader(f.bytes);
            struct wire_field g;
            buffer_add_str(&p->text, " metadata(");
            while (wire_next(&inner, &g) == 0)
                g.number == 1 ? buffer_printf(&p->text, "%u", (unsigned)g.value)
                              : buffer_printf(&p->text, " %.*s", BYTES_FMT(p->symbols[g.value]));
            buffer_add_str(&p->text, ")");
        } else {
            ck_assert_uint_eq(f.number, 6);
            buffer_printf(&p->text, " created(%lld)", (long long)f.value);
        }
    }
    buffer_add_str(&p->text, "\n");
    p->n_series++;
}

static void read_request(struct parsed *p, struct bytes body, int version)
{
    struct wire_reader r = wire_reader(body);
    struct wire_field f;
    int end;
    p->n_symbols = 0;
    while ((end = wire_next(&r, &f)) == 0) {
        ck_assert_int_eq(f.type, WIRE_LEN);
        if (version == 2 && f.number == 4) {
            ck_assert_uint_lt(p->n_symbols, ARRAY_LEN(p->symbols));
            p->symbols[p->n_symbols++] = f.bytes;
        } else {
            ck_assert_uint_eq(f.number, version == 1 ? 1 : 5);
            read_series(p, f.bytes, version);
        }
    }
    ck_assert_int_eq(end, WIRE_END);
    if (version == 2)
        ck_assert(p->n_symbols > 0 && p->symbols[0].n == 0);
}

/* All requests of a batch, below max_bytes each; how many. */
static uint32_t read_batch(struct parsed *p, const struct metric_batch *b, int version, size_t max_bytes,
                           struct prometheus_options options)
{
    struct remote_write *w;
    uint32_t requests = 0, n;
    ck_assert_int_eq(remote_write_new(&w, b, (enum remote_write_version)version, &options), 0);
    for (;;) {
        struct buffer out = BUFFER_INIT(0);
        uint32_t before = p->n_series;
        ck_assert_int_eq(remote_write_next(w, max_bytes, &out, &n), 0);
        if (n == 0) {
            ck_assert_uint_eq(out.n, 0);
            break;
        }
        if (n > 1)
            ck_assert_uint_le(out.n, max_bytes);
        read_request(p, buffer_bytes(&out), version);
        ck_assert_uint_eq(p->n_series - before, n);
        buffer_release(&out);
        requests++;
    }
    remote_write_free(w);
    return requests;
}

static struct metric_batch *small_batch(void)
{
    static struct attr attrs[2], label[2];
    static struct metric_point cpu[2], heap[1];
    static struct metric metrics[2];
    static struct metric_resource resource;
    static struct metric_exemplar e;
    attrs[0] = text("service.name", "shop");
    attrs[1] = text("Z", "capital");
    label[0] = text("l", "a");
    label[1] = text("__name__", "mine");
    e = exemplar_of(7 * MS + 999, 3);
    cpu[0] = (struct metric_point){.attrs = label,
                                   .n_attrs = 2,
                                   .integer = 5,
                                   .start_unix_nano = 2 * MS,
                                   .time_unix_nano = 9 * MS,
                                   .exemplar = &e};
    cpu[1] = (struct metric_point){.stale = true, .start_unix_nano = 2 * MS, .time_unix_nano = 9 * MS};
    heap[0] = (struct metric_point){.integer = -4, .time_unix_nano = 9 * MS};
    metrics[0] = (struct metric){.name = BYTES_LIT("cpu.time"),
                                 .unit = BYTES_LIT("s"),
                                 .description = BYTES_LIT("CPU"),
                                 .temporality = METRIC_CUMULATIVE,
                                 .points = cpu,
                                 .n_points = 2};
    metrics[1] = (struct metric){.name = BYTES_LIT("heap"),
                                 .unit = BYTES_LIT("By"),
                                 .kind = METRIC_GAUGE,
                                 .points = heap,
                                 .n_points = 1};
    resource = (struct metric_resource){.attrs = attrs, .n_attrs = 2, .metrics = metrics, .n_metrics = 2};
    struct metric_batch *b = unit_made(metric_batch_new(NULL));
    b->resources = &resource;
    b->n_resources = 1;
    return b;
}

static void expect(int version, struct prometheus_options options, const char *wanted)
{
    static struct parsed p;
    p = (struct parsed){.text = BUFFER_INIT(0)};
    struct metric_batch *b = small_batch();
    ck_assert_uint_eq(read_batch(&p, b, version, 100000, options), 1);
    ck_assert_int_eq(buffer_add(&p.text, "", 1), 0);
    ck_assert_str_eq((char *)p.text.p, wanted);
    buffer_release(&p.text);
    metric_batch_free(b);
}

#define TRACE "a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1a1"

UNIT(version_1)
{
    expect(1, (struct prometheus_options){0},
           "Z=capital,__name__=cpu_time_seconds_total,_name__=mine,job=shop,l=a, sample(5 2:9)"
           " exemplar(span_id=0b0b0b0b0b0b0b0b,trace_id=" TRACE ",3 3:7)\n"
           "Z=capital,__name__=cpu_time_seconds_total,job=shop, sample(7ff0000000000002 2:9)\n"
           "Z=capital,__name__=heap_bytes,job=shop, sample(-4 2:9)\n"
           "Z=capital,__name__=target_info,job=shop, sample(1 2:9)\n");
}

UNIT(version_2)
{
    expect(
        2, (struct prometheus_options){.strategy = PROMETHEUS_NO_TRANSLATION},
        "Z=capital,__name__=cpu.time,_name__=mine,job=shop,l=a, sample(5 2:9 3:2)"
        " exemplar(span_id=0b0b0b0b0b0b0b0b,trace_id=" TRACE ",3 3:7) metadata(1 CPU) created(2)\n"
        "Z=capital,__name__=cpu.time,job=shop, sample(7ff0000000000002 2:9 3:2) metadata(1 CPU) created(2)\n"
        "Z=capital,__name__=heap,job=shop, sample(-4 2:9) metadata(2)\n"
        "Z=capital,__name__=target_info,job=shop, sample(1 2:9) metadata(6 Target metadata)\n");
}

/* n series in three resources, of one metric each. */
static struct metric_batch *large_batch(uint32_t n)
{
    struct metric_batch *b = unit_made(metric_batch_new(NULL));
    b->n_resources = 3;
    b->resources = unit_made(arena_calloc(&b->arena, 3, sizeof *b->resources));
    for (uint32_t r = 0; r < 3; r++) {
        struct metric *m = unit_made(arena_calloc(&b->arena, 1, sizeof *m));
        struct attr *attrs = unit_made(arena_calloc(&b->arena, 1, sizeof *attrs));
        attrs[0] = text("host.name", arena_printf(&b->arena, "h%u", r));
        *m = (struct metric){.name = BYTES_LIT("m"), .temporality = METRIC_CUMULATIVE, .n_points = n};
        m->points = unit_made(arena_calloc(&b->arena, n, sizeof *m->points));
        for (uint32_t i = 0; i < n; i++) {
            struct attr *labels = unit_made(arena_calloc(&b->arena, 1, sizeof *labels));
            labels[0] = text("l", arena_printf(&b->arena, "value-%u", i));
            m->points[i] =
                (struct metric_point){.attrs = labels, .n_attrs = 1, .integer = 1, .time_unix_nano = MS};
        }
        b->resources[r] = (struct metric_resource){attrs, 1, {0}, m, 1};
    }
    return b;
}

UNIT(split_below_a_limit_loses_nothing)
{
    static struct parsed p;
    struct metric_batch *b = large_batch(300);
    for (int version = 1; version <= 2; version++) {
        static const size_t limits[] = {1, 1000, 5000, 1000000};
        for (size_t l = 0; l < ARRAY_LEN(limits); l++) {
            p = (struct parsed){.text = BUFFER_INIT(0)};
            uint32_t requests = read_batch(&p, b, version, limits[l], (struct prometheus_options){0});
            ck_assert_uint_eq(p.n_series, 900);
            ck_assert(limits[l] != 1 || requests == 900);
            ck_assert(limits[l] != 1000000 || requests == 1);
            uint32_t lines = 0;
            for (size_t i = 0; i < p.text.n; i++)
                lines += p.text.p[i] == '\n';
            ck_assert_uint_eq(lines, 900);
            buffer_release(&p.text);
        }
    }
    metric_batch_free(b);
}

UNIT(a_failure_moves_nothing)
{
    struct metric_batch *b = large_batch(50);
    for (int version = 1; version <= 2; version++) {
        struct remote_write *w;
        struct prometheus_options options = {0};
        uint32_t n;
        ck_assert_int_eq(remote_write_new(&w, b, (enum remote_write_version)version, &options), 0);
        struct buffer small = BUFFER_INIT(100), out = BUFFER_INIT(0);
        ck_assert_int_eq(buffer_add_str(&small, "before"), 0);
        ck_assert_int_eq(remote_write_next(w, 100000, &small, &n), -ENOBUFS);
        ck_assert_uint_eq(small.n, 6);
        ck_assert_int_eq(remote_write_next(w, 100000, &out, &n), 0);
        ck_assert_uint_eq(n, 150);
        buffer_release(&small);
        buffer_release(&out);
        remote_write_free(w);
    }
    b->resources[0].metrics[0].temporality = METRIC_DELTA;
    struct remote_write *none = NULL;
    struct prometheus_options options = {0};
    ck_assert_int_eq(remote_write_new(&none, b, REMOTE_WRITE_1, &options), -EINVAL);
    ck_assert_ptr_null(none);
    metric_batch_free(b);
}

UNIT(without_memory_nothing_is_left_behind)
{
    struct budget budget = BUDGET_INIT(SIZE_MAX, NULL);
    struct metric_batch *b = large_batch(50);
    uint32_t failed = 0;
    for (size_t limit = 0;; limit += 1000) {
        struct remote_write *w = NULL;
        struct prometheus_options options = {0};
        struct buffer out = BUFFER_INIT(0);
        uint32_t n = 0;
        budget.limit = limit;
        b->arena.budget = &budget;
        int r = remote_write_new(&w, b, REMOTE_WRITE_2, &options);
        if (r == 0)
            r = remote_write_next(w, 100000, &out, &n);
        remote_write_free(w);
        b->arena.budget = NULL;
        ck_assert_uint_eq(budget.used, 0);
        ck_assert_uint_eq(out.n > 0, r == 0);
        buffer_release(&out);
        if (r == 0)
            break;
        ck_assert_int_eq(r, -ENOMEM);
        ck_assert_uint_lt(limit, 64 << 20);
        failed++;
    }
    ck_assert_uint_gt(failed, 5);
    metric_batch_free(b);
}
