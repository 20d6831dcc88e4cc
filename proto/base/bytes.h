/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A slice: some bytes that somebody else owns.
 */
#ifndef PROTO_BASE_BYTES_H
#define PROTO_BASE_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <strings.h>

struct bytes {
    const uint8_t *p;
    size_t n;
};

/* For printf: printf("%.*s", BYTES_FMT(b)). */
#define BYTES_FMT(b) (int)(b).n, (b).p ? (const char *)(b).p : ""

/* A string literal as a slice, without its NUL. */
#define BYTES_LIT(s) ((struct bytes){(const uint8_t *)(s), sizeof(s) - 1})

static inline struct bytes bytes_of(const void *p, size_t n)
{
    return (struct bytes){p, n};
}

static inline struct bytes bytes_str(const char *s)
{
    return (struct bytes){(const uint8_t *)s, s ? strlen(s) : 0};
}

static inline bool bytes_eq(struct bytes a, struct bytes b)
{
    return a.n == b.n && (a.n == 0 || memcmp(a.p, b.p, a.n) == 0);
}

static inline bool bytes_is(struct bytes a, const char *s)
{
    return bytes_eq(a, bytes_str(s));
}

static inline bool bytes_starts(struct bytes a, const char *prefix)
{
    size_t n = strlen(prefix);
    return a.n >= n && memcmp(a.p, prefix, n) == 0;
}

static inline bool bytes_ends(struct bytes a, const char *suffix)
{
    size_t n = strlen(suffix);
    return a.n >= n && memcmp(a.p + a.n - n, suffix, n) == 0;
}

/* ASCII case is ignored: HTTP field names and schemes. */
static inline bool bytes_is_nocase(struct bytes a, const char *s)
{
    return a.n == strlen(s) && (a.n == 0 || strncasecmp((const char *)a.p, s, a.n) == 0);
}

/* The part from byte `at` on, which is at most a.n. */
static inline struct bytes bytes_from(struct bytes a, size_t at)
{
    return at == 0 ? a : bytes_of(a.p + at, a.n - at);
}

/* The part after the last `sep`, or all of it. */
struct bytes bytes_after_last(struct bytes a, char sep);

/* Without leading and trailing blanks and tabs. */
struct bytes bytes_trim(struct bytes a);

/* -1, 0, 1 by unsigned bytes, a prefix first. */
int bytes_compare(struct bytes a, struct bytes b);

/* A NUL-terminated heap copy, or NULL when memory is out. */
char *bytes_dup(struct bytes a);

/* What a hexadecimal digit of either case is worth; -1: it is none. */
int bytes_hex_value(uint8_t digit);

/* Writes each byte as two lower-case hexadecimal digits: 2 · b.n characters. */
void bytes_to_hex(struct bytes b, void *to);

/* The number that 1 to 16 hexadecimal digits are, and nothing else. */
bool bytes_hex(struct bytes digits, uint64_t *ret);

/* Takes the next word of a line, which ends at a blank or a tab; empty behind the last. */
struct bytes bytes_word(struct bytes *rest);

/* Whether the bytes are well-formed UTF-8 (RFC 3629: no surrogates, nothing above U+10FFFF, no overlong
 * form). */
bool bytes_is_utf8(struct bytes a);

/* At most that many bytes of the front, and no part of a character there, where the text is UTF-8. */
struct bytes bytes_cut(struct bytes text, size_t max);

#define BYTES_REPLACEMENT "\xef\xbf\xbd" /* U+FFFD, which stands for what is no character */

/* Writes a character as UTF-8, U+FFFD for what is none (surrogates, above U+10FFFF): 1 to 4 bytes, how many.
 */
size_t bytes_put_utf8(uint8_t *to, uint32_t c);

/* How many bytes the well-formed character at the front has (RFC 3629 section 4), 0 if there is none. */
size_t bytes_utf8_length(struct bytes a);

/* The same of a character that a terminal may be sent by somebody else, and its code point: of control
 * characters (C0, DEL, C1) 0, and of what turns the direction of a line around or breaks it (UAX #9). */
size_t bytes_shown(struct bytes a, uint32_t *ret);

/* Puts a question mark in the place of each character that is not shown, and of each byte that is none. */
void bytes_make_plain(char *text);

#endif
