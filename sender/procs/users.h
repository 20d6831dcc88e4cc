/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What users are called, by /etc/passwd and not by name services: a network's directory must not be able to
 * keep a profiler waiting. One thread.
 */
#ifndef SENDER_PROCS_USERS_H
#define SENDER_PROCS_USERS_H

#include <stdint.h>

#include "proto/base/bytes.h"

struct users;

/* More are not read. */
#define USERS_MAX 65536u
/* Whether the file has changed is looked at this often. */
#define USERS_AGAIN_NS 10000000000u

/* Reads nothing yet. NULL when memory is out. */
struct users *users_new(const char *path);
struct users *users_free(struct users *u); /* NULL is fine; returns NULL */

/* The name of a user, until the next call; "": it has none, or the file cannot be read. Of several names of
 * one user the first in the file. `now`: CLOCK_MONOTONIC, ns. */
struct bytes users_name(struct users *u, uint32_t id, uint64_t now);

#endif
