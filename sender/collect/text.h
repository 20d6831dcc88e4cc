/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Text from outside as UTF-8: paths, thread and symbol names are whatever bytes somebody chose, protobuf's
 * `string` must be UTF-8.
 */
#ifndef SENDER_COLLECT_TEXT_H
#define SENDER_COLLECT_TEXT_H

#include "proto/base/bytes.h"

/* Longer text is cut: no name is. */
#define TEXT_MAX 4096u

/* The text itself when it is fine; else a copy in `scratch` in which '?' stands for each byte above 0x7f. */
struct bytes text_clean(struct bytes s, char scratch[TEXT_MAX]);

#endif
