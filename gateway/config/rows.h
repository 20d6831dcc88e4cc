/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table behind config.h: one row a key. Private to gateway/config.
 */
#ifndef GATEWAY_CONFIG_ROWS_H
#define GATEWAY_CONFIG_ROWS_H

#include "gateway/config/values.h"

extern const struct settings_section config_fixed[]; /* sections of struct config; ends with a NULL name */
extern const struct settings_section config_receiver_section, config_scrape_section, config_kafka_section;

#endif
