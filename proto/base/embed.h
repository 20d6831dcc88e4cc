/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files compiled into the program by pg_embed (scripts/cmake/Embed.cmake).
 */
#ifndef PROTO_BASE_EMBED_H
#define PROTO_BASE_EMBED_H

#include <stddef.h>

struct embedded_file {
    const char *name;          /* file name without folder; NULL ends a list */
    const unsigned char *data; /* a NUL follows */
    size_t size;
};

#endif
