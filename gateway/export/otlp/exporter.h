/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp/NAME: metrics or raw profiles by OTLP, over gRPC or HTTP. Metrics are split below 4 MiB or
 * max_request_bytes, in protobuf or JSON; profiles go in the layout of 1.10 or 1.9, which needs requests
 * without references.
 */
#ifndef GATEWAY_EXPORT_OTLP_EXPORTER_H
#define GATEWAY_EXPORT_OTLP_EXPORTER_H

#include "gateway/export/shared/sending.h"

struct otlp_settings {
    struct sending_settings sending;
    enum otlp_protocol protocol;
    enum { OTLP_PROTO, OTLP_JSON } encoding;                 /* of metrics; JSON only by HTTP */
    enum client_compression compression;                     /* of bodies */
    uint32_t compression_level;                              /* 0: the coding's usual one */
    enum { OTLP_LAYOUT_1_9, OTLP_LAYOUT_1_10 } wire_version; /* of profiles */
    enum export_temporality temporality;
    struct settings_strings resource_attributes;
    bool own_metrics;
    uint32_t queue_consumers;
};

extern const struct exporter_kind exporter_otlp;

#endif
