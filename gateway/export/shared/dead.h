/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Dead letters: stored requests that a destination refused for good, or that ran out of time, as files that
 * people and `profgate replay` read: FOLDER/NAME.dead/TIME-NUMBER.pb, each one plain request. Bounded in
 * bytes: what comes beyond is not kept.
 */
#ifndef GATEWAY_EXPORT_SHARED_DEAD_H
#define GATEWAY_EXPORT_SHARED_DEAD_H

#include <stdint.h>

#include "proto/base/error.h"
#include "proto/journal/journal.h"

struct dead_letters;

/* `name` says the signal: it ends in .profiles or .metrics. 0, or negative with *e. */
int dead_letters_open(struct dead_letters **ret, const char *folder, const char *name, uint64_t bytes_max,
                      struct error *e);

/* After the journal is closed. NULL is fine. Returns NULL. */
struct dead_letters *dead_letters_free(struct dead_letters *d);

/* Has a record of the journal written down, on the journal's thread, and removed then. 0 or -ENOMEM: nothing
 * was done. The loop's thread. */
int dead_letters_keep(struct dead_letters *d, struct journal *j, uint64_t number);

/* How many were written since the last call. NULL is fine: none. Any thread. */
uint64_t dead_letters_kept(struct dead_letters *d);

#endif
