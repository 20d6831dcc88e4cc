/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Field numbers are those of opentelemetry/proto/{profiles,metrics,resource,common}: ResourceProfiles and
 * ResourceMetrics are field 1 of their requests and ProfilesData, and in both of them the resource is
 * field 1.
 */
#include "gateway/export/kafka/key.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/base/hash.h"
#include "proto/wire/reader.h"

enum {
    REQUEST_RESOURCES = 1,
    RESOURCES_RESOURCE = 1,
    RESOURCE_ATTRIBUTES = 1,
    ATTRIBUTE_KEY = 1,
    ATTRIBUTE_VALUE = 2
};

/* Written down: gateways that run at once must agree. */
#define KEY_SEED 0

static bool is_wanted(struct bytes key, const struct settings_strings *only)
{
    for (uint32_t i = 0; i < only->n; i++)
        if (bytes_is(key, only->items[i]))
            return true;
    return only->n == 0;
}

uint64_t key_of_resource(struct bytes resource, const struct settings_strings *only)
{
    struct wire_reader r = wire_reader(resource);
    struct bytes attribute;
    uint64_t sum = 0;
    while (wire_find(&r, RESOURCE_ATTRIBUTES, &attribute)) {
        const struct bytes key = wire_first(attribute, ATTRIBUTE_KEY);
        if (is_wanted(key, only))
            sum += hash_mix(hash_bytes(key, KEY_SEED),
                            hash_bytes(wire_first(attribute, ATTRIBUTE_VALUE), KEY_SEED));
    }
    return sum;
}

uint64_t key_of_request(struct bytes request, const struct settings_strings *only)
{
    return key_of_resource(wire_first(wire_first(request, REQUEST_RESOURCES), RESOURCES_RESOURCE), only);
}

bool key_is_one(struct bytes request, const struct settings_strings *only)
{
    const uint64_t key = key_of_request(request, only);
    struct wire_reader r = wire_reader(request);
    struct bytes of_resource;
    while (wire_find(&r, REQUEST_RESOURCES, &of_resource))
        if (key_of_resource(wire_first(of_resource, RESOURCES_RESOURCE), only) != key)
            return false;
    return true;
}

void key_print(uint64_t key, char text[KEY_TEXT])
{
    snprintf(text, KEY_TEXT, "%016" PRIx64, key);
}
