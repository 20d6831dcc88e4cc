/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of profgate: each a description (proto/base/settings/command.h) whose `run` takes argv with
 * its own name first and returns the exit code.
 */
#ifndef GATEWAY_COMMANDS_COMMAND_H
#define GATEWAY_COMMANDS_COMMAND_H

#include <errno.h>

#include "proto/base/settings/command.h"

enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3 };

/* What work on files exits with, by what ended it: 0 or -errno. A file that is not there, or may not be
 * opened, was named wrongly; one that can be read and is not what it should be is an answer. */
static inline int exit_of_work(int r)
{
    switch (-r) {
    case 0: return EXIT_DONE;
    case ENOENT:
    case ENOTDIR:
    case EISDIR:
    case EACCES:
    case EPERM:
    case ELOOP:
    case ENAMETOOLONG: return EXIT_USAGE;
    default: return EXIT_NO;
    }
}

extern const struct settings_command serve_command, validate_command, rules_command, count_command,
    convert_command, conformance_command, replay_command, look_command;

#endif
