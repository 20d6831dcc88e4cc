/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/commands/help.h"

#include <stdio.h>

void command_help(const char *usage, const char *text, const struct settings_section *flags)
{
    printf("usage: profgate %s\n\n%s\nflags:\n", usage, text);
    settings_flags_help(flags, 24, stdout);
}
