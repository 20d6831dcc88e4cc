/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LuaJIT's row. What the step has to know is all in the file: so a process has its place before it has begun.
 */
#include <errno.h>
#include <stdio.h>

#include "bpf/luajit.h"
#include "sender/runtimes/luajit/binary.h"
#include "sender/runtimes/luajit/function.h"
#include "sender/runtimes/runtime.h"

static bool recognise(const struct runtime_file *file)
{
    struct luajit_binary binary;
    return luajit_binary_find(&binary, file->source);
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct luajit_binary binary;
    struct luajit_place *place = (struct luajit_place *)ret->word;
    if (!luajit_binary_find(&binary, process->file))
        return -ENOENT;
    *place = (struct luajit_place){.start = process->bias + binary.start,
                                   .size = binary.size,
                                   .dispatch = binary.dispatch,
                                   .trace_base = binary.trace_base};
    (void)luajit_binary_version(place->version, process->file);
    return 0;
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct luajit_place *place = (const struct luajit_place *)of->word;
    snprintf(ret, RUNTIME_VERSION_MAX, "%.*s", (int)sizeof place->version, place->version);
}

static bool stands_for(const struct runtime_place *of, uint64_t address)
{
    const struct luajit_place *place = (const struct luajit_place *)of->word;
    return address - place->start < place->size;
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    return luajit_function_name(process->memory, frame, text, ret);
}

/* A text that is loaded anew has other addresses each time, and all else as before. */
static uint64_t likeness(const struct sample_frame *frame)
{
    return 1 | LUAJIT_WITHOUT_OBJECT(frame->where) << 1 | (uint64_t)frame->extra << 32;
}

/* Goes from compiled code to the interpreter's frame below it, as the kernel side's step does, but some time
 * after the stack was as it is. */
static bool step(const struct runtime_process *process, const struct runtime_stack *stack,
                 struct unwind_registers *at, struct sample_frame *word)
{
    const struct luajit_place *place = (const struct luajit_place *)process->place->word;
    uint64_t sp = (at->sp + 15) & ~15ull, state, top;
    for (uint32_t i = 0; !process->offset && i < LUAJIT_ABOVE_MAX; i++, sp += 16) {
        if (stack->load(stack->of, sp + 8 * LUAJIT_FRAME_STATE, &state))
            return false;
        if (!state || state % 8 ||
            !source_read(process->memory, state + LUAJIT_STATE_FROM + 8 * LUAJIT_STATE_FRAME, &top,
                         sizeof top) ||
            LUAJIT_FRAME(top) != sp)
            continue;
        *word = (struct sample_frame){.kind = SAMPLE_FRAME_KERNEL};
        at->sp = sp;
        at->ip = place->start;
        at->is_return = at->has_all = 0;
        return true;
    }
    return false;
}

const struct runtime runtime_luajit = {.name = "luajit",
                                       .frame_type = "luajit",
                                       .recognise = recognise,
                                       .prepare = prepare,
                                       .version = version,
                                       .stands_for = stands_for,
                                       .resolve = resolve,
                                       .likeness = likeness,
                                       .step = step};
