/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of profgate: each a description (proto/base/settings/command.h) whose `run` takes argv with
 * its own name first and returns the exit code.
 */
#ifndef GATEWAY_COMMANDS_COMMAND_H
#define GATEWAY_COMMANDS_COMMAND_H

#include "proto/base/settings/command.h"

enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3 };

extern const struct settings_command serve_command, validate_command, rules_command, count_command,
    convert_command, conformance_command, replay_command, look_command;

#endif
