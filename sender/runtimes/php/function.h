/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a function of PHP is called, read out of the memory of the process it is in, which goes on meanwhile.
 */
#ifndef SENDER_RUNTIMES_PHP_FUNCTION_H
#define SENDER_RUNTIMES_PHP_FUNCTION_H

#include <stdbool.h>

#include "bpf/php.h"
#include "bpf/sample.h"
#include "sender/runtimes/runtime.h"

/* Bytes of a name, and of a file's name, that are read. */
#define PHP_NAME_MAX 512u

/* Names a word. False: it cannot be said, or another function is there by now. */
bool php_function_name(const struct source *memory, const struct php_place *place,
                       const struct sample_frame *word, struct arena *text, struct runtime_name *ret);

#endif
