/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/hotspot/structs.h"

#include <errno.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/dynamic.h"
#include "sender/runtimes/runtime.h"

/* JDK 25 has some 2,500 fields and 1,100 types. */
#define ENTRIES_MAX 16384u
#define ENTRY_MAX   64u
#define CHUNK       64u /* entries read at once */
#define NAME_MAX_   64u /* of a type or field */

/* A table: where its entries begin, how far they are apart, and where in one what is. */
struct table {
    const struct source *memory;
    uint64_t at, stride, name;
    uint32_t i, n; /* of what was read */
    uint8_t chunk[CHUNK * ENTRY_MAX];
    uint32_t n_left;
};

/* Reads the word that a symbol's address has in the process. */
static bool said(const struct dynamic *d, const struct source *memory, uint64_t bias, const char *symbol,
                 uint64_t *ret)
{
    Elf64_Sym s;
    return dynamic_find(d, symbol, STT_OBJECT, &s, NULL) &&
           source_read(memory, bias + s.st_value, ret, sizeof *ret);
}

/* The next entry; NULL: there is none. */
static const uint8_t *next(struct table *t)
{
    uint64_t name;
    if (t->i == t->n) {
        t->n = (uint32_t)(source_read_some(t->memory, t->at, t->chunk, CHUNK * t->stride) / t->stride);
        t->at += t->n * t->stride;
        t->i = 0;
    }
    if (t->i == t->n || t->n_left-- == 0)
        return NULL;
    const uint8_t *entry = t->chunk + t->i++ * t->stride;
    memcpy(&name, entry + t->name, sizeof name);
    return name ? entry : NULL; /* the last one has none */
}

static uint64_t word(const uint8_t *entry, uint64_t at)
{
    uint64_t value;
    memcpy(&value, entry + at, sizeof value);
    return value;
}

/* Entries are of words; of what is in one there is as much as the last bytes of an entry are. */
static bool fits(const struct table *t, uint64_t at)
{
    return at % 4 == 0 && at <= t->stride - 8;
}

static bool begin(struct table *t, const struct source *memory)
{
    t->memory = memory;
    t->i = t->n = 0;
    t->n_left = ENTRIES_MAX;
    return t->at && t->stride >= 16 && t->stride <= ENTRY_MAX && fits(t, t->name);
}

/* The string that a word of an entry points at. */
static const char *text(const struct source *memory, uint64_t at, char *to)
{
    if (!at || source_string(memory, at, to, NAME_MAX_) == 0)
        *to = 0;
    return to;
}

static int find_types(const struct dynamic *d, const struct source *memory, uint64_t bias,
                      struct structs_type *type, uint32_t n)
{
    struct table t;
    uint64_t size;
    char name[NAME_MAX_];
    const uint8_t *entry;
    if (!said(d, memory, bias, "gHotSpotVMTypes", &t.at) ||
        !said(d, memory, bias, "gHotSpotVMTypeEntryArrayStride", &t.stride) ||
        !said(d, memory, bias, "gHotSpotVMTypeEntryTypeNameOffset", &t.name) ||
        !said(d, memory, bias, "gHotSpotVMTypeEntrySizeOffset", &size))
        return RUNTIME_NOT_KNOWN;
    if (!t.stride)
        return -EAGAIN; /* filled in as the library is initialized */
    if (!begin(&t, memory) || !fits(&t, size))
        return RUNTIME_NOT_KNOWN;
    while ((entry = next(&t))) {
        text(memory, word(entry, t.name), name);
        for (uint32_t i = 0; i < n; i++)
            if (strcmp(name, type[i].name) == 0)
                type[i].size = word(entry, size);
    }
    return 0;
}

/* Takes what an entry of a field that has the name says. */
static void take(struct structs_field *field, const char *type, uint64_t offset, uint64_t address)
{
    field->is_there = true;
    field->is_short =
        strcmp(type, "u2") == 0 || strcmp(type, "uint16_t") == 0 || strcmp(type, "int16_t") == 0;
    field->offset = offset;
    field->address = address;
}

static int find_fields(const struct dynamic *d, const struct source *memory, uint64_t bias,
                       struct structs_field *field, uint32_t n)
{
    struct table t;
    uint64_t name, type, offset, address, last = 0;
    char of[NAME_MAX_] = "", called[NAME_MAX_], as[NAME_MAX_];
    const uint8_t *entry;
    bool is_wanted = false;
    if (!said(d, memory, bias, "gHotSpotVMStructs", &t.at) ||
        !said(d, memory, bias, "gHotSpotVMStructEntryArrayStride", &t.stride) ||
        !said(d, memory, bias, "gHotSpotVMStructEntryTypeNameOffset", &t.name) ||
        !said(d, memory, bias, "gHotSpotVMStructEntryFieldNameOffset", &name) ||
        !said(d, memory, bias, "gHotSpotVMStructEntryTypeStringOffset", &type) ||
        !said(d, memory, bias, "gHotSpotVMStructEntryOffsetOffset", &offset) ||
        !said(d, memory, bias, "gHotSpotVMStructEntryAddressOffset", &address))
        return RUNTIME_NOT_KNOWN;
    if (!t.stride)
        return -EAGAIN;
    if (!begin(&t, memory) || !fits(&t, name) || !fits(&t, type) || !fits(&t, offset) || !fits(&t, address))
        return RUNTIME_NOT_KNOWN;
    while ((entry = next(&t))) {
        if (word(entry, t.name) != last) { /* a type's fields are together, mostly */
            last = word(entry, t.name);
            text(memory, last, of);
            is_wanted = false;
            for (uint32_t i = 0; i < n; i++)
                is_wanted |= strcmp(of, field[i].type) == 0;
        }
        if (!is_wanted)
            continue;
        text(memory, word(entry, name), called);
        for (uint32_t i = 0; i < n; i++)
            if (strcmp(of, field[i].type) == 0 && strcmp(called, field[i].name) == 0)
                take(&field[i], text(memory, word(entry, type), as), word(entry, offset),
                     word(entry, address));
    }
    return 0;
}

bool structs_are_in(const struct source *file)
{
    struct dynamic d;
    Elf64_Sym structs, types;
    return dynamic_open(&d, file) && dynamic_find(&d, "gHotSpotVMStructs", STT_OBJECT, &structs, NULL) &&
           dynamic_find(&d, "gHotSpotVMTypes", STT_OBJECT, &types, NULL);
}

int structs_find(const struct source *file, const struct source *memory, uint64_t bias,
                 struct structs_field *field, uint32_t n_fields, struct structs_type *type, uint32_t n_types)
{
    struct dynamic d;
    if (!dynamic_open(&d, file))
        return RUNTIME_NOT_KNOWN;
    int r = find_fields(&d, memory, bias, field, n_fields);
    return r != 0 ? r : find_types(&d, memory, bias, type, n_types);
}
