/* SPDX-License-Identifier: Apache-2.0 */
/* `profgate top`: reading pages, and the picture drawn of them. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/top/fetch.h"
#include "gateway/top/parse.h"
#include "gateway/top/table.h"
#include "gateway/top/words.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"

static struct top_page page_of(const char *text)
{
    struct top_page page;
    ck_assert_int_eq(top_page_read(bytes_str(text), &page), 0);
    return page;
}

static const char small[] = "# HELP x_total It counts \\n things\n"
                            "# TYPE x_total counter\n"
                            "x_total{a=\"1\",b=\"q\\\"u}o\\\\te\",instance=\"\",job=\"\"} 3\n"
                            "x_total{a=\"2\"} 4.5 1700000000000\r\n"
                            "# a remark\n"
                            "\n"
                            "# TYPE y gauge\n"
                            "y 1e3\n"
                            "y{} NaN\n"
                            "z{a=\"1\",} +Inf";

UNIT(a_page_is_read)
{
    struct top_page page = page_of(small);
    ck_assert_uint_eq(page.n_samples, 5);
    ck_assert_uint_eq(page.n_bad, 0);
    ck_assert_uint_eq(page.names.n, 3);
    ck_assert(bytes_is(page.families[0].name, "x_total"));
    ck_assert(bytes_is(page.families[0].help, "It counts \\n things"));
    ck_assert_int_eq(page.families[0].type, TOP_COUNTER);
    ck_assert_int_eq(page.families[1].type, TOP_GAUGE);
    ck_assert_int_eq(page.families[2].type, TOP_UNTYPED);
    ck_assert_double_eq(page.samples[1].value, 4.5);
    ck_assert(bytes_is(page.samples[1].key, "x_total{a=\"2\"}"));
    ck_assert(isnan(page.samples[3].value) && isinf(page.samples[4].value));
    struct bytes rest = page.samples[0].labels, name, value;
    ck_assert(top_label_next(&rest, &name, &value) && bytes_is(name, "a") && bytes_is(value, "1"));
    ck_assert(top_label_next(&rest, &name, &value) && bytes_is(value, "q\\\"u}o\\\\te"));
    ck_assert(!top_label_next(&rest, &name, &value));
    ck_assert_double_eq(top_page_sum(&page, "x_total", -1), 7.5);
    ck_assert_double_eq(top_page_sum(&page, "absent", -1), -1);
    top_page_release(&page);
}

UNIT(lines_that_are_none_are_left_out)
{
    static const char *const bad[] = {"x",           "x{",    "x{a=\"1\" 3", "x{a=1} 3",
                                      "{a=\"1\"} 3", "x one", "x{a=\"1}",    "x{a\"1\"} 1",
                                      "x{a=\"1\"}3", "x 1x",  "<html>",      "x{a=\"\\"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        struct top_page page = page_of(bad[i]);
        ck_assert_msg(page.n_samples == 0 && page.n_bad == 1, "%s", bad[i]);
        top_page_release(&page);
    }
}

UNIT(pages_are_bounded)
{
    struct buffer text = BUFFER_INIT(0);
    for (uint32_t i = 0; i <= TOP_FAMILIES_MAX; i++)
        ck_assert_int_eq(buffer_printf(&text, "f%u 1\n", i), 0);
    struct top_page page;
    ck_assert_int_eq(top_page_read(buffer_bytes(&text), &page), -E2BIG);
    ck_assert_int_eq(top_page_read(bytes_of(text.p, (size_t)TOP_TEXT_MAX + 1), &page), -E2BIG);
    text.n = 0;
    for (uint32_t i = 0; i <= TOP_SAMPLES_MAX; i++)
        ck_assert_int_eq(buffer_add_str(&text, "x 1\n"), 0);
    ck_assert_int_eq(top_page_read(buffer_bytes(&text), &page), -E2BIG);
    buffer_release(&text);
}

UNIT(numbers_for_people)
{
    static const struct {
        double v;
        const char *number, *bytes;
    } cases[] = {
        {0, "0", "0 B"},
        {0.034, "0.034", "0 B"},
        {1.254, "1.25", "1 B"},
        {42.24, "42.2", "42 B"},
        {812, "812", "812 B"},
        {9999, "9999", "9.8 KiB"},
        {14200, "14.2k", "13.9 KiB"},
        {3.1e6, "3.1M", "3.0 MiB"},
        {5e9, "5.0G", "4.7 GiB"},
        {INFINITY, "inf", "inf PiB"},
        {1e30, "1.0e+30", "8.9e+14 PiB"},
    };
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        char text[16];
        top_number(cases[i].v, text);
        ck_assert_str_eq(text, cases[i].number);
        top_bytes(cases[i].v, text);
        ck_assert_str_eq(text, cases[i].bytes);
    }
}

#define OWN                                                                      \
    "# TYPE process_start_time_seconds gauge\nprocess_start_time_seconds 1000\n" \
    "# TYPE process_resident_memory_bytes gauge\nprocess_resident_memory_bytes 10485760\n"
#define CPU "# TYPE profile_cpu_time_seconds_total counter\n"
#define AT  "host_name=\"h1\",job=\"shop\",process_executable_name="

static const char page_before[] =
    OWN CPU "profile_cpu_time_seconds_total{" AT "\"java\",mode=\"user\",runtime=\"jvm\"} 10\n"
            "profile_cpu_time_seconds_total{" AT "\"api\",mode=\"user\",runtime=\"go\"} 10\n"
            "# TYPE profgate_samples_total counter\nprofgate_samples_total 100\n";
static const char page_after[] =
    OWN CPU "profile_cpu_time_seconds_total{" AT "\"java\",mode=\"user\",runtime=\"jvm\"} 13\n"
            "profile_cpu_time_seconds_total{" AT "\"api\",mode=\"user\",runtime=\"go\"} 10.5\n"
            "profile_cpu_time_seconds_total{" AT "\"api\",mode=\"\x1b[31mred\",runtime=\"go\"} 0.5\n"
            "# HELP odd_bytes Bytes held\n# TYPE odd_bytes gauge\nodd_bytes 2048\n"
            "# TYPE profgate_samples_total counter\nprofgate_samples_total 400\n";

static char *draw(const struct top_view *view, const char *before, const char *after)
{
    struct top_page a = page_of(before), b = page_of(after);
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(top_table(view, &a, &b, 2, 1090, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    top_page_release(&a);
    top_page_release(&b);
    size_t n;
    return (char *)buffer_take(&out, &n);
}

UNIT(a_table)
{
    struct top_view view = {.url = "http://h:1", .width = 140};
    char *text = draw(&view, page_before, page_after);
    ck_assert_str_eq(text, "profgate top  http://h:1   up 1m 30s   memory 10.0 MiB   cpu 0 cores\n"
                           "150 samples/s   0 requests/s   0 B/s in   0 series   over 2.0 s\n"
                           "\n"
                           "CPU by runtime and mode: 2 cores  host=h1  service=shop\n"
                           "    1.50 cores  75.0% █████████     mode=user  runtime=jvm  process=java\n"
                           "    0.25 cores  12.5% █▌            mode=?[31mred  runtime=go  process=api\n"
                           "    0.25 cores  12.5% █▌            mode=user  runtime=go  process=api\n"
                           "\n"
                           "Bytes held: 2.0 KiB\n"
                           "       2.0 KiB 100.0% ████████████  (all)\n");
    free(text);
}

UNIT(a_table_fits_the_terminal)
{
    for (uint32_t height = 1; height < 14; height++) {
        struct top_view view = {.url = "http://h:1", .width = 30, .height = height};
        char *text = draw(&view, page_before, page_after);
        uint32_t lines = 0, columns = 0;
        for (const char *c = text; *c; c++) {
            columns = *c == '\n' ? 0 : columns + ((*c & 0xc0) != 0x80);
            lines += *c == '\n';
            ck_assert_uint_le(columns, 30);
            ck_assert_int_ne(*c, '\x1b');
        }
        ck_assert_uint_le(lines, max_of(height, 2u));
        free(text);
    }
}

UNIT(a_gateway_that_began_anew_and_one_that_counts_nothing)
{
    struct top_view view = {.url = "u", .width = 100};
    char *text = draw(&view, page_after, page_before); /* every counter is smaller than before, or gone */
    ck_assert_ptr_nonnull(strstr(text, "50 samples/s"));
    ck_assert_ptr_null(strstr(text, "-"));
    free(text);
    text = draw(&view, "", "");
    ck_assert_ptr_nonnull(strstr(text, "Nothing was counted"));
    free(text);
    text = draw(&view, "", "# TYPE profgate_samples_total counter\nprofgate_samples_total 19\n");
    ck_assert_ptr_nonnull(strstr(text, "Samples arrive"));
    free(text);
}

