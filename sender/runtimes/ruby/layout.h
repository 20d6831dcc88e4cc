/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where Ruby keeps what in its structures, by version: what differs of it (bpf/ruby.h has what does not).
 */
#ifndef SENDER_RUNTIMES_RUBY_LAYOUT_H
#define SENDER_RUNTIMES_RUBY_LAYOUT_H

#include <stdint.h>

#include "bpf/ruby.h"

/* Fills the offsets of a place. 0; RUNTIME_NOT_KNOWN: this one is not known. */
int ruby_layout(struct ruby_place *ret, uint32_t version);

#endif
