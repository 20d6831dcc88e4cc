/*
 * From raw samples to a window with names: finds the process and file of each address as samples arrive, and
 * the names of all new ones at the window's end.
 *
 *     collector_stack(c, head, addresses, now); …      as the ring buffer hands them out
 *     collector_settle(c);                             names are known now
 *     … read c->window, collector_describe(c, …)
 *     collector_next(c, now);                          and the next window begins
 *
 * One thread.
 */
#ifndef SENDER_COLLECT_COLLECTOR_H
#define SENDER_COLLECT_COLLECTOR_H

#include <stdint.h>

#include "proto/base/error.h"
#include "sender/collect/pending.h"
#include "sender/collect/window.h"
#include "sender/symbolize/binaries.h"
#include "sender/symbolize/kallsyms.h"

struct generated; /* names of generated code, see collector.c */

struct collector {
    struct window window;
    struct pending pending;
    struct procs *procs;
    struct binaries *binaries;
    struct kallsyms *kernel; /* NULL until the first kernel frame, or when it cannot be had */
    const char *kallsyms_path;
    uint64_t kernel_tried; /* when it was read last */
    int kernel_state;      /* what kallsyms_read last said */
    struct {
        struct generated *at; /* sorted by (process, address) */
        uint32_t n, cap;
        struct arena text;
    } generated;
    struct bytes vdso; /* our own: the kernel maps the same one into every process */
    uint64_t refused;  /* samples without a process: PROCS_MAX or memory */
    /* Tells the kernel side where the threads of a process publish their contexts; NULL: nowhere any more.
     * The owner's; may be NULL. */
    void (*place)(void *user, uint32_t pid, const struct context_place *place);
    void *place_user;
};

/* What a frame is called. Slices are valid until collector_next. */
struct description {
    const char *type;            /* profile.frame.type: a value of the semantic conventions */
    struct bytes name;           /* .n 0: not known */
    struct bytes file;           /* source file, "" if not known */
    uint32_t line;               /* 0 if not known */
    struct binary_name inlined;  /* .n_lines above 1: name, file and line are the innermost of several */
    uint64_t address;            /* relative to the mapping */
    const struct binary *binary; /* the mapping: a file … */
    const struct elf_segment *segment;
    struct bytes module; /* … or the kernel ("vmlinux"), or a module of it; .p NULL: no kernel frame */
};

/* `proc_root` is "/proc" or a folder like it; kallsyms is read from there. 0 or -ENOMEM. */
int collector_init(struct collector *c, const char *proc_root, const char *kallsyms_path);
void collector_release(struct collector *c);

/* Takes one sample; `address` is n_kernel then n_user addresses. */
void collector_stack(struct collector *c, const struct sample_head *head, const uint64_t *address,
                     uint64_t now);

/* Takes a notice: SAMPLE_VALUE (a stack that waited for it joins the window, a wait of less than the minimum
 * is forgotten), SAMPLE_FORK, SAMPLE_EXIT. */
void collector_notice(struct collector *c, const struct sample_head *head, uint64_t now);

/* Takes the notice of an execve. */
void collector_exec(struct collector *c, const struct sample_head *head, const char *path, uint64_t now);

/* Finds the names of everything in the window. */
void collector_settle(struct collector *c, uint64_t now);

/* Describes a frame of a process; after collector_settle. */
void collector_describe(const struct collector *c, const struct process *process, const struct frame *frame,
                        struct description *ret);

/* Empties the window and forgets what was not used for long. */
void collector_next(struct collector *c, uint64_t now);

#endif
