/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
#include "proto/otlp/json/profiles.h"

#include <errno.h>
#include <stdio.h>

#include "proto/base/rng.h"
#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

/* Transcodes an exact-size copy, so that a sanitizer sees a read past the end. */
static int transcode(struct bytes json, struct buffer *out, struct error *e)
{
    autofree uint8_t *copy = unit_made(malloc(json.n ? json.n : 1));
    memcpy(copy, json.p, json.n);
    e->text[0] = '\0';
    struct profiles_written as;
    int r = profiles_json_transcode(bytes_of(copy, json.n), &profiles_limits_default, NULL, out, &as, e);
    ck_assert(r == 0 || (out->n == 0 && e->text[0]));
    ck_assert_int_ne(r, -ENOMEM);
    volatile uint8_t sum = 0;
    for (size_t i = 0; r == 0 && i < PROFILES_PADDING; i++)
        sum ^= out->p[out->n + i];
    (void)sum;
    return r;
}

/* ---- every field: one walk over protobuf-c's description of the schema writes a message in both encodings
 */

struct both {
    struct wire_writer w;
    struct buffer *json;
    struct rng rng;
    bool snake, shuffled; /* keys as in the .proto; fields backwards */
};

static void put_key(struct both *b, const char *name)
{
    buffer_add_str(b->json, "\"");
    for (const char *c = name; *c; c++) {
        bool hump = !b->snake && *c == '_';
        c += hump;
        buffer_printf(b->json, "%c", hump ? *c - 32 : *c);
    }
    buffer_add_str(b->json, "\":");
}

static void put_base64(struct both *b, const uint8_t *p, size_t n)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)p[i] << 16 | (i + 1 < n ? p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        buffer_printf(b->json, "%c%c%c%c", digits[v >> 18], digits[v >> 12 & 63],
                      i + 1 < n ? digits[v >> 6 & 63] : '=', i + 2 < n ? digits[v & 63] : '=');
    }
}

static void put_bytes_field(struct both *b, const ProtobufCFieldDescriptor *f)
{
    uint8_t value[16];
    bool hex_id = strcmp(f->name, "trace_id") == 0 || strcmp(f->name, "span_id") == 0;
    size_t n = strcmp(f->name, "span_id") == 0                ? 8
               : hex_id || strcmp(f->name, "profile_id") == 0 ? 16
                                                              : rng_next(&b->rng) % 16;
    for (size_t i = 0; i < n; i++)
        value[i] = (uint8_t)rng_next(&b->rng);
    wire_put_bytes(&b->w, f->id, bytes_of(value, n));
    buffer_add_str(b->json, "\"");
    if (hex_id || (strcmp(f->name, "profile_id") == 0 && rng_next(&b->rng) % 2))
        for (size_t i = 0; i < n; i++)
            buffer_printf(b->json, rng_next(&b->rng) % 2 ? "%02x" : "%02X", value[i]);
    else
        put_base64(b, value, n);
    buffer_add_str(b->json, "\"");
}

static void put_string_field(struct both *b, const ProtobufCFieldDescriptor *f)
{
    static const struct {
        const char *text, *json;
    } parts[] = {{"a", "a"},       {"long enough for a word ", "long enough for a word "},
                 {"\"", "\\\""},   {"\n", "\\n"},
                 {"A", "\\u0041"}, {"\xc3\xa9", "\xc3\xa9"},
                 {"\\", "\\\\"},   {"\xf0\x9f\x98\x80", "\\ud83d\\ude00"},
                 {"\x7f", "\x7f"}, {"\x01", "\\u0001"}};
    cleanup(buffer_release) struct buffer value = {0};
    buffer_add_str(b->json, "\"");
    for (uint64_t n = rng_next(&b->rng) % 6; n > 0; n--) {
        size_t i = rng_next(&b->rng) % ARRAY_LEN(parts);
        buffer_add_str(&value, parts[i].text);
        buffer_add_str(b->json, parts[i].json);
    }
    buffer_add_str(b->json, "\"");
    wire_put_bytes(&b->w, f->id, buffer_bytes(&value));
}

static uint64_t any_bits(struct both *b)
{
    return rng_next(&b->rng) >> rng_next(&b->rng) % 64;
}

