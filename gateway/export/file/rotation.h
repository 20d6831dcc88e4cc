/* SPDX-License-Identifier: Apache-2.0 */
/*
 * When a file is full or old, and what becomes of it: it is synced and gets a name of its own, after which
 * nobody writes to it any more, so that any tool may take it away. Private to this folder.
 *
 *     /var/lib/profgate/raw.json  ->  /var/lib/profgate/raw-2026-11-23T07-24-05.123.json       (UTC)
 */
#ifndef GATEWAY_EXPORT_FILE_ROTATION_H
#define GATEWAY_EXPORT_FILE_ROTATION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/error.h"

/* Zeroed: never; and all are kept. */
struct rotation {
    uint64_t bytes_max;
    uint64_t age_max_ns;  /* of a file, since its first record */
    uint32_t backups_max; /* rotated files that are kept beside it */
    uint32_t days_max;    /* how long these are kept */
};

static inline bool rotation_is_wanted(const struct rotation *r)
{
    return r->bytes_max > 0 || r->age_max_ns > 0;
}

/* Gives what is at `path`, open as fd, another name. 0, or the errno with *e: it is where it was. */
int rotation_rename(const char *path, int fd, struct error *e);

/* Removes the oldest rotated files of `path`, as far as there are too many, or they are too old. */
void rotation_prune(const struct rotation *r, const char *path);

#endif
