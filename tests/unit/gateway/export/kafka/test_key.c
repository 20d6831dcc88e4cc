/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/export/kafka proto/wire */
/* Keys of requests that are put together by hand: ResourceProfiles (or ResourceMetrics) of attributes. */
#include "tests/lib/unit.h"

#include <string.h>

#include "gateway/export/kafka/key.h"
#include "proto/base/buffer.h"
#include "proto/base/macros.h"

static void put(struct buffer *out, uint32_t field, struct bytes b)
{
    const uint8_t head[] = {(uint8_t)(field << 3 | 2), (uint8_t)b.n};
    ck_assert_uint_lt(b.n, 128);
    ck_assert_int_eq(buffer_add(out, head, 2) | buffer_add_bytes(out, b), 0);
}

/* "a=1,b=2" as one entry of a request; "" has a resource without attributes. */
static void add_resource(struct buffer *request, const char *attributes)
{
    cleanup(buffer_release) struct buffer resource = BUFFER_INIT(0), entry = BUFFER_INIT(0);
    for (const char *p = attributes, *next; *p; p = next + (*next == ',')) {
        cleanup(buffer_release) struct buffer pair = BUFFER_INIT(0), value = BUFFER_INIT(0);
        const char *equals = strchr(p, '=');
        next = p + strcspn(p, ",");
        put(&value, 1, bytes_of(equals + 1, (size_t)(next - equals - 1)));
        put(&pair, 1, bytes_of(p, (size_t)(equals - p)));
        put(&pair, 2, buffer_bytes(&value));
        put(&resource, 1, buffer_bytes(&pair));
    }
    put(&entry, 1, buffer_bytes(&resource));
    put(request, 1, buffer_bytes(&entry));
}

static const struct settings_strings all;

static uint64_t key_of(const char *attributes, const struct settings_strings *only)
{
    cleanup(buffer_release) struct buffer request = BUFFER_INIT(0);
    add_resource(&request, attributes);
    return key_of_request(buffer_bytes(&request), only);
}

UNIT(attributes_make_the_key_in_any_order)
{
    ck_assert_uint_eq(key_of("a=1,b=2,c=3", &all), key_of("c=3,a=1,b=2", &all));
    ck_assert_uint_ne(key_of("a=1,b=2", &all), key_of("a=2,b=1", &all));
    ck_assert_uint_ne(key_of("a=1,b=2", &all), key_of("a=1", &all));
    ck_assert_uint_ne(key_of("a=b", &all), key_of("b=a", &all));
    ck_assert_uint_eq(key_of("", &all), 0);
}

/* Gateways of different releases that write to one topic must agree: never change this number. */
UNIT(the_key_of_a_resource_is_written_down)
{
    char text[KEY_TEXT];
    key_print(key_of("service.name=checkout,host.name=h1", &all), text);
    ck_assert_str_eq(text, "7e0fadbe69f39c15");
}

UNIT(some_attributes_alone_can_make_it)
{
    const char *names[] = {"host", "pod"};
    const struct settings_strings only = {names, 2};
    ck_assert_uint_eq(key_of("host=h,process=1", &only), key_of("process=2,host=h", &only));
    ck_assert_uint_ne(key_of("host=h,process=1", &only), key_of("host=i,process=1", &only));
    ck_assert_uint_eq(key_of("hosts=h", &only), 0);
}

UNIT(a_request_has_one_key_or_several)
{
    const char *names[] = {"host"};
    const struct settings_strings only = {names, 1};
    cleanup(buffer_release) struct buffer request = BUFFER_INIT(0);
    ck_assert(key_is_one(buffer_bytes(&request), &all));
    add_resource(&request, "host=h,process=1");
    ck_assert(key_is_one(buffer_bytes(&request), &all));
    add_resource(&request, "host=h,process=2");
    ck_assert(!key_is_one(buffer_bytes(&request), &all));
    ck_assert(key_is_one(buffer_bytes(&request), &only));
    ck_assert_uint_eq(key_of_request(buffer_bytes(&request), &all), key_of("host=h,process=1", &all));
}

/* Whatever the bytes are, there is a key: what is no request was refused long before. */
UNIT(bytes_that_are_no_request_have_some_key)
{
    cleanup(buffer_release) struct buffer request = BUFFER_INIT(0);
    add_resource(&request, "host=h,process=1");
    add_resource(&request, "host=i");
    for (size_t n = 0; n <= request.n; n++)
        for (unsigned flip = 0; flip < 256; flip += 51) {
            uint8_t copy[128];
            ck_assert_uint_lt(request.n, sizeof copy);
            memcpy(copy, request.p, n);
            if (n > 0)
                copy[n / 2] ^= (uint8_t)flip;
            key_of_request(bytes_of(copy, n), &all);
            key_is_one(bytes_of(copy, n), &all);
        }
}
