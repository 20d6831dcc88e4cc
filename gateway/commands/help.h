/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What --help of a command prints. The command's flags are a section of rows (proto/base/settings), which
 * parses them, too.
 */
#ifndef GATEWAY_COMMANDS_HELP_H
#define GATEWAY_COMMANDS_HELP_H

#include "proto/base/settings/flags.h"

/* Prints "usage: profgate USAGE", the text and the flags to stdout. */
void command_help(const char *usage, const char *text, const struct settings_section *flags);

#endif
