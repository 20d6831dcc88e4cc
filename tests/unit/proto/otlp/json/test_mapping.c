/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/mapping.h"

#include "proto/base/macros.h"
#include "tests/lib/unit.h"

static const char *const colours[] = {"COLOUR_NONE", "COLOUR_RED", NULL};
static const struct mapping_field inner_fields[] = {
    {1, "name", FIELD_STRING, false, NULL, NULL},
    {2, "a_number", FIELD_INT64, true, NULL, NULL},
};
static const struct mapping_message inner = {inner_fields, ARRAY_LEN(inner_fields)};
static const struct mapping_field outer_fields[] = {
    {1, "profile_typeID", FIELD_STRING, false, NULL, NULL},
    {2, "max_nodes", FIELD_INT64, false, NULL, NULL},
    {3, "colour", FIELD_ENUM, false, NULL, colours},
    {4, "step", FIELD_DOUBLE, false, NULL, NULL},
    {5, "is_on", FIELD_BOOL, false, NULL, NULL},
    {6, "inside", FIELD_MESSAGE, true, &inner, NULL},
    {7, "small", FIELD_INT32, false, NULL, NULL},
    {8, "raw", FIELD_BYTES, false, NULL, NULL},
};
static const struct mapping_message outer = {outer_fields, ARRAY_LEN(outer_fields)};

static struct buffer message, text;
static struct error why;

static int read_text(const char *json)
{
    message.n = 0;
    return mapping_read(&outer, bytes_str(json), &message, &why);
}

static const char *written(void)
{
    text.n = 0;
    struct json j = JSON_INIT(&text);
    ck_assert_int_eq(mapping_write(&outer, buffer_bytes(&message), &j), 0);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    return (const char *)text.p;
}

static void there_and_back(const char *json, const char *expected)
{
    ck_assert_msg(read_text(json) == 0, "%s: %s", json, why.text);
    ck_assert_str_eq(written(), expected);
}

static void done(void)
{
    buffer_release(&message);
    buffer_release(&text);
}

UNIT(what_is_read_is_written_as_protobuf_s_mapping_says)
{
    static const char all[] =
        "{\"profileTypeID\":\"a:b \\u00e9\",\"maxNodes\":\"-5\",\"colour\":\"COLOUR_RED\",\"step\":0.5,\"isOn\":true,"
        "\"inside\":[{\"name\":\"x\",\"aNumber\":[\"1\",\"9007199254740993\"]},{}],\"small\":7}";
    there_and_back(
        all, "{\"profileTypeID\":\"a:b \xc3\xa9\",\"maxNodes\":\"-5\",\"colour\":\"COLOUR_RED\",\"step\":0.5,"
             "\"isOn\":true,\"inside\":[{\"name\":\"x\",\"aNumber\":[\"1\",\"9007199254740993\"]},{}],"
             "\"small\":7}");
    there_and_back("{ }", "{}");
    there_and_back(
        "{\"profile_typeID\":\"x\",\"max_nodes\":3,\"colour\":9,\"nobody\":[{\"s\":1}],\"inside\":null}",
        "{\"profileTypeID\":\"x\",\"maxNodes\":\"3\",\"colour\":9}");
    done();
}

UNIT(elements_that_stand_apart_are_one_list)
{
    /* inside{name:"a"}, max_nodes: 1, inside{name:"b"} */
    static const uint8_t apart[] = {0x32, 3, 0x0a, 1, 'a', 0x10, 1, 0x32, 3, 0x0a, 1, 'b'};
    message.n = 0;
    ck_assert_int_eq(buffer_add(&message, apart, sizeof apart), 0);
    ck_assert_str_eq(written(), "{\"maxNodes\":\"1\",\"inside\":[{\"name\":\"a\"},{\"name\":\"b\"}]}");
    done();
}

UNIT(what_is_none_is_said)
{
    static const char *const bad[] = {"",
                                      "[]",
                                      "{",
                                      "{}{}",
                                      "{\"maxNodes\":1.5}",
                                      "{\"maxNodes\":\"x\"}",
                                      "{\"colour\":\"COLOUR_BLUE\"}",
                                      "{\"isOn\":1}",
                                      "{\"profileTypeID\":1}",
                                      "{\"inside\":{}}",
                                      "{\"inside\":[1]}",
                                      "{\"inside\":[null]}",
                                      "{\"inside\":[[]]}",
                                      "{\"raw\":\"%\"}",
                                      "{\"step\":\"a\"}",
                                      "{\"small\":18446744073709551616}"};
    for (size_t i = 0; i < ARRAY_LEN(bad); i++) {
        error_clear(&why);
        ck_assert_msg(read_text(bad[i]) == MAPPING_MALFORMED && why.text[0], "%s", bad[i]);
    }
    static const uint8_t broken[][3] = {{0x32, 9, 0}, {0x0a, 5, 0}, {0x10, 0x80, 0}};
    for (size_t i = 0; i < ARRAY_LEN(broken); i++) {
        message.n = text.n = 0;
        ck_assert_int_eq(buffer_add(&message, broken[i], 2), 0);
        struct json j = JSON_INIT(&text);
        ck_assert_int_eq(mapping_write(&outer, buffer_bytes(&message), &j), MAPPING_MALFORMED);
    }
    done();
}
