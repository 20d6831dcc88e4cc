/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The messages of querier.v1, for JSON and for reading calls. For gateway/look only.
 */
#ifndef GATEWAY_LOOK_QUERIER_MESSAGES_H
#define GATEWAY_LOOK_QUERIER_MESSAGES_H

#include "gateway/look/methods.h"
#include "proto/otlp/json/mapping.h"

/* Of a call, and of its answer. */
struct look_messages {
    const struct mapping_message *call, *answer;
};
extern const struct look_messages look_messages[LOOK_N_METHODS];

#endif
