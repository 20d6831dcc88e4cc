/* SPDX-License-Identifier: Apache-2.0 */
/* The keys of otlp/NAME, of which exporter.c has the rows. */
#ifndef GATEWAY_EXPORT_OTLP_SETTINGS_H
#define GATEWAY_EXPORT_OTLP_SETTINGS_H

#include "gateway/export/shared/sending.h"

enum otlp_backend { OTLP_ANY, OTLP_COLLECTOR, OTLP_PARCA, OTLP_PYROSCOPE };

extern const struct settings_word otlp_backends[]; /* in this order */

struct otlp_settings {
    struct sending_settings sending;
    enum otlp_protocol protocol;
    enum { OTLP_PROTO, OTLP_JSON } encoding;                 /* of metrics; JSON only by HTTP */
    enum client_compression compression;                     /* of bodies */
    uint32_t compression_level;                              /* 0: the coding's usual one */
    enum { OTLP_LAYOUT_1_9, OTLP_LAYOUT_1_10 } wire_version; /* of profiles */
    enum export_temporality temporality;
    struct settings_strings endpoints, weights; /* several in place of one */
    enum { OTLP_ROUND_ROBIN, OTLP_FAILOVER } balancing;
    enum otlp_backend backend; /* what takes the profiles */
    bool references;           /* in profiles, as they came */
    struct settings_strings text_attributes;
    struct settings_strings resource_attributes;
    bool own_metrics;
    uint32_t queue_consumers;
};

#endif
