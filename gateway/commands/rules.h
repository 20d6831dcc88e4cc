/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate rules check|test|list [FILE]…`: what a person does with rule files.
 */
#ifndef GATEWAY_COMMANDS_RULES_H
#define GATEWAY_COMMANDS_RULES_H

/* As every command (command.h): 0 done, 1 an error was found or a test failed, 2 wrong usage or an unreadable
 * file. */
int command_rules(int argc, char **argv);

#endif
