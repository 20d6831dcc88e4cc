/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What shells complete behind a program's name: scripts for bash, zsh and fish, out of the descriptions that
 * its --help prints. A flag's value is one of its words, or a file.
 */
#ifndef PROTO_BASE_SETTINGS_COMPLETION_H
#define PROTO_BASE_SETTINGS_COMPLETION_H

#include "proto/base/settings/command.h"

enum completion_shell { COMPLETION_NONE, COMPLETION_BASH, COMPLETION_ZSH, COMPLETION_FISH };

/* The shells by name, for a row that lets choose. */
extern const struct settings_word completion_shells[];

void settings_completion(const struct settings_command *program, enum completion_shell shell, FILE *to);

#endif
