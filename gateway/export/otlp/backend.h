/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Requests of raw profiles as a backend wants them: `backend: parca | pyroscope | collector`. Each row of the
 * presets is something that the real one was seen to refuse, misread or drop (README.md). Private to this
 * folder.
 */
#ifndef GATEWAY_EXPORT_OTLP_BACKEND_H
#define GATEWAY_EXPORT_OTLP_BACKEND_H

#include "gateway/export/otlp/settings.h"
#include "gateway/export/shared/pieces.h"

/* What a preset rules out: 0, or -EINVAL with *e. */
int backend_check(const struct otlp_settings *settings, struct error *e);

/* Bytes that a request to it may have at most, and one of its profiles. */
size_t backend_request_max(const struct otlp_settings *settings);

/* Whether requests are written anew for these settings; else there are no pieces. */
bool backend_rewrites(const struct otlp_settings *settings);

/* Pieces of them, in that form; *ret_texts is the form's, for free(3) after pieces_free. They refer to the
 * settings. NULL: memory is out. */
struct pieces *backend_pieces(const struct otlp_settings *settings, struct budget *budget,
                              const char ***ret_texts);

#endif
