/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/v8/binary.h"
#include "sender/runtimes/v8/function.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

#define V8_FROM                       const struct source
#define V8_READ(from, to, n, address) (source_read(from, address, to, n) ? 0 : -1)
#include "bpf/v8_step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source file = source_memory(bytes_of(data, n));
    struct v8_place place = {0};
    struct v8_walk walk = {0};
    struct runtime_name name;
    struct arena text = {0};
    struct v8_slots slots;
    struct sample_frame word = {0};
    (void)v8_binary_place(&place, &file);
    if (n < sizeof place + sizeof slots)
        return 0;
    struct source s = memory_of(data, n);
    memcpy(&place, data, sizeof place); /* as a hostile file says */
    place.read &= 8 * V8_SHARED_WORDS - 1;
    memcpy(&slots, data + n - sizeof slots, sizeof slots);
    for (int i = 0; i < 8; i++) {
        slots.function += 8;
        walk.slots = slots;
        if (v8_word(&s, &place, &walk, &word))
            (void)v8_function_name(&s, &place, &word, &text, &name);
        word.extra = data[i];
    }
    arena_release(&text);
    return 0;
}
