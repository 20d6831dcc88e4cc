/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/value.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/unit.h"

/* What an integer text means, as words, so that a failing case shows itself. */
static const char *as_int64(const char *text)
{
    static char out[64];
    int64_t v;
    int r = json_read_int64(bytes_str(text), &v);
    snprintf(out, sizeof out, r == 0 ? "%lld" : "!%lld", r == 0 ? (long long)v : (long long)r);
    return out;
}

static const char *as_uint64(const char *text)
{
    static char out[64];
    uint64_t v;
    int r = json_read_uint64(bytes_str(text), &v);
    snprintf(out, sizeof out, r == 0 ? "%llu" : "!%llu",
             r == 0 ? (unsigned long long)v : (unsigned long long)r);
    return out;
}

#define NOT_A_NUMBER "!1"
#define NOT_INTEGRAL "!2"
#define OUT_OF_RANGE "!3"

UNIT(integers_are_exact_to_the_edges)
{
    ck_assert_str_eq(as_uint64("18446744073709551615"), "18446744073709551615");
    ck_assert_str_eq(as_uint64("18446744073709551616"), OUT_OF_RANGE);
    ck_assert_str_eq(as_uint64("9007199254740993"), "9007199254740993"); /* 2^53 + 1: no double */
    ck_assert_str_eq(as_uint64("-1"), OUT_OF_RANGE);
    ck_assert_str_eq(as_uint64("-0"), "0");
    ck_assert_str_eq(as_int64("-9223372036854775808"), "-9223372036854775808");
    ck_assert_str_eq(as_int64("-9223372036854775809"), OUT_OF_RANGE);
    ck_assert_str_eq(as_int64("9223372036854775807"), "9223372036854775807");
    ck_assert_str_eq(as_int64("9223372036854775808"), OUT_OF_RANGE);
}

UNIT(integers_may_have_a_fraction_of_zeros_and_an_exponent)
{
    ck_assert_str_eq(as_int64("1e3"), "1000");
    ck_assert_str_eq(as_int64("-1.5E+1"), "-15");
    ck_assert_str_eq(as_int64("2500e-2"), "25");
    ck_assert_str_eq(as_int64("25e-1"), NOT_INTEGRAL);
    ck_assert_str_eq(as_int64("1.5"), NOT_INTEGRAL);
    ck_assert_str_eq(as_int64("1.000"), "1");
    ck_assert_str_eq(as_int64("0.001e3"), "1");
    ck_assert_str_eq(as_int64("0.0e99999999999999999999"), "0");
    ck_assert_str_eq(as_int64("0e-5"), "0");
    ck_assert_str_eq(as_int64("1e-99999999999999999999"), NOT_INTEGRAL);
    ck_assert_str_eq(as_int64("1e400"), OUT_OF_RANGE);
    ck_assert_str_eq(as_int64("1e99999999999999999999"), OUT_OF_RANGE);
    ck_assert_str_eq(as_uint64("1844674407370955161.5e1"), "18446744073709551615");
    ck_assert_str_eq(as_uint64("1844674407370955161.6e1"), OUT_OF_RANGE);
    ck_assert_str_eq(as_uint64("0.18446744073709551615e20"), "18446744073709551615");
}

UNIT(what_is_no_number_is_none)
{
    static const char *const none[] = {"",    "-",  "+1", "01", "-01", "1.",  ".5",   "1e", "1e+",
                                       "0x1", " 1", "1 ", "1a", "--1", "NaN", "1.e1", "1,0"};
    double v;
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
        ck_assert_msg(json_read_double(bytes_str(none[i]), &v) == JSON_NOT_A_NUMBER, "'%s'", none[i]);
        ck_assert_msg(strcmp(as_int64(none[i]), NOT_A_NUMBER) == 0, "'%s'", none[i]);
    }
}

UNIT(a_number_of_a_million_digits_takes_linear_time)
{
    size_t n = 1000000;
    autofree char *text = malloc(n + 16);
    memset(text, '0', n);
    memcpy(text, "0.", 2);
    text[n - 1] = '7';
    snprintf(text + n, 16, "e%zu", n - 2);
    ck_assert_str_eq(as_int64(text), "7");
    memset(text, '9', n);
    ck_assert_str_eq(as_int64(text), OUT_OF_RANGE);
    double v;
    ck_assert_int_eq(json_read_double(bytes_of(text, n), &v), JSON_OUT_OF_RANGE);
}

