/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a subroutine of Perl is called, read out of the memory of the process it is in, which goes on
 * meanwhile.
 */
#ifndef SENDER_RUNTIMES_PERL_SUB_H
#define SENDER_RUNTIMES_PERL_SUB_H

#include <stdbool.h>

#include "bpf/perl.h"
#include "bpf/sample.h"
#include "sender/runtimes/runtime.h"

/* Bytes of a name, and of a file's name, that are read. */
#define PERL_NAME_MAX 512u

/* Names a word. False: it cannot be said, or something else is there by now. */
bool perl_sub_name(const struct source *memory, const struct perl_place *place,
                   const struct sample_frame *word, struct arena *text, struct runtime_name *ret);

#endif
