/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The kernel's own symbols, from the text of /proc/kallsyms: "ADDRESS TYPE NAME [MODULE]".
 *
 * The kernel takes tens of milliseconds to print that file, so its functions are held: 16 bytes and the name
 * each.
 */
#ifndef SENDER_SYMBOLIZE_KERNEL_KALLSYMS_H
#define SENDER_SYMBOLIZE_KERNEL_KALLSYMS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct kallsyms;

/* Functions held at most; a distribution kernel with its modules has 200,000. */
#define KALLSYMS_MAX 1000000u

struct kallsyms_name {
    struct bytes name;   /* .p NULL: not known */
    struct bytes module; /* "vmlinux", or the module; "bpf" for BPF programs */
    uint64_t base;       /* what addresses are relative to: _text, or the module's first function */
};

/* Condition: all addresses are hidden (zero): kernel.kptr_restrict, or CAP_SYSLOG is missing. */
#define KALLSYMS_HIDDEN 1

/* Reads the whole text. 0, KALLSYMS_HIDDEN, -ENOMEM, -ENOENT (nothing in it), or the error of reading. */
int kallsyms_read(struct kallsyms **ret, int fd);
struct kallsyms *kallsyms_free(struct kallsyms *k); /* returns NULL */

/* The function an address is in. False if it is below the first, or far (1 MiB) behind any: a module loaded
 * since. */
bool kallsyms_find(const struct kallsyms *k, uint64_t address, struct kallsyms_name *ret);

size_t kallsyms_memory(const struct kallsyms *k);

#endif
