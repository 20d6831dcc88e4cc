/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "bpf/ruby.h"
#include "sender/runtimes/ruby/binary.h"
#include "sender/runtimes/ruby/layout.h"
#include "sender/runtimes/ruby/lines.h"
#include "sender/runtimes/ruby/method.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

static struct {
    struct ruby_walk walk;
    struct ruby_place place;
} thread;

#define RUNTIME_READ(to, n, address) ((address) >> 47 ? -1 : (int)(read_some(NULL, address, to, n) == 0))
#define RUNTIME_THREAD()             64
#define STEP_HANDLE                  int
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                 \
    __attribute__((unused)) struct ruby_walk *w = &thread.walk; \
    __attribute__((unused)) const struct ruby_place *p = &thread.place
#include "bpf/ruby_step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source file = source_memory(bytes_of(data, n));
    struct ruby_binary binary;
    struct runtime_name name;
    struct arena text = {0};
    if (n < 4)
        return 0;
    struct source s = memory_of(data, n);
    (void)ruby_binary_find(&binary, &file);
    for (uint32_t version = RUBY_FIRST; version <= RUBY_LAST; version++) {
        if (ruby_layout(&thread.place, version) < 0)
            continue;
        thread.place.exec = 4096;
        thread.place.exec_size = 4096;
        thread.place.symbols = 128;
        thread.place.vm = data[2];
        thread.place.current = version < 30 ? 8 : 0;
        thread.place.context = (struct context_place){.how = data[1] % 4, .module = 1, .offset = 8};
        thread.walk.begun = thread.walk.is_inside = 0;
        struct sample_frame word = {0};
        for (int i = 0; i < 768 && ruby_walk_on(0, 5000, i & 1, &word) != STEP_NATIVE; i++)
            if (i < 8)
                (void)ruby_method_name(&s, &thread.place, &word, &text, &name);
        memcpy(&word, data, n < sizeof word ? n : sizeof word);
        (void)ruby_method_name(&s, &thread.place, &word, &text, &name);
        struct ruby_lines lines = {.entries = 64, .n = data[3], .table = 256};
        (void)ruby_line(&s, &lines, thread.place.line_size, (uint32_t)data[3] << 8 | data[1]);
    }
    arena_release(&text);
    return 0;
}
