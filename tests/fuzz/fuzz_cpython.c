/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/cpython/code.h"
#include "sender/runtimes/cpython/layout.h"
#include "sender/runtimes/cpython/lines.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

/* The memory of a process that says what it likes, and each time something else: the first byte says how much
 * it is moved from one reading to the next. */
static struct {
    const uint8_t *data;
    size_t n;
    uint64_t moved;
} memory;

static size_t read_some(void *of, uint64_t offset, void *to, size_t n)
{
    memory.moved += memory.data[0];
    for (size_t i = 0; i < n; i++)
        ((uint8_t *)to)[i] = memory.data[(offset + memory.moved + i) % memory.n];
    return n;
}

#define RUNTIME_READ(to, n, address) ((address) >> 40 ? -1 : (int)(read_some(NULL, address, to, n) == 0))
#define RUNTIME_THREAD()             64
#include "bpf/cpython_step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source s = source_read_by(read_some, NULL, INT64_MAX);
    struct cpython_place place;
    struct cpython_walk walk = {0};
    struct runtime_name name;
    struct arena text = {0};
    if (n < 4)
        return 0;
    memory.data = data;
    memory.n = n;
    memory.moved = 0;
    for (uint32_t minor = 8; minor <= 14; minor++) {
        if (cpython_layout(&place, minor, &s, 0) < 0)
            continue;
        place.start[0] = 4096;
        place.size[0] = 4096;
        walk.is_begun = walk.is_inside = 0;
        struct sample_frame word = {0};
        for (int i = 0; i < 768 && cpython_walk_on(&place, &walk, 5000, &word) != STEP_NATIVE; i++)
            if (i < 8)
                (void)cpython_code_name(&s, &place, &word, &text, &name);
        (void)cpython_line(&s, data[1], n, minor, data[2], (uint32_t)data[3] << 8 | data[1]);
    }
    arena_release(&text);
    return 0;
}
