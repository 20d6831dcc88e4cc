/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The records in the rings: checked, and handed on.
 */
#ifndef SENDER_ATTACH_RECORD_H
#define SENDER_ATTACH_RECORD_H

#include <stddef.h>
#include <stdint.h>

#include "bpf/sample.h"

/* What the ring holds. `address` is the n_kernel, then n_user addresses behind the head; behind them are
 * n_context bytes (sender/context/record.h). Valid during the call. */
struct sampler_handler {
    void (*stack)(void *user, const struct sample_head *head, const uint64_t *address);
    void (*exec)(void *user, const struct sample_head *head, const char *path);
    void *user;
    /* SAMPLE_VALUE, SAMPLE_FORK and SAMPLE_EXIT, by head->kind; NULL: nobody asks. */
    void (*notice)(void *user, const struct sample_head *head);
};

/* Takes one want. */
typedef void (*sampler_want_fn)(void *user, const struct sample_want *want);

/* Checks one record of n bytes from the ring and hands it on: 0, or -EBADMSG for what is not as bpf/sample.h
 * says. (Split from the ring so that it runs without BPF.) */
int sampler_record(const struct sampler_handler *handler, const void *record, size_t n);
int sampler_want(sampler_want_fn want, void *user, const void *record, size_t n);

#endif
