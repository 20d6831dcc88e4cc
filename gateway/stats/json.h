/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every page that answers in JSON needs: an object of json-c's built without a leak where memory ends,
 * and the finished document as one line. Any thread.
 */
#ifndef GATEWAY_STATS_JSON_H
#define GATEWAY_STATS_JSON_H

#include <json-c/json_types.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

/* A page is for reading, and json-c counts in int. */
#define JSON_TEXT_MAX ((size_t)1 << 20)

/* Keys come from rules and from a query's parameters: no attribute that exists has a longer name. */
#define JSON_KEY_MAX 255u

/* Adds a member. Takes the value whatever happens; it, and the object, may be NULL for want of memory. 0 or
 * -ENOMEM. */
int json_put(json_object *to, const char *key, json_object *value);

/* A string, cut at JSON_TEXT_MAX; what is no UTF-8 is U+FFFD in it (RFC 8259 section 8.1: peers send bytes,
 * and json-c writes what it is given). NULL when memory is out. The caller's. */
json_object *json_text(struct bytes text);

/* A new object at the end of a list, which owns it; NULL when memory is out. */
json_object *json_append_object(json_object *list);

/* {"service.name":"checkout"}: what a group of resources says, null where a value is absent (p is NULL). Keys
 * are cut at JSON_KEY_MAX, and UTF-8 likewise. NULL when memory is out. The caller's. */
json_object *json_members(const struct bytes *keys, const struct bytes *values, uint32_t n);

/* Appends the document in its shortest form. 0, or a negative errno of buffer_add. */
int json_write(json_object *top, struct buffer *out);

#endif