UNIT(addresses)
{
    struct top_url url;
    struct error e = {0};
    ck_assert_int_eq(top_url_parse("http://localhost:9464", &url, &e), 0);
    ck_assert_str_eq(url.host, "localhost");
    ck_assert_uint_eq(url.port, 9464);
    ck_assert_str_eq(url.path, TOP_PATH_DEFAULT);
    ck_assert_int_eq(top_url_parse("[::1]:80/", &url, &e), 0);
    ck_assert_str_eq(url.host, "::1");
    ck_assert_str_eq(url.authority, "[::1]:80");
    ck_assert_str_eq(url.path, TOP_PATH_DEFAULT);
    ck_assert_int_eq(top_url_parse("gw.example/metrics?x=1", &url, &e), 0);
    ck_assert_uint_eq(url.port, 9464);
    ck_assert_str_eq(url.path, "/metrics?x=1");
    static const char *const bad[] = {"",        "http://", "https://h", "h:",     "h:0",
                                      "h:65536", "h:x",     "[::1",      "[::1]x", "a b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ck_assert_msg(top_url_parse(bad[i], &url, &e) == -EINVAL && e.text[0], "%s", bad[i]);
}

/* Whatever bytes come, nothing is read beyond them (under ASan) and the picture keeps its shape. */
UNIT(any_page_can_be_drawn)
{
    struct rng rng;
    rng_seed(&rng, 42);
    size_t n = strlen(page_after);
    for (int round = 0; round < 3000; round++) {
        char *copy = malloc(n); /* exactly as long: no NUL behind */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, round % 2 ? page_after : page_before, round % 2 ? n : strlen(page_before));
        size_t len = round % 2 ? n : strlen(page_before);
        for (uint32_t i = 0; i < 1 + (rng_next(&rng) >> 40) % 6; i++) {
            size_t at = (rng_next(&rng) >> 33) % len;
            static const char nasty[] = "\"\\{},=\n # \x1b\xc2\x9b\xff\x00eE+-N";
            copy[at] = nasty[(rng_next(&rng) >> 33) % sizeof nasty];
        }
        len = (rng_next(&rng) >> 33) % 8 ? len : (rng_next(&rng) >> 33) % len;
        char *exact = malloc(len ? len : 1);
        ck_assert_ptr_nonnull(exact);
        memcpy(exact, copy, len);
        struct top_page page, old = page_of(page_before);
        ck_assert_int_eq(top_page_read(bytes_of(exact, len), &page), 0);
        struct buffer out = BUFFER_INIT(0);
        struct top_view view = {.url = "u", .width = 80, .height = 24};
        ck_assert_int_eq(top_table(&view, &old, &page, 1, 2000, &out), 0);
        for (size_t i = 0; i < out.n; i++)
            ck_assert(out.p[i] >= 0x20 || out.p[i] == '\n');
        buffer_release(&out);
        top_page_release(&page);
        top_page_release(&old);
        free(exact);
        free(copy);
    }
}
