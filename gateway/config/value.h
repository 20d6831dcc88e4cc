/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One value of one row: from text into its field, and back. Private to gateway/config.
 */
#ifndef GATEWAY_CONFIG_VALUE_H
#define GATEWAY_CONFIG_VALUE_H

#include "gateway/config/row.h"
#include "proto/base/arena.h"
#include "proto/base/buffer.h"
#include "proto/base/error.h"

/* Parses text into the field of `base` that the row describes. Lists: comma-separated. 0; -EINVAL with *e
 * saying what it may be; -ENOMEM. */
int value_set(const struct config_row *row, void *base, const char *text, struct arena *arena,
              struct error *e);

/* Sets every field of a section's struct to its row's default. 0 or -ENOMEM. */
int value_defaults(const struct config_section *section, void *base, struct arena *arena);

/* Appends the field as YAML flow text. 0 or -ENOMEM. */
int value_print(const struct config_row *row, const void *base, struct buffer *out);

/* Replaces ${env:NAME} and ${env:NAME:-default} (as the Collector writes them) and $$ by $. NULL with *e set:
 * no such variable, or no end to the braces. */
const char *value_expand(const char *text, struct arena *arena, struct error *e);

#endif
