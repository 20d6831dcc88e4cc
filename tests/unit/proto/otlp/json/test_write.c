/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
#include "proto/otlp/json/write.h"

#include <errno.h>
#include <stdlib.h>

#include "profiles_service.pb-c.h"
#include "proto/base/rng.h"
#include "proto/otlp/json/profiles.h"
#include "proto/wire/writer.h"
#include "tests/lib/unit.h"

typedef Opentelemetry__Proto__Collector__Profiles__V1development__ExportProfilesServiceRequest request;
#define UNPACK \
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__unpack
#define PACK opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__pack
#define SIZE \
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__get_packed_size
#define FREE \
    opentelemetry__proto__collector__profiles__v1development__export_profiles_service_request__free_unpacked

/* As protobuf-c writes it: two messages that say the same are the same bytes. */
static struct buffer canonical(struct bytes body)
{
    struct buffer out = BUFFER_INIT(0);
    request *m = unit_made(UNPACK(NULL, body.n, body.p));
    ck_assert_int_eq(buffer_reserve(&out, SIZE(m) + 1), 0);
    out.n = PACK(m, out.p);
    FREE(m, NULL);
    return out;
}

/* Written, and read back by our own reader, it is what it was. */
static void expect_back(struct bytes body)
{
    cleanup(buffer_release) struct buffer json = BUFFER_INIT(0), back = BUFFER_INIT(0);
    struct error e = {""};
    ck_assert_int_eq(profiles_json_write(body, &json), 0);
    ck_assert_ptr_null(memchr(json.p, '\n', json.n - 1)); /* one line */
    struct profiles_written as;
    int r = profiles_json_transcode(buffer_bytes(&json), &profiles_limits_default, NULL, &back, &as, &e);
    ck_assert_msg(r == 0, "%s", e.text);
    cleanup(buffer_release) struct buffer wanted = canonical(body), got = canonical(buffer_bytes(&back));
    ck_assert(bytes_eq(buffer_bytes(&wanted), buffer_bytes(&got)));
}

UNIT(captures_come_back)
{
    static const char *const names[] = {"connector/ebpf-go-0003.pb",    "connector/ebpf-java-0003.pb",
                                        "connector/ebpf-mixed-0003.pb", "connector/rand-01.pb",
                                        "connector/rand-02.pb",         "connector/synth-multi.pb"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        struct bytes body;
        body.p = unit_data(names[i], &body.n);
        expect_back(body);
        free((void *)body.p);
    }
}

static void expect_text(struct bytes body, const char *wanted)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    ck_assert_int_eq(profiles_json_write(body, &out), 0);
    ck_assert_int_eq(buffer_add(&out, "", 1), 0);
    ck_assert_str_eq((char *)out.p, wanted);
}

UNIT(each_type_as_the_specification_has_it)
{
    static const uint8_t id[16] = {0x01, 0xab, [15] = 0xff};
    struct buffer out = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&out);
    size_t resource = wire_begin(&w, 1), scope = wire_begin(&w, 2), profile = wire_begin(&w, 2);
    size_t sample = wire_begin(&w, 2);
    wire_put_int(&w, 1, 7);
    wire_put_packed64(&w, 4, (int64_t[]){-1, 0, INT64_MAX}, 3);
    wire_put_int(&w, 4, 5); /* not packed: the same list */
    wire_put_packed_fixed64(&w, 5, (uint64_t[]){UINT64_MAX}, 1);
    wire_end(&w, sample);
    wire_put_fixed64(&w, 3, 1700000000000000000u);
    wire_put_bytes(&w, 7, bytes_of(id, 16));
    wire_put_bytes(&w, 10, BYTES_LIT("\x01\x02"));
    wire_put_bytes(&w, 999, BYTES_LIT("nobody knows"));
    wire_end(&w, profile);
    wire_put_bytes(&w, 3, BYTES_LIT("a\"\\\n\xff"));
    wire_end(&w, scope);
    wire_end(&w, resource);
    size_t dictionary = wire_begin(&w, 2), attribute = wire_begin(&w, 6);
    wire_put_uint(&w, 1, 1);
    size_t value = wire_begin(&w, 2);
    wire_put_double(&w, 4, 0.1);
    wire_end(&w, value);
    wire_end(&w, attribute);
    wire_put_bytes(&w, 5, BYTES_LIT(""));
    wire_put_bytes(&w, 5, BYTES_LIT("x"));
    wire_end(&w, dictionary);
    ck_assert_int_eq(w.failed, 0);
    expect_text(buffer_bytes(&out),
                "{\"resourceProfiles\":[{\"scopeProfiles\":[{\"profiles\":[{\"samples\":[{\"stackIndex\":7,"
                "\"values\":[\"-1\",\"0\",\"9223372036854775807\",\"5\"],"
                "\"timestampsUnixNano\":[\"18446744073709551615\"]}],"
                "\"timeUnixNano\":\"1700000000000000000\",\"profileId\":\"01ab00000000000000000000000000ff\","
                "\"originalPayload\":\"AQI=\"}],\"schemaUrl\":\"a\\\"\\\\\\u000a\xef\xbf\xbd\"}]}],"
                "\"dictionary\":{\"stringTable\":[\"\",\"x\"],"
                "\"attributeTable\":[{\"keyStrindex\":1,\"value\":{\"doubleValue\":0.1}}]}}\n");
    buffer_release(&out);
    expect_text(bytes_of(NULL, 0), "{}\n");
}

