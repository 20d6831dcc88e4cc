/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the kernel's functions are called, those of its modules and BPF programs included: asked of the kernel
 * as their addresses are met, for it has 200,000 of them, which would be 10 MB here and a tenth of a second
 * to print.
 *
 *     kernel_want(k, address); …
 *     kernel_resolve(k);
 *     … kernel_find(k, address, &name) …
 *     kernel_next(k);
 */
#ifndef SENDER_SYMBOLIZE_KERNEL_KERNEL_H
#define SENDER_SYMBOLIZE_KERNEL_KERNEL_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

/* Functions kept at most; beyond, and after so many calls of kernel_next, all are asked for again: modules
 * and programs come and go at the same addresses. */
#define KERNEL_FUNCTIONS_MAX 16384u
#define KERNEL_NEXT_MAX      64u

struct kernel;

struct kernel_options {
    /* Adds a line for each address: see sampler_symbols (sender/attach). 0 or -errno. */
    int (*ask)(void *user, const uint64_t *address, uint32_t n, struct buffer *ret);
    void *user;
    const char *proc_root; /* "/proc", or a folder like it: where kernel and modules begin; must stay */
};

struct kernel_name {
    struct bytes name;   /* until kernel_next */
    struct bytes module; /* "vmlinux", or the module; "bpf" for BPF programs */
    uint64_t address;    /* relative to where the kernel or module begins, or a program; 0: that is hidden */
};

/* NULL: memory is out. */
struct kernel *kernel_new(const struct kernel_options *options);
struct kernel *kernel_free(struct kernel *k); /* returns NULL; NULL is fine */

/* An address whose name is wanted; where memory is out it has none. */
void kernel_want(struct kernel *k, uint64_t address);

/* Asks for all that is wanted and not known. 0 or -errno. */
int kernel_resolve(struct kernel *k);

/* The function an address is in. False: it is in none, or not known. */
bool kernel_find(const struct kernel *k, uint64_t address, struct kernel_name *ret);

void kernel_next(struct kernel *k);

size_t kernel_memory(const struct kernel *k);

#endif
