/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intake of OTLP: ProfilesService/Export over gRPC, and over HTTP with protobuf or JSON.
 */
#ifndef GATEWAY_SERVE_OTLP_OTLP_H
#define GATEWAY_SERVE_OTLP_OTLP_H

#include "gateway/serve/intake.h"

extern const struct intake otlp_grpc, otlp_http_proto, otlp_http_json;

#endif
