/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CPython's row. What the step has to know is all in the file, but for the offsets that a process says itself
 * (from 3.13 on), which are there from its first instruction: so a process has its place before it has begun.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sender/procs/maps.h"
#include "sender/runtimes/cpython/binary.h"
#include "sender/runtimes/cpython/code.h"
#include "sender/runtimes/cpython/layout.h"
#include "sender/runtimes/runtime.h"

static bool recognise(const struct runtime_file *file)
{
    struct cpython_binary binary;
    return cpython_binary_find(&binary, file->source, file->path);
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct cpython_binary binary;
    struct cpython_place place;
    uint64_t bias = process->bias;
    if (!cpython_binary_find(&binary, process->file, process->region->path))
        return -ENOENT;
    int r = cpython_layout(&place, binary.minor, process->memory, bias + binary.runtime);
    if (r != 0)
        return r;
    cpython_binary_find_cold(&binary, process->file);
    place.micro = (uint16_t)binary.micro;
    place.has_musl = maps_have_musl(process->maps);
    place.key += bias + binary.runtime;
    if (binary.code_type)
        place.code_type = bias + binary.code_type;
    else
        place.version = 0;
    if (place.current)
        place.current += bias + binary.runtime;
    if (place.interpreters)
        place.interpreters += bias + binary.runtime;
    place.start[0] = bias + binary.eval;
    place.size[0] = binary.eval_size;
    place.start[1] = bias + binary.cold;
    place.size[1] = binary.cold_size;
    memcpy(ret->word, &place, sizeof place);
    return 0;
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct cpython_place *place = (const struct cpython_place *)of->word;
    int n = snprintf(ret, RUNTIME_VERSION_MAX, "3.%u", place->minor);
    if (place->micro != CPYTHON_NO_MICRO)
        snprintf(ret + n, RUNTIME_VERSION_MAX - (size_t)n, ".%u", place->micro);
}

static bool stands_for(const struct runtime_place *of, uint64_t address)
{
    const struct cpython_place *place = (const struct cpython_place *)of->word;
    return address - place->start[0] < place->size[0] || address - place->start[1] < place->size[1];
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    const struct cpython_place *place = (const struct cpython_place *)process->place->word;
    return cpython_code_name(process->memory, place, frame, text, ret);
}

/* Through the trampolines of -X perf, which are in no file. */
static bool step(const struct runtime_process *process, const struct runtime_stack *stack,
                 struct unwind_registers *at, struct sample_frame *word)
{
    uint64_t code, ip;
    *word = (struct sample_frame){.kind = SAMPLE_FRAME_KERNEL};
    for (uint32_t i = 0; i < CPYTHON_TRAMPOLINE_N && !process->offset; i++) {
        if (!source_read(process->memory, at->ip - CPYTHON_TRAMPOLINE_AT(i), &code, sizeof code) ||
            code != CPYTHON_TRAMPOLINE)
            continue;
        if (stack->load(stack->of, at->sp + CPYTHON_TRAMPOLINE_UP(i), &ip) < 0)
            break;
        cpython_leave_trampoline(at, i, ip);
        return true;
    }
    return false;
}

const struct runtime runtime_cpython = {.name = "cpython",
                                        .frame_type = "cpython",
                                        .recognise = recognise,
                                        .prepare = prepare,
                                        .version = version,
                                        .stands_for = stands_for,
                                        .resolve = resolve,
                                        .step = step};
