/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inside of go_regex.h: characters, and sets of them.
 */
#ifndef GATEWAY_CONNECTOR_GO_REGEX_CLASS_H
#define GATEWAY_CONNECTOR_GO_REGEX_CLASS_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/base/bytes.h"

#define GO_CLASS_CHARACTERS 32u /* beyond ASCII, named one by one */

/* A set of characters. */
struct go_class {
    uint64_t ascii[2];
    bool rest;                                  /* everything beyond ASCII */
    uint32_t n, character[GO_CLASS_CHARACTERS]; /* of it, where `rest` is not set */
};

bool go_class_is_alnum(uint8_t c);

/* The UTF-8 character at *at, which moves on. 0, or -EILSEQ. */
int go_class_character(struct bytes s, size_t *at, uint32_t *ret);

/* Its bytes; returns how many. */
uint32_t go_class_utf8(uint32_t c, uint8_t out[4]);

/* An escape that stands for one character, at *at, which moves on. NULL, or what is wrong. */
const char *go_class_escape(struct bytes s, size_t *at, uint32_t *ret);

/* Adds \d \D \s \S \w \W, by the letter. */
void go_class_perl(struct go_class *c, char letter);

/* Adds what `.` stands for; `newline`: (?s). */
void go_class_any(struct go_class *c, bool newline);

/* A class in brackets, at *at, which moves on; `folds`: (?i). NULL, or what is wrong. */
const char *go_class_read(struct bytes s, size_t *at, bool folds, struct go_class *c);

/* Writes it over bytes. `any_number`: any number of them may stand there, so that a character is as good as
 * its bytes. 0 or -ENOMEM. */
int go_class_write(const struct go_class *c, bool any_number, struct buffer *out);

#endif
