/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/attack_profile.h"

#include "tests/lib/attack_collide.h"

#define COLLIDING_SHORTS 8192u
#define COLLIDING_BITS   12u

static void put_varint(struct wire *w, uint64_t n)
{
    for (; n > 127; n >>= 7)
        wire_put(w, &(uint8_t){(uint8_t)(n | 128)}, 1);
    wire_put(w, &(uint8_t){(uint8_t)n}, 1);
}

static void put_number(struct wire *w, uint32_t field, uint64_t n)
{
    put_varint(w, field << 3);
    put_varint(w, n);
}

static void put_bytes(struct wire *w, uint32_t field, const void *p, size_t n)
{
    put_varint(w, field << 3 | 2);
    put_varint(w, n);
    wire_put(w, p, n);
}

/* The message is used up. */
static void put_message(struct wire *w, uint32_t field, struct wire *message)
{
    put_bytes(w, field, message->p, message->n);
    wire_release(message);
    *message = (struct wire){0};
}

enum { /* profiles.proto 1.10, ProfilesDictionary */
       DICTIONARY_MAPPING = 1,
       DICTIONARY_LOCATION,
       DICTIONARY_FUNCTION,
       DICTIONARY_LINK,
       DICTIONARY_STRING,
       DICTIONARY_ATTRIBUTE,
       DICTIONARY_STACK
};

/* String number `string` as a kernel function's name, those whose names matter, and a location of it. */
static void put_kernel_frame(struct wire *dictionary, uint32_t string, struct wire *stack)
{
    struct wire function = {0}, location = {0}, line = {0};
    uint32_t frame = string - 4; /* behind "", the key, its value, and the sample's type */
    put_number(&function, 1, string);
    put_message(dictionary, DICTIONARY_FUNCTION, &function);
    put_number(&line, 1, frame);
    put_message(&location, 3, &line);
    put_bytes(&location, 4, &(uint8_t){1}, 1);
    put_message(dictionary, DICTIONARY_LOCATION, &location);
    put_varint(stack, frame);
}

static void put_colliding_dictionary(struct wire *d, struct wire *stack)
{
    struct wire attribute = {0}, value = {0};
    for (uint32_t table = DICTIONARY_MAPPING; table <= DICTIONARY_STACK; table++)
        put_bytes(d, table, "", 0);
    put_bytes(d, DICTIONARY_STRING, "profile.frame.type", 18);
    put_bytes(d, DICTIONARY_STRING, "samples", 7);
    put_bytes(d, DICTIONARY_STRING, "count", 5);
    put_bytes(d, DICTIONARY_STRING, "", 0);
    put_number(&attribute, 1, 1);
    put_bytes(&value, 1, "kernel", 6);
    put_message(&attribute, 2, &value);
    put_message(d, DICTIONARY_ATTRIBUTE, &attribute);
    uint32_t string = 5;
    for (uint32_t i = 0; i < COLLIDE_LONGS; i++) {
        uint8_t name[COLLIDE_LONG_BYTES];
        collide_long(name, i);
        put_bytes(d, DICTIONARY_STRING, name, sizeof name);
        put_kernel_frame(d, string++, stack);
    }
    uint64_t at = 0;
    for (uint32_t i = 0; i < COLLIDING_SHORTS; i++) {
        char name[COLLIDE_SHORT_MAX];
        put_bytes(d, DICTIONARY_STRING, name, collide_short(name, &at, COLLIDING_BITS));
        put_kernel_frame(d, string++, stack);
    }
}

void attack_profile_colliding(struct wire *ret)
{
    struct wire dictionary = {0}, stack = {0}, message = {0}, profile = {0}, type = {0};
    struct wire sample = {0}, scope = {0}, resource = {0};
    put_colliding_dictionary(&dictionary, &stack);
    put_message(&message, 1, &stack);
    put_message(&dictionary, DICTIONARY_STACK, &message);
    put_number(&type, 1, 2);
    put_number(&type, 2, 3);
    put_message(&profile, 1, &type);
    put_number(&sample, 1, 1);
    put_bytes(&sample, 4, &(uint8_t){1}, 1);
    put_message(&profile, 2, &sample);
    put_message(&scope, 2, &profile);
    put_message(&resource, 2, &scope);
    put_message(ret, 1, &resource);
    put_message(ret, 2, &dictionary);
}