UNIT(doubles_are_the_nearest)
{
    double v = 0;
    ck_assert_int_eq(json_read_double(BYTES_LIT("0.1"), &v), 0);
    ck_assert(v == 0.1);
    ck_assert_int_eq(json_read_double(BYTES_LIT("-1.7976931348623157e308"), &v), 0);
    ck_assert(v == -1.7976931348623157e308);
    ck_assert_int_eq(json_read_double(BYTES_LIT("1e-400"), &v), 0);
    ck_assert(v == 0);
    ck_assert_int_eq(json_read_double(BYTES_LIT("-0"), &v), 0);
    ck_assert(signbit(v));
    ck_assert_int_eq(json_read_double(BYTES_LIT("1e400"), &v), JSON_OUT_OF_RANGE);
}

static void unescapes(const char *text, struct bytes want)
{
    uint8_t out[64];
    struct bytes have = bytes_of(out, json_unescape(bytes_str(text), out));
    ck_assert_msg(bytes_eq(have, want), "%s gives %.*s", text, BYTES_FMT(have));
}

UNIT(escapes_become_utf8)
{
    unescapes("plain", BYTES_LIT("plain"));
    unescapes("\\\"\\\\\\/\\b\\f\\n\\r\\t", BYTES_LIT("\"\\/\b\f\n\r\t"));
    unescapes("a\\u0000b", BYTES_LIT("a\0b"));
    unescapes("\\u0041\\u00e9\\u20AC\\uFFFF", BYTES_LIT("A\xc3\xa9\xe2\x82\xac\xef\xbf\xbf"));
    unescapes("\\ud83d\\ude00\\uDBFF\\uDFFF.", BYTES_LIT("\xf0\x9f\x98\x80\xf4\x8f\xbf\xbf."));
}

static size_t escape(const char *text)
{
    size_t n = strlen(text);
    uint8_t *copy = malloc(n); /* exact, for ASan */
    memcpy(copy, text, n);
    size_t length = json_escape_length(copy, copy + n);
    free(copy);
    return length;
}

UNIT(half_a_surrogate_pair_is_no_escape)
{
    static const char *const bad[] = {"\\",
                                      "\\x",
                                      "\\u",
                                      "\\u12",
                                      "\\u123g",
                                      "\\ud800",
                                      "\\udc00",
                                      "\\ud800\\u0041",
                                      "\\ud800abcdef",
                                      "\\ud800\\udbff",
                                      "\\ud800\\udc0",
                                      "\\ud800\\ndc00"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(escape(bad[i]) == 0, "%s", bad[i]);
    ck_assert_uint_eq(escape("\\u12345"), 6);
    ck_assert_uint_eq(escape("\\ud800\\udc00"), 12);
    ck_assert_uint_eq(json_escape_length((const uint8_t *)"\\\0", (const uint8_t *)"\\\0" + 2), 0);
}

static bool decodes(bool (*decode)(uint8_t *, size_t *), const char *text, struct bytes want)
{
    autofree uint8_t *copy = (uint8_t *)strdup(text);
    size_t n = strlen(text);
    return decode(copy, &n) && bytes_eq(bytes_of(copy, n), want);
}

static bool refuses(bool (*decode)(uint8_t *, size_t *), const char *text)
{
    autofree uint8_t *copy = (uint8_t *)strdup(text);
    size_t n = strlen(text);
    return !decode(copy, &n);
}

UNIT(hex_and_base64_in_every_form)
{
    ck_assert(decodes(json_hex, "00fFaB9c", BYTES_LIT("\x00\xff\xab\x9c")));
    ck_assert(refuses(json_hex, "0"));
    ck_assert(refuses(json_hex, "0g"));
    ck_assert(decodes(json_base64, "", BYTES_LIT("")));
    ck_assert(decodes(json_base64, "Zg==", BYTES_LIT("f"))); /* RFC 4648 §10 */
    ck_assert(decodes(json_base64, "Zm8=", BYTES_LIT("fo")));
    ck_assert(decodes(json_base64, "Zm9v", BYTES_LIT("foo")));
    ck_assert(decodes(json_base64, "Zm9vYmFy", BYTES_LIT("foobar")));
    ck_assert(decodes(json_base64, "Zm9vYg", BYTES_LIT("foob")));
    ck_assert(decodes(json_base64, "+/8=", BYTES_LIT("\xfb\xff")));
    ck_assert(decodes(json_base64, "-_8", BYTES_LIT("\xfb\xff")));
    ck_assert(refuses(json_base64, "Z"));
    ck_assert(refuses(json_base64, "Zg="));
    ck_assert(refuses(json_base64, "===="));
    ck_assert(refuses(json_base64, "Zg==Zg=="));
    ck_assert(refuses(json_base64, "Zm9 "));
}
