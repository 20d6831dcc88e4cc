/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A command as who types it meets it: its name, what it is for, its flags. One description is the source of
 * what --help prints, of the manual page (manual.h) and of what a shell completes (completion.h).
 */
#ifndef PROTO_BASE_SETTINGS_COMMAND_H
#define PROTO_BASE_SETTINGS_COMMAND_H

#include <stdio.h>

#include "proto/base/settings/flags.h"

struct settings_command {
    const char *name;  /* in full: "profgate rules check" */
    const char *usage; /* what follows the name: "[--strict] [FILE]..." */
    const char *doc;   /* one line, no capital, no full stop: "say what is wrong with rule files" */
    const char *text;  /* sentences that say more, in lines that end with \n; NULL: none */
    const struct settings_section *flags; /* NULL: none */
    const struct settings_command *const
        *commands;                     /* what the next word may be, up to NULL; NULL: no command */
    int (*run)(int argc, char **argv); /* argv[0] is the name's last word, no other one asks for help; returns
                                          the exit code */
    const char *exits;                 /* of a program: what its exit codes mean, as lines */
};

/* The name's last word. */
const char *settings_command_word(const struct settings_command *c);

/* Goes from a command to the one that argv[1], argv[2] … name, as far as they name any. *ret_used is how many
 * words did. */
const struct settings_command *settings_command_find(const struct settings_command *c, int argc, char **argv,
                                                     int *ret_used);

/* Says on stderr that `c` has no command of that word, and which is near. Returns SETTINGS_WRONG_USAGE. */
int settings_command_missing(const struct settings_command *c, const char *word);

/* The exit code of wrong usage. */
#define SETTINGS_WRONG_USAGE 2

/* Runs the command that the words name; with --help or -h prints, to stdout, what it is. Without one that
 * goes to stderr. Returns the exit code. */
int settings_command_run(const struct settings_command *c, int argc, char **argv);

/* Prints what --help says. */
void settings_command_help(const struct settings_command *c, FILE *to);

#endif
