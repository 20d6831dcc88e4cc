/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The conversion service: POST /v1/convert answers with the same profiles in another format, and nothing is
 * counted.
 *
 * In: pprof (gzip or plain), OTLP protobuf of any wire layout, OTLP/JSON (application/json, or what begins
 * with '{'), folded stacks, what `perf script` prints; else the bytes say which. Out: what the parameter `to`
 * says (pprof, pprof-exact, otlp, json, folded, speedscope, as `profgate convert --to`), else what Accept
 * gives the most weight (application/json, application/x-protobuf, text/plain for folded stacks,
 * application/octet-stream and application/vnd.google.protobuf for pprof), else OTLP protobuf of pprof and
 * texts, and pprof, which is gzip, of OTLP. Other parameters are attributes of the resource of a pprof or a
 * text.
 */
#ifndef GATEWAY_SERVE_CONVERT_CONVERT_H
#define GATEWAY_SERVE_CONVERT_CONVERT_H

#include "gateway/serve/intake.h"

extern const struct intake convert_http;

#endif
