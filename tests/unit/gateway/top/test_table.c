/* SPDX-License-Identifier: Apache-2.0 */
/* `profgate top`: reading pages, and the picture drawn of them. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/top/fetch.h"
#include "gateway/top/page.h"
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

#define METRICS                                                                                            \
    "\"metrics\":["                                                                                        \
    "{\"name\":\"a.busy\",\"pack\":\"p\",\"describe\":\"Who runs\",\"unit\":\"s\",\"on\":\"cpu\","         \
    "\"kind\":\"counter\",\"labels\":[\"function\",\"category\"]},"                                        \
    "{\"name\":\"a.kernel\",\"pack\":\"p\",\"describe\":\"Kernel\",\"unit\":\"s\",\"on\":\"cpu\","         \
    "\"kind\":\"counter\",\"labels\":[\"work\"]},"                                                         \
    "{\"name\":\"a.held\",\"pack\":\"p\",\"describe\":\"\",\"unit\":\"By\",\"kind\":\"gauge\",\"labels\":" \
    "[]}]"
#define OF(service) "{\"attributes\":{\"host.name\":\"vm\",\"service.name\":\"" service "\"},\"series\":["
#define F(function, category, value)                                                   \
    "{\"metric\":0,\"labels\":{\"category\":\"" category "\",\"function\":\"" function \
    "\"},\"value\":" value "}"
#define K(work, value) "{\"metric\":1,\"labels\":{\"work\":\"" work "\"},\"value\":" value "}"

static const char page_before[] = "{\"samples\":100," METRICS ",\"resources\":[" OF("java")
    F("a.B.c", "json", "10") "," K("pipes", "1") "]}," OF("dd") F("read(2)", "kernel: pipes", "10") "]}]}";
static const char page_after[] = "{\"samples\":400," METRICS ",\"resources\":[" OF("java")
    F("a.B.c", "json", "13") "," F("a.B.\\u001b[31md", "", "0.5") "," K(
        "pipes", "1.5") ",{\"metric\":0,\"labels\":{\"otel.metric.overflow\":true},\"value\":0.8}"
                        ",{\"metric\":2,\"labels\":{},\"value\":2048}]}," OF("profgate")
                            F("x", "", "0.3") "]}," OF("dd")
                                F("read(2)", "kernel: pipes",
                                  "10.5") "," K("pipes", "0.4") "," K("none", "9") "]}]}\n";

static char *draw(const struct top_view *view, const char *before, const char *after)
{
    struct top_page a = page_of(before), b = page_of(after);
    struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(top_table(view, &a, &b, 2, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    top_page_release(&a);
    top_page_release(&b);
    size_t n;
    return (char *)buffer_take(&out, &n);
}

static const char nothing[] = "{\"samples\":0,\"metrics\":[],\"resources\":[]}";

UNIT(a_page_is_read)
{
    cleanup(top_page_release) struct top_page page = page_of(page_after);
    ck_assert_double_eq(page.samples, 400);
    ck_assert_uint_eq(page.metrics.n, 3);
    ck_assert_uint_eq(page.series.n, 9);
    ck_assert(page.metrics.p[0].by_function && !page.metrics.p[1].by_function && page.metrics.p[2].is_gauge);
    const struct top_series *s = &page.series.p[0];
    ck_assert(bytes_is(s->service, "java") && bytes_is(s->host, "vm") && bytes_is(s->what, "a.B.c") &&
              bytes_is(s->rest, "json"));
    ck_assert(page.series.p[3].is_overflow);
    cleanup(top_page_release) struct top_page before = page_of(page_before);
    ck_assert(bytes_eq(before.series.p[0].key, page.series.p[0].key));
}

UNIT(what_is_no_page_is_refused_and_what_is_no_series_left_out)
{
    static const char *const bad[] = {"",
                                      "1",
                                      "{}",
                                      "[]",
                                      "<html>",
                                      "{\"metrics\":[],\"resources\":{}}",
                                      "{",
                                      "nul",
                                      "{,}",
                                      "{\"a\"",
                                      "[[[[[[[[[[[[[[[[[[[[[[["};
    struct top_page page;
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ck_assert_msg(top_page_read(bytes_str(bad[i]), &page) == TOP_PAGE_FOREIGN, "%s", bad[i]);
    static const char *const odd[] = {"7",
                                      "{}",
                                      "{\"metric\":3,\"labels\":{},\"value\":1}",
                                      "{\"metric\":-1,\"labels\":{},\"value\":1}",
                                      "{\"metric\":0,\"labels\":[],\"value\":1}",
                                      "{\"metric\":0,\"labels\":{},\"value\":\"NaN\"}",
                                      "{\"metric\":0.5,\"labels\":{},\"value\":1}"};
    for (size_t i = 0; i < ARRAY_LEN(odd); i++) {
        cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
        ck_assert_int_eq(buffer_printf(&text, "{" METRICS ",\"resources\":[" OF("x") "%s]}]}", odd[i]), 0);
        ck_assert_int_eq(top_page_read(buffer_bytes(&text), &page), 0);
        ck_assert_msg(page.series.n == 0, "%s", odd[i]);
        top_page_release(&page);
    }
}

UNIT(pages_are_bounded)
{
    struct top_page page;
    cleanup(buffer_release) struct buffer text = BUFFER_INIT(0);
    ck_assert_int_eq(top_page_read(bytes_of("", (size_t)TOP_PAGE_MAX + 1), &page), TOP_PAGE_LARGE);
    ck_assert_int_eq(buffer_add_str(&text, "{" METRICS ",\"resources\":[" OF("x")), 0);
    for (uint32_t i = 0; i <= TOP_SERIES_MAX; i++)
        ck_assert_int_eq(buffer_add_str(&text, i ? ",{\"metric\":2,\"labels\":{},\"value\":1}"
                                                 : "{\"metric\":2,\"labels\":{},\"value\":1}"),
                         0);
    ck_assert_int_eq(buffer_add_str(&text, "]}]}"), 0);
    ck_assert_int_eq(top_page_read(buffer_bytes(&text), &page), TOP_PAGE_LARGE);
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

UNIT(a_table)
{
    struct top_view view = {.url = "h:1", .note = "a replay", .style = {100, .ascii = true}};
    autofree char *text = draw(&view, page_before, page_after);
    ck_assert_str_eq(text, "profgate top   vm   over 2 s   h:1\n"
                           "a replay\n"
                           "\n"
                           "Who runs: 2.55 cores\n"
                           "   2.15  84%  ##########  java\n"
                           "   1.50  59%                a.B.c       json\n"
                           "   0.25  10%                a.B.?[31md\n"
                           "   0.40  16%                (others)\n"
                           "   0.25  10%  #           dd\n"
                           "   0.25  10%                read(2)     kernel: pipes\n"
                           "   0.15   6%              profgate and profsend themselves\n"
                           "\n"
                           "Kernel: 0.45 cores\n"
                           "   0.45 100%  ##########  pipes         java, dd\n"
                           "\n"
                           "a.held: 2.0 KiB\n"
                           "2.0 KiB 100%  ##########  (all)         java\n");
}

/* A narrow terminal has no bars, and what is cut says so; colours are codes around the same text. */
UNIT(widths_and_colours)
{
    static const char before[] = "{\"samples\":0," METRICS ",\"resources\":[]}";
    static const char after[] =
        "{\"samples\":9," METRICS
        ",\"resources\":[" OF("a-process-with-a-very-long-name-of-its-own-that-never-ends")
            F("ns::(anonymous namespace)::call(std::vector<int, std::allocator<int> > const&)",
              "serialization", "1") "]}]}";
    for (uint32_t width = 20; width <= 200; width += 20) {
        struct top_view view = {.url = "http://localhost:9464", .style = {.width = width, .ascii = true}};
        autofree char *text = draw(&view, before, after);
        uint32_t columns = 0;
        for (const char *c = text; *c; c++) {
            columns = *c == '\n' ? 0 : columns + 1;
            ck_assert_uint_le(columns, width);
        }
        ck_assert_int_eq(strstr(text, "####") != NULL, width >= 72);
        ck_assert_ptr_null(strstr(text, "std::vector")); /* its arguments went first */
        if (width >= 80)
            ck_assert_ptr_nonnull(strstr(text, "serialization"));
        if (width >= 100)
            ck_assert_ptr_nonnull(strstr(text, "ns::(anonymous namespace)::call"));
    }
    struct top_view view = {.url = "h", .style = {.width = 60, .color = true, .ascii = true}};
    autofree char *text = draw(&view, before, after);
    ck_assert_ptr_nonnull(strstr(text, "\x1b[7mprofgate top"));
    ck_assert_ptr_nonnull(strstr(text, "~"));
}

