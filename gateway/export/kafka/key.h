/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a message: a number made of a resource's attributes, whatever their order, so that what a
 * resource sends comes to one partition, from all gateways, and is read by one. Private to this folder; any
 * thread.
 */
#ifndef GATEWAY_EXPORT_KAFKA_KEY_H
#define GATEWAY_EXPORT_KAFKA_KEY_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/settings/settings.h"

/* As text: sixteen hexadecimal digits. */
#define KEY_TEXT 17

/* Of a Resource message whose attributes are written out: of all of them, or of these alone (n 0: all). */
uint64_t key_of_resource(struct bytes resource, const struct settings_strings *only);

/* Of a request of profiles or metrics: its first resource's. */
uint64_t key_of_request(struct bytes request, const struct settings_strings *only);

/* Whether all of its resources have that one. */
bool key_is_one(struct bytes request, const struct settings_strings *only);

void key_print(uint64_t key, char text[KEY_TEXT]);

#endif