static void put_number_field(struct both *b, const ProtobufCFieldDescriptor *f)
{
    const char *quote = rng_next(&b->rng) % 2 ? "\"" : "";
    uint64_t v = any_bits(b);
    buffer_add_str(b->json, f->type == PROTOBUF_C_TYPE_BOOL ? "" : quote);
    double real = (double)v / 3;
    switch (f->type) {
    case PROTOBUF_C_TYPE_INT32:
        v = (uint64_t)(int64_t)(int32_t)v;
        buffer_printf(b->json, "%d", (int32_t)v);
        break;
    case PROTOBUF_C_TYPE_UINT32:
        v = (uint32_t)v;
        buffer_printf(b->json, "%u", (uint32_t)v);
        break;
    case PROTOBUF_C_TYPE_INT64: buffer_printf(b->json, "%" PRId64, (int64_t)v); break;
    case PROTOBUF_C_TYPE_UINT64:
    case PROTOBUF_C_TYPE_FIXED64: buffer_printf(b->json, "%" PRIu64, v); break;
    case PROTOBUF_C_TYPE_BOOL:
        v &= 1;
        buffer_add_str(b->json, v ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_DOUBLE: buffer_printf(b->json, "%.17g", real); break;
    default: ck_abort_msg("a type the schema did not have: %d", (int)f->type);
    }
    buffer_add_str(b->json, f->type == PROTOBUF_C_TYPE_BOOL ? "" : quote);
    if (f->type == PROTOBUF_C_TYPE_DOUBLE)
        wire_put_double(&b->w, f->id, real);
    else if (f->type == PROTOBUF_C_TYPE_FIXED64)
        wire_put_fixed64(&b->w, f->id, v);
    else
        wire_put_uint(&b->w, f->id, v);
}

static void put_message(struct both *b, const ProtobufCMessageDescriptor *d, int depth);

static void put_field(struct both *b, const ProtobufCFieldDescriptor *f, int depth)
{
    uint64_t n = f->label == PROTOBUF_C_LABEL_REPEATED ? 1 + rng_next(&b->rng) % 3 : 1;
    put_key(b, f->name);
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        buffer_add_str(b->json, "[ ");
    for (uint64_t i = 0; i < n; i++) {
        if (i > 0)
            buffer_add_str(b->json, ", ");
        if (f->type == PROTOBUF_C_TYPE_MESSAGE) {
            IN(&b->w, f->id) put_message(b, f->descriptor, depth + 1);
        } else if (f->type == PROTOBUF_C_TYPE_STRING) {
            put_string_field(b, f);
        } else if (f->type == PROTOBUF_C_TYPE_BYTES) {
            put_bytes_field(b, f);
        } else {
            put_number_field(b, f);
        }
    }
    if (f->label == PROTOBUF_C_LABEL_REPEATED)
        buffer_add_str(b->json, "]");
}

static void put_message(struct both *b, const ProtobufCMessageDescriptor *d, int depth)
{
    bool first = true;
    uint64_t member = rng_next(&b->rng) % d->n_fields; /* of AnyValue, whose fields are all of one oneof */
    buffer_add_str(b->json, "{");
    for (unsigned k = 0; k < d->n_fields; k++) {
        unsigned i = b->shuffled ? d->n_fields - 1 - k : k;
        const ProtobufCFieldDescriptor *f = &d->fields[i];
        bool one_of = f->flags & PROTOBUF_C_FIELD_FLAG_ONEOF;
        if ((one_of && i != member) || (depth > 12 && f->type == PROTOBUF_C_TYPE_MESSAGE))
            continue;
        buffer_add_str(b->json, first ? "\n" : " ,");
        put_field(b, f, depth);
        first = false;
    }
    buffer_add_str(b->json, "}");
}

/* Packed again by protobuf-c: equal for equal messages, whatever the order of fields was. */
static struct buffer canonical(const void *p, size_t n)
{
    struct buffer out = {0};
    Request *q = unit_made(request_unpack((const uint8_t *)p, n));
    uint8_t *at = unit_made(buffer_cursor(&out, protobuf_c_message_get_packed_size(&q->base)));
    out.n = protobuf_c_message_pack(&q->base, at);
    request_free(q);
    return out;
}

UNIT(every_field_of_every_message_is_carried)
{
    for (unsigned round = 0; round < 24; round++) {
        cleanup(buffer_release) struct buffer proto = {0}, json = {0}, ours = {0};
        struct error e;
        struct both b = {.w = wire_writer(&proto), .json = &json, .snake = round & 1, .shuffled = round & 2};
        rng_seed(&b.rng, round);
        put_message(
            &b,
            &opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__descriptor,
            0);
        ck_assert_int_eq(b.w.failed, 0);
        ck_assert_msg(transcode(buffer_bytes(&json), &ours, &e) == 0, "round %u: %s", round, e.text);
        cleanup(buffer_release) struct buffer want = canonical(proto.p, proto.n),
                                              have = canonical(ours.p, ours.n);
        ck_assert_uint_gt(want.n, 1000);
        ck_assert_msg(bytes_eq(buffer_bytes(&have), buffer_bytes(&want)), "round %u", round);
    }
}

/* ---- one thing at a time: what a request means as the bytes of a Sample, a Profile, … in hex */

/* The transcoded bytes in hex, or the error in words. */
static const char *gives(const char *json)
{
    static struct buffer text;
    struct buffer out = {0};
    struct error e;
    text.n = 0;
    if (transcode(bytes_str(json), &out, &e) == 0)
        hex(&text, out.p, out.n);
    else
        buffer_add_str(&text, e.text);
    ck_assert_int_eq(buffer_add(&text, "", 1), 0);
    buffer_release(&out);
    return (const char *)text.p;
}

/* Inside a dictionary. */
static const char *dictionary(const char *json)
{
    char text[4096];
    snprintf(text, sizeof text, "{\"dictionary\":{%s}}", json);
    return gives(text);
}

UNIT(an_empty_request_is_one)
{
    ck_assert_str_eq(gives("{}"), "");
    ck_assert_str_eq(gives(" {\"resourceProfiles\":[],\"dictionary\":null} "), "");
    ck_assert_str_eq(gives("{\"dictionary\":{}}"), "1200");
}

UNIT(unknown_keys_are_passed_over_with_what_they_hold)
{
    ck_assert_str_eq(gives("{\"x\":{\"dictionary\":{\"a\":[1,\"}\",{}]}},\"dictionary\":{\"y\":[[]],"
                           "\"stringTable\":[\"a\"],\"\":null},\"z\":1e999}"),
                     "12032a0161");
    ck_assert_str_eq(gives("{\"x\":[1,2,}"), "not a JSON value at byte 10");
}

/* Each key, whatever it holds, also where a layout is only found out behind it; not what only an older one
 * has, and not null. */
UNIT(each_unknown_key_is_counted)
{
    static const struct {
        const char *json;
        uint32_t n;
    } keys[] = {
        {"{\"x\":{\"y\":1},\"dictionary\":{\"z\":[],\"stringTable\":[\"\"],\"w\":null}}", 2},
        {"{\"resourceProfiles\":[{\"x\":1,\"resource\":{\"attributes\":[{\"key\":\"a\",\"value\":{\"x\":1,"
         "\"arrayValue\":{\"values\":[{\"x\":2}]}},\"x\":3}]},\"scopeProfiles\":[{\"profiles\":[{\"x\":1,"
         "\"sampleType\":{\"aggregationTemporality\":1},\"samples\":[{\"x\":1},{\"x\":1}],"
         "\"commentStrindices\":[],\"y\":1}]}]}]}",
         8},
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        cleanup(buffer_release) struct buffer out = {0};
        struct error e = {""};
        struct profiles_written as;
        int r =
            profiles_json_transcode(bytes_str(keys[i].json), &profiles_limits_default, NULL, &out, &as, &e);
        ck_assert_msg(r == 0, "%s", e.text);
        ck_assert_uint_eq(as.unknown_fields, keys[i].n);
    }
}

UNIT(null_is_absent_but_not_in_lists)
{
    ck_assert_str_eq(dictionary("\"stringTable\":null,\"linkTable\":[{\"traceId\":null}],\"mappingTable\":["
                                "{\"memoryStart\":null,\"attributeIndices\":null}]"),
                     "120422000a00");
    ck_assert_str_eq(dictionary("\"stringTable\":[null]"),
                     "dictionary.stringTable[0]: null in a list at byte 30");
}

UNIT(of_a_key_given_twice_the_last_scalar_counts_and_lists_are_joined)
{
    ck_assert_str_eq(dictionary("\"stringTable\":[\"a\"],\"stringTable\":[\"b\"]"), "12062a01612a0162");
    ck_assert_str_eq(dictionary("\"functionTable\":[{\"startLine\":1,\"startLine\":0}]"), "12061a0420012000");
    ck_assert_str_eq(
        gives("{\"dictionary\":{\"stringTable\":[\"a\"]},\"dictionary\":{\"stringTable\":[\"b\"]}}"),
        "12032a016112032a0162");
}

UNIT(keys_may_be_escaped)
{
    ck_assert_str_eq(gives("{\"\\u0064ictionar\\u0079\":{\"string\\u005ftable\":[\"a\"]}}"), "12032a0161");
    /* one that is only too long to be ours */
    ck_assert_str_eq(
        gives("{\"\\u0064ictionar\\u0079\\u0064ictionaryictionaryictionaryictionaryictionaryictionary"
              "ictionaryictionaryictionaryictionaryictionaryictionaryictionaryictionary\":3}"),
        "");
}

/* The dictionary's one mapping with that memoryStart (uint64), location with that mappingIndex (int32). */
static const char *with(const char *before, const char *value, const char *behind)
{
    char text[256];
    snprintf(text, sizeof text, "%s%s%s", before, value, behind);
    return dictionary(text);
}
#define UINT64(value) with("\"mappingTable\":[{\"memoryStart\":", value, "}]")
#define INT32(value)  with("\"locationTable\":[{\"mappingIndex\":", value, "}]")
#define INT64(value)  with("\"functionTable\":[{\"startLine\":", value, "}]")

UNIT(numbers_have_their_range)
{
    ck_assert_str_eq(UINT64("18446744073709551615"), "120d0a0b08ffffffffffffffffff01");
    ck_assert_str_eq(UINT64("\"18446744073709551615\""), "120d0a0b08ffffffffffffffffff01");
    ck_assert_str_eq(INT64("-9223372036854775808"), "120d1a0b2080808080808080808001");
    ck_assert_str_eq(INT32("-2147483648"), "120d120b0880808080f8ffffffff01");
    ck_assert_str_eq(INT32("1e3"), "1205120308e807");
    ck_assert_str_eq(INT32("\"\\u0031\""), "120412020801");
#define AT(place, what) "dictionary." place ": " what
    ck_assert_str_eq(UINT64("18446744073709551616"),
                     AT("mappingTable[0].memoryStart", "a number out of range at byte 46"));
    ck_assert_str_eq(UINT64("-1"), AT("mappingTable[0].memoryStart", "a number out of range at byte 46"));
    ck_assert_str_eq(UINT64("1e400"), AT("mappingTable[0].memoryStart", "a number out of range at byte 46"));
    ck_assert_str_eq(INT32("2147483648"),
                     AT("locationTable[0].mappingIndex", "a number out of range at byte 48"));
    ck_assert_str_eq(INT32("1.5"), AT("locationTable[0].mappingIndex", "not an integer at byte 48"));
    ck_assert_str_eq(INT32("true"), AT("locationTable[0].mappingIndex", "not a number at byte 48"));
    ck_assert_str_eq(INT32("[1]"), AT("locationTable[0].mappingIndex", "not a number at byte 48"));
    ck_assert_str_eq(INT32("\"\""), AT("locationTable[0].mappingIndex", "not a number at byte 48"));
    ck_assert_str_eq(INT32("\" 1\""), AT("locationTable[0].mappingIndex", "not a number at byte 48"));
    ck_assert_str_eq(INT32("\"NaN\""), AT("locationTable[0].mappingIndex", "not a number at byte 48"));
}

/* An AnyValue in the attribute table. */
#define ANY(value) with("\"attributeTable\":[{\"value\":{", value, "}}]")
#define ANY_AT     "dictionary.attributeTable[0].value."

UNIT(values_of_every_kind)
{
    ck_assert_str_eq(ANY(""), "120432021200");
    ck_assert_str_eq(ANY("\"stringValue\":\"\""), "1206320412020a00");
    ck_assert_str_eq(ANY("\"boolValue\":false"), "1206320412021000");
    ck_assert_str_eq(ANY("\"boolValue\":\"false\""), ANY_AT "boolValue: neither true nor false at byte 55");
    ck_assert_str_eq(ANY("\"intValue\":\"-1\""), "120f320d120b18ffffffffffffffffff01");
    ck_assert_str_eq(ANY("\"doubleValue\":1"), "120d320b120921000000000000f03f");
    ck_assert_str_eq(ANY("\"doubleValue\":\"NaN\""), "120d320b120921000000000000f87f");
    ck_assert_str_eq(ANY("\"doubleValue\":\"-Infinity\""), "120d320b120921000000000000f0ff");
    ck_assert_str_eq(ANY("\"doubleValue\":\"1.5\""), "120d320b120921000000000000f83f");
    ck_assert_str_eq(ANY("\"doubleValue\":1e400"), ANY_AT "doubleValue: a number out of range at byte 57");
    ck_assert_str_eq(ANY("\"doubleValue\":\"inf\""), ANY_AT "doubleValue: not a number at byte 57");
    ck_assert_str_eq(ANY("\"bytesValue\":\"AP\\/+\""), "1209320712053a0300fffe");
    ck_assert_str_eq(ANY("\"bytesValue\":\"A\""), ANY_AT "bytesValue: not base64 at byte 56");
    ck_assert_str_eq(ANY("\"stringValueStrindex\":0"), "1206320412024000");
    /* of two members the last one counts: both are there, in their order */
    ck_assert_str_eq(ANY("\"stringValue\":\"\",\"intValue\":2"), "1208320612040a001802");
    ck_assert_str_eq(ANY("\"arrayValue\":{\"values\":[{},{\"intValue\":1}]}"),
                     "120c320a12082a060a000a021801");
    ck_assert_str_eq(ANY("\"kvlistValue\":{\"values\":[{\"key\":\"k\"}]}"), "120b3209120732050a030a016b");
    ck_assert_str_eq(ANY("\"arrayValue\":[]"), ANY_AT "arrayValue: not an object at byte 56");
}

#define LINK(value) with("\"linkTable\":[{", value, "}]")

UNIT(ids_are_hex)
{
    ck_assert_str_eq(LINK("\"traceId\":\"0123456789abcdefABCDEF0123456789\",\"spanId\":\"0123456789aBcDeF\""),
                     "121e221c0a100123456789abcdefabcdef012345678912080123456789abcdef");
    ck_assert_str_eq(LINK("\"traceId\":\"\",\"spanId\":\"\""), "120622040a001200");
    ck_assert_str_eq(LINK("\"traceId\":\"0123456789abcdefABCDEF012345678\""),
                     "dictionary.linkTable[0].traceId: not 32 hexadecimal digits at byte 39");
    ck_assert_str_eq(LINK("\"traceId\":\"ASNFZ4mrze+rze8BI0VniQ==\""), /* base64 */
                     "dictionary.linkTable[0].traceId: not 32 hexadecimal digits at byte 39");
    ck_assert_str_eq(LINK("\"spanId\":\"0123456789abcdeg\""),
                     "dictionary.linkTable[0].spanId: not 16 hexadecimal digits at byte 38");
    ck_assert_str_eq(LINK("\"spanId\":7"), "dictionary.linkTable[0].spanId: not a string at byte 38");
}

static const char *profile_id(const char *text)
{
    char json[256];
    snprintf(json, sizeof json,
             "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"profileId\":\"%s\"}]}]}]}", text);
    return gives(json);
}

UNIT(a_profile_id_is_hex_or_base64)
{
    const char want[] = "0a181216121412123a100123456789abcdefabcdef0123456789";
    const char *have = profile_id("0123456789abcdefABCDEF0123456789");
    ck_assert_str_eq(have + strlen(have) - 32, want + strlen(want) - 32);
    char *first = strdup(have);
    ck_assert_str_eq(profile_id("ASNFZ4mrze+rze8BI0VniQ=="), first);
    ck_assert_str_eq(profile_id("ASNFZ4mrze-rze8BI0VniQ"), first);
    free(first);
    ck_assert_str_eq(profile_id("0123"),
                     "resourceProfiles[0].scopeProfiles[0].profiles[0].profileId: not 16 bytes "
                     "in hex or base64 at byte 65");
}

UNIT(errors_name_the_place)
{
    ck_assert_str_eq(
        gives("{\"resourceProfiles\":[{\"scopeProfiles\":[{},{\"profiles\":[{\"samples\":[{},{},{},"
              "{\"stackIndex\":\"x\"}]}]}]}]}"),
        "resourceProfiles[0].scopeProfiles[1].profiles[0].samples[3].stackIndex: not a number at byte 90");
    ck_assert_str_eq(gives("{\"resourceProfiles\":{}}"), "resourceProfiles: not a list at byte 20");
    ck_assert_str_eq(gives("{\"resourceProfiles\":[7]}"), "resourceProfiles[0]: not an object at byte 21");
    ck_assert_str_eq(gives("{\"resourceProfiles\":[{} {}]}"),
                     "resourceProfiles[0]: neither a comma nor ] at byte 24");
    ck_assert_str_eq(gives("[]"), "the request is not an object at byte 0");
    ck_assert_str_eq(gives("{} {}"), "something follows the value at byte 3");
    ck_assert_str_eq(gives("\xef\xbb\xbf{}"), "not a JSON value at byte 0");
    ck_assert_str_eq(dictionary("\"stringTable\":[\"\xff\"]"),
                     "dictionary.stringTable[0]: a string that is not UTF-8 at byte 30");
}

/* Each key that only older releases had, wherever it stands: in profiles[0], the dictionary's first entries.
 */
UNIT(keys_tell_the_layout)
{
    static const struct {
        const char *profile, *dictionary;
        enum profiles_layout layout;
    } keys[] = {
        {"\"samples\":[{\"stackIndex\":0,\"values\":[1]}]", "\"locationTable\":[{\"lines\":[{\"line\":7}]}]",
         PROFILES_LAYOUT_1_10},
        {"\"sample\":[]", "", PROFILES_LAYOUT_1_8},
        {"\"commentStrindices\":[]", "", PROFILES_LAYOUT_1_8},
        {"", "\"locationTable\":[{\"line\":[]}]", PROFILES_LAYOUT_1_8},
        {"\"comment_strindices\":[0]", "", PROFILES_LAYOUT_1_8},
        {"\"sampleType\":[{}]", "", PROFILES_LAYOUT_1_7},
        {"\"sample\":[{\"locationsStartIndex\":0}]", "", PROFILES_LAYOUT_1_7},
        {"\"samples\":[{\"locations_length\":0}]", "", PROFILES_LAYOUT_1_7},
        {"\"sample\":[{},{\"value\":[1]}]", "", PROFILES_LAYOUT_1_7},
        {"\"timeNanos\":\"-1\"", "", PROFILES_LAYOUT_1_7},
        {"\"durationNanos\":1", "", PROFILES_LAYOUT_1_7},
        {"\"locationIndices\":[]", "", PROFILES_LAYOUT_1_7},
        {"\"defaultSampleTypeIndex\":0", "", PROFILES_LAYOUT_1_7},
        {"", "\"attributeUnits\":[{\"attributeKeyStrindex\":0}]", PROFILES_LAYOUT_1_7},
        {"", "\"locationTable\":[{\"isFolded\":true}]", PROFILES_LAYOUT_1_7},
        {"", "\"locationTable\":[{\"line\":[],\"isFolded\":true}]", PROFILES_LAYOUT_1_7},
        {"", "\"mappingTable\":[{\"hasFunctions\":true}]", PROFILES_LAYOUT_1_7},
        {"", "\"mappingTable\":[{\"has_inline_frames\":true}]", PROFILES_LAYOUT_1_7},
        {"\"stringTable\":[\"\"]", "", PROFILES_LAYOUT_1_5},
        {"\"sample\":[],\"timeNanos\":1,\"locationTable\":[{\"isFolded\":false}]", "", PROFILES_LAYOUT_1_5},
        {"\"mappingTable\":[{\"hasFilenames\":true,\"hasLineNumbers\":true}]", "", PROFILES_LAYOUT_1_5},
        {"\"functionTable\":[]", "", PROFILES_LAYOUT_1_5},
        {"\"linkTable\":[]", "\"attributeUnits\":[]", PROFILES_LAYOUT_1_5},
        {"\"attributeTable\":[]", "", PROFILES_LAYOUT_1_5},
        {"\"attributeUnits\":[]", "", PROFILES_LAYOUT_1_5},
        {"\"defaultSampleTypeStrindex\":0", "", PROFILES_LAYOUT_1_5},
    };
    for (size_t i = 0; i < ARRAY_LEN(keys); i++) {
        cleanup(buffer_release) struct buffer out = {0};
        struct error e = {""};
        struct profiles_written as;
        cleanup(made_end) struct made m;
        char json[512];
        int n = snprintf(
            json, sizeof json,
            "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{%s}]}]}],\"dictionary\":{%s}}",
            keys[i].profile, keys[i].dictionary);
        int r =
            profiles_json_transcode(bytes_of(json, (size_t)n), &profiles_limits_default, NULL, &out, &as, &e);
        ck_assert_msg(r == 0, "%s: %s", json, e.text);
        ck_assert_msg(as.layout == keys[i].layout, "%s: %s", json, profiles_layout_name(as.layout));
        ck_assert_uint_eq(as.unknown_fields, 0);
        made_begin(&m);
        ck_assert_int_eq(
            profiles_decode_as(&m.v, buffer_bytes(&out), as.layout, &profiles_limits_default, &m.e), 0);
    }
}

/* A place in words is a place in the text, whichever layout it turned out to be. */
UNIT(errors_in_older_layouts_name_the_place)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct error e = {""};
    ck_assert_int_eq(
        transcode(BYTES_LIT("{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"stringTable\":[],"
                            "\"sample\":[{\"locationsStartIndex\":\"x\"}]}]}]}]}"),
                  &out, &e),
        PROFILES_MALFORMED);
    ck_assert_str_eq(e.text,
                     "resourceProfiles[0].scopeProfiles[0].profiles[0].sample[0].locationsStartIndex: "
                     "not a number at byte 103");
    ck_assert_int_eq(
        transcode(
            BYTES_LIT("{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"periodType\":[]}]}]}]}"),
            &out, &e),
        PROFILES_MALFORMED); /* that never was a list */
    ck_assert_ptr_nonnull(strstr(e.text, "profiles[0].periodType: not an object"));
}

