/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Objects of Ruby, read out of the memory of the process they are in, which goes on meanwhile: strings,
 * symbols, and what classes are called.
 */
#ifndef SENDER_RUNTIMES_RUBY_OBJECT_H
#define SENDER_RUNTIMES_RUBY_OBJECT_H

#include <stdbool.h>

#include "bpf/ruby.h"
#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "sender/symbolize/elf/source.h"

/* Bytes of a string that are read. */
#define RUBY_NAME_MAX 512u
/* Variables of a class that are looked through for its name. */
#define RUBY_VARIABLES_MAX 256u

struct ruby_reader {
    const struct source *memory;
    const struct ruby_place *place;
    struct arena *text;
};

/* A string, as UTF-8, cut; .p NULL: there is none. */
struct bytes ruby_string(const struct ruby_reader *r, uint64_t object);

/* Element `i`, below 3, of an array that is not shared; or the object itself if it is no array. 0: there is
 * none. */
uint64_t ruby_element(const struct ruby_reader *r, uint64_t object, uint32_t i);

/* What a symbol is called by its number (ID). */
struct bytes ruby_symbol(const struct ruby_reader *r, uint64_t id);

/* What the class or module is called that has a method; and whether it is the class's own (`def self.`). .p
 * NULL: it has no name, or is that of a single object. */
struct bytes ruby_class(const struct ruby_reader *r, uint64_t object, bool *is_own);

#endif
