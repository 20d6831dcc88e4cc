/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/perl/binary.h"
#include "sender/runtimes/perl/sub.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

struct thread {
    struct perl_place place;
    struct perl_walk *walk;
};

#define RUNTIME_READ(to, n, address) ((address) >> 40 ? -1 : (int)(read_some(NULL, address, to, n) == 0))
#define RUNTIME_THREAD()             64
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                   \
    __attribute__((unused)) struct perl_walk *w = (handle)->walk; \
    __attribute__((unused)) const struct perl_place *p = &(handle)->place
#include "bpf/perl_step.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source file = source_memory(bytes_of(data, n));
    struct perl_walk walk;
    struct thread thread = {.walk = &walk};
    struct perl_binary binary;
    struct runtime_name name;
    struct arena text = {0};
    uint16_t version[3];
    if (n < 8)
        return 0;
    struct source s = memory_of(data, n);
    thread.place = (struct perl_place){.start = {4096},
                                       .size = {4096},
                                       .key = data[1] & 1 ? 8 : 0,
                                       .op = 16,
                                       .cop = 24,
                                       .stack = 32,
                                       .catches = 40,
                                       .entersub = data[2],
                                       .nextstate = data[4],
                                       .require = data[5],
                                       .version = {5, 32 + (data[6] & 15)}};
    memset(&walk, data[3], sizeof walk);
    walk.is_begun = 0;
    walk.is_inside = data[3] & 1;
    for (uint64_t i = 0; i < 768 && perl_walk_on(&thread, 5000, i << data[7] % 32) != STEP_NATIVE; i++)
        if (i < 8 && walk.word.kind == SAMPLE_FRAME_WORD)
            (void)perl_sub_name(&s, &thread.place, &walk.word, &text, &name);
    (void)perl_binary_find(&binary, &file);
    (void)perl_binary_version(version, &file);
    arena_release(&text);
    return 0;
}
