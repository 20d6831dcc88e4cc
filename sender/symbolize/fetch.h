/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Debug files from the network: debuginfod, asked by a thread of its own, only where DEBUGINFOD_URLS names
 * servers, or, where it is not set at all, the distribution does.
 *
 * Debian's libdebuginfod is loaded when it is first needed: it brings curl and a dozen libraries more, which
 * a profiler that asks nobody should not carry. Its cache ($DEBUGINFOD_CACHE_PATH) is shared with gdb and
 * others.
 */
#ifndef SENDER_SYMBOLIZE_FETCH_H
#define SENDER_SYMBOLIZE_FETCH_H

#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct fetch;

/* Files asked for and not forgotten yet: the answer that was not asked for longest makes room. */
#define FETCH_FILES_MAX 1024u
/* Files that wait for an answer, of one user's programs: what is above waits to be asked for. Users take
 * turns, for anybody can invent build ids. */
#define FETCH_WAITING_MAX 16u
/* Unless the environment says otherwise: one file's size and time, for debuginfod(8) variables. */
#define FETCH_MAXSIZE "268435456"
#define FETCH_MAXTIME "60"

/* Where distributions say which servers to ask: what /etc/profile.d/debuginfod.sh makes DEBUGINFOD_URLS of,
 * for shells; a service has to look for itself. */
#define FETCH_FOLDER "/etc/debuginfod"

/* What the files NAME.urls of a folder say, with blanks between; "" if that is nothing, or more than fits. */
void fetch_urls(const char *folder, char *to, size_t room);

/* Starts the thread, which calls `begin` first (NULL: nothing). 0; 1: neither DEBUGINFOD_URLS nor
 * FETCH_FOLDER names a server, or the variable is empty, *ret is NULL; -errno with *e. Reads and sets
 * environment variables: before other threads start. */
int fetch_new(struct fetch **ret, void (*begin)(void), struct error *e);

/* Ends the thread, at the latest when the transfer it is in notices (a second). Returns NULL; NULL is fine.
 * Or `f`, which stays as it is: a server's name is being resolved, which nothing but the process's end ends.
 */
struct fetch *fetch_free(struct fetch *f);

/* Conditions: it was asked for, or will be, and is not here yet; no server has it. */
#define FETCH_LATER   1
#define FETCH_NOWHERE 2

/* Opens the debug file of a build id, that of a program of `user`: 0, the descriptor being the caller's,
 * FETCH_LATER or FETCH_NOWHERE. `f` may be NULL. */
int fetch_open(struct fetch *f, uint32_t user, struct bytes build_id, int *ret_fd);

#endif
