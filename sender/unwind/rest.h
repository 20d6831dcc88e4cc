/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rest of a walk that met rows that were not there: the kernel side's steps (bpf/unwind_step.h), over the
 * copy of the stack that it made, with rows that are loaded as they are met. What it says is as exact as what
 * the kernel side would have said.
 */
#ifndef SENDER_UNWIND_REST_H
#define SENDER_UNWIND_REST_H

#include <stdbool.h>
#include <stdint.h>

#include "bpf/unwind.h"

/* The word at an address of the copy; 0, or -1: it is not there. */
typedef int (*rest_load_fn)(void *of, uint64_t address, uint64_t *value);

struct rest_walk {
    /* The rule for an address of code. 0; -1: there is no code; 1: its rows are not to be had. */
    int (*rule)(void *user, uint64_t address, struct unwind_rule *ret);
    /* Takes one frame: the address as samples have it, and enum unwind_cfa. False: no more. */
    bool (*frame)(void *user, uint64_t address, uint8_t cfa);
    void *user;
    /* Goes to the caller of *at by words of the stack; has_rule: rows say something of its code. 0, or 1: it
     * cannot, or leaves it to the rows; NULL: there is nobody who could. */
    int (*step)(void *user, struct unwind_registers *at, bool has_rule, rest_load_fn load, void *of);
    /* The frame taken last, which is returned to at `ip`, is the stack's first one, as there is a 0 above it:
     * if no call is before ip, it was made by hand and is at ip itself. NULL: nobody looks. */
    void (*begin)(void *user, uint64_t ip);
};

/* Walks on from where `rest` is, that frame included. Memory that is not in it ends the walk
 * (UNWIND_END_MISSING); *far: of what is above, its address, 0 for none. */
enum unwind_end rest_walk(const struct unwind_rest *rest, const struct rest_walk *with, uint64_t *far);

#endif
