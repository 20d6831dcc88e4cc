/* SPDX-License-Identifier: Apache-2.0 */
/*
 * otlp/NAME: metrics or raw profiles by OTLP, over gRPC or HTTP. Metrics are split below 4 MiB or
 * max_request_bytes, in protobuf or JSON; profiles go in the layout of 1.10 or 1.9, which needs requests
 * without references; or as a backend wants them.
 */
#ifndef GATEWAY_EXPORT_OTLP_EXPORTER_H
#define GATEWAY_EXPORT_OTLP_EXPORTER_H

#include "gateway/export/otlp/settings.h"

extern const struct exporter_kind exporter_otlp;

#endif
