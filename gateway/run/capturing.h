/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What triggers capture, joined to what rules say: a keep_decider for forward that asks another one and keeps
 * everything of a resource that is being captured. A `drop` wins over it, as it does over every `keep`.
 *
 * Of one worker thread. It takes notice of what is captured between requests (capturing_look, once a second),
 * so that a request is decided by one state from its reservation to its end, and costs nothing while nothing
 * is captured.
 */
#ifndef GATEWAY_RUN_CAPTURING_H
#define GATEWAY_RUN_CAPTURING_H

#include "gateway/control/capture.h"
#include "gateway/forward/keep.h"

struct capturing;

/* Looks for the first time. NULL: no memory. captures and what `rules` has as context outlive it. */
struct capturing *capturing_new(struct captures *captures, const struct keep_decider *rules);
struct capturing *capturing_free(struct capturing *c);

/* Not between the reservation for a request and its end. */
void capturing_look(struct capturing *c);

struct keep_decider capturing_decider(struct capturing *c);

#endif
