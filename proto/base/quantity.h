/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Numbers with units as people write them in configuration: 64MiB, 30s, 1%, 19Hz.
 * Each returns 0, or -EINVAL for what is no such quantity, or -ERANGE for one too large.
 */
#ifndef PROTO_BASE_QUANTITY_H
#define PROTO_BASE_QUANTITY_H

#include <stdint.h>

#include "proto/base/bytes.h"

/* Decimal digits only, the whole slice. */
int quantity_u64(struct bytes s, uint64_t *ret);

/* Bytes: a number and none, B, KB, MB, GB (powers of 1000) or KiB, MiB, GiB (powers of 1024). */
int quantity_size(struct bytes s, uint64_t *ret_bytes);

/* A duration as Go and the Collector write it: 250ms, 1m30s, 1.5h; units ns us µs ms s m h; 0 needs none. */
int quantity_duration(struct bytes s, uint64_t *ret_ns);

/* A number without a unit: `1.5`. */
int quantity_decimal(struct bytes s, double *ret);

/* A share: `1%`, `0.5%`, or a plain fraction between 0 and 1. */
int quantity_share(struct bytes s, double *ret);

#endif
