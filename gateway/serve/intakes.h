/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The list of intakes (intake.h).
 */
#ifndef GATEWAY_SERVE_INTAKES_H
#define GATEWAY_SERVE_INTAKES_H

#include "gateway/serve/intake.h"

/* In the order in which they are asked; NULL ends the list. */
extern const struct intake *const intakes[];

/* Whether a media type, without its parameters, is one of the row's (RFC 9110 §8.3.1: in any case). */
bool intake_has_media(const struct intake *intake, struct bytes type);

/* The media types that are taken where this row is, with `between` between them, into out; returns out. */
const char *intakes_media(const struct intake *intake, const char *between, char *out, size_t max);

/* The words of a refusal to somebody who speaks none of them: JSON, so that a person with curl can read it.
 */
const struct intake_words *intakes_default_words(void);

#endif
