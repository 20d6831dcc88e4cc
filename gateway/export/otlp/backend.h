/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of raw profiles as a backend wants them: `backend: parca | pyroscope | collector`. Each row of the
 * presets is something that the real one was seen to refuse, misread or drop (README.md). Private to this
 * folder.
 */
#ifndef GATEWAY_EXPORT_OTLP_BACKEND_H
#define GATEWAY_EXPORT_OTLP_BACKEND_H

#include "gateway/export/otlp/settings.h"

/* What a preset rules out: 0, or -EINVAL with *e. */
int backend_check(const struct otlp_settings *settings, struct error *e);

/* Bytes that a request to it may have at most, and one of its profiles. */
size_t backend_request_max(const struct otlp_settings *settings);

/* Whether requests are written anew for these settings; else backend_new is not needed. */
bool backend_rewrites(const struct otlp_settings *settings);

/* Refers to the settings. NULL: memory is out. */
struct backend;
struct backend *backend_new(const struct otlp_settings *settings, struct budget *budget);
struct backend *backend_free(struct backend *b); /* NULL is fine; returns NULL */

/* Writes a plain body anew, in pieces below the limit, each with `samples` of it, malloc'd and the callee's.
 * What cannot be written for lack of memory, or does not fit alone, is missing from their sum. Any thread. */
void backend_write(struct backend *b, const struct client_body *body,
                   void (*piece)(void *user, uint8_t *p, size_t n, uint64_t samples), void *user);

#endif
