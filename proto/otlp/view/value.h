/* SPDX-License-Identifier: Apache-2.0 */
/*
 * AnyValue and what it nests in (common.proto): the shapes that wire_check walks, and the walk that writes a
 * message again with all references to the string table replaced by what they name. Private to proto/otlp.
 */
#ifndef PROTO_OTLP_VIEW_VALUE_H
#define PROTO_OTLP_VIEW_VALUE_H

#include "proto/otlp/view/profiles.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

enum value_shape { SHAPE_ANY_VALUE, SHAPE_ARRAY, SHAPE_KVLIST, SHAPE_KEY_VALUE, SHAPE_RESOURCE, SHAPE_SCOPE };
extern const struct wire_shape value_shapes[];

/* Appends the fields of `message` (of that shape; checked before) to `w`, with key_strindex and
 * string_value_strindex replaced by key and string_value: for a request with another string table. References
 * that dangle become empty. Iterative. Unknown fields are kept. */
void value_write_inline(struct wire_writer *w, const struct profiles *p, struct bytes message,
                        enum value_shape shape);

/* Whether there is such a reference anywhere in it: without, the bytes can be copied as they are. */
bool value_has_reference(struct bytes message, enum value_shape shape);

/* Appends an AnyValue as a field, nothing of one that is empty; references inside of arrays and kvlists
 * become text of `p`, which may be NULL when there are none. */
void value_write(struct wire_writer *w, const struct profiles *p, uint32_t field,
                 const struct attr_value *value);

/* Appends a KeyValue, likewise. */
void value_write_pair(struct wire_writer *w, const struct profiles *p, uint32_t field, struct bytes key,
                      const struct attr_value *value);

/* The InstrumentationScope message of a scope, as profiles.resource.raw is for resources. */
struct bytes profiles_scope_raw(const struct profiles *p, uint32_t scope);

#endif
