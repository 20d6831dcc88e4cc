/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where HotSpot keeps what, by its own description (structs.h), and where the code cache of a process is.
 */
#ifndef SENDER_RUNTIMES_HOTSPOT_LAYOUT_H
#define SENDER_RUNTIMES_HOTSPOT_LAYOUT_H

#include "bpf/hotspot.h"
#include "sender/symbolize/elf/source.h"

/* Fills a place. `file` is libjvm, mapped with its addresses moved by `bias` in `memory`. 0; -EAGAIN: the
 * process has no code cache yet; RUNTIME_NOT_KNOWN: this one is not known. */
int hotspot_layout(struct hotspot_place *ret, const struct source *file, const struct source *memory,
                   uint64_t bias);

#endif
