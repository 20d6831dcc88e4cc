/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JSON written into a buffer (RFC 8259), one token after the other:
 *
 *     struct json j = JSON_INIT(&out);
 *     json_open(&j, '{');
 *     json_key(&j, "name"), json_string(&j, name);
 *     json_key(&j, "value"), json_u64(&j, value);
 *     json_close(&j, '}');
 *     return j.r;
 *
 * Commas come by themselves. Who writes keeps the order of tokens; that of failures is kept here: after the
 * first nothing is written, and what was written until then remains. For a FILE, write the buffer to it.
 *
 * Not for a document that is put together out of order: that is what json-c is for.
 */
#ifndef PROTO_BASE_JSON_H
#define PROTO_BASE_JSON_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"

struct json {
    struct buffer *out;
    size_t from; /* where the document begins */
    bool spaced; /* for people and terminals: a blank behind commas and colons, \n and \t by these names; DEL,
                    U+0080 to U+009F and U+FFFD as escapes */
    int r;       /* 0, or what buffer_add gave first */
};

/* A document at the end of what is in the buffer. */
#define JSON_INIT(out_)                  \
    {                                    \
        .out = (out_), .from = (out_)->n \
    }

void json_open(struct json *j, char bracket); /* { or [ */
void json_close(struct json *j, char bracket);

/* Of a member; text that needs no escape. */
void json_key(struct json *j, const char *name);

/* Any bytes: quotes, backslashes and control characters are escaped, and each byte that is no part of UTF-8
 * is U+FFFD. json_string_key: as the key of a member. */
void json_string(struct json *j, struct bytes text);
void json_string_key(struct json *j, struct bytes text);

void json_bool(struct json *j, bool v);
void json_null(struct json *j);

/* All digits. The quoted ones are how protobuf's JSON mapping writes 64-bit numbers, which a reader in
 * JavaScript would round. */
void json_u64(struct json *j, uint64_t v);
void json_i64(struct json *j, int64_t v);
void json_quoted_u64(struct json *j, uint64_t v);
void json_quoted_i64(struct json *j, int64_t v);

/* The shortest decimal that reads back to the same double; what is none in JSON as protobuf's mapping says:
 * "NaN", "Infinity", "-Infinity". */
void json_double(struct json *j, double v);

/* A value that is JSON already. */
void json_raw(struct json *j, struct bytes value);

/* The shortest decimal of a finite double, with a NUL; its length. */
#define JSON_DOUBLE_MAX 32u
size_t json_double_text(char ret[JSON_DOUBLE_MAX], double v);

#endif