UNIT(names_in_utf8_take_the_columns_that_they_take)
{
    if (!setlocale(LC_CTYPE, "C.UTF-8"))
        unit_skip("no C.UTF-8 here");
    struct line_style style = {.width = 10};
    ck_assert_uint_eq(line_columns(&style, bytes_str("日本")), 4);
    ck_assert_uint_eq(line_columns(&style, bytes_str("\xe2\x80\xae")), 1); /* an override of direction: ? */
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    cleanup(line_release) struct line l = {.style = &style, .out = &out};
    line_add(&l, bytes_str("日本日本日本"), UINT32_MAX);
    line_end(&l);
    line_add(&l, bytes_str("a\xff\xe2\x80\xae\xc2\x9b"), UINT32_MAX);
    line_end(&l);
    style.ascii = true;
    line_add(&l, bytes_str("日b"), UINT32_MAX);
    line_bar(&l, 4, 0.5);
    line_end(&l);
    ck_assert_int_eq(l.r, 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, "日本日本…\na???\n?b##\n");
}

/* Twelve processes with ten functions each, of which the last have less and less. */
static char *many(void)
{
    struct buffer text = BUFFER_INIT(0);
    ck_assert_int_eq(buffer_add_str(&text, "{\"samples\":9," METRICS ",\"resources\":["), 0);
    for (unsigned i = 0; i < 12; i++) {
        ck_assert_int_eq(buffer_printf(&text, "%s" OF("process%u"), i ? "," : "", i), 0);
        for (unsigned k = 0; k < 10; k++)
            ck_assert_int_eq(buffer_printf(&text, F("f%u_%u", "c", "%u") ",", i, k, 1000 / (i + 1) / (k + 1)),
                             0);
        ck_assert_int_eq(buffer_printf(&text, K("work%u", "%u") "]}", i, 100 - i), 0);
    }
    ck_assert_int_eq(buffer_add(&text, "]}", 3), 0);
    size_t n;
    return (char *)buffer_take(&text, &n);
}

