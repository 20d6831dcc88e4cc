/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Fields of a newer schema than this: what the columns do not hold is looked up in the request's own bytes
 * and copied. Only a request that has any pays for it, by a pass over its dictionary and tree. Indices in
 * such fields are not renumbered, because nobody knows that they are indices.
 */
#include <errno.h>

#include "proto/otlp/write/subset_parts.h"
#include "proto/wire/reader.h"

/* Room for all of a kind, which the view has counted; a table that the request leaves out has one entry. */
static int make_room(struct subset_raw *raw, uint32_t n, struct arena *memory)
{
    raw->at = arena_calloc(memory, n ? n : 1, sizeof *raw->at);
    raw->room = n;
    return raw->at ? 0 : -ENOMEM;
}

static void add(struct subset_raw *raw, struct bytes message)
{
    if (raw->n < raw->room)
        raw->at[raw->n++] = message;
}

static void find_in_dictionary(struct subset *s, struct bytes dictionary)
{
    struct wire_reader in = wire_reader(dictionary);
    struct wire_field f;
    while (wire_next(&in, &f) == 0)
        if (f.number <= DICTIONARY_HIGHEST && f.number != DICTIONARY_STRING_TABLE)
            add(&s->raw_entry[f.number], f.bytes);
}

static void find_in_resource(struct subset *s, struct bytes resource_profiles)
{
    struct wire_reader in = wire_reader(resource_profiles);
    struct wire_field f;
    add(&s->raw_resource, resource_profiles);
    while (wire_next(&in, &f) == 0)
        if (f.number == RESOURCE_PROFILES_SCOPE_PROFILES)
            add(&s->raw_scope, f.bytes);
}

int subset_find_unknown(struct subset *s, struct arena *memory)
{
    const struct profiles *p = s->p;
    if (p->unknown_fields == 0)
        return 0;
    int r = make_room(&s->raw_resource, p->resource.n, memory);
    const uint32_t n[DICTIONARY_HIGHEST + 1] = {
        [DICTIONARY_MAPPING_TABLE] = p->mapping.n,     [DICTIONARY_LOCATION_TABLE] = p->location.n,
        [DICTIONARY_FUNCTION_TABLE] = p->function.n,   [DICTIONARY_LINK_TABLE] = p->link.n,
        [DICTIONARY_ATTRIBUTE_TABLE] = p->attribute.n, [DICTIONARY_STACK_TABLE] = p->stack.n,
    };
    r = r < 0 ? r : make_room(&s->raw_scope, p->scope.n, memory);
    for (uint32_t i = 1; r == 0 && i <= DICTIONARY_HIGHEST; i++)
        r = make_room(&s->raw_entry[i], n[i], memory);
    struct wire_reader in = wire_reader(p->body);
    struct wire_field f;
    while (r == 0 && wire_next(&in, &f) == 0) {
        if (f.number == REQUEST_DICTIONARY)
            find_in_dictionary(s, f.bytes);
        else if (f.number == REQUEST_RESOURCE_PROFILES)
            find_in_resource(s, f.bytes);
    }
    return r;
}

void subset_put_unknown(struct subset *s, struct bytes message, uint32_t highest)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (wire_next(&in, &f) == 0)
        if (f.number > highest)
            wire_put_raw(&s->w, bytes_of(f.from, (size_t)(in.p - f.from)));
}

void subset_put_unknown_of(struct subset *s, const struct subset_raw *raw, uint32_t i, uint32_t highest)
{
    if (i < raw->n)
        subset_put_unknown(s, raw->at[i], highest);
}

void subset_put_unknown_in(struct subset *s, struct bytes message, uint32_t field, uint32_t highest)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    while (s->p->unknown_fields > 0 && wire_next(&in, &f) == 0)
        if (f.number == field)
            subset_put_unknown(s, f.bytes, highest);
}
