/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/names.h"

static bool is_named(const struct field *f, struct bytes key)
{
    return bytes_eq(key, f->json) || bytes_eq(key, f->proto);
}

/* Nothing reads an enum: the only one is aggregation_temporality, which 1.9 dropped. */
static bool is_known(const struct field *f, enum profiles_layout layout, enum message message)
{
    bool known = f->number[layout] > 0 || (message >= MESSAGE_RESOURCE && name_number(layout, f) > 0);
    return known && f->type != FIELD_ENUM;
}

/* The newest layout before `layout` that has it; UNKNOWN: none, or it tells nothing. */
static enum profiles_layout older_with(const struct field *f, enum profiles_layout layout)
{
    while (--layout > PROFILES_LAYOUT_UNKNOWN && f->number[layout] == 0)
        ;
    return f->quiet ? PROFILES_LAYOUT_UNKNOWN : layout;
}

const struct field *name_find(enum profiles_layout layout, enum message message, struct bytes key,
                              uint32_t *hint, enum profiles_layout *ret_layout)
{
    const struct fields m = fields_of(message);
    *ret_layout = layout;
    for (uint32_t i = 0, row = *hint; i < m.n; i++, row++) {
        row = row < m.n ? row : 0;
        if (is_known(&m.row[row], layout, message) && is_named(&m.row[row], key)) {
            *hint = row + 1;
            return &m.row[row];
        }
    }
    for (uint32_t row = 0; row < m.n; row++)
        if (is_named(&m.row[row], key)) {
            *ret_layout = older_with(&m.row[row], layout);
            return *ret_layout == PROFILES_LAYOUT_UNKNOWN ? NULL : &m.row[row];
        }
    return NULL;
}