static uint32_t count(const char *text, const char *word)
{
    uint32_t n = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        n++;
    return n;
}

UNIT(a_table_fits_the_terminal_and_tells_what_is_most)
{
    autofree char *after = many();
    for (uint32_t height = 1; height < 70; height++) {
        struct top_view view = {.url = "http://h:1", .style = {.width = 79, .ascii = true}, .height = height};
        autofree char *text = draw(&view, nothing, after);
        ck_assert_uint_le(count(text, "\n"), height);
        ck_assert_int_eq(strstr(text, "process0") != NULL, height >= 5);
        if (height >= 22) { /* a terminal of 24 lines */
            ck_assert_uint_ge(count(text, "  process"), 10);
            ck_assert_ptr_nonnull(strstr(text, "f9_0")); /* below its process, or beside */
            ck_assert_uint_ge(count(text, "  work"), 3);
        }
        if (height >= 60)
            ck_assert_uint_eq(count(text, "f0_"), 5);
    }
    struct top_view view = {.url = "http://h:1", .style = {.width = 79, .ascii = true}};
    autofree char *text = draw(&view, nothing, after);
    ck_assert_uint_eq(count(text, "process"), 12 + 12);
    ck_assert_uint_eq(count(text, "f0_"), 4);
}

UNIT(a_gateway_that_began_anew_and_one_that_counts_nothing)
{
    struct top_view view = {.url = "u", .style = {.width = 100}};
    char *text = draw(&view, page_after, page_before); /* every counter is smaller than before, or gone */
    ck_assert_ptr_nonnull(strstr(text, "5.00"));
    ck_assert_ptr_null(strstr(text, "-"));
    free(text);
    text = draw(&view, nothing, nothing);
    ck_assert_ptr_nonnull(strstr(text, "Nothing was counted meanwhile: whoever is profiled is idle, or"));
    free(text);
    text = draw(&view, nothing, "{\"samples\":9,\"metrics\":[],\"resources\":[]}");
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
    ck_assert(!url.is_https);
    ck_assert_int_eq(top_url_parse("https://gw.example:443", &url, &e), 0);
    ck_assert(url.is_https);
    ck_assert_str_eq(url.authority, "gw.example:443");
    static const char *const bad[] = {"",        "http://", "https://", "h:",     "h:0",
                                      "h:65536", "h:x",     "[::1",     "[::1]x", "a b"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++)
        ck_assert_msg(top_url_parse(bad[i], &url, &e) == -EINVAL && e.text[0], "%s", bad[i]);
}

/* Whatever bytes come, nothing is read beyond them (under ASan) and the picture keeps its shape. */
UNIT(any_page_can_be_drawn)
{
    struct rng rng;
    rng_seed(&rng, 42);
    for (int round = 0; round < 3000; round++) {
        const char *from = round % 2 ? page_after : page_before;
        size_t len = strlen(from);
        autofree char *copy = malloc(len); /* exactly as long: no NUL behind */
        ck_assert_ptr_nonnull(copy);
        memcpy(copy, from, len);
        for (uint32_t i = 0; i < 1 + (rng_next(&rng) >> 40) % 4; i++) {
            static const char nasty[] = "\"\\{},:=\n # \x1b\xc2\x9b\xff\x00eE+-N[]9";
            copy[(rng_next(&rng) >> 33) % len] = nasty[(rng_next(&rng) >> 33) % sizeof nasty];
        }
        struct top_page page, old = page_of(page_before);
        if (top_page_read(bytes_of(copy, len), &page) == 0) {
            struct buffer out = BUFFER_INIT(0);
            struct top_view view = {.url = "u", .style = {.width = 80}, .height = 24};
            ck_assert_int_eq(top_table(&view, &old, &page, 1, &out), 0);
            for (size_t i = 0; i < out.n; i++)
                ck_assert(out.p[i] >= 0x20 || out.p[i] == '\n');
            buffer_release(&out);
            top_page_release(&page);
        }
        top_page_release(&old);
    }
}
