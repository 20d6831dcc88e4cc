/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ids of traces and spans as labels have them: so many digits of lower-case hex, not all 0. For proto/convert
 * only.
 */
#ifndef PROTO_CONVERT_IDS_H
#define PROTO_CONVERT_IDS_H

#include "proto/base/bytes.h"

#define TRACE_ID_DIGITS 32u
#define SPAN_ID_DIGITS  16u

bool id_is(struct bytes text, size_t digits);

/* The bytes of one. */
void id_bytes(struct bytes text, uint8_t *ret);

#endif
