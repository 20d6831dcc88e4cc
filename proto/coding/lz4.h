/* SPDX-License-Identifier: Apache-2.0 */
/*
 * LZ4's frames (lz4_Frame_format.md 1.6), what the Collector's confighttp calls lz4. Private to proto/coding.
 */
#ifndef PROTO_CODING_LZ4_H
#define PROTO_CODING_LZ4_H

#include "proto/coding/job.h"

/* j->in, one frame or several, skippable ones too: *ret_parts of them. 0, a condition of coding_decode, or
 * -ENOMEM; what was written of a decode that failed is the caller's to take back. */
int lz4_decode(struct job *j, uint32_t *ret_parts);

/* Appends `in` as one frame. 0, -ENOMEM or -ENOBUFS (out->max). */
int lz4_encode(struct bytes in, struct buffer *out);

#endif
