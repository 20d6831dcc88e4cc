/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The gRPC services beside the one that takes profiles: health checking (grpc/grpc doc/health-checking.md),
 * for load balancers and Kubernetes' gRPC probe, and server reflection (grpc/grpc doc/server-reflection.md),
 * so that a client needs no .proto file. They share the addresses of OTLP/gRPC.
 *
 * An exchange given to services_take is answered here to its end (http_exchange.handler): the stage that gave
 * it away hears no more of it. One object per worker thread, used on that thread alone.
 */
#ifndef GATEWAY_SERVE_CALLS_SERVICES_H
#define GATEWAY_SERVE_CALLS_SERVICES_H

#include <stdbool.h>

#include "gateway/serve/calls/options.h"
#include "proto/base/bytes.h"
#include "proto/http/exchange.h"

struct services;

/* NULL when memory is out. */
struct services *services_new(const struct services_options *options);

/* After every session one of whose exchanges it took has been freed. */
struct services *services_free(struct services *s);

/* Whether the path is one of health checking, which is answered without credentials: a probe has none. */
bool services_is_public(struct bytes path);

/* To be asked in on_head. True: the call is for one of these services and is theirs from here, answered
 * already or later. False: it is not (another path, HTTP/1, no POST, no gRPC content-type), and nothing was
 * done. */
bool services_take(struct services *s, struct http_exchange *x);

/* What is_serving or is_stopping say has changed: those who watch are told. Not from inside a session's
 * call. */
void services_changed(struct services *s);

#endif