/* ---- together with the decoder ----------------------------------------------------------------------------
 */

static const char whole[] =
    "{\"resourceProfiles\":[{\"resource\":{\"attributes\":[{\"keyStrindex\":3,\"value\":{\"stringValue\":\"v\"}}]},"
    "\"scopeProfiles\":[{\"scope\":{\"name\":\"s\"},\"profiles\":[{\"sampleType\":{\"typeStrindex\":1},"
    "\"timeUnixNano\":\"18446744073709551615\",\"period\":\"-5\",\"samples\":[%s]}]}]}],"
    "\"dictionary\":{\"stringTable\":[\"\",\"cpu\",\"f\\u00e9\",\"key\"],\"functionTable\":[{},{\"nameStrindex\":2}],"
    "\"mappingTable\":[{}],\"linkTable\":[{},{\"traceId\":\"00112233445566778899aabbccddeeff\"}],"
    "\"attributeTable\":[{},{\"keyStrindex\":3}],\"stackTable\":[{},{\"locationIndices\":[1]}],"
    "\"locationTable\":[{},{\"lines\":[{\"functionIndex\":1}]}]}}";

static int decode_with(const char *samples, struct made *m)
{
    char json[2048];
    snprintf(json, sizeof json, whole, samples);
    made_begin(m);
    ck_assert_int_eq(transcode(bytes_str(json), &m->b, &m->e), 0);
    return made_decode(m);
}

