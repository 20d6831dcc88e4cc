/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate top`: a live table of a running gateway's counters. Returns an exit code
 * (gateway/commands/command.h).
 */
#ifndef GATEWAY_TOP_COMMAND_TOP_H
#define GATEWAY_TOP_COMMAND_TOP_H

int command_top(int argc, char **argv);

#endif
