/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What there is to know of PHP by its file: which version it is, where its loop is and where it has its
 * state. An executable (cli, cgi, fpm), or what Apache or others load; stripped ones as well, since all of it
 * is exported to extensions.
 */
#ifndef SENDER_RUNTIMES_PHP_BINARY_H
#define SENDER_RUNTIMES_PHP_BINARY_H

#include <stdbool.h>
#include <stdint.h>

#include "sender/symbolize/elf/source.h"

/* Addresses are ELF virtual addresses. */
struct php_binary {
    uint64_t loop, loop_size;   /* execute_ex */
    uint64_t globals;           /* executor_globals */
    uint64_t generator_class;   /* zend_ce_generator; 0: it is not exported */
    uint64_t fiber, fiber_size; /* make_fcontext; size 0: there are no fibers (before 8.1) */
};

/* As much is read for it, besides. */
struct php_details {
    uint16_t version[3];      /* 8.2.36 */
    uint64_t cold, cold_size; /* what the compiler has put apart of execute_ex; size 0: nothing */
    uint64_t body; /* in it, where its frame is complete; 0: what is compiled has a frame of its own */
    uint64_t text, text_size; /* all of the file's code */
};

/* Whether a file has PHP in it. One that was made for threads (ZTS) has its state elsewhere: it is not. */
bool php_binary_find(struct php_binary *ret, const struct source *file);

/* Reads some 400 KB. False: it does not say which version it is. */
bool php_binary_details(struct php_details *ret, const struct php_binary *b, const struct source *file);

/* Whether a file of this name is the memory that opcache shares between processes, compiled code in it. */
bool php_is_opcache(struct bytes path);

#endif
