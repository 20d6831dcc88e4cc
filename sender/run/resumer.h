/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks on where the kernel side met rows that were not there, and gives the samples back. One thread.
 */
#ifndef SENDER_RUN_RESUMER_H
#define SENDER_RUN_RESUMER_H

#include "sender/attach/sampler.h"
#include "sender/run/opener.h"
#include "sender/unwind/loader.h"

struct resumer;

/* All three stay the caller's, and must outlive it. NULL when memory is out. */
struct resumer *resumer_new(struct sampler *sampler, struct loader *loader, struct opener *opener);
struct resumer *resumer_free(struct resumer *r); /* returns NULL; NULL is fine */

/* As sampler_asked.rest. */
void resumer_rest(struct resumer *r, const struct sample_head *head, const uint64_t *body);

#endif
