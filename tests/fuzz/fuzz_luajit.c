/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/luajit/binary.h"
#include "sender/runtimes/luajit/function.h"
#include "sender/runtimes/runtime.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

struct thread {
    struct luajit_place place;
    struct luajit_walk *walk;
    struct unwind_registers at;
};

#define RUNTIME_READ(to, n, address) ((address) >> 40 ? -1 : (int)(read_some(NULL, address, to, n) == 0))
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                              \
    __attribute__((unused)) struct luajit_walk *w = (handle)->walk;          \
    __attribute__((unused)) const struct luajit_place *p = &(handle)->place; \
    __attribute__((unused)) struct unwind_registers *r = &(handle)->at
#include "bpf/luajit_step.h"

static int load(void *of, uint64_t address, uint64_t *value)
{
    (void)of;
    return RUNTIME_READ(value, sizeof *value, address);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source file = source_memory(bytes_of(data, n));
    struct luajit_walk walk;
    struct thread thread = {.walk = &walk, .place = {4096, 4096, 64, data && n && data[0] & 1 ? 32 : 0, ""}};
    struct luajit_binary binary;
    struct runtime_name name;
    struct arena text = {0};
    char version[24];
    if (n < 8)
        return 0;
    struct source s = memory_of(data, n);
    memset(&walk, data[3], sizeof walk);
    walk.is_begun = walk.tries = 0;
    walk.is_inside = 0;
    thread.at =
        (struct unwind_registers){.ip = 5000, .sp = data[4] * 8u, .bp = data[5] * 8u, .has_all = data[6] & 1};
    memset(thread.at.all, data[7], sizeof thread.at.all);
    for (int i = 0; i < 768; i++) {
        int did = luajit_walk_on(&thread, 5000, data[6] >> 1 & 1);
        if (i < 8 && walk.word.kind == SAMPLE_FRAME_WORD)
            (void)luajit_function_name(&s, &walk.word, &text, &name);
        if (did == STEP_NATIVE)
            break;
        if (did != STEP_TAKEN)
            thread.at.sp += 80;
    }
    (void)luajit_generated(&thread);
    struct runtime_place place = {0};
    memcpy(place.word, &thread.place, sizeof thread.place);
    struct sample_frame word;
    struct runtime_process process = {.memory = &s, .place = &place};
    (void)runtime_luajit.step(&process, &(struct runtime_stack){load, NULL}, &thread.at, &word);
    (void)luajit_binary_find(&binary, &file);
    (void)luajit_binary_version(version, &file);
    arena_release(&text);
    return 0;
}
