/* SPDX-License-Identifier: Apache-2.0 */
/*
 * prometheusremotewrite/NAME: metrics to a Prometheus remote write receiver, one call at a time. The
 * endpoint's path is the whole of it: "http://prometheus:9090/api/v1/write" (no unix: here; without a port 80
 * or 443).
 *
 * A receiver that knows only 1.0 may take a 2.0 message for an empty one and say that all is well: 2 is for
 * those that know it. It is found out by the answer's missing headers; then the points count as dropped, and
 * the log says so once.
 */
#ifndef GATEWAY_EXPORT_REMOTE_WRITE_EXPORTER_H
#define GATEWAY_EXPORT_REMOTE_WRITE_EXPORTER_H

#include "gateway/export/shared/sending.h"

struct remote_write_settings {
    struct sending_settings sending;
    uint32_t protobuf_message; /* 1: prometheus.WriteRequest; 2: io.prometheus.write.v2.Request */
    struct settings_strings resource_attributes;
};

extern const struct exporter_kind exporter_remote_write;

#endif
