/* SPDX-License-Identifier: Apache-2.0 */
/*
 * C++ and Rust names as their authors wrote them.
 *
 * The mangled name comes from a hostile file: a short one can stand for gigabytes of text, so that the result
 * has a limit, and what passes it stays mangled.
 */
#ifndef SENDER_SYMBOLIZE_DEMANGLE_H
#define SENDER_SYMBOLIZE_DEMANGLE_H

#include <stddef.h>

#include "proto/base/bytes.h"

/* Longer mangled names stay as they are: demangling recurses as deep as a name is long. */
#define DEMANGLE_IN_MAX 1024u
/* So do those that would come out longer. */
#define DEMANGLE_OUT_MAX 2048u

/* Writes the readable form, NUL-terminated, and returns its length; 0 if the name is not mangled, or stays as
 * it is. `room` is DEMANGLE_OUT_MAX at least. */
size_t demangle(struct bytes mangled, char *to, size_t room);

#endif
