/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The push header of the export stage for raw profiles: a request to every exporter of profiles, reserved in
 * those of them that have room.
 *
 * Requests are pushed from worker threads; the exporters run on the control loop.
 */
#ifndef GATEWAY_EXPORT_PROFILES_H
#define GATEWAY_EXPORT_PROFILES_H

#include "gateway/export/terms.h"
#include "proto/client/body.h"

struct export_profiles;
struct exporter;
struct promise;

#define EXPORT_PROFILES_MAX 64u

/* Some of the exporters: a bit each, in their order. */
typedef uint64_t export_set;

/* To 1 … EXPORT_PROFILES_MAX exporters, which outlive it and are drained by their owner. NULL: memory is out.
 */
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

/* All of them; and whether one of them keeps requests on disk, so that there is something to wait for. */
export_set export_profiles_all(const struct export_profiles *x);
bool export_profiles_is_durable(const struct export_profiles *x);

/* Reserves so many requests, of n bytes together, with each of these; says who had room. Nothing is reserved
 * with the others. Any thread. */
export_set export_profiles_reserve(struct export_profiles *x, size_t n, uint32_t requests, export_set of);

/* Gives so many requests, of n bytes together, back. Reservations are sums (proto/client/client.h). Any
 * thread. */
void export_profiles_cancel(struct export_profiles *x, size_t n, uint32_t requests, export_set of);

/* Hands one request (protobuf of 1.10 that meets the terms) to these exporters, under a reservation made
 * before of `reserved` bytes, at least what each form has. Takes the references over; the exporters share the
 * bodies. A form that is missing although an exporter wants it had no memory: to that one the samples are
 * lost. Those that keep requests on disk owe `safe` (NULL: nobody waits). Any thread. */
void export_profiles_push(struct export_profiles *x, struct export_forms forms, size_t reserved,
                          uint64_t n_samples, export_set to, struct promise *safe);

#endif
