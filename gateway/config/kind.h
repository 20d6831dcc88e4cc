/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A kind of exporter as the configuration sees it: objects called TYPE or TYPE/NAME with keys of their own.
 * Kinds are given to config_new; no exporter is known here.
 */
#ifndef GATEWAY_CONFIG_KIND_H
#define GATEWAY_CONFIG_KIND_H

#include "proto/base/settings/settings.h"

/* What an object may be named for: metrics.exporters, profiles.exporters. */
enum config_takes { CONFIG_TAKES_METRICS = 1, CONFIG_TAKES_PROFILES = 2 };

struct config_kind {
    const char *type; /* "otlp" */
    struct settings_section section;
    size_t size;    /* of the struct that the rows fill */
    unsigned takes; /* enum config_takes */
    /* What only all keys together can tell, of the object of that name. 0, or -EINVAL with *e. May be NULL.
     */
    int (*check)(const char *name, const void *settings, struct error *e);
};

#endif
