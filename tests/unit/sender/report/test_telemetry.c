/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <string.h>

#include "proto/wire/reader.h"
#include "sender/report/telemetry.h"

static struct telemetry some(void)
{
    struct telemetry t = {.begun = 1000000000,
                          .now = 61000000000,
                          .cpu_ns = 500000000,
                          .memory = 12345678,
                          .endpoint = "http://gw:4317",
                          .host_name = "box"};
    t.sampler.taken = 1000;
    t.sampler.lost = 7;
    t.sampler.end[UNWIND_END_ROOT] = 900;
    t.spool.dropped = 3;
    t.spool.requests = 8;
    t.spool.waiting = 5;
    t.tables_unpaid = 4;
    t.frames_replaced = 9;
    t.sampler.places_refused = 6;
    t.windows = 12;
    t.windows_stretched = 2;
    t.naming_ns = 1500000000;
    return t;
}

static bool has_line(const struct buffer *b, const char *name, const char *value)
{
    const uint8_t *at = memmem(b->p, b->n, name, strlen(name));
    const uint8_t *end = at ? memchr(at + 1, '\n', (size_t)(b->p + b->n - at) - 1) : NULL;
    return end && memmem(at, (size_t)(end - at) + 1, value, strlen(value));
}

UNIT(the_page_has_a_line_for_each_figure)
{
    struct buffer out = {0};
    struct telemetry t = some();
    ck_assert_int_eq(telemetry_text(&t, &out), 0);
    ck_assert(has_line(&out, "profsend.samples ", " 1000 {sample}"));
    ck_assert(has_line(&out, "profsend.lost{reason=ring_full}", " 7 "));
    ck_assert(has_line(&out, "profsend.lost{reason=spool_full}", " 3 "));
    ck_assert(has_line(&out, "profsend.spool.files", " 8 "));
    ck_assert(has_line(&out, "profsend.spool.waiting", " 5 "));
    ck_assert(has_line(&out, "profsend.unwind.stacks{end=complete}", " 900 "));
    ck_assert(has_line(&out, "profsend.unwind.refused{reason=unpaid}", " 4 "));
    ck_assert(has_line(&out, "profsend.places.refused ", " 6 "));
    ck_assert(has_line(&out, "profsend.frames.replaced ", " 9 {frame}"));
    ck_assert(has_line(&out, "profsend.cost", " 0.0005 s"));
    ck_assert(has_line(&out, "profsend.windows ", " 12 {window}"));
    ck_assert(has_line(&out, "profsend.windows.stretched ", " 2 {window}"));
    ck_assert(has_line(&out, "profsend.naming.time ", " 1.5 s"));
    ck_assert(has_line(&out, "profsend ", "up 60 s"));
    buffer_release(&out);
    t.sampler.taken = 0; /* no sample has no cost */
    ck_assert_int_eq(telemetry_text(&t, &out), 0);
    ck_assert(has_line(&out, "profsend.cost", " 0 s"));
    buffer_release(&out);
}

static uint32_t count(struct bytes message, uint32_t number, struct bytes *ret_last)
{
    struct wire_reader r = wire_reader(message);
    uint32_t n = 0;
    for (struct wire_field f; wire_next(&r, &f) == 0;) {
        if (f.number == number && f.type == WIRE_LEN) {
            *ret_last = f.bytes;
            n++;
        }
    }
    return n;
}

/* resource_metrics = 1, scope_metrics = 2, metrics = 2 (metrics.proto): each name once, however many points.
 */
UNIT(the_request_has_each_metric_once)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct telemetry t = some();
    struct bytes resource, scope, metric;
    ck_assert_int_eq(telemetry_encode(&t, &out), 0);
    ck_assert_uint_eq(count(bytes_of(out.p, out.n), 1, &resource), 1);
    ck_assert_uint_eq(count(resource, 2, &scope), 1);
    ck_assert_uint_eq(count(scope, 2, &metric), 32);
}

UNIT(prometheus_is_told_the_same)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct telemetry t = some();
    ck_assert_int_eq(telemetry_exposition(&t, &out), 0);
    ck_assert(has_line(&out, "\nprofsend_samples_total ", " 1000\n"));
    ck_assert(has_line(&out, "profsend_lost_total{reason=\"ring_full\"} ", " 7\n"));
    ck_assert(has_line(&out, "\nprocess_cpu_time_seconds_total ", " 0.5\n"));
    ck_assert(has_line(&out, "\nprocess_memory_usage_bytes ", " 12345678\n"));
    ck_assert(has_line(&out, "# TYPE process_memory_usage_bytes ", "gauge\n"));
    ck_assert(has_line(&out, "# TYPE profsend_lost_total ", "counter\n"));
    const uint8_t *first = memmem(out.p, out.n, "# TYPE profsend_lost_total", 26);
    size_t behind = (size_t)(out.p + out.n - first) - 26;
    ck_assert_ptr_null(memmem(first + 26, behind, "# TYPE profsend_lost_total", 26)); /* once */
}
