/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/reader.h"

#include <stdio.h>
#include <stdlib.h>

#include "proto/base/buffer.h"
#include "tests/lib/unit.h"

/* The tokens of a text, one character each (K key, S string, N number, t f 0), a string or number with its
 * text behind; then "!what@byte" if it is malformed. Read from an exact-size copy, for ASan. */
static char *tokens(struct bytes text)
{
    static struct buffer out;
    uint8_t *copy = malloc(text.n ? text.n : 1);
    memcpy(copy, text.p, text.n);
    struct json_reader r = json_reader(bytes_of(copy, text.n));
    struct json_token token;
    out.n = 0;
    for (;;) {
        if (json_next(&r, &token) != 0) {
            buffer_printf(&out, "!%s@%zu", r.wrong, (size_t)(r.p - r.start));
            break;
        }
        if (token.kind == JSON_END) {
            ck_assert_int_eq(json_next(&r, &token), 0);
            ck_assert_int_eq(token.kind, JSON_END);
            break;
        }
        buffer_add(&out, &".{}[]KSNtf0"[token.kind], 1);
        if (token.kind == JSON_KEY || token.kind == JSON_STRING || token.kind == JSON_NUMBER)
            buffer_printf(&out, "%s(%.*s)", token.kind != JSON_NUMBER && token.escaped ? "\\" : "",
                          BYTES_FMT(token.text));
    }
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    free(copy);
    return (char *)out.p;
}

#define READS(text, want) ck_assert_str_eq(tokens(BYTES_LIT(text)), want)

UNIT(texts_are_read)
{
    READS("{}", "{}");
    READS(" [ ]\r\n\t", "[]");
    READS("{\"a\":1,\"b\":[true,false,null,{\"\":\"x\"}]}", "{K(a)N(1)K(b)[tf0{K()S(x)}]}");
    READS("-1.5e+3", "N(-1.5e+3)");
    READS("[\"a\\u0041\\n\"]", "[S\\(a\\u0041\\n)]");
    READS("\"12345678 long enough for words \xc3\xa9\xf0\x9f\x98\x80 and more 12345678\"",
          "S(12345678 long enough for words \xc3\xa9\xf0\x9f\x98\x80 and more 12345678)");
    READS("[0,-0,10]", "[N(0)N(-0)N(10)]");
}

UNIT(texts_that_are_not_json_are_refused_with_the_byte)
{
    READS("", "!the text ends too early@0");
    READS("  ", "!the text ends too early@2");
    READS("{", "{!the text ends too early@1");
    READS("[1", "[N(1)!the text ends too early@2");
    READS("[1,", "[N(1)!the text ends too early@3");
    READS("[1,]", "[N(1)!not a JSON value@3");
    READS("[,1]", "[!not a JSON value@1");
    READS("[1 2]", "[N(1)!neither a comma nor ]@3");
    READS("[1}", "[N(1)!neither a comma nor ]@2");
    READS("{\"a\":1]", "{K(a)N(1)!neither a comma nor }@6");
    READS("{\"a\":1,}", "{K(a)N(1)!a key in quotes is missing@7");
    READS("{a:1}", "{!a key in quotes is missing@1");
    READS("{\"a\" 1}", "{!a colon is missing@5");
    READS("{\"a\"", "{!the text ends too early@4");
    READS("{\"a\":}", "{K(a)!not a JSON value@5");
    READS("{}{}", "{}!something follows the value@2");
    READS("01", "!not a JSON value@0");
    READS("[tru]", "[!not a JSON value@1");
    READS("NaN", "!not a JSON value@0");
    READS("'a'", "!not a JSON value@0");
    READS("\"abc", "!the text ends too early@4");
    READS("\"abcdefgh\n\"", "!a control character in a string@9");
    READS("\"\\x\"", "!malformed escape@1");
    READS("\"\\ud800\"", "!malformed escape@1");
    READS("\"\xff\"", "!a string that is not UTF-8@0");
    READS("\"\xed\xa0\x80\"", "!a string that is not UTF-8@0"); /* a surrogate */
    READS("\"\xc3\"", "!a string that is not UTF-8@0");
}

UNIT(every_special_byte_is_seen_at_every_place_of_a_word)
{
    for (unsigned special = 0; special < 256; special++)
        for (size_t at = 0; at < 17; at++) {
            uint8_t text[20];
            memset(text, 'x', sizeof text);
            text[0] = text[19] = '"';
            text[1 + at] = (uint8_t)special;
            struct json_reader r = json_reader(bytes_of(text, sizeof text));
            struct json_token token;
            bool ok = json_next(&r, &token) == 0;
            bool plain = special >= 0x20 && special < 0x80 && special != '"' && special != '\\';
            if (special == '"')
                ck_assert(ok && token.text.n == at);
            else
                ck_assert_msg(ok == plain, "byte %02x at %zu", special, at);
        }
}

UNIT(depth_has_an_end)
{
    char text[JSON_DEPTH_MAX * 2 + 2];
    memset(text, '[', JSON_DEPTH_MAX);
    memset(text + JSON_DEPTH_MAX, ']', JSON_DEPTH_MAX);
    ck_assert_uint_eq(strlen(tokens(bytes_of(text, 2 * JSON_DEPTH_MAX))), 2 * JSON_DEPTH_MAX);
    memset(text, '[', sizeof text);
    ck_assert_ptr_nonnull(strstr(tokens(bytes_of(text, sizeof text)), "!nested too deep@256"));
    /* objects and lists are told apart at each depth */
    ck_assert_uint_eq(json_text_length(BYTES_LIT("[{\"a\":[{\"b\":[[]]}]}]")), 20);
    ck_assert_uint_eq(json_text_length(BYTES_LIT("[{\"a\":[{\"b\":[[}}]}]}]")), 0);
}

UNIT(texts_in_a_row_are_taken_apart)
{
    ck_assert_uint_eq(json_text_length(BYTES_LIT("{\"a\":[1,{}]}\n{}")), 12);
    ck_assert_uint_eq(json_text_length(BYTES_LIT("\n {}\n")), 4);
    ck_assert_uint_eq(json_text_length(BYTES_LIT("1 2")), 1);
    ck_assert_uint_eq(json_text_length(BYTES_LIT(" \n")), 0);
    ck_assert_uint_eq(json_text_length(BYTES_LIT("{\"a\"")), 0);
    ck_assert_uint_eq(json_text_length((struct bytes){0}), 0);
}
