/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/calls/descriptors.h"

#include "proto/base/embed.h"
#include "proto/base/macros.h"
#include "proto/wire/reader.h"

extern const struct embedded_file schema_descriptors[]; /* pg_descriptors */

/* google/protobuf/descriptor.proto. */
enum { SET_FILE = 1 };
enum { FILE_NAME = 1, FILE_PACKAGE, FILE_DEPENDENCY, FILE_MESSAGE, FILE_ENUM, FILE_SERVICE, FILE_EXTENSION };
enum {
    MESSAGE_FIELD = 2,
    MESSAGE_NESTED = 3,
    MESSAGE_ENUM = 4,
    MESSAGE_EXTENSION = 6,
    MESSAGE_ONEOF = 8,
};
enum { ENUM_VALUE = 2, SERVICE_METHOD = 2 };
enum { ANY_NAME = 1 }; /* of every descriptor */

#define FILES_MAX 32 /* of the set: bits of a mask. We have seven */

/* What can be inside what. */
enum kind { KIND_FILE, KIND_MESSAGE, KIND_ENUM, KIND_SERVICE, KIND_LEAF };

static struct wire_reader open_set(void)
{
    return wire_reader(bytes_of(schema_descriptors[0].data, schema_descriptors[0].size));
}

static bool file_at(int index, struct bytes *ret)
{
    struct wire_reader r = open_set();
    bool found = false;
    for (int i = 0; i <= index; i++)
        found = wire_find(&r, SET_FILE, ret);
    return index >= 0 && found;
}

int descriptors_find_file(struct bytes name)
{
    struct wire_reader r = open_set();
    struct bytes file;
    for (int i = 0; i < FILES_MAX && wire_find(&r, SET_FILE, &file); i++)
        if (bytes_eq(wire_first(file, FILE_NAME), name))
            return i;
    return DESCRIPTORS_NONE;
}

static enum kind kind_in(enum kind kind, uint32_t number)
{
    static const struct {
        uint8_t in, number, kind;
    } rows[] = {
        {KIND_FILE, FILE_MESSAGE, KIND_MESSAGE},  {KIND_FILE, FILE_ENUM, KIND_ENUM},
        {KIND_FILE, FILE_SERVICE, KIND_SERVICE},  {KIND_FILE, FILE_EXTENSION, KIND_LEAF},
        {KIND_MESSAGE, MESSAGE_FIELD, KIND_LEAF}, {KIND_MESSAGE, MESSAGE_NESTED, KIND_MESSAGE},
        {KIND_MESSAGE, MESSAGE_ENUM, KIND_ENUM},  {KIND_MESSAGE, MESSAGE_EXTENSION, KIND_LEAF},
        {KIND_MESSAGE, MESSAGE_ONEOF, KIND_LEAF}, {KIND_SERVICE, SERVICE_METHOD, KIND_LEAF},
    };
    for (size_t i = 0; i < ARRAY_LEN(rows); i++)
        if (rows[i].in == kind && rows[i].number == number)
            return rows[i].kind;
    return KIND_FILE; /* nothing that has a name of its own */
}

static bool has_value(struct bytes enumeration, struct bytes name)
{
    struct wire_reader r = wire_reader(enumeration);
    struct bytes value;
    while (wire_find(&r, ENUM_VALUE, &value))
        if (bytes_eq(wire_first(value, ANY_NAME), name))
            return true;
    return false;
}

/* Goes from *at, a descriptor of *kind, into its child of that name. Values are beside their enum, not in it
 * (descriptor.proto "EnumValueDescriptorProto" scoping, as in C++). */
static bool descend(struct bytes *at, enum kind *kind, struct bytes name)
{
    struct wire_reader r = wire_reader(*at);
    struct wire_field f;
    while (wire_next(&r, &f) == 0) {
        enum kind child = f.type == WIRE_LEN ? kind_in(*kind, f.number) : KIND_FILE;
        if (child == KIND_FILE)
            continue;
        bool is_it = bytes_eq(wire_first(f.bytes, ANY_NAME), name);
        if (!is_it && child == KIND_ENUM && has_value(f.bytes, name)) {
            is_it = true;
            child = KIND_LEAF;
        }
        if (is_it) {
            *at = f.bytes;
            *kind = child;
            return true;
        }
    }
    return false;
}

/* Whether the file has the symbol, and what it is. */
static bool file_defines(struct bytes file, struct bytes symbol, enum kind *ret_kind)
{
    struct bytes package = wire_first(file, FILE_PACKAGE);
    if (symbol.n <= package.n + 1 || memcmp(symbol.p, package.p, package.n) != 0 ||
        symbol.p[package.n] != '.')
        return false;
    struct bytes rest = bytes_of(symbol.p + package.n + 1, symbol.n - package.n - 1);
    *ret_kind = KIND_FILE;
    for (;;) { /* ends: each step uses up a part of the symbol */
        const uint8_t *dot = rest.n ? memchr(rest.p, '.', rest.n) : NULL;
        struct bytes name = bytes_of(rest.p, dot ? (size_t)(dot - rest.p) : rest.n);
        if (!descend(&file, ret_kind, name))
            return false;
        if (!dot)
            return true;
        rest = bytes_of(dot + 1, rest.n - name.n - 1);
    }
}

int descriptors_find_symbol(struct bytes symbol, bool *ret_is_message)
{
    struct wire_reader r = open_set();
    struct bytes file;
    enum kind kind;
    for (int i = 0; i < FILES_MAX && wire_find(&r, SET_FILE, &file); i++)
        if (file_defines(file, symbol, &kind)) {
            if (ret_is_message)
                *ret_is_message = kind == KIND_MESSAGE;
            return i;
        }
    return DESCRIPTORS_NONE;
}

void descriptors_write(int index, struct wire_writer *w, uint32_t field)
{
    uint32_t wanted = 1u << index;
    struct bytes file, name;
    for (int i = index; i >= 0; i--) { /* imports come before those who import them */
        if (!(wanted >> i & 1) || !file_at(i, &file))
            continue;
        wire_put_bytes(w, field, file);
        struct wire_reader r = wire_reader(file);
        while (wire_find(&r, FILE_DEPENDENCY, &name)) {
            int other = descriptors_find_file(name);
            if (other != DESCRIPTORS_NONE)
                wanted |= 1u << other;
        }
    }
}

void descriptors_services(void (*fn)(void *user, struct bytes package, struct bytes name), void *user)
{
    struct wire_reader set = open_set();
    struct bytes file, service;
    while (wire_find(&set, SET_FILE, &file)) {
        struct wire_reader r = wire_reader(file);
        while (wire_find(&r, FILE_SERVICE, &service))
            fn(user, wire_first(file, FILE_PACKAGE), wire_first(service, ANY_NAME));
    }
}
