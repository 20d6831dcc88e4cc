/* SPDX-License-Identifier: Apache-2.0 */
/*
 * By what name OTLP's profiles are sent for (opentelemetry-proto,
 * collector/profiles/v1development/profiles_service.proto and profiles_service_http.yaml).
 */
#ifndef GATEWAY_SERVE_PATHS_H
#define GATEWAY_SERVE_PATHS_H

#define ROUTE_HTTP_PATH    "/v1development/profiles"
#define ROUTE_GRPC_SERVICE "/opentelemetry.proto.collector.profiles.v1development.ProfilesService/"
#define ROUTE_GRPC_METHOD  "Export"

/* opentelemetry-proto#857 "Profiles development version": request metadata that says which schema the body
 * has. */
#define ROUTE_VERSION_HEADER "otlp-profiles-development-version"

#endif
