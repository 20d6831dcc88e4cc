/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which processes of a window are sent, and how many of their samples: by the rules of --relabel.
 */
#ifndef SENDER_COLLECT_TARGETS_H
#define SENDER_COLLECT_TARGETS_H

#include "sender/collect/request_facts.h"
#include "sender/collect/window.h"

/* Leaves of a closed window, which was named, what is to be sent: each hit of a process with the probability
 * that is its share, which is noted there for those who say what a hit stands for. What goes is counted in
 * w->unwanted. 0 or -ENOMEM, with nothing changed. */
int targets_thin(struct window *w, const struct request_facts *facts);

#endif
