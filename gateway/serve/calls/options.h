/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the services beside OTLP are told of the program they are part of.
 */
#ifndef GATEWAY_SERVE_CALLS_OPTIONS_H
#define GATEWAY_SERVE_CALLS_OPTIONS_H

#include <stdbool.h>

struct services_options {
    /* Whether requests would be taken now: SERVING or NOT_SERVING. NULL: always. */
    bool (*is_serving)(void *context);
    /* Whether the program is going: a Watch is told NOT_SERVING and then ended (UNAVAILABLE), because an open
     * stream would hold up the closing of its connection. NULL: never. */
    bool (*is_stopping)(void *context);
    void *context;
};

#endif
