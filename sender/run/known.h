/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files that walks know, by the serial that frames bear (bpf/sample.h): what a sample of a process that
 * has ended is named by. The unwinder's thread puts them in, the loop takes them out: any thread.
 */
#ifndef SENDER_RUN_KNOWN_H
#define SENDER_RUN_KNOWN_H

#include "bpf/unwind.h"
#include "proto/base/bytes.h"
#include "sender/collect/collector.h"

/* Files kept open, the latest, until known_rest: so long samples of a program that was met for the first time
 * may be on their way. Others are opened by name. */
#define KNOWN_OPEN_MAX 32u

struct known;

struct known *known_new(void);             /* NULL when memory is out */
struct known *known_free(struct known *k); /* returns NULL; NULL is fine */

/* A file is known by this serial from now on, instead of the one UNWIND_FILES before it. `fd` is copied; -1:
 * it is the vDSO, or one that nobody can open any more. Without memory it is not known. */
void known_add(struct known *k, uint32_t serial, const struct unwind_key *key, int fd);

/* A collector's `code`, of a serial or a mark (unwind_mark): false where no file has it (any more, or yet).
 */
bool known_open(struct known *k, uint32_t number, uint32_t user, bool opens, struct collector_code *ret);

/* Closes what is open: when nothing was asked for in a while. */
void known_rest(struct known *k);

#endif
