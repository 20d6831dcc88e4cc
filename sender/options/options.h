/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What profsend is told on its command line and in its environment: one table of rows, which also is the help
 * text.
 */
#ifndef SENDER_OPTIONS_OPTIONS_H
#define SENDER_OPTIONS_OPTIONS_H

#include <stdio.h>

#include "proto/base/error.h"
#include "sender/options/values.h"

/* A variable of the environment: this file is read instead of the one that --config names. Set by a program
 * that starts anew (sender/run/again.h). */
#define OPTIONS_FILE_INSTEAD "PROFSEND_FILE_INSTEAD"

/* Defaults, then the file of --config, then the environment (`getvar`, as getenv(3)), then the command line.
 * 0, -EINVAL with *e for the user, or -ENOMEM. On failure nothing is to be released. */
int options_read(struct options *ret, int argc, char **argv, char *(*getvar)(const char *), struct error *e);
void options_release(struct options *o);

/* Says which options were given that change nothing, and what they lack. */
void options_vain(const struct options *o, void (*say)(const char *option, const char *why));

/* What --help, --completion and --manual say. */
void options_help(FILE *to);
void options_completion(const struct options *o, FILE *to);
void options_manual(FILE *to);

#endif
