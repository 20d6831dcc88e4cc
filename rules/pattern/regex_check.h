/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether a regex is in the part of PCRE2's syntax that the language has: the regular one, over bytes (§2).
 */
#ifndef RULES_PATTERN_REGEX_CHECK_H
#define RULES_PATTERN_REGEX_CHECK_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

struct regex_fault {
    const char *what;     /* "look-ahead is not part of …"; NULL: PCRE2's own words are in `error` */
    const char *proposal; /* or NULL */
    uint32_t at, length;  /* bytes of the source to underline */
    bool irregular;       /* E107; else E118 */
    struct error error;
};

/* 0: fine. 1: *ret_fault says what is wrong. -ENOMEM. `text` is the source between the slashes. */
int regex_check(struct bytes text, bool nocase, struct regex_fault *ret_fault);

#endif
