/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/runtimes/ruby/layout.h"
#include "sender/runtimes/runtime.h"

/* Offsets in structures of 64-bit builds, as vm_core.h, ractor_core.h, iseq.h and internal/class.h of each
 * version have them. */
#define AT(v, frame_at, thread_at, ractor_at, running_at, lines_at, local_at, entry)                  \
    .version = v, .frame = frame_at, .thread = thread_at, .ractor = ractor_at, .running = running_at, \
    .lines = lines_at, .local = local_at, .line_size = entry
static const struct ruby_place tables[] = {
    {AT(27, 56, 56, 0, 0, 120, 176, 8), .thread_id = 72, .is_first_value = 1, .classes = RUBY_CLASS_TABLE},
    {AT(30, 56, 56, 24, 520, 120, 176, 8), .is_first_value = 1, .classes = RUBY_CLASS_TABLE},
    {AT(31, 64, 48, 24, 520, 120, 176, 12), .is_first_value = 1, .classes = RUBY_CLASS_TABLE},
    {AT(32, 64, 48, 24, 520, 112, 168, 12), .has_length = 1, .classes = RUBY_CLASS_VALUES},
    {AT(33, 56, 48, 24, 384, 112, 168, 12), .has_length = 1, .classes = RUBY_CLASS_FIELD},
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
