/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate top`: a live table of a running gateway's counters.
 */
#ifndef GATEWAY_TOP_COMMAND_TOP_H
#define GATEWAY_TOP_COMMAND_TOP_H

#include "gateway/commands/command.h"

extern const struct settings_command top_command;

#endif
