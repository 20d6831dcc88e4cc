/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the export stage for raw profiles: a bounded queue per destination, retry by OTLP's
 * rules.
 *
 * Requests are pushed from worker threads; the destinations run on the control loop.
 */
#ifndef GATEWAY_EXPORT_PROFILES_H
#define GATEWAY_EXPORT_PROFILES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct export_profiles;

/* What a request must be for every destination to take it. */
struct export_profiles_terms {
    size_t request_max;  /* the smallest max_request_bytes: a larger one is lost there */
    uint32_t queue_size; /* the smallest: more reservations than that never fit */
    bool no_references;  /* some destination reads layout 1.9, which has no key_strindex and the like */
};
struct export_profiles_terms export_profiles_terms(const struct export_profiles *x);

/* Reserves n bytes (and one request) in each destination's queue, or nothing and false. Any thread. */
bool export_profiles_reserve(struct export_profiles *x, size_t n);

/* Gives a reservation of n bytes back. Reservations are sums (proto/client/exporter.h). Any thread. */
void export_profiles_cancel(struct export_profiles *x, size_t n);

/* Queues one ExportProfilesServiceRequest (protobuf of 1.10 that meets the terms, uncompressed) to every
 * destination, under a reservation of `reserved` >= n bytes made before. Takes the malloc'd body over; it is
 * shared by the destinations of its layout. Any thread. */
void export_profiles_push(struct export_profiles *x, uint8_t *body, size_t n, size_t reserved,
                          uint64_t n_samples);

#endif
