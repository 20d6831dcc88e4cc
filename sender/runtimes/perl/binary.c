/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The version is in no symbol: it is looked for in what is only read, as what `perl -v` says
 * (perl.c: S_minus_v).
 */
#include "sender/runtimes/perl/binary.h"

#include <stdio.h>

#include "sender/symbolize/elf/constant.h"

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
static bool read_version(const char *text, void *user)
{
    uint16_t *ret = user;
    ret[0] = 5;
    return sscanf(text, "%3hu, subversion %3hu", &ret[1], &ret[2]) == 2;
}

bool perl_binary_version(uint16_t ret[3], const struct source *file)
{
    struct dynamic d;
    return dynamic_open(&d, file) &&
           constant_find(&d, BYTES_LIT("This is perl 5, version "), read_version, ret);
}
