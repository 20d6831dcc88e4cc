/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/layouts/unknown.h"

#include "proto/otlp/layouts/fields.h"
#include "proto/wire/reader.h"

/* Without lists in attributes nothing holds itself: request, resource, profile, sample … */
#define NESTED_MAX 8u

/* fields.def by number: in each message of a layout the highest known, and what is a message, plus one. */
static uint8_t highest[PROFILES_LAYOUTS][MESSAGES], within[PROFILES_LAYOUTS][MESSAGES][FIELD_NUMBERS];

static bool is_looked_into(enum message m)
{
    return m != MESSAGE_ARRAY_VALUE && m != MESSAGE_KEY_VALUE_LIST && m != MESSAGE_ENTITY_REF;
}

/* Before main, so that no thread sees them change. */
__attribute__((constructor)) static void make_tables(void)
{
    for (enum profiles_layout l = PROFILES_LAYOUT_1_5; l <= PROFILES_LAYOUT_1_10; l++)
        for (enum message m = 0; m < MESSAGES; m++) {
            /* what 1.10 added to common.proto is understood everywhere */
            const enum profiles_layout of = m >= MESSAGE_RESOURCE ? PROFILES_LAYOUT_1_10 : l;
            highest[l][m] = (uint8_t)field_highest(of, m);
            for (uint32_t number = 1; number < FIELD_NUMBERS; number++) {
                const struct field *f = field_numbered(of, m, number);
                if (f && f->type == FIELD_MESSAGE && is_looked_into((enum message)f->message))
                    within[l][m][number] = (uint8_t)(f->message + 1);
            }
        }
}

uint32_t layout_unknown_fields(enum profiles_layout layout, struct bytes body)
{
    struct {
        struct wire_reader in;
        enum message message;
    } open[NESTED_MAX] = {{wire_reader(body), MESSAGE_REQUEST}};
    struct wire_field f;
    uint32_t unknown = 0, n = 1;
    while (n > 0) {
        const enum message m = open[n - 1].message;
        if (wire_next(&open[n - 1].in, &f) != 0) {
            n--;
            continue;
        }
        unknown += f.number > highest[layout][m];
        const uint8_t inner = f.number < FIELD_NUMBERS ? within[layout][m][f.number] : 0;
        if (inner > 0 && f.type == WIRE_LEN && n < NESTED_MAX) {
            open[n].in = wire_reader(f.bytes);
            open[n++].message = (enum message)(inner - 1);
        }
    }
    return unknown;
}
