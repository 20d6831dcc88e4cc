/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From raw samples to a window: finds the process and file of each address as samples arrive. What those are
 * called is found later, by another thread (naming.h), so that no name keeps samples waiting.
 *
 *     collector_stack(c, head, body, now); …           as the ring buffer hands them out
 *     collector_take(c, &window);                      and the next window begins
 *     … the window is named and sent, and cleared
 *     collector_sweep(c, now);
 *
 * One thread.
 */
#ifndef SENDER_COLLECT_COLLECTOR_H
#define SENDER_COLLECT_COLLECTOR_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"
#include "sender/collect/files.h"
#include "sender/collect/pending.h"
#include "sender/collect/window.h"

/* A file of code that a walk met. */
struct collector_code {
    struct binary_key key; /* its content as of when the walk met it */
    bool is_vdso;
    int fd; /* the taker's; -1: it cannot be opened (now), or is another one by now */
    char path[PATH_MAX];
};

struct collector {
    struct window window; /* the one that is open */
    struct pending pending;
    struct procs *procs;
    struct files *files;
    struct bytes vdso; /* our own: the kernel maps the same one into every process */
    uint64_t refused;  /* samples without a process, since collector_take: PROCS_MAX or memory */
    uint64_t replaced; /* frames in files, ever: what the walk met there cannot be had any more */
    /* Tells the kernel side where the threads of a process publish their contexts; NULL: nowhere any more.
     * The owner's; may be NULL. */
    void (*place)(void *user, uint32_t pid, const struct context_place *place);
    void *place_user;
    /* The file that frames mean by a number (struct sample_frame): what they are named by when their process
     * has ended. `opens`: else only what it is is asked for. False: it is not known any more, or yet. The
     * owner's; may be NULL. */
    bool (*code)(void *user, uint32_t number, uint32_t whose, bool opens, struct collector_code *ret);
    void *code_user;
    struct words *words; /* what words of runtimes are called; the owner's; NULL: nobody asks */
};

/* What our vDSO is known by; its inode is no file's. */
extern const struct binary_key collector_vdso;

/* `proc_root` is "/proc" or a folder like it. 0 or -ENOMEM. */
int collector_init(struct collector *c, const char *proc_root);

/* After all windows taken are cleared. */
void collector_release(struct collector *c);

/* Takes one sample; `body` is what is behind its head (sender/attach/record.h). */
void collector_stack(struct collector *c, const struct sample_head *head, const uint64_t *body, uint64_t now);

/* Takes a notice: SAMPLE_VALUE (a stack that waited for it joins the window, a wait of less than the minimum
 * is forgotten), SAMPLE_FORK, SAMPLE_EXIT. */
void collector_notice(struct collector *c, const struct sample_head *head, uint64_t now);

/* Takes the notice of an execve. */
void collector_exec(struct collector *c, const struct sample_head *head, const char *path, uint64_t now);

/* Takes what is told of a process before its first sample. */
void collector_process(struct collector *c, const struct sample_process *process, struct bytes environment,
                       uint64_t now);

/* Closes the window and hands it out, in exchange for *window, which is zeroed or cleared; it goes on with
 * that. Forgets files long unused. Clear what was taken before collector_release, on this thread. */
void collector_take(struct collector *c, struct window *window);

/* Forgets processes that ended, or were not sampled for long, and are in no window. */
void collector_sweep(struct collector *c, uint64_t now);

#endif