UNIT(a_request_is_decoded)
{
    cleanup(made_end) struct made m;
    ck_assert_int_eq(decode_with("{\"stackIndex\":1,\"linkIndex\":1,\"values\":[\"3\",4]}", &m), 0);
    ck_assert_uint_eq(m.v.sample.n, 1);
    ck_assert_int_eq(m.v.sample.value_sum[0], 7);
    ck_assert_uint_eq(m.v.sample.link[0], 1);
    ck_assert_uint_eq(m.v.profile.time_unix_nano[0], UINT64_MAX);
    ck_assert_int_eq(m.v.profile.period[0], -5);
    ck_assert(bytes_is(m.v.key_value.attr[0].key, "key"));
    ck_assert(bytes_is(profiles_string(&m.v, m.v.function.name[m.v.line.function[0]]), "f\xc3\xa9"));
}

UNIT(truncated_anywhere_it_is_malformed)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct error e;
    char json[2048];
    snprintf(json, sizeof json, whole, "{\"stackIndex\":1,\"values\":[\"3\",4.0e0,-1]}");
    size_t n = strlen(json);
    ck_assert_msg(transcode(bytes_of(json, n), &out, &e) == 0, "%s", e.text);
    for (size_t i = 0; i < n; i++) {
        out.n = 0;
        ck_assert_int_eq(transcode(bytes_of(json, i), &out, &e), PROFILES_MALFORMED);
    }
}

