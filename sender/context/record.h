/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread's context as the kernel side copied it (bpf/context.h): the record of OTEP 4947, "Thread-Local
 * Context Record", checked.
 *
 * The process writes what it likes: ids, keys and values are taken only as far as they are whole.
 */
#ifndef SENDER_CONTEXT_RECORD_H
#define SENDER_CONTEXT_RECORD_H

#include <stdbool.h>

#include "bpf/go.h"
#include "proto/base/bytes.h"

struct record {
    uint8_t trace_id[16], span_id[8];
    bool is_linked;          /* it has both ids; else both are zero */
    bool has_labels;         /* it is a goroutine's (bpf/go.h): attributes are for record_next_label; … */
    struct bytes attributes; /* … else for record_next */
};

/* Reads a record of n bytes, which stay the caller's. False: it says nothing. */
bool record_read(const uint8_t *p, size_t n, struct record *ret);

/* Takes the next entry off *rest: the number of its key, and its value. False: no whole entry is left. */
bool record_next(struct bytes *rest, uint8_t *key, struct bytes *value);

/* Takes the next label off *rest: false: no whole one is left. What was cut may end within a character. */
bool record_next_label(struct bytes *rest, struct bytes *key, struct bytes *value);

/* Whether an entry has a key of number `n_keys` or above: one that was added since they were read. */
bool record_has_new_key(const struct record *record, uint32_t n_keys);

#endif
