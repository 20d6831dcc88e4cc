/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The manual page of a program, in the macros of man(7), out of the descriptions that its --help prints.
 */
#ifndef PROTO_BASE_SETTINGS_MANUAL_H
#define PROTO_BASE_SETTINGS_MANUAL_H

#include "proto/base/settings/command.h"

struct settings_manual {
    const char *title;   /* "PROFGATE" */
    const char *section; /* "1": commands, "5": files, "8": of the administrator */
    const char *version; /* "0.1.0" */
    const char *see;     /* other pages, as "profgate.yaml(5), profsend(8)"; NULL: none */
};

/* Prints the page of a program with all of its commands, theirs, their flags and variables. */
void settings_manual(const struct settings_manual *m, const struct settings_command *program, FILE *to);

/* Prints a page about something that is no command: `doc` is its one line, `text` its lines as they are. */
void settings_manual_text(const struct settings_manual *m, const char *name, const char *doc,
                          struct bytes text, FILE *to);

#endif
