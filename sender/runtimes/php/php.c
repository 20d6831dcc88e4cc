/* SPDX-License-Identifier: Apache-2.0 */
/*
 * PHP's row. What the step has to know is all in the file: so a process has its place before it has begun.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

/* The steps through frames are the kernel side's alone. */
#define RUNTIME_READ(to, n, address) ((void)(address), -1)
#include "bpf/php_step.h"
#include "sender/runtimes/php/binary.h"
#include "sender/runtimes/php/function.h"
#include "sender/runtimes/runtime.h"

/* Offsets in structures of 64-bit builds, by the first version that has them so. Those of 8.0, 8.1 and 8.3
 * are concluded from their neighbours', and could be tried on none. */
static const struct layout {
    uint16_t version;                           /* major << 8 | minor */
    uint16_t current;                           /* zend_executor_globals.current_execute_data */
    uint16_t file;                              /* zend_op_array.filename */
    uint16_t handler;                           /* zend_internal_function.handler; 0: not known */
    uint16_t generator_frame, generator_parent; /* zend_generator.execute_data, .node.parent */
} layouts[] = {
    {0x704, 488, 136, 48, 64, 160}, {0x800, 488, 144, 0, 56, 152},  {0x802, 488, 152, 72, 56, 152},
    {0x803, 488, 144, 0, 56, 152},  {0x804, 488, 168, 88, 56, 152}, {.version = 0x805},
};

static const struct layout *layout_of(const uint16_t version[3])
{
    uint32_t is = (uint32_t)version[0] << 8 | version[1];
    const struct layout *found = NULL;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (is >= layouts[i].version)
            found = &layouts[i];
    return found && found->file ? found : NULL;
}

static bool recognise(const struct runtime_file *file)
{
    struct php_binary binary;
    return php_is_opcache(file->path) || php_binary_find(&binary, file->source);
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct php_binary binary;
    struct php_details details;
    uint64_t bias = process->bias;
    if (!php_binary_find(&binary, process->file))
        return -ENOENT;
    if (!php_binary_details(&details, &binary, process->file))
        return RUNTIME_NOT_KNOWN;
    const struct layout *layout = layout_of(details.version);
    if (!layout)
        return RUNTIME_NOT_KNOWN;
    struct php_place place = {.start = {bias + binary.loop, bias + details.cold},
                              .size = {binary.loop_size, details.cold_size},
                              .text = bias + details.text,
                              .text_size = details.text_size,
                              .body = details.body ? bias + details.body : 0,
                              .current = bias + binary.globals + layout->current,
                              .generator_class = binary.generator_class ? bias + binary.generator_class : 0,
                              .fiber = bias + binary.fiber,
                              .fiber_size = binary.fiber_size,
                              .generator_frame = layout->generator_frame,
                              .generator_parent = layout->generator_parent,
                              .handler = layout->handler,
                              .file = layout->file};
    memcpy(place.version, details.version, sizeof place.version);
    memcpy(ret->word, &place, sizeof place);
    return 0;
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct php_place *place = (const struct php_place *)of->word;
    snprintf(ret, RUNTIME_VERSION_MAX, "%u.%u.%u", place->version[0], place->version[1], place->version[2]);
}

static bool stands_for(const struct runtime_place *of, uint64_t address)
{
    return php_is_in_loop((const struct php_place *)of->word, address);
}

/* A callback's frame is made before it is entered. */
static bool is_to_come(const struct sample_frame *end, uint64_t called)
{
    return end->file && PHP_IS_OF(end->file, called);
}

/* A fiber's stack ends in what made it; who has resumed it is on another one. */
static bool goes_on(const struct runtime_place *of, uint64_t address)
{
    const struct php_place *place = (const struct php_place *)of->word;
    return address - place->fiber < place->fiber_size;
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    const struct php_place *place = (const struct php_place *)process->place->word;
    return php_function_name(process->memory, place, frame, text, ret);
}

static bool step(const struct runtime_process *process, const struct runtime_stack *stack,
                 struct unwind_registers *at, struct sample_frame *word)
{
    (void)stack;
    word->kind = SAMPLE_FRAME_KERNEL;
    return php_enter((const struct php_place *)process->place->word, at) == PHP_COMPILED;
}

const struct runtime runtime_php = {.name = "php",
                                    .frame_type = "php",
                                    .recognise = recognise,
                                    .prepare = prepare,
                                    .version = version,
                                    .stands_for = stands_for,
                                    .is_to_come = is_to_come,
                                    .goes_on = goes_on,
                                    .resolve = resolve,
                                    .step = step};
