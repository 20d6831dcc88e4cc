/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which field of a profiles request a JSON key means, and of which layout. Private to proto/otlp/json.
 */
#ifndef PROTO_OTLP_JSON_NAMES_H
#define PROTO_OTLP_JSON_NAMES_H

#include "proto/otlp/layouts/fields.h"

/* The field of a message with that key, lowerCamelCase or as in the .proto (the Collector takes both), looked
 * for from row *hint on, which becomes the row behind it: writers keep an order. NULL for an unknown key.
 *
 * *ret_layout is `layout`, whose field it is then; or an older one, the newest that has a field of that name.
 * 1.9 has the names of 1.10, so there is no way and no need to tell them apart here. */
const struct field *name_find(enum profiles_layout layout, enum message message, struct bytes key,
                              uint32_t *hint, enum profiles_layout *ret_layout);

/* The number of a field that was found in a layout. */
static inline uint32_t name_number(enum profiles_layout layout, const struct field *f)
{
    /* what 1.10 added to common.proto is understood everywhere */
    return f->number[layout] > 0 ? f->number[layout] : f->number[PROFILES_LAYOUT_1_10];
}

#endif
