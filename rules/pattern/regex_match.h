/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One regular expression of a rule file, compiled with PCRE2: the engine with the syntax people know, of
 * which the front end lets only the regular part through. Bytes, not characters; `\w \d \s \b` ASCII; `$`
 * only at the very end.
 *
 * Interpreted, not JIT: every distinct string meets a regex once, then its answer is remembered, and the
 * interpreter's match limit is a bound in steps that does not depend on the machine (pcre2api(3), "The match
 * context").
 */
#ifndef RULES_PATTERN_REGEX_MATCH_H
#define RULES_PATTERN_REGEX_MATCH_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"
#include "proto/base/error.h"

#define REGEX_STEPS_MAX 10000u /* per match: LANGUAGE §9; a match beyond them is "no match" and counted */
#define REGEX_TEXT_MAX  4096u  /* a regex sees this much of a string (§9) */

struct regex; /* immutable, shared by threads */

/* 0, -ENOMEM, or -EINVAL with *e set. */
int regex_new(struct regex **ret, struct bytes source, bool nocase, struct error *e);
struct regex *regex_free(struct regex *r);

/* What a thread needs to match. */
struct regex_scratch {
    void *data, *context; /* PCRE2's match data and match context */
    uint64_t gave_up;     /* matches abandoned at the step limit */
};

int regex_scratch_init(struct regex_scratch *s); /* 0 or -ENOMEM */
void regex_scratch_release(struct regex_scratch *s);

/* Whether it is found anywhere in the first REGEX_TEXT_MAX bytes of the text. */
bool regex_search(const struct regex *r, struct regex_scratch *s, struct bytes text);

/* The same; then *ret is group 1 of the leftmost match, or the whole match if there is no group. False, too,
 * when the group took no part in the match. */
bool regex_capture(const struct regex *r, struct regex_scratch *s, struct bytes text, struct bytes *ret);

/* Literals of which at least one occurs, but for ASCII case, in every text the regex matches: what makes it
 * cheap to say no. Where there is a choice, those whose `score` is least are taken (NULL: the longest); it is
 * asked of every literal that could be. Their bytes are written to `store`, which has room for source.n.
 * Returns how many, 0 when nothing of the kind can be said. */
#define REGEX_LITERAL_MIN  2u  /* shorter ones are everywhere and filter nothing */
#define REGEX_LITERALS_MAX 16u /* more alternatives, and the regex is always tried */
uint32_t regex_literals(struct bytes source, uint8_t *store, struct bytes ret[REGEX_LITERALS_MAX],
                        uint64_t (*score)(void *context, struct bytes literal), void *context);

#endif
