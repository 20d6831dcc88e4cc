/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/json.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>

#include "proto/base/rng.h"
#include "tests/lib/sweep.h"
#include "tests/lib/unit.h"

static void expect(struct buffer *out, const char *text)
{
    ck_assert_msg(bytes_is(buffer_bytes(out), text), "%.*s is not %s", BYTES_FMT(buffer_bytes(out)), text);
    buffer_release(out);
}

static void write_all(struct json *j)
{
    json_open(j, '{');
    json_key(j, "a");
    json_open(j, '[');
    json_u64(j, UINT64_MAX), json_i64(j, INT64_MIN), json_bool(j, true), json_null(j);
    json_open(j, '{'), json_close(j, '}');
    json_open(j, '['), json_close(j, ']');
    json_close(j, ']');
    json_key(j, "b"), json_string(j, BYTES_LIT("{[: ,"));
    json_string_key(j, BYTES_LIT("c\"")), json_quoted_u64(j, 7), json_key(j, "d"), json_quoted_i64(j, -7);
    json_close(j, '}');
}

UNIT(commas_stand_between_things_and_nowhere_else)
{
    struct buffer out = {0};
    struct json j = JSON_INIT(&out);
    write_all(&j);
    ck_assert_int_eq(j.r, 0);
    expect(&out, "{\"a\":[18446744073709551615,-9223372036854775808,true,null,{},[]],"
                 "\"b\":\"{[: ,\",\"c\\\"\":\"7\",\"d\":\"-7\"}");
}

UNIT(for_people_there_are_blanks)
{
    struct buffer out = {0};
    struct json j = JSON_INIT(&out);
    j.spaced = true;
    write_all(&j);
    expect(&out, "{\"a\": [18446744073709551615, -9223372036854775808, true, null, {}, []], "
                 "\"b\": \"{[: ,\", \"c\\\"\": \"7\", \"d\": \"-7\"}");
}

UNIT(for_people_and_terminals_more_is_escaped)
{
    struct buffer out = {0};
    for (int spaced = 0; spaced < 2; spaced++) {
        struct json j = JSON_INIT(&out);
        j.spaced = spaced;
        json_string(&j, BYTES_LIT("\n\t\r\x7f\xff"));
        ck_assert_int_eq(j.r, 0);
    }
    expect(&out, "\"\\u000a\\u0009\\u000d\x7f\xef\xbf\xbd\"\"\\n\\t\\u000d\\u007f\\ufffd\"");
}

UNIT(a_document_behind_another_begins_without_a_comma)
{
    struct buffer out = {0};
    for (int i = 0; i < 2; i++) {
        struct json j = JSON_INIT(&out);
        json_u64(&j, 1);
        ck_assert_int_eq(buffer_add_str(&out, "\n"), 0);
    }
    expect(&out, "1\n1\n");
}

static void string(struct bytes text, const char *expected)
{
    struct buffer out = {0};
    struct json j = JSON_INIT(&out);
    json_string(&j, text);
    ck_assert_int_eq(j.r, 0);
    expect(&out, expected);
}

UNIT(what_json_cannot_hold_is_escaped)
{
    string(BYTES_LIT(""), "\"\"");
    string(BYTES_LIT("a\"b\\c/d"), "\"a\\\"b\\\\c/d\"");
    string(BYTES_LIT("\0\n\x1f\x7f"), "\"\\u0000\\u000a\\u001f\x7f\"");
}

UNIT(bytes_that_are_no_utf8_become_the_replacement_character)
{
    string(BYTES_LIT("gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80"),
           "\"gr\xc3\xbc\xc3\x9f \xe2\x82\xac \xf0\x9f\x98\x80\"");
    string(BYTES_LIT("a\xff\xfe z"), "\"a\xef\xbf\xbd\xef\xbf\xbd z\"");
    string(BYTES_LIT("\xed\xa0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd\""); /* a surrogate */
    string(BYTES_LIT("\xc0\x80"), "\"\xef\xbf\xbd\xef\xbf\xbd\"");                 /* overlong */
    string(BYTES_LIT("cut \xe2\x82"), "\"cut \xef\xbf\xbd\xef\xbf\xbd\"");
}

static void number(double v, const char *expected)
{
    struct buffer out = {0};
    struct json j = JSON_INIT(&out);
    json_double(&j, v);
    expect(&out, expected);
}

UNIT(doubles_are_short_and_exact)
{
    number(0, "0");
    number(-0.0, "-0");
    number(0.1, "0.1");
    number(1e23, "1e+23");
    number(1.0 / 3, "0.3333333333333333");
    number(5e-324, "5e-324");
    number(1.7976931348623157e308, "1.7976931348623157e+308");
    number(9007199254740993.0, "9007199254740992");
    number(NAN, "\"NaN\"");
    number(INFINITY, "\"Infinity\"");
    number(-INFINITY, "\"-Infinity\"");
    struct rng g;
    rng_seed(&g, 7);
    for (int i = 0; i < 20000; i++) {
        uint64_t bits = rng_next(&g);
        double v;
        char text[JSON_DOUBLE_MAX], shorter[64];
        memcpy(&v, &bits, sizeof v);
        if (!isfinite(v))
            continue;
        ck_assert_uint_eq(json_double_text(text, v), strlen(text));
        ck_assert(strtod(text, NULL) == v);
        for (int digits = 1; digits <= 17; digits++) { /* the plain way to the shortest */
            snprintf(shorter, sizeof shorter, "%.*g", digits, v);
            if (strtod(shorter, NULL) == v)
                break;
        }
        ck_assert_str_eq(text, shorter);
    }
}

UNIT(a_full_buffer_is_told_once_and_nothing_follows)
{
    struct buffer out = BUFFER_INIT(8);
    struct json j = JSON_INIT(&out);
    json_open(&j, '[');
    json_string(&j, BYTES_LIT("longer than that"));
    json_close(&j, ']');
    ck_assert_int_eq(j.r, -ENOBUFS);
    expect(&out, "[\"");
}

OOM_SWEEP(a_document_is_whole_or_refused)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct json j = JSON_INIT(&out);
    write_all(&j);
    json_string(&j, bytes_of((char[4096]){0}, 4096));
    ck_assert_int_eq(j.r, sweep_has_failed() ? -ENOMEM : 0);
    ck_assert(j.r < 0 || out.n > 4096);
}
