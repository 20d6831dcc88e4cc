/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which allocations of shared libraries take part in oom.h: those that a library makes for our own code, as
 * told by the stack. What a test asks of a library itself (it plays the peer) always succeeds. Only in builds
 * with AddressSanitizer; any thread, after library_oom_begin().
 */
#ifndef TESTS_LIB_LIBRARY_OOM_H
#define TESTS_LIB_LIBRARY_OOM_H

#include <stdbool.h>
#include <stdint.h>

/* The libraries that take memory for what a peer sends. */
#define LIBRARY_OOM_NAMES                                                                                  \
    {                                                                                                      \
        "nghttp2", "uv", "ssl", "crypto", "protobuf-c", "json-c", "zstd", "lz4", "deflate", "z", "pcre2-8" \
    }
#define LIBRARY_OOM_N 11u

/* Where those that are linked are mapped, and where the test's own functions are. Once is enough; before
 * forking; takes no memory. */
void library_oom_begin(void);

/* The library that this address is in, or -1. */
int library_oom_of(const void *at);

/* Whether the library cannot stand that this allocation of its fails, whatever its caller does. Such are left
 * out, each for the reason that is said there. */
enum library_oom_by { BY_MALLOC, BY_CALLOC, BY_REALLOC, BY_STRDUP };
bool library_oom_is_fatal(int library, enum library_oom_by by);

/* The place of an allocation of a library, from the call chain: its innermost two frames and the one of our
 * code that called. 0: it was not made for our code. */
uint64_t library_oom_place(void);

#endif
