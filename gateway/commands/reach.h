/* SPDX-License-Identifier: Apache-2.0 */
/* Whether somebody takes connections at an exporter's endpoint, for `validate --reach`. */
#ifndef GATEWAY_COMMANDS_REACH_H
#define GATEWAY_COMMANDS_REACH_H

#include "proto/base/error.h"

/* Resolves and connects, to each address in turn for at most three seconds; says nothing to the peer. 0, or a
 * negative errno with *e saying what was tried and why it failed. */
int reach_endpoint(const char *endpoint, struct error *e);

#endif
