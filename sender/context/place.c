/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/context/place.h"

#include <errno.h>
#include <unistd.h>

#include "proto/base/macros.h"
#include "sender/context/variable.h"
#include "sender/foreign/errand.h"
#include "sender/symbolize/elf/elf.h"

/* An argument of a descriptor is an offset from the thread pointer, which on x86-64 is negative, or the
 * address of a pair of words, which in user space never is. */
static bool is_offset(uint64_t argument)
{
    return (int64_t)argument < 0;
}

bool place_is_published(const struct process *process)
{
    if (!process->identity)
        return false;
    struct bytes schema = process->identity->schema;
    return bytes_is(schema, "tls_v1") || bytes_is(schema, "tlsdesc_v1_dev");
}

static bool read_words(const struct process *process, int memory, uint64_t address, uint64_t word[2])
{
    return address <= INT64_MAX && errand_pread(memory, word, 16, (off_t)address, process->user) == 16;
}

static int in_module(const struct process *process, uint64_t module, uint64_t offset,
                     struct context_place *ret)
{
    if (module == 0 || module > UINT32_MAX || offset > INT64_MAX)
        return -EAGAIN; /* the dynamic linker has not been there yet */
    ret->how = maps_have_musl(&process->maps) ? CONTEXT_MUSL : CONTEXT_GLIBC;
    ret->module = module;
    ret->offset = (int64_t)offset;
    return 0;
}

static int in_thread(uint64_t offset, struct context_place *ret)
{
    if (!is_offset(offset))
        return -EAGAIN;
    ret->how = CONTEXT_STATIC;
    ret->offset = (int64_t)offset;
    return 0;
}

/* Goes by the words at the variable's slot, `bias` being what the file's addresses are moved by. */
static int follow(const struct process *process, int memory, const struct variable *v, uint64_t bias,
                  struct context_place *ret)
{
    uint64_t word[2];
    if (v->access == VARIABLE_EXECUTABLE)
        return in_thread((uint64_t)v->offset, ret);
    if (!read_words(process, memory, v->slot + bias, word))
        return -EFAULT;
    switch (v->access) {
    case VARIABLE_THREAD: return in_thread(word[0] + (uint64_t)v->offset, ret);
    case VARIABLE_MODULE: return in_module(process, word[0], word[1], ret);
    case VARIABLE_OWN_MODULE: return in_module(process, word[0], (uint64_t)v->offset, ret);
    default: break;
    }
    if (word[0] == 0)
        return -EAGAIN;
    if (is_offset(word[1]))
        return in_thread(word[1] + (uint64_t)v->offset, ret);
    if (!read_words(process, memory, word[1], word))
        return -EFAULT;
    return in_module(process, word[0], word[1] + (uint64_t)v->offset, ret);
}

/* What the addresses of a file are moved by in the process: a region begins at a page, where its segment need
 * not. */
static bool bias_of(const struct elf *elf, const struct region *region, uint64_t *ret)
{
    for (uint32_t i = 0; i < elf->n_segments; i++) {
        const struct elf_segment *g = &elf->segment[i];
        uint64_t page = g->file_offset & ~UINT64_C(4095);
        if (region->offset < page || region->offset - page >= g->file_size + (g->file_offset - page))
            continue;
        *ret = region->start - (g->address - g->file_offset + region->offset);
        return true;
    }
    return false;
}

/* What opening a file is worth: a walk through a directory, or two. */
#define OPENING (4 * ALLOWANCE_CALL)

/* Condition: it is not in this file. */
#define NOT_HERE 1

/* Looks into the file of one region. 0, NOT_HERE, or -errno: it is there, but not to be read. */
static int look(const struct procs *procs, const struct process *process, const struct region *region,
                int memory, struct allowance *allowance, struct context_place *ret)
{
    struct source source;
    struct variable variable;
    struct elf elf;
    uint64_t bias;
    allowance_charge(allowance, OPENING);
    autoclose int fd = procs_open_region(procs, process, region);
    if (fd < 0 || source_file(&source, fd) < 0)
        return NOT_HERE;
    source.allowance = allowance;
    int r = variable_find(&source, &variable);
    if (r != 0)
        return r == VARIABLE_NONE ? NOT_HERE : r;
    if (elf_read(&elf, &source) < 0 || !bias_of(&elf, region, &bias))
        return NOT_HERE;
    return follow(process, memory, &variable, bias, ret);
}

int place_find(const struct procs *procs, const struct process *process, struct allowance *user,
               struct context_place *ret)
{
    struct context_place place = {.start = process->start};
    struct allowance allowance = {.left = PLACE_COST_MAX, .from = user};
    int result = -ENOENT;
    autoclose int memory = procs_open_memory(procs, process);
    if (memory < 0)
        return memory;
    uint64_t last = 0;
    for (uint32_t i = 0; i < process->maps.regions.n; i++) {
        const struct region *region = &process->maps.regions.p[i];
        if (region->inode == 0 || region->inode == last)
            continue;
        if (allowance_is_spent(&allowance))
            return -EDQUOT;
        last = region->inode;
        int r = look(procs, process, region, memory, &allowance, &place);
        if (r == 0) {
            *ret = place;
            return 0;
        }
        if (r < 0)
            result = r; /* another file may have it too */
    }
    return result;
}
