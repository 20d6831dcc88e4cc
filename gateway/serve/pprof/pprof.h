/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The intake of pprof: POST /v1/pprof with a profile as its profiler writes it, gzip or plain, also of an
 * older form (proto/pprof/legacy.h). As contrib's
 * pprof receiver (receiver/pprofreceiver of opentelemetry-collector-contrib, `server`) takes it, which looks
 * at no Content-Type; what is listed here is what clients of it say, and what curl says when nobody tells it.
 * The query string's parameters are the resource's attributes, ?service.name=checkout: contrib's has no way
 * to say whose a profile is.
 */
#ifndef GATEWAY_SERVE_PPROF_PPROF_H
#define GATEWAY_SERVE_PPROF_PPROF_H

#include "gateway/serve/intake.h"

extern const struct intake pprof_http;

#endif
