/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What HotSpot says of its own structures (vmStructs.hpp): tables, made for debuggers, of where a field is in
 * its type, or, if it is static, in memory, and of how large types are. They are in every build since
 * JDK 1.4.
 */
#ifndef SENDER_RUNTIMES_HOTSPOT_STRUCTS_H
#define SENDER_RUNTIMES_HOTSPOT_STRUCTS_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* A field that is looked for. */
struct structs_field {
    const char *type, *name;
    bool is_there, is_short; /* … it has 16 bits */
    uint64_t offset;         /* in its type */
    uint64_t address;        /* of a static one, in the process */
};

/* A type whose size is looked for; 0: it is not there. */
struct structs_type {
    const char *name;
    uint64_t size;
};

/* Whether a file has such tables. */
bool structs_are_in(const struct source *file);

/* Looks fields and types up. `file` is what is mapped, its addresses moved by `bias`, in `memory`. 0;
 * -EAGAIN: the process has not come so far; RUNTIME_NOT_KNOWN: the tables make no sense. */
int structs_find(const struct source *file, const struct source *memory, uint64_t bias,
                 struct structs_field *field, uint32_t n_fields, struct structs_type *type, uint32_t n_types);

#endif
