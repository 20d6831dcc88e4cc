/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An attribute's value as the text that rules see (rules/LANGUAGE.md §4): strings as they are, integers in
 * decimal, booleans true/false, doubles in the shortest form that reads back, bytes in hex, lists and maps as
 * compact JSON.
 */
#ifndef GATEWAY_CLASSIFY_ATTR_TEXT_H
#define GATEWAY_CLASSIFY_ATTR_TEXT_H

#include "proto/base/buffer.h"
#include "proto/otlp/view/profiles.h"

/* Nested lists and maps deeper than this are written as null: nobody matches them, and the walk's stack is
 * fixed. */
#define ATTR_TEXT_DEPTH 64u

/* Appends. The view resolves references to its string table inside lists and maps. 0, -ENOMEM or -ENOBUFS. */
int attr_text(const struct profiles *view, const struct attr_value *value, struct buffer *out);

#endif
