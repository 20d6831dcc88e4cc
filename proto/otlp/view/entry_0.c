/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/view/profiles.h"

bool profiles_has_entry_0(const struct profiles *p)
{
    const bool mapping = p->mapping.memory_start[0] | p->mapping.memory_limit[0] | p->mapping.file_offset[0] |
                         p->mapping.filename[0] | (p->mapping.attrs_at[1] - p->mapping.attrs_at[0]);
    const bool location = p->location.address[0] | p->location.mapping[0] |
                          (p->location.lines_at[1] - p->location.lines_at[0]) |
                          (p->location.attrs_at[1] - p->location.attrs_at[0]);
    const bool function = p->function.name[0] | p->function.system_name[0] | p->function.filename[0] |
                          (uint64_t)p->function.start_line[0];
    const bool attribute =
        p->attribute.key[0] || p->attribute.unit[0] || p->attribute.value[0].kind != ATTR_EMPTY;
    return p->string.span[0] >> 32 || mapping || location || function || p->link.trace_at[0] ||
           p->link.span_at[0] || attribute || p->stack.locations_at[1] > p->stack.locations_at[0];
}
