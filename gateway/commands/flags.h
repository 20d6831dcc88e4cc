/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line flags from one table: the same rows parse them and print --help.
 *
 *     --name VALUE   --name=VALUE   --switch
 *
 * Parsing stops at the first argument that is no flag, or behind `--`.
 */
#ifndef GATEWAY_COMMANDS_FLAGS_H
#define GATEWAY_COMMANDS_FLAGS_H

#include "proto/base/error.h"

struct flag {
    const char *name;  /* without the dashes */
    const char *value; /* what --help calls its value; NULL: it takes none */
    const char *doc;
    /* value is NULL for a switch. 0, or negative with *e set. */
    int (*set)(void *target, const char *value, struct error *e);
};

/* What flags_parse found besides flags. */
enum { FLAGS_HELP = 1 };

/* Parses argv[1 …]; *ret_rest is the index of the first argument that is no flag. --help and -h are always
 * known. 0; FLAGS_HELP; -EINVAL with *e set. */
int flags_parse(const struct flag *flags, unsigned n_flags, int argc, char **argv, void *target,
                int *ret_rest, struct error *e);

/* Prints "usage: profgate USAGE", the text and the flags to stdout. */
void flags_help(const char *usage, const char *text, const struct flag *flags, unsigned n_flags);

#endif
