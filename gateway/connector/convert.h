/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate rules from-connector`: the configuration of Elastic's profilingmetricsconnector as a rule file.
 */
#ifndef GATEWAY_CONNECTOR_CONVERT_H
#define GATEWAY_CONNECTOR_CONVERT_H

#include "gateway/commands/command.h"

/* Exit codes: 0 done, 1 something in the configuration cannot be said in the rule language, 2 wrong usage, an
 * unreadable file or no configuration of the connector. The rules go to stdout. */
extern const struct settings_command from_connector_command;

#endif
