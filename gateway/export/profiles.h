/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the export stage for raw profiles: a request to every exporter of profiles, reserved in
 * all of them or in none.
 *
 * Requests are pushed from worker threads; the exporters run on the control loop.
 */
#ifndef GATEWAY_EXPORT_PROFILES_H
#define GATEWAY_EXPORT_PROFILES_H

#include "gateway/export/terms.h"
#include "proto/client/body.h"

struct export_profiles;
struct exporter;

/* To n >= 1 exporters, which outlive it and are drained by their owner. NULL: memory is out. */
struct export_profiles *export_profiles_new(struct exporter *const *to, uint32_t n);
struct export_profiles *export_profiles_free(struct export_profiles *x);

/* What a request must be for every exporter to take it: the smallest sizes of all, and no references if one
 * wants none. */
struct export_terms export_profiles_terms(const struct export_profiles *x);

/* One ExportProfilesServiceRequest in the forms in which it leaves: each a reference, or NULL. */
struct export_forms {
    struct client_body *plain; /* for exporters that write it down or encode it themselves */
    struct client_body *coded; /* for those that send it in the coding that it is in */
};

/* The forms that exporters want of a request that came in a coding; a set of these. Any thread. */
enum { EXPORT_PLAIN = 1, EXPORT_CODED = 2 };
unsigned export_profiles_forms(const struct export_profiles *x, enum coding received);

/* Reserves n bytes (and one request) with each exporter, or nothing and false. Any thread. */
bool export_profiles_reserve(struct export_profiles *x, size_t n);

/* Gives a reservation of n bytes back. Reservations are sums (proto/client/client.h). Any thread. */
void export_profiles_cancel(struct export_profiles *x, size_t n);

/* Hands one request (protobuf of 1.10 that meets the terms) to every exporter, under a reservation made
 * before of `reserved` bytes, at least what each form has. Takes the references over; the exporters share the
 * bodies. A form that is missing although an exporter wants it had no memory: to that one the samples are
 * lost. Any thread. */
void export_profiles_push(struct export_profiles *x, struct export_forms forms, size_t reserved,
                          uint64_t n_samples);

#endif
