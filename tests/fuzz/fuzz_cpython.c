/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/cpython/code.h"
#include "sender/runtimes/cpython/layout.h"
#include "sender/runtimes/cpython/lines.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

static struct cpython_place place;

#define RUNTIME_READ(to, n, address) ((address) >> 40 ? -1 : (int)(read_some(NULL, address, to, n) == 0))
#define RUNTIME_THREAD()             64
#define STEP_HANDLE                  struct cpython_walk *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)        \
    struct cpython_walk *w = (handle); \
    const struct cpython_place *p = &place
#include "bpf/cpython_step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct cpython_walk walk = {0};
    struct runtime_name name;
    struct arena text = {0};
    if (n < 4)
        return 0;
    struct source s = memory_of(data, n);
    for (uint32_t minor = 8; minor <= 14; minor++) {
        if (cpython_layout(&place, minor, &s, 0) < 0)
            continue;
        place.start[0] = 4096;
        place.size[0] = 4096;
        walk.is_begun = walk.is_inside = 0;
        struct sample_frame word = {0};
        for (int i = 0; i < 768 && cpython_walk_on(&place, &walk, &walk, 5000, data[1], &word) != STEP_NATIVE;
             i++)
            if (i < 8)
                (void)cpython_code_name(&s, &place, &word, &text, &name);
        (void)cpython_line(&s, data[1], n, minor, data[2], (uint32_t)data[3] << 8 | data[1]);
    }
    arena_release(&text);
    return 0;
}
