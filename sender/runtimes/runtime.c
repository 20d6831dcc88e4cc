/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/runtime.h"

static const struct runtime *const rows[RUNTIME_TAGS] = {
#define ROW(tag, name) [RUNTIME_##tag] = &runtime_##name,
    RUNTIMES(ROW)
#undef ROW
};

const struct runtime *runtime_of(uint32_t tag)
{
    return rows[tag < RUNTIME_TAGS ? tag : RUNTIME_NATIVE];
}

enum runtime_tag runtime_recognise(const struct runtime_file *file)
{
    for (uint32_t i = 0; i < RUNTIME_TAGS; i++)
        if (rows[i]->recognise && rows[i]->recognise(file))
            return (enum runtime_tag)i;
    return RUNTIME_NATIVE;
}
