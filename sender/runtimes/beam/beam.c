/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BEAM's row. Recognised are the emulator and the memory that it generates code in; what the step has to know
 * is there as soon as the emulator has begun.
 */
#include <errno.h>
#include <stdio.h>

#include "bpf/beam.h"
#include "sender/runtimes/beam/binary.h"
#include "sender/runtimes/beam/function.h"
#include "sender/runtimes/beam/state.h"
#include "sender/runtimes/beam/step.h"
#include "sender/runtimes/runtime.h"

static bool recognise(const struct runtime_file *file)
{
    struct beam_binary binary;
    return beam_is_code(file->path) || beam_binary_find(&binary, file->source);
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct beam_binary binary;
    if (!beam_binary_find(&binary, process->file))
        return -ENOENT;
    return beam_state((struct beam_place *)ret->word, &binary, process->memory, process->bias);
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct beam_place *place = (const struct beam_place *)of->word;
    const uint16_t *v = place->version;
    int n = snprintf(ret, RUNTIME_VERSION_MAX, "%u.%u", v[0], v[1]);
    if (v[2] || v[3])
        n += snprintf(ret + n, RUNTIME_VERSION_MAX - (size_t)n, ".%u", v[2]);
    if (v[3])
        snprintf(ret + n, RUNTIME_VERSION_MAX - (size_t)n, ".%u", v[3]);
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    const struct beam_place *place = (const struct beam_place *)process->place->word;
    if (frame->where == BEAM_RECURSION) {
        *ret = (struct runtime_name){.name = BYTES_LIT("(recursion)"), .file = BYTES_LIT("")};
        return true;
    }
    return beam_function_name(process->memory, place, frame, text, ret);
}

static bool has_changed(const struct runtime_process *process, const struct runtime_mark *mark)
{
    return beam_function_has_changed(process->memory, mark);
}

const struct runtime runtime_beam = {.name = "BEAM",
                                     .frame_type = "beam",
                                     .recognise = recognise,
                                     .prepare = prepare,
                                     .version = version,
                                     .resolve = resolve,
                                     .has_changed = has_changed,
                                     .step = beam_step};
