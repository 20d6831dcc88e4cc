/* SPDX-License-Identifier: Apache-2.0 */
/*
 * HotSpot's row. libjvm is what is recognised, though no words stand for its frames: it says where the code
 * that it generates is, and that is where the step goes.
 */
#include <stdio.h>

#include "sender/runtimes/hotspot/compiled.h"
#include "sender/runtimes/hotspot/layout.h"
#include "sender/runtimes/hotspot/step.h"
#include "sender/runtimes/hotspot/structs.h"
#include "sender/runtimes/runtime.h"

static bool recognise(const struct runtime_file *file)
{
    return structs_are_in(file->source);
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    return hotspot_layout((struct hotspot_place *)ret->word, process->file, process->memory, process->bias);
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct hotspot_place *place = (const struct hotspot_place *)of->word;
    if (place->major == 8)
        snprintf(ret, RUNTIME_VERSION_MAX, "1.8.0_%u", place->micro);
    else
        snprintf(ret, RUNTIME_VERSION_MAX, "%u.%u.%u", place->major, place->minor, place->micro);
}

/* A stub is called what HotSpot calls it. */
static bool stub_name(const struct source *memory, const struct hotspot_place *place, uint64_t at,
                      struct arena *text, struct runtime_name *ret)
{
    char name[HOTSPOT_NAME_MAX];
    struct hotspot_blob blob;
    if (hotspot_blob_find(memory, place, at, &blob) != HOTSPOT_CODE_STUB ||
        source_string(memory, blob.name, name, sizeof name) == 0 || !bytes_is_utf8(bytes_str(name)))
        return false;
    *ret = (struct runtime_name){.name = arena_copy(text, bytes_str(name)), .file = BYTES_LIT("")};
    return ret->name.p;
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    const struct hotspot_place *place = (const struct hotspot_place *)process->place->word;
    const struct source *memory = process->memory;
    if (frame->extra == HOTSPOT_COMPILED)
        return hotspot_compiled_name(memory, place, frame, text, ret);
    if (frame->extra == HOTSPOT_STUB)
        return stub_name(memory, place, frame->where, text, ret);
    /* What is the same afterwards was so before: it would have had to come back meanwhile. */
    return hotspot_method_name(memory, place, frame->where, frame->extra, text, ret) &&
           hotspot_method_cookie(memory, place, frame->where) == frame->file;
}

const struct runtime runtime_hotspot = {.name = "OpenJDK Runtime Environment",
                                        .frame_type = "jvm",
                                        .recognise = recognise,
                                        .prepare = prepare,
                                        .version = version,
                                        .resolve = resolve,
                                        .step = hotspot_step};
