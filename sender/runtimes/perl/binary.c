/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version is in no symbol: it is looked for in what is only read, as what `perl -v` says
 * (perl.c: S_minus_v).
 */
#include "sender/runtimes/perl/binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/dynamic.h"

#define SEARCH_MAX     (16u << 20)
#define SEARCH_AT_ONCE (64u << 10)

static const char says[] = "This is perl 5, version ";
#define VERSION_MAX 32u /* behind that */

/* The address of what is exported; 0: it is not. */
static uint64_t address_of(const struct dynamic *d, const char *name, unsigned type)
{
    Elf64_Sym symbol;
    return dynamic_find(d, name, type, &symbol, NULL) ? symbol.st_value : 0;
}

bool perl_binary_find(struct perl_binary *ret, const struct source *file)
{
    static const char *const loops[] = {"Perl_runops_standard", "Perl_runops_debug"};
    struct dynamic d;
    Elf64_Sym symbol;
    *ret = (struct perl_binary){0};
    if (!dynamic_open(&d, file))
        return false;
    for (int i = 0; i < 2; i++)
        if (dynamic_find(&d, loops[i], STT_FUNC, &symbol, NULL)) {
            ret->loop[i] = symbol.st_value;
            ret->loop_size[i] = symbol.st_size;
        }
    ret->key = address_of(&d, "PL_thr_key", STT_OBJECT);
    if (!ret->key) {
        ret->op = address_of(&d, "PL_op", STT_OBJECT);
        ret->cop = address_of(&d, "PL_curcop", STT_OBJECT);
        ret->stack = address_of(&d, "PL_curstackinfo", STT_OBJECT);
        ret->catches = address_of(&d, "PL_top_env", STT_OBJECT);
    }
    return ret->loop_size[0] && (ret->key || (ret->op && ret->cop && ret->stack && ret->catches));
}

/* "36, subversion 0": the numbers. */
static bool read_version(const char *text, uint16_t ret[3])
{
    ret[0] = 5;
    return sscanf(text, "%3hu, subversion %3hu", &ret[1], &ret[2]) == 2;
}

static bool search(const struct dynamic *d, const Elf64_Phdr *segment, uint16_t ret[3])
{
    static const size_t overlap = sizeof says - 1 + VERSION_MAX;
    autofree char *piece = calloc(1, SEARCH_AT_ONCE + 1);
    uint64_t end = segment->p_offset + min_of(segment->p_filesz, (uint64_t)SEARCH_MAX);
    if (!piece || end < segment->p_offset)
        return false;
    for (uint64_t at = segment->p_offset; at < end; at += SEARCH_AT_ONCE - overlap) {
        size_t n = source_read_some(d->source, at, piece, (size_t)min_of(end - at, (uint64_t)SEARCH_AT_ONCE));
        const char *found = memmem(piece, n, says, sizeof says - 1);
        piece[n] = 0;
        if (found && (size_t)(piece + n - found) >= min_of(overlap, (size_t)(end - at)))
            return read_version(found + sizeof says - 1, ret);
        if (n <= overlap)
            break;
    }
    return false;
}

bool perl_binary_version(uint16_t ret[3], const struct source *file)
{
    struct dynamic d;
    if (!dynamic_open(&d, file))
        return false;
    for (uint32_t i = d.n_program; i-- > 0;)
        if (d.program[i].p_type == PT_LOAD && !(d.program[i].p_flags & PF_W) &&
            search(&d, &d.program[i], ret))
            return true;
    return false;
}
