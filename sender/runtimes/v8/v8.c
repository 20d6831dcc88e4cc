/* SPDX-License-Identifier: Apache-2.0 */
/*
 * V8's row. What the step has to know is all in the file: so a process has its place before it has begun.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sender/runtimes/runtime.h"
#include "sender/runtimes/v8/binary.h"
#include "sender/runtimes/v8/function.h"
#include "sender/runtimes/v8/heap.h"

#define V8_FROM                       const struct source
#define V8_READ(from, to, n, address) (source_read(from, address, to, n) ? 0 : -1)
#include "bpf/v8_step.h"

static bool recognise(const struct runtime_file *file)
{
    return v8_binary_is(file->source);
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct v8_place place = {0};
    int r = v8_binary_place(&place, process->file);
    memcpy(ret->word, &place, sizeof place);
    return r;
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct v8_place *place = (const struct v8_place *)of->word;
    *ret = 0;
    if (place->version[0])
        snprintf(ret, RUNTIME_VERSION_MAX, "%u.%u.%u", place->version[0], place->version[1],
                 place->version[2]);
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    const struct v8_place *place = (const struct v8_place *)process->place->word;
    if (frame->where == V8_REGEXP) {
        *ret = (struct runtime_name){.name = arena_copy(text, BYTES_LIT("(regular expression)")),
                                     .file = BYTES_LIT("")};
        return ret->name.p;
    }
    return v8_function_name(process->memory, place, frame, text, ret);
}

/* Instance types of functions: that one, and those of constructors that come with V8. */
#define FUNCTION_TYPES 20u

/* As the kernel side's, but some time after the stack was as it is. The garbage collector has moved a
 * function since if its map is not there any more; whose place it then got cannot be one, before the memory
 * was filled twice. */
static bool step(const struct runtime_process *process, const struct runtime_stack *stack,
                 struct unwind_registers *at, struct sample_frame *word)
{
    const struct v8_place *place = (const struct v8_place *)process->place->word;
    struct heap heap = {process->memory, place};
    struct v8_walk walk = {0};
    struct v8_slots *slots = &walk.slots;
    uint64_t bp = at->bp, next, caller;
    uint16_t type;
    if (at->bp_lost || bp % 8 || bp < at->sp ||
        (process->offset && process->offset - place->builtins >= place->builtins_size) ||
        stack->load(stack->of, bp, &next) || stack->load(stack->of, bp + 8, &caller) || !next || !caller ||
        stack->load(stack->of, bp + (uint64_t)V8_SLOT_CONTEXT, &slots->context) ||
        stack->load(stack->of, bp + (uint64_t)V8_SLOT_FUNCTION, &slots->function) ||
        stack->load(stack->of, bp + (uint64_t)V8_SLOT_BYTECODE, &slots->bytecode) ||
        stack->load(stack->of, bp + (uint64_t)V8_SLOT_OFFSET, &slots->offset))
        return false;
    *word = (struct sample_frame){.kind = SAMPLE_FRAME_CODE};
    if (!(slots->context & V8_TAG) ||
        (heap_type(&heap, slots->function, &type) && type - (uint32_t)place->type_function < FUNCTION_TYPES))
        (void)v8_word(process->memory, place, &walk, word);
    *at = (struct unwind_registers){.ip = caller, .sp = bp + 16, .bp = next, .is_return = 1};
    return true;
}

const struct runtime runtime_v8 = {.name = "nodejs",
                                   .frame_type = "v8js",
                                   .recognise = recognise,
                                   .prepare = prepare,
                                   .version = version,
                                   .resolve = resolve,
                                   .has_builtins = true,
                                   .step = step};
