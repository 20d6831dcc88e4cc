/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A regular file as bytes that are in memory only while they are looked at: mapped, not read. Whoever goes
 * through it says how far, and what was mapped goes; what is touched again comes again from the file, so that
 * slices of it stay good, and giving back is never wrong, only slower where it comes too often.
 *
 * What another process makes of the file meanwhile is seen, and mapping_close says that there was something:
 * what was made of it is worth nothing. If the file becomes shorter, what is gone reads as zeros (instead of
 * SIGBUS, whose handler this takes).
 *
 * For commands, which read one file at a time: in a process one is open, and one thread looks at it.
 */
#ifndef PROTO_BASE_MAPPING_H
#define PROTO_BASE_MAPPING_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/stat.h>

#include "proto/base/bytes.h"

struct mapping {
    struct bytes bytes; /* the file; zeros behind it, if it does not become longer */
    size_t room;        /* mapped, with the padding */
    size_t used;        /* since pages were given back */
    int fd;             /* our own */
    struct stat was;
};

/* Maps what `fd` is open for, which is left at its end as if it had been read, with `padding` readable bytes
 * behind it; fd may be closed then. 0;
 * MAPPING_NONE: it is empty, or none that can be mapped (a pipe, a terminal, what the kernel makes up), and
 * is to be read; -ENOMEM. */
enum { MAPPING_NONE = 1 };
int mapping_open(struct mapping *ret, int fd, size_t padding);

/* Whether it was written to, or made shorter, while it was open. Nobody may look at its bytes any more. */
bool mapping_close(struct mapping *m);

/* What is in memory of it goes. */
void mapping_give_back(struct mapping *m);

/* Between two times: what was mapped of the file is at most that, and where it is gone through in order a
 * page comes once. */
#define MAPPING_STEP ((size_t)1 << 20)

/* So many bytes more were looked at. m may be NULL: they are in memory anyhow. */
static inline void mapping_used(struct mapping *m, size_t n)
{
    if (m && (m->used += n) >= MAPPING_STEP)
        mapping_give_back(m);
}

#endif
