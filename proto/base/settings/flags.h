/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Command-line flags: rows of a section that are said as
 *
 *     --key VALUE   --key=VALUE   --switch
 */
#ifndef PROTO_BASE_SETTINGS_FLAGS_H
#define PROTO_BASE_SETTINGS_FLAGS_H

#include <stdio.h>

#include "proto/base/settings/settings.h"

/* Parses argv[1 …], flags before, between and behind what is none ("-" alone is none, nor is anything behind
 * `--`), which is moved to the end in its order; *ret_rest is its first index. 0, -EINVAL with *e, or
 * -ENOMEM. */
int settings_flags(const struct settings_section *s, int argc, char **argv, void *base, struct arena *arena,
                   int *ret_rest, struct error *e);

/* Whether it is --help or -h; whether one of argv[1 …] before a `--` is. */
bool settings_is_help(const char *word);
bool settings_asks_help(int argc, char **argv);

/* Prints a line for each flag, their meanings in a column of their own. */
void settings_flags_help(const struct settings_section *s, FILE *to);

#endif
