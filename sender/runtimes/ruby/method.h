/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the words are called that the kernel side sends for Ruby's frames, out of the memory of a process that
 * goes on meanwhile.
 */
#ifndef SENDER_RUNTIMES_RUBY_METHOD_H
#define SENDER_RUNTIMES_RUBY_METHOD_H

#include <stdbool.h>

#include "bpf/ruby.h"
#include "bpf/sample.h"
#include "sender/runtimes/runtime.h"

/* Names a word. False: it cannot be said, or something else is there by now. */
bool ruby_method_name(const struct source *memory, const struct ruby_place *place,
                      const struct sample_frame *word, struct arena *text, struct runtime_name *ret);

#endif
