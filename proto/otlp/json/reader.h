/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A bounded reader of one JSON text (RFC 8259): token after token over bytes somebody else owns. It holds no
 * memory and never recurses; strings and numbers are given as they are written and are well-formed.
 * For proto/otlp, and who reads a peer's JSON of another kind.
 */
#ifndef PROTO_OTLP_JSON_READER_H
#define PROTO_OTLP_JSON_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

/* Objects and lists inside one another. A profiles request needs 9, and 3 for every 2 messages that an
 * attribute value nests, of which WIRE_DEPTH_MAX (128) are allowed: 201. */
#define JSON_DEPTH_MAX 256u

enum json_kind {
    JSON_END, /* the text is complete */
    JSON_OBJECT,
    JSON_OBJECT_END,
    JSON_LIST,
    JSON_LIST_END,
    JSON_KEY, /* its value follows */
    JSON_STRING,
    JSON_NUMBER,
    JSON_TRUE,
    JSON_FALSE,
    JSON_NULL,
};

struct json_token {
    enum json_kind kind;
    bool escaped;      /* KEY, STRING: there are escapes in it (json_unescape) */
    struct bytes text; /* KEY, STRING: between the quotes, valid UTF-8; NUMBER */
    size_t at;         /* the byte where it begins */
};

enum json_expect { JSON_EXPECT_VALUE, JSON_EXPECT_FIRST, JSON_EXPECT_NEXT };

struct json_reader {
    const uint8_t *start, *p, *end;
    uint32_t depth;                        /* containers open now */
    enum json_expect expect;               /* a value; the first thing in a container; a comma or an end */
    uint64_t objects[JSON_DEPTH_MAX / 64]; /* which of them are objects */
    const char *wrong;                     /* after JSON_MALFORMED: what, at byte p - start */
};

/* Conditions of json_next and json_skip. */
enum {
    JSON_MALFORMED = 1, /* `wrong` says what; also containers beyond JSON_DEPTH_MAX */
};

struct json_reader json_reader(struct bytes text);

/* The next token. 0 or JSON_MALFORMED; after JSON_END it is JSON_END again. */
int json_next(struct json_reader *r, struct json_token *ret);

/* After the token of a value: passes over what it contains. 0 or JSON_MALFORMED. */
int json_skip(struct json_reader *r, enum json_kind value);

/* How long the first value of `texts` is, blanks before it included: to take a file of several texts apart.
 * 0 when that is no JSON or there is nothing but blanks. */
size_t json_text_length(struct bytes texts);

#endif