/* ---- bounds -----------------------------------------------------------------------------------------------
 */

UNIT(depth_bombs_are_refused)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct error e;
    size_t n = 1000000;
    autofree char *bomb = malloc(n);
    memset(bomb, '[', n);
    ck_assert_int_eq(transcode(bytes_of(bomb, n), &out, &e), PROFILES_MALFORMED);
    memcpy(bomb, "{\"x\":", 5);
    ck_assert_int_eq(transcode(bytes_of(bomb, n), &out, &e), PROFILES_MALFORMED);
    ck_assert_str_eq(e.text, "nested too deep at byte 260");
}

/* An attribute value of `levels` messages: AnyValue, ArrayValue, AnyValue, … */
static int nested(unsigned levels, struct buffer *out, struct error *e)
{
    cleanup(buffer_release) struct buffer json = {0};
    buffer_add_str(&json, "{\"dictionary\":{\"attributeTable\":[{},{\"value\":{");
    for (unsigned i = 1; i < levels; i++)
        buffer_add_str(&json, i % 2 ? "\"arrayValue\":{" : "\"values\":[{");
    for (unsigned i = levels - 1; i >= 1; i--)
        buffer_add_str(&json, i % 2 ? "}" : "}]");
    ck_assert_int_eq(buffer_add_str(&json, "}}]}}"), 0);
    out->n = 0;
    return transcode(buffer_bytes(&json), out, e);
}

