/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `profgate rules from-connector`: the configuration of Elastic's profilingmetricsconnector as a rule file.
 */
#ifndef GATEWAY_CONNECTOR_CONVERT_H
#define GATEWAY_CONNECTOR_CONVERT_H

/* argv[0] is "from-connector". As every command (gateway/commands/command.h): 0 done, 1 something in the
 * configuration cannot be said in the rule language, 2 wrong usage, an unreadable file or no configuration of
 * the connector. The rules go to stdout. */
int command_rules_from_connector(int argc, char **argv);

#endif
