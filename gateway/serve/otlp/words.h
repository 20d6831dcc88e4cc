/* SPDX-License-Identifier: Apache-2.0 */
/*
 * OTLP's answers: ExportProfilesServiceResponse, and google.rpc.Status, as protobuf and as JSON. For
 * gateway/serve/otlp, and for intakes whose formats have no answers of their own.
 */
#ifndef GATEWAY_SERVE_OTLP_WORDS_H
#define GATEWAY_SERVE_OTLP_WORDS_H

#include "gateway/serve/intake.h"

extern const struct intake_words otlp_words_grpc, otlp_words_proto, otlp_words_json;

#endif
