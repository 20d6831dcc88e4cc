/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What is read is the emulator's code, and of the stack where process_main, which never returns, was called:
 * both are as they were, whatever the thread does meanwhile.
 */
#include "sender/runtimes/beam/step.h"

#include "bpf/beam.h"

struct thread {
    const struct source *memory;
    const struct beam_place *place;
    struct unwind_registers *at;
    struct beam_walk *walk;
};

#define RUNTIME_READ(to, n, address) (source_read(memory, address, to, n) ? 0 : -1)
#define RUNTIME_THREAD()             0ull
#define STEP_HANDLE                  struct thread *
#define STEP_PART                    __attribute__((unused)) static int
#define STEP_OPEN(name, handle)                                             \
    __attribute__((unused)) const struct source *memory = (handle)->memory; \
    __attribute__((unused)) struct unwind_registers *r = (handle)->at;      \
    __attribute__((unused)) struct beam_walk *w = (handle)->walk;           \
    __attribute__((unused)) const struct beam_place *p = (handle)->place
#include "bpf/beam_step.h"

bool beam_step(const struct runtime_process *process, const struct runtime_stack *stack,
               struct unwind_registers *at, struct sample_frame *word)
{
    const struct beam_place *place = (const struct beam_place *)process->place->word;
    struct beam_walk walk = {.base = at->sp};
    struct thread t = {.memory = process->memory, .place = place, .at = at, .walk = &walk};
    uint64_t address = at->ip - (at->is_return != 0), rbp = 0;
    if (!process->ahead || at->has_all || address - place->text < place->text_size)
        return false;
    if (!beam_is_bare(place, address)) {
        int saved = beam_saved(&t, at->ip);
        if (saved == BEAM_NOT_SAVED || (saved == BEAM_IN_RBP && at->bp_lost))
            return false;
        rbp = saved == BEAM_IN_RBP ? at->bp : 0;
    }
    if (process->ahead->where || process->ahead->file != BEAM_CHECK(at->sp, rbp) || beam_leave(&t))
        return false;
    *word = (struct sample_frame){.kind = SAMPLE_FRAME_WORD, .runtime = RUNTIME_BEAM};
    return true;
}
