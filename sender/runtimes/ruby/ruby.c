/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ruby's row. What the step has to know is all in the file, but for the words that the dynamic linker has
 * filled in: so a process has its place as soon as its libruby is relocated.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "sender/procs/maps.h"
#include "sender/runtimes/ruby/binary.h"
#include "sender/runtimes/ruby/layout.h"
#include "sender/runtimes/ruby/method.h"
#include "sender/runtimes/runtime.h"

static bool recognise(const struct runtime_file *file)
{
    struct ruby_binary binary;
    return ruby_binary_is(&binary, file->source);
}

/* Where threads have their contexts. */
static int find_context(const struct runtime_process *process, const struct ruby_binary *b,
                        struct ruby_place *place)
{
    uint64_t word[2];
    switch (b->access) {
    case RUBY_SHARED: place->current = process->bias + b->at; return 0;
    case RUBY_STATIC:
        place->context.how = CONTEXT_STATIC;
        place->context.offset = (int64_t)b->at;
        return 0;
    default: break;
    }
    if (!source_read(process->memory, process->bias + b->at, word, sizeof word) || word[0] == 0 ||
        word[0] > UINT32_MAX || word[1] > INT64_MAX)
        return -EAGAIN; /* the dynamic linker has not been there yet */
    place->context.how = maps_have_musl(process->maps) ? CONTEXT_MUSL : CONTEXT_GLIBC;
    place->context.module = word[0];
    place->context.offset = (int64_t)word[1];
    return 0;
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct ruby_binary binary;
    struct ruby_place place;
    uint64_t bias = process->bias;
    if (!ruby_binary_find(&binary, process->file))
        return -ENOENT;
    int r = ruby_layout(&place, binary.version);
    if (r == 0)
        r = find_context(process, &binary, &place);
    if (r != 0)
        return r;
    place.patch = (uint8_t)binary.patch;
    place.code = process->region->start;
    place.code_size = process->region->end - process->region->start;
    place.exec = bias + binary.exec;
    place.exec_size = binary.exec_size;
    place.core = bias + binary.core;
    place.core_size = binary.core_size;
    place.symbols = binary.symbols ? bias + binary.symbols : 0;
    place.vm = binary.vm ? bias + binary.vm : 0;
    if (binary.vm_is_far && !source_read(process->memory, place.vm, &place.vm, sizeof place.vm))
        place.vm = 0;
    place.heap = (uint16_t)binary.heap;
    place.collects = (uint8_t)binary.collects;
    place.collects_bit = (uint8_t)binary.collects_bit;
    memcpy(ret->word, &place, sizeof place);
    return 0;
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct ruby_place *place = (const struct ruby_place *)of->word;
    snprintf(ret, RUNTIME_VERSION_MAX, "%u.%u.%u", place->version / 10u, place->version % 10u, place->patch);
}

/* Not vm_exec_core, which rb_vm_exec calls. */
static bool stands_for(const struct runtime_place *of, uint64_t address)
{
    const struct ruby_place *place = (const struct ruby_place *)of->word;
    return address - place->exec < place->exec_size;
}

static bool is_beside(const struct runtime_place *of, uint64_t address)
{
    const struct ruby_place *place = (const struct ruby_place *)of->word;
    return address - place->core < place->core_size;
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    const struct ruby_place *place = (const struct ruby_place *)process->place->word;
    return ruby_method_name(process->memory, place, frame, text, ret);
}

/* Through code that YJIT made, which is in no file. */
static bool step(const struct runtime_process *process, const struct runtime_stack *stack,
                 struct unwind_registers *at, struct sample_frame *word)
{
    uint64_t words[RUBY_STACK_WORDS];
    if (process->offset)
        return false;
    for (uint32_t i = 0; i < RUBY_STACK_WORDS; i++)
        if (stack->load(stack->of, at->sp + 8 * (uint64_t)i, &words[i]) < 0)
            return false;
    *word = (struct sample_frame){.kind = SAMPLE_FRAME_KERNEL};
    return ruby_leave_generated((const struct ruby_place *)process->place->word, words, at);
}

const struct runtime runtime_ruby = {.name = "ruby",
                                     .frame_type = "ruby",
                                     .recognise = recognise,
                                     .prepare = prepare,
                                     .version = version,
                                     .stands_for = stands_for,
                                     .is_beside = is_beside,
                                     .resolve = resolve,
                                     .step = step};
