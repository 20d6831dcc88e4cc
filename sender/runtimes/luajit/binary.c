/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interpreter is assembler, which no symbol names, and which is the same whatever compiler made the rest.
 * It is found by its call frame information, which nobody else's is like, and what it knows of the
 * global_State, which differs from one version to the next, by instructions of its own.
 */
#include "sender/runtimes/luajit/binary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/symbolize/elf/constant.h"
#include "sender/symbolize/elf/eh_index.h"

/* A description of a function (LSB, "The .eh_frame section"): where it is from its third word on, and, of the
 * interpreter (host/buildvm_asm.c), that 80 bytes of stack are taken, in which rbp, rbx, r15 and r14 are. */
struct description {
    uint32_t length, common;
    int32_t start;
    uint32_t size;
    uint8_t rules[11];
};
static const uint8_t rules[] = {0, 0x0e, 80, 0x86, 2, 0x83, 3, 0x8f, 4, 0x8e, 5};

/* vm_x64.dasc: mov DISPATCH, L:RB->glref; add DISPATCH, GG_G2DISP. */
static const uint8_t to_dispatch[] = {0x4c, 0x8b, 0x75, 0x10, 0x49, 0x81, 0xc6};
/* BC_JLOOP: mov L:RB, SAVE_L; mov [DISPATCH+DISPATCH_GL(jit_base)], BASE. */
static const uint8_t to_trace[] = {0x48, 0x8b, 0x6c, 0x24, 0x10, 0x49, 0x89, 0x96};

/* Larger than any global_State with what is behind it. */
#define STATE_MAX (64 << 10)

static bool is_interpreter(const struct dynamic *d, uint64_t at, struct luajit_binary *ret)
{
    struct description description;
    if (!dynamic_read(d, at, &description, sizeof description) ||
        memcmp(description.rules, rules, sizeof rules) != 0 || description.size < LUAJIT_CODE_MIN ||
        description.size > LUAJIT_CODE_MAX)
        return false;
    ret->start = at + offsetof(struct description, start) + (uint64_t)(int64_t)description.start;
    ret->size = description.size;
    return true;
}

static bool find_interpreter(const struct dynamic *d, struct luajit_binary *ret)
{
    struct eh_index index;
    struct eh_entry entry[257];
    if (!eh_index_open(&index, d))
        return false;
    for (uint32_t i = 0; i < index.n; i += 256) {
        uint32_t n = min_of(index.n - i, (uint32_t)(sizeof entry / sizeof *entry));
        if (!eh_index_read(&index, i, entry, n))
            return false;
        for (uint32_t j = 0; j < n && j < 256; j++) /* the last one of all is as long as it says */
            if ((j + 1 == n || (int64_t)entry[j + 1].start - entry[j].start >= LUAJIT_CODE_MIN) &&
                is_interpreter(d, eh_index_address(&index, entry[j].description), ret))
                return true;
    }
    return false;
}

/* The number in the code behind some bytes. */
static bool number_behind(struct bytes code, const void *bytes, size_t n, int32_t *ret)
{
    const uint8_t *found = memmem(code.p, code.n, bytes, n);
    if (!found || (size_t)((const uint8_t *)code.p + code.n - found) < n + sizeof *ret)
        return false;
    memcpy(ret, found + n, sizeof *ret);
    return true;
}

/* Whether a file is run, and not only linked to: what a program has in itself it need not export. */
static bool is_program(const struct dynamic *d)
{
    return d->header.e_type == ET_EXEC || (d->flags & DF_1_PIE) || dynamic_header(d, PT_INTERP);
}

bool luajit_binary_find(struct luajit_binary *ret, const struct source *file)
{
    struct dynamic d;
    Elf64_Sym symbol;
    int32_t dispatch, trace;
    *ret = (struct luajit_binary){0};
    bool is_exported = dynamic_open(&d, file) && dynamic_find(&d, "luaJIT_setmode", STT_FUNC, &symbol, NULL);
    if ((!is_exported && !is_program(&d)) || !find_interpreter(&d, ret))
        return false;
    autofree uint8_t *code = malloc(ret->size);
    if (!code || !dynamic_read(&d, ret->start, code, ret->size))
        return false;
    struct bytes all = bytes_of(code, ret->size);
    if (!number_behind(all, to_dispatch, sizeof to_dispatch, &dispatch) || dispatch <= 0 ||
        dispatch > STATE_MAX)
        return false;
    ret->dispatch = (uint32_t)dispatch;
    if (number_behind(all, to_trace, sizeof to_trace, &trace) && trace < 0 && trace > -dispatch)
        ret->trace_base = (uint32_t)(dispatch + trace);
    return true;
}

static bool read_version(const char *text, void *user)
{
    size_t n = strspn(text, "0123456789abcdefghijklmnopqrstuvwxyz.-");
    if (n == 0 || n > 19)
        return false;
    snprintf(user, 24, "2.1.%.*s", (int)n, text);
    return true;
}

bool luajit_binary_version(char ret[24], const struct source *file)
{
    struct dynamic d;
    (void)dynamic_open(&d, file); /* a static program has no symbols, but headers */
    return d.n_program > 0 && constant_find(&d, BYTES_LIT("LuaJIT 2.1."), read_version, ret);
}
