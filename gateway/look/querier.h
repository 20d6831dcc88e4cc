/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pyroscope's querier.v1 over Connect: what Grafana's data source asks, answered from the store. Pure: the
 * body of a call in, that of its answer out. README.md has which methods and fields.
 *
 * Facts are of grafana/pyroscope, api/querier/v1/querier.proto and pkg/model; connectrpc.com/docs/protocol.
 */
#ifndef GATEWAY_LOOK_QUERIER_H
#define GATEWAY_LOOK_QUERIER_H

#include "gateway/look/answer.h"
#include "gateway/look/methods.h"
#include "proto/grpc/code.h"

/* Answers; whatever is wrong is an answer, too. `body` is a message, or JSON, and so is the answer. As
 * look_answer. */
int look_query(struct look_store *s, enum look_method method, bool is_json, struct bytes body,
               uint64_t now_ns, uint64_t deadline_ns, struct look_answer *ret);

/* A refusal, as Connect has it: JSON always, and the code's status. 0 or -ENOMEM. */
int look_query_error(struct look_answer *ret, enum grpc_code code, const char *words);

#endif
