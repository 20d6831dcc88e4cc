/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keeps the kernel side in unwind tables: what runs already at the start, then, on a thread of its own, each
 * file that the kernel side asks for, so that neither the ring buffer nor the naming of symbols delays it.
 */
#ifndef SENDER_RUN_UNWINDER_H
#define SENDER_RUN_UNWINDER_H

#include "proto/base/bytes.h"
#include "proto/base/log.h"
#include "sender/attach/sampler.h"
#include "sender/unwind/loader.h"

struct unwinder;
struct known;

/* Fills the sampler's tables with what runs now, then starts the thread. `vdso` is the vDSO's ELF image, .n 0
 * if there is none. What files the walks know is put into `known`. Both must outlive it. 0 or -errno. */
int unwinder_new(struct unwinder **ret, struct sampler *sampler, struct known *known, struct bytes vdso);

/* After sampler_stop: gives back the stacks that it was to end, so that the next sampler_drain has them, and
 * ends the thread. */
void unwinder_stop(struct unwinder *u);

/* Ends the thread, if it runs, and frees. Returns NULL; NULL is fine. */
struct unwinder *unwinder_free(struct unwinder *u);

/* What loading came to. */
struct loader_counts unwinder_counts(struct unwinder *u);

/* One line on what was loaded and how stacks ended. */
void unwinder_log(struct unwinder *u, enum log_level level);

#endif
