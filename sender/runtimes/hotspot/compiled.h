/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an address of compiled code stands for: its method, and those that the compiler put into it.
 */
#ifndef SENDER_RUNTIMES_HOTSPOT_COMPILED_H
#define SENDER_RUNTIMES_HOTSPOT_COMPILED_H

#include "sender/runtimes/hotspot/method.h"

/* Methods inlined in one another that are told; of more, those above are left out. */
#define HOTSPOT_INLINED_MAX 40u

/* Names a word of compiled code. False: it cannot be said, or other code is there by now. */
bool hotspot_compiled_name(const struct source *memory, const struct hotspot_place *place,
                           const struct sample_frame *word, struct arena *text, struct runtime_name *ret);

#endif
