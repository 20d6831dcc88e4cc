/* SPDX-License-Identifier: Apache-2.0 */
/*
 * CRC-32C (Castagnoli; RFC 3720 appendix B.4), which Snappy's framing format checks its chunks with.
 * Private to proto/coding.
 */
#ifndef PROTO_CODING_CRC32C_H
#define PROTO_CODING_CRC32C_H

#include <stdint.h>

#include "proto/base/bytes.h"

/* Of the bytes, as a whole: initial value and final inversion are inside. Any thread. */
uint32_t crc32c(struct bytes b);

#endif
