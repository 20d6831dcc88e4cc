/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/php/binary.h"
#include "sender/runtimes/php/function.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

#define RUNTIME_READ(to, n, address) ((address) >> 40 ? -1 : (int)(read_some(NULL, address, to, n) == 0))
#include "bpf/php_step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source file = source_memory(bytes_of(data, n));
    struct php_place place = {
        .start = {4096}, .size = {4096}, .current = 8, .generator_class = 16, .file = 152};
    struct php_walk walk;
    struct php_binary binary;
    struct php_details details;
    struct runtime_name name;
    struct arena text = {0};
    if (n < 4)
        return 0;
    struct source s = memory_of(data, n);
    place.generator_frame = data[1];
    place.generator_parent = data[2];
    memset(&walk, data[3], sizeof walk);
    walk.is_begun = 0;
    walk.is_inside = data[3] & 1;
    for (int i = 0; i < 768 && php_walk_on(&place, &walk, 5000, data[1], data[2]) != STEP_NATIVE; i++)
        if (i < 8)
            (void)php_function_name(&s, &place, &walk.word, &text, &name);
    binary = (struct php_binary){.loop = data[1], .loop_size = n};
    (void)php_binary_find(&binary, &file);
    (void)php_binary_details(&details, &binary, &file);
    arena_release(&text);
    return 0;
}
