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

/* Reserves n bytes (and one request) in each destination's queue, or nothing and false. Any thread. */
bool export_profiles_reserve(struct export_profiles *x, size_t n);

/* Gives a reservation of n bytes back. Any thread. */
void export_profiles_cancel(struct export_profiles *x, size_t n);

/* Queues one ExportProfilesServiceRequest (protobuf, uncompressed) to every destination, under a reservation
 * of `reserved` >= n bytes made before. Takes the malloc'd body over; it is shared by the destinations. Any
 * thread. */
void export_profiles_push(struct export_profiles *x, uint8_t *body, size_t n, size_t reserved,
                          uint64_t n_samples);

#endif
