/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON for commands that print `--json`: strings, and the commas between things.
 */
#ifndef GATEWAY_COMMANDS_JSON_TEXT_H
#define GATEWAY_COMMANDS_JSON_TEXT_H

#include <stdbool.h>
#include <stdio.h>

#include "proto/base/bytes.h"

/* In quotes, escaped (RFC 8259 section 7); bytes that are no UTF-8 become U+FFFD, one each. */
void json_put_string(FILE *to, struct bytes text);

/* `"name": ` with the comma before it, if it is not the first. */
void json_put_key(FILE *to, const char *name, bool *first);

#endif
