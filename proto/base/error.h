/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What went wrong, in words for a person.
 *
 * The law of the tree: a function that can fail returns int. 0 is done; a negative value is -errno, fatal for
 * what was being done, and only travels upwards; a positive value is a condition named in the header, which
 * the caller must handle and may not pass on. Libraries (proto/, rules/) never log: they fill a `struct
 * error` where a person should read why, and the stage that gives up logs it once.
 */
#ifndef PROTO_BASE_ERROR_H
#define PROTO_BASE_ERROR_H

#define ERROR_TEXT_MAX 512

struct error {
    char text[ERROR_TEXT_MAX]; /* always NUL-terminated; "" when nothing went wrong */
};

/* Sets the text (cut to fit) and returns r, so that a failure is one line: return error_set(e, -EINVAL, "…",
 * …). e may be NULL. */
int error_set(struct error *e, int r, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* For functions in which only a lack of memory fails without words: error_clear before, and this with the
 * result r behind says "out of memory" where r is less than 0 and nothing was said. Returns r. */
void error_clear(struct error *e);
int error_memory(struct error *e, int r);

/* Puts words before what is there already: "reading rules.yaml: " + text. Returns r. */
int error_prefix(struct error *e, int r, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
