/* SPDX-License-Identifier: Apache-2.0 */
/* needs: sender/runtimes */
#include <string.h>

#include "sender/runtimes/beam/binary.h"
#include "sender/runtimes/beam/function.h"
#include "sender/runtimes/beam/state.h"
#include "sender/runtimes/runtime.h"
#include "tests/fuzz/fuzz.h"
#include "tests/fuzz/moving_memory.h"

struct thread {
    struct beam_place place;
    struct beam_walk *walk;
    struct unwind_registers at;
};

#define RUNTIME_READ(to, n, address) ((address) >> 40 ? -1 : (int)(read_some(NULL, address, to, n) == 0))
#define RUNTIME_THREAD()             64
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    static int
#define STEP_OPEN(name, handle)                                            \
    __attribute__((unused)) struct beam_walk *w = (handle)->walk;          \
    __attribute__((unused)) const struct beam_place *p = &(handle)->place; \
    __attribute__((unused)) struct unwind_registers *r = &(handle)->at
#include "bpf/beam_step.h"

static void take_steps(struct thread *t, const struct source *s, struct arena *text)
{
    struct runtime_name name;
    for (int i = 0; i < 768; i++) {
        int did = beam_walk_on(t, 5000, t->place.version[1] & 1);
        if (i < 8 && t->walk->word.kind == SAMPLE_FRAME_WORD)
            (void)beam_function_name(s, &t->place, &t->walk->word, text, &name);
        if (did == STEP_NATIVE || !t->walk->is_inside)
            break;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct source file = source_memory(bytes_of(data, n));
    struct beam_walk walk;
    struct beam_binary binary = {.end = 8192, .data = {{64, 4096}}, .n_data = 1};
    struct beam_place place;
    struct arena text = {0};
    struct sample_frame word, ahead = {.kind = SAMPLE_FRAME_WORD, .runtime = RUNTIME_BEAM};
    if (n < 8)
        return 0;
    struct source s = memory_of(data, n);
    struct thread thread = {
        .walk = &walk,
        .place = {.main = 4096,
                  .main_size = data[1] & 1 ? 64 : 4096,
                  .shared = data[1] & 2 ? 4096 : 1 << 20,
                  .shared_size = data[1] & 4 ? 8192 : 64,
                  .text = data[1] & 8 ? 0 : 1 << 20,
                  .text_size = 1ull << (data[2] & 31),
                  .exit = data[2],
                  .frame = 64,
                  .registers = 64,
                  .stop = data[1] & 16 ? data[3] : 8,
                  .has_pointers = data[1] >> 5 & 1,
                  .ranges = 16,
                  .atoms = 32,
                  .names = 24,
                  .names_size = data[4] * 8u,
                  .functions = data[4] & 0x78,
                  .version = {data[1] & 64 ? 13 : 16, data[1] >> 7}},
        .at = {.ip = 5000, .sp = data[5] * 64u, .bp = data[6] * 8u, .has_all = data[7] & 1}};
    thread.at.all[BEAM_REGISTERS] = thread.at.sp + (data[7] & 2 ? 0 : 128);
    memset(&walk, data[3], sizeof walk);
    walk.is_inside = 0;
    take_steps(&thread, &s, &text);
    struct runtime_place of = {0};
    memcpy(of.word, &thread.place, sizeof thread.place);
    ahead.file = BEAM_CHECK(thread.at.sp, 0);
    struct runtime_process process = {.memory = &s, .place = &of, .ahead = &ahead};
    (void)runtime_beam.step(&process, NULL, &thread.at, &word);
    (void)beam_state(&place, &binary, &s, 0);
    (void)beam_binary_find(&binary, &file);
    arena_release(&text);
    return 0;
}
