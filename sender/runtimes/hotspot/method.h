/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a method is called, read out of the memory of the process it is in, which goes on meanwhile.
 */
#ifndef SENDER_RUNTIMES_HOTSPOT_METHOD_H
#define SENDER_RUNTIMES_HOTSPOT_METHOD_H

#include <stdbool.h>

#include "bpf/hotspot.h"
#include "sender/runtimes/runtime.h"

/* Bytes of a class's, a method's, a file's name that are read. */
#define HOTSPOT_NAME_MAX 512u

/* "java.util.HashMap.get", "HashMap.java", the line of a bytecode. False: it cannot be said. */
bool hotspot_method_name(const struct source *memory, const struct hotspot_place *place, uint64_t method,
                         uint32_t bci, struct arena *text, struct runtime_name *ret);

#endif
