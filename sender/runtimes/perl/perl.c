/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Perl's row. What the step has to know is all in the file: so a process has its place before it has begun.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "bpf/perl.h"
#include "sender/procs/maps.h"
#include "sender/runtimes/perl/binary.h"
#include "sender/runtimes/perl/sub.h"
#include "sender/runtimes/runtime.h"

/* By the first version that has them so: where things are in an interpreter (intrpvar.h) of builds with
 * threads, and the numbers of operations (opnames.h). 5.34 and 5.38 are those of their headers, and could be
 * tried on none. */
static const struct layout {
    uint16_t version; /* 5.version */
    uint16_t op, cop, stack, catches;
    uint16_t entersub, nextstate, require;
} layouts[] = {
    {32, 0x8, 0xe0, 0xf0, 0x308, 0xb8, 0xc3, 0x156}, {34, 0x8, 0xd0, 0xe0, 0x2f8, 0xb8, 0xc3, 0x156},
    {36, 0x8, 0xd0, 0xe0, 0x2f8, 0xb8, 0xc3, 0x156}, {38, 0x8, 0xd0, 0xe0, 0x308, 0xbb, 0xc6, 0x159},
    {40, 0x8, 0xd0, 0xe0, 0x308, 0xbb, 0xc6, 0x159}, {42, 0x8, 0xd0, 0xe0, 0x308, 0xbf, 0xca, 0x15d},
};

static const struct layout *layout_of(uint16_t version)
{
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].version == version)
            return &layouts[i];
    return NULL; /* an odd one is one of Perl's makers' */
}

static bool recognise(const struct runtime_file *file)
{
    struct perl_binary binary;
    return perl_binary_find(&binary, file->source);
}

static int prepare(const struct runtime_process *process, struct runtime_place *ret)
{
    struct perl_binary binary;
    struct perl_place place = {0};
    uint64_t bias = process->bias;
    if (!perl_binary_find(&binary, process->file))
        return -ENOENT;
    if (!perl_binary_version(place.version, process->file))
        return RUNTIME_NOT_KNOWN;
    const struct layout *layout = layout_of(place.version[1]);
    if (!layout)
        return RUNTIME_NOT_KNOWN;
    for (int i = 0; i < 2; i++) {
        place.start[i] = bias + binary.loop[i];
        place.size[i] = binary.loop_size[i];
    }
    place.has_musl = maps_have_musl(process->maps);
    place.key = binary.key ? bias + binary.key : 0;
    place.op = binary.key ? layout->op : bias + binary.op;
    place.cop = binary.key ? layout->cop : bias + binary.cop;
    place.stack = binary.key ? layout->stack : bias + binary.stack;
    place.catches = binary.key ? layout->catches : bias + binary.catches;
    place.entersub = layout->entersub;
    place.nextstate = layout->nextstate;
    place.require = layout->require;
    memcpy(ret->word, &place, sizeof place);
    return 0;
}

static void version(const struct runtime_place *of, char ret[RUNTIME_VERSION_MAX])
{
    const struct perl_place *place = (const struct perl_place *)of->word;
    snprintf(ret, RUNTIME_VERSION_MAX, "%u.%u.%u", place->version[0], place->version[1], place->version[2]);
}

static bool stands_for(const struct runtime_place *of, uint64_t address)
{
    const struct perl_place *place = (const struct perl_place *)of->word;
    return address - place->start[0] < place->size[0] || address - place->start[1] < place->size[1];
}

static bool resolve(const struct runtime_process *process, const struct sample_frame *frame,
                    struct arena *text, struct runtime_name *ret)
{
    const struct perl_place *place = (const struct perl_place *)process->place->word;
    return perl_sub_name(process->memory, place, frame, text, ret);
}

const struct runtime runtime_perl = {.name = "perl",
                                     .frame_type = "perl",
                                     .recognise = recognise,
                                     .prepare = prepare,
                                     .version = version,
                                     .stands_for = stands_for,
                                     .resolve = resolve};
