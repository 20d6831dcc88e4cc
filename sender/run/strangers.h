/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files with runtimes whose functions are told as machine code, each said once: else nobody would know from
 * their stacks, which are whole, that the functions are missing. One thread.
 */
#ifndef SENDER_RUN_STRANGERS_H
#define SENDER_RUN_STRANGERS_H

#include <stdint.h>

/* Files that are said, in all. Files cost whoever makes them nothing, and a log has an end. */
#define STRANGERS_MAX 64u

struct strangers {
    struct strangers_file {
        uint64_t device, inode;
    } said[STRANGERS_MAX];
    uint32_t n;
};

/* Logs that the runtime in this file is not known, if that was not said of it yet. `path` is the file's. */
void strangers_say(struct strangers *s, int fd, const char *path, const char *runtime);

#endif
