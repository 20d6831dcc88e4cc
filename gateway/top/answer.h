/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What page.c and stacks.c look for in an answer. It comes from whatever answers at a URL: what is not of the
 * shape asked for is not there. Private to gateway/top.
 */
#ifndef GATEWAY_TOP_ANSWER_H
#define GATEWAY_TOP_ANSWER_H

#include <json-c/json.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* The document; NULL: it is none, deeper than that, or there is no memory. For json_object_put. */
json_object *answer_parse(struct bytes text, int depth_max);

/* A member of that type; NULL where there is none, or `of` is no object. */
json_object *answer_member(json_object *of, const char *name, enum json_type type);

/* Of a list; 0 of NULL. */
uint32_t answer_length(json_object *list);

/* NAN: it is no number. */
double answer_number(json_object *value);

#endif
