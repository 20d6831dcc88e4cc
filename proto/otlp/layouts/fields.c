/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/layouts/fields.h"

#include <string.h>

#include "proto/base/macros.h"

#define ONE(type_)        .type = FIELD_##type_
#define LIST(type_)       .type = FIELD_##type_, .repeated = true
#define SUB(message_)     .type = FIELD_MESSAGE, .message = MESSAGE_##message_
#define SUBS(message_)    .type = FIELD_MESSAGE, .message = MESSAGE_##message_, .repeated = true
#define INDEX(table_)     .type = FIELD_INT32, .table = DICTIONARY_##table_##_TABLE
#define INDICES(table_)   .type = FIELD_INT32, .table = DICTIONARY_##table_##_TABLE, .repeated = true
#define OPTIONAL(table_)  .type = FIELD_INT32, .table = DICTIONARY_##table_##_TABLE, .optional = true
#define QUIET(type_)      .type = FIELD_##type_, .quiet = true
#define QUIET_SUBS(type_) SUBS(type_), .quiet = true
#define TEXT(word)                                \
    {                                             \
        (const uint8_t *)#word, sizeof #word - 1, \
    }

/* clang-format off */
#define MESSAGE(m) static const struct field m##_rows[] = {
#define FIELD(m, constant, proto_, json_, kind, v1_5, v1_7, v1_8, v1_9, v1_10)   \
    {.proto = TEXT(proto_), .json = TEXT(json_), .number = {0, v1_5, v1_7, v1_8, v1_9, v1_10}, kind},
#define END(m) };
#include "proto/otlp/layouts/fields.def"
#undef MESSAGE
#undef FIELD
#undef END

static const struct fields messages[] = {
#define MESSAGE(m) [MESSAGE_##m] = {m##_rows, ARRAY_LEN(m##_rows)},
#define FIELD(...)
#define END(m)
#include "proto/otlp/layouts/fields.def"
};
/* clang-format on */

_Static_assert(PROFILES_LAYOUT_1_5 == 1 && PROFILES_LAYOUT_1_10 == 5, "the columns of fields.def");

struct fields fields_of(enum message message)
{
    return messages[message];
}

const struct field *field_numbered(enum profiles_layout layout, enum message message, uint32_t number)
{
    struct fields f = messages[message];
    for (uint32_t i = 0; i < f.n; i++)
        if (f.row[i].number[layout] == number)
            return &f.row[i];
    return NULL;
}

uint32_t field_highest(enum profiles_layout layout, enum message message)
{
    struct fields f = messages[message];
    uint32_t highest = 0;
    for (uint32_t i = 0; i < f.n; i++)
        highest = max_of(highest, (uint32_t)f.row[i].number[layout]);
    return highest;
}

enum wire_type field_wire(const struct field *f)
{
    switch ((enum field_type)f->type) {
    case FIELD_FIXED64:
    case FIELD_SFIXED64:
    case FIELD_DOUBLE: return WIRE_I64;
    case FIELD_INT32:
    case FIELD_UINT32:
    case FIELD_INT64:
    case FIELD_UINT64:
    case FIELD_BOOL:
    case FIELD_ENUM: return WIRE_VARINT;
    default: return WIRE_LEN;
    }
}

bool field_takes(const struct field *f, enum wire_type type)
{
    return type == field_wire(f) || (f->repeated && type == WIRE_LEN);
}

void fields_renumber(enum message message, enum profiles_layout from, enum profiles_layout to,
                     uint8_t ret[FIELD_NUMBERS])
{
    struct fields f = messages[message];
    memset(ret, 0, FIELD_NUMBERS);
    for (uint32_t i = 0; i < f.n; i++) {
        uint8_t number = f.row[i].number[from];
        if (number > 0 && f.row[i].number[to] > 0)
            ret[number] = f.row[i].number[to];
    }
}
