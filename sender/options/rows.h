/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The rows of profsend's options, between the table (rows.c) and those who read it (options.c, file.c).
 */
#ifndef SENDER_OPTIONS_ROWS_H
#define SENDER_OPTIONS_ROWS_H

#include "proto/base/settings/command.h"
#include "sender/options/values.h"

/* Of struct options: flags, keys of the file, variables. */
extern const struct settings_section options_section;

/* The program by its options. */
extern const struct settings_command options_command;

/* One more rule of --relabel. 0, -EINVAL with *e, or -ENOMEM. */
int options_add_rule(struct options *o, const struct relabel_rule *rule, struct error *e);

/* --config, and those that print something and end: not for a file. */
bool options_is_of_command(const struct settings_row *row);

#endif
