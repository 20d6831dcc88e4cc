/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/ruby/layout.h"
#include "sender/runtimes/runtime.h"

/* Offsets in structures of 64-bit builds, as vm_core.h, ractor_core.h, iseq.h and internal/class.h of each
 * version have them. */
static const struct ruby_place tables[] = {
    {.version = 27,
     .frame = 56,
     .thread = 56,
     .thread_id = 72,
     .lines = 120,
     .local = 176,
     .line_size = 8,
     .is_first_value = 1,
     .classes = RUBY_CLASS_TABLE},
    {.version = 30,
     .frame = 56,
     .thread = 56,
     .ractor = 24,
     .running = 520,
     .lines = 120,
     .local = 176,
     .line_size = 8,
     .is_first_value = 1,
     .classes = RUBY_CLASS_TABLE},
    {.version = 31,
     .frame = 64,
     .thread = 48,
     .ractor = 24,
     .running = 520,
     .lines = 120,
     .local = 176,
     .line_size = 12,
     .is_first_value = 1,
     .classes = RUBY_CLASS_TABLE},
    {.version = 32,
     .frame = 64,
     .thread = 48,
     .ractor = 24,
     .running = 520,
     .lines = 112,
     .local = 168,
     .line_size = 12,
     .has_length = 1,
     .classes = RUBY_CLASS_VALUES},
    {.version = 33,
     .frame = 56,
     .thread = 48,
     .ractor = 24,
     .running = 384,
     .lines = 112,
     .local = 168,
     .line_size = 12,
     .has_length = 1,
     .classes = RUBY_CLASS_FIELD},
};

int ruby_layout(struct ruby_place *ret, uint32_t version)
{
    for (uint32_t i = 0; i < sizeof tables / sizeof *tables; i++)
        if (tables[i].version == version) {
            *ret = tables[i];
            return 0;
        }
    return RUNTIME_NOT_KNOWN;
}
