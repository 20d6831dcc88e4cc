/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intakes of Pyroscope's clients (grafana/pyroscope at 3fe6a45): its SDKs, Alloy, and what speaks like
 * them.
 */
#ifndef GATEWAY_SERVE_PYROSCOPE_PYROSCOPE_H
#define GATEWAY_SERVE_PYROSCOPE_PYROSCOPE_H

#include "gateway/serve/intake.h"

/* POST /ingest (pkg/ingester/pyroscope/ingest_handler.go), also as /pyroscope/ingest. */
extern const struct intake pyroscope_ingest, pyroscope_ingest_below;

/* push.v1.PusherService/Push (api/push/v1/push.proto) over gRPC, and as a unary call of Connect
 * (connectrpc.com/docs/protocol, "Unary-Request") in protobuf and JSON. */
extern const struct intake pyroscope_push_grpc, pyroscope_push_proto, pyroscope_push_json;

/* parca.profilestore.v1alpha1.ProfileStoreService/WriteRaw of Parca's clients, which is nearly that. */
extern const struct intake parca_write_raw, parca_write_raw_json;

/* ….ProfileStoreService/WriteArrow of parca-agent: samples in Arrow. */
extern const struct intake parca_write_arrow;

#endif