UNIT(values_nest_as_deep_as_the_decoder_allows)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct made m;
    made_begin(&m);
    ck_assert_int_eq(nested(profiles_limits_default.depth, &m.b, &m.e), 0);
    ck_assert_msg(made_decode(&m) == 0, "%s", m.e.text);
    made_end(&m);
    struct error e;
    ck_assert_int_eq(nested(profiles_limits_default.depth + 1, &out, &e), PROFILES_MALFORMED);
    ck_assert_ptr_nonnull(strstr(e.text, "an attribute value is nested too deep at byte"));
    ck_assert_ptr_nonnull(
        strstr(e.text, "dictionary.attributeTable[1].value.arrayValue.values[0].arrayValue"));
}

UNIT(memory_is_charged_and_has_an_end)
{
    cleanup(buffer_release) struct buffer json = {0}, out = {0};
    struct profiles_written as;
    struct error e = {""};
    buffer_add_str(&json, "{\"dictionary\":{\"stackTable\":[{\"locationIndices\":[-1");
    for (int i = 0; i < 20000; i++) /* three characters become ten bytes: the worst there is */
        buffer_add_str(&json, ",-1");
    buffer_add_str(&json, "]}]}}");
    struct budget budget = BUDGET_INIT(1u << 20, NULL);
    ck_assert_int_eq(
        profiles_json_transcode(buffer_bytes(&json), &profiles_limits_default, &budget, &out, &as, &e), 0);
    ck_assert_uint_eq(budget.used, out.cap);
    ck_assert_uint_gt(out.n, 200000);
    ck_assert_uint_le(out.n, 4 * json.n);
    budget.limit = 150000; /* again, into a new buffer */
    struct buffer small = {0};
    budget.used = 0;
    ck_assert_int_eq(profiles_json_transcode(buffer_bytes(&json), &profiles_limits_default, &budget, &small,
                                             &as, &e),
                     PROFILES_OVER_BUDGET);
    ck_assert_uint_eq(small.n, 0);
    ck_assert_uint_eq(budget.used, small.cap);
    buffer_release(&small);
    cleanup(buffer_release) struct buffer bounded = BUFFER_INIT(1000);
    ck_assert_int_eq(profiles_json_transcode(buffer_bytes(&json), &profiles_limits_default, NULL, &bounded,
                                             &as, &e),
                     PROFILES_TOO_LARGE);
    ck_assert_uint_le(bounded.cap, 1000);
}

UNIT(it_appends)
{
    cleanup(buffer_release) struct buffer out = {0};
    struct profiles_written as;
    struct error e = {""};
    buffer_add_str(&out, "x");
    ck_assert_int_eq(profiles_json_transcode(BYTES_LIT("{\"dictionary\":{}}"), &profiles_limits_default, NULL,
                                             &out, &as, &e),
                     0);
    ck_assert(bytes_eq(buffer_bytes(&out), BYTES_LIT("x\x12\x00")));
    ck_assert_int_eq(profiles_json_transcode(BYTES_LIT("{\"dictionary\":{}"), &profiles_limits_default, NULL,
                                             &out, &as, &e),
                     PROFILES_MALFORMED);
    ck_assert(bytes_eq(buffer_bytes(&out), BYTES_LIT("x\x12\x00")));
}
