/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What kind of emulator it is, is in no symbol: it is looked for in what is only read, as what
 * erlang:system_info(system_version) says.
 */
#include "sender/runtimes/beam/binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/dynamic.h"

#define DATA_MAX (4u << 20)

bool beam_is_code(struct bytes path)
{
    return bytes_starts(path, "/memfd:vmem");
}

/* Looks for "Erlang/OTP 25%s [erts-13.1.5] [source] … [jit:ns…", which is among what it writes to. */
static bool read_version(const struct source *file, const Elf64_Phdr *segment, uint16_t ret[4])
{
    static const char version[] = "%s [erts-", kind[] = "[jit:ns";
    size_t n = (size_t)min_of(segment->p_filesz, (uint64_t)DATA_MAX);
    autofree char *data = calloc(1, n + 1);
    const char *found = NULL;
    if (!data || !source_read(file, segment->p_offset, data, n))
        return false;
    found = memmem(data, n, version, sizeof version - 1);
    return found && strstr(found, kind) &&
           sscanf(found + sizeof version - 1, "%5hu.%5hu.%5hu.%5hu", &ret[0], &ret[1], &ret[2], &ret[3]) >= 2;
}

bool beam_binary_find(struct beam_binary *ret, const struct source *file)
{
    struct dynamic d;
    Elf64_Sym symbol;
    bool has_version = false;
    *ret = (struct beam_binary){.start = UINT64_MAX};
    if (!dynamic_open(&d, file) || !dynamic_find(&d, "enif_schedule_nif", STT_FUNC, &symbol, NULL))
        return false;
    if (dynamic_find(&d, "process_main", STT_FUNC, &symbol, NULL))
        ret->main = symbol.st_value;
    for (uint32_t i = 0; i < d.n_program; i++) {
        const Elf64_Phdr *segment = &d.program[i];
        if (segment->p_type != PT_LOAD)
            continue;
        ret->start = min_of(ret->start, segment->p_vaddr);
        ret->end = max_of(ret->end, segment->p_vaddr + segment->p_memsz);
        if (segment->p_flags & PF_X) {
            ret->text = segment->p_vaddr;
            ret->text_size = segment->p_memsz;
        } else if ((segment->p_flags & PF_W) && ret->n_data < BEAM_DATA_MAX) {
            ret->data[ret->n_data].start = segment->p_vaddr;
            ret->data[ret->n_data++].size = segment->p_memsz;
            has_version |= read_version(file, segment, ret->version);
        }
    }
    return ret->text_size && has_version;
}
