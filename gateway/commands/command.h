/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The subcommands of profgate. Each takes argv with its own name first and returns the exit code:
 * 0 done, 1 the answer is "no", 2 wrong usage or configuration, 3 the environment refuses.
 */
#ifndef GATEWAY_COMMANDS_COMMAND_H
#define GATEWAY_COMMANDS_COMMAND_H

enum { EXIT_DONE = 0, EXIT_NO = 1, EXIT_USAGE = 2, EXIT_ENVIRONMENT = 3 };

int command_serve(int argc, char **argv);
int command_validate(int argc, char **argv);
int command_count(int argc, char **argv);

#endif