/* Dictionary { string_table: … }, as often as it is said: one message. Of a oneof the last member counts. */
UNIT(what_is_said_in_parts_is_one)
{
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&out);
    for (int part = 0; part < 3; part++) {
        size_t dictionary = wire_begin(&w, 2);
        wire_put_bytes(&w, 5, bytes_of(&"abc"[part], 1));
        wire_end(&w, dictionary);
        size_t resource = wire_begin(&w, 1);
        wire_put_bytes(&w, 3, bytes_of(&"xyz"[part], 1));
        wire_put_bytes(&w, 3, bytes_of(&"XYZ"[part], 1));
        wire_end(&w, resource);
    }
    expect_text(buffer_bytes(&out),
                "{\"resourceProfiles\":[{\"schemaUrl\":\"X\"},{\"schemaUrl\":\"Y\"},"
                "{\"schemaUrl\":\"Z\"}],\"dictionary\":{\"stringTable\":[\"a\",\"b\",\"c\"]}}\n");
    expect_back(buffer_bytes(&out));
    out.n = 0;
    size_t dictionary = wire_begin(&w, 2), attribute = wire_begin(&w, 6), value = wire_begin(&w, 2);
    wire_put_int(&w, 3, 9);
    wire_put_bytes(&w, 1, BYTES_LIT("text"));
    wire_put_uint(&w, 2, 0);
    wire_end(&w, value);
    wire_end(&w, attribute);
    wire_end(&w, dictionary);
    expect_text(buffer_bytes(&out),
                "{\"dictionary\":{\"attributeTable\":[{\"value\":{\"boolValue\":false}}]}}\n");
}

/* AnyValue { array_value { values: [ … ] } }, so many of them inside one another. */
static struct buffer nested(uint32_t depth)
{
    struct buffer out = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&out);
    size_t marks[400];
    uint32_t n = 0;
    marks[n++] = wire_begin(&w, 2);
    marks[n++] = wire_begin(&w, 6);
    marks[n++] = wire_begin(&w, 2);
    for (uint32_t i = 0; i < depth; i++) {
        marks[n++] = wire_begin(&w, 5);
        marks[n++] = wire_begin(&w, 1);
    }
    while (n > 0)
        wire_end(&w, marks[--n]);
    return out;
}

UNIT(as_deep_as_a_decoder_takes_it_and_no_deeper)
{
    cleanup(buffer_release) struct buffer fine = nested(31), deep = nested(190), out = BUFFER_INIT(0);
    expect_back(buffer_bytes(&fine));
    ck_assert_int_eq(profiles_json_write(buffer_bytes(&deep), &out), PROFILES_MALFORMED);
    ck_assert_uint_eq(out.n, 0);
}

/* Whatever comes: it is written or refused, with nothing half-written, and a refused one leaves the buffer
 * alone. */
UNIT(broken_messages_leave_nothing)
{
    struct bytes whole;
    whole.p = unit_data("connector/rand-03.pb", &whole.n);
    uint8_t *copy = unit_made(malloc(whole.n));
    struct rng rng = {.state = 5};
    struct buffer out = BUFFER_INIT(0);
    unsigned refused = 0;
    for (int round = 0; round < 400; round++) {
        size_t n = round % 2 ? whole.n : rng_next(&rng) % whole.n;
        memcpy(copy, whole.p, n);
        for (unsigned i = rng_next(&rng) % 8; n > 0 && i > 0; i--)
            copy[rng_next(&rng) % n] = (uint8_t)rng_next(&rng);
        out.n = 0;
        ck_assert_int_eq(buffer_add_str(&out, "before"), 0);
        int r = profiles_json_write(bytes_of(copy, n), &out);
        ck_assert(r == 0 || (r == PROFILES_MALFORMED && out.n == 6));
        ck_assert(memcmp(out.p, "before", 6) == 0);
        refused += r != 0;
    }
    ck_assert_uint_gt(refused, 50);
    ck_assert_uint_lt(refused, 400);
    struct buffer small = BUFFER_INIT(100);
    ck_assert_int_eq(profiles_json_write(whole, &small), -ENOBUFS);
    ck_assert_uint_eq(small.n, 0);
    buffer_release(&small);
    buffer_release(&out);
    free(copy);
    free((void *)whole.p);
}
