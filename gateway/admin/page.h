/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A page of the admin server: a row that its owner registers. The server finds it by its path, refuses other
 * methods, refuses browsers what changes something, lists it at /, and sends what the owner answers.
 */
#ifndef GATEWAY_ADMIN_PAGE_H
#define GATEWAY_ADMIN_PAGE_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/buffer.h"
#include "proto/http/exchange.h"

#define ADMIN_TYPE_TEXT "text/plain; charset=utf-8"
#define ADMIN_TYPE_JSON "application/json"
#define ADMIN_TYPE_MAX  128u

/* What a page says. At first: 200, text/plain, and what is appended to `text`. */
struct admin_answer {
    uint32_t status;
    const char *type;
    struct buffer *text; /* empty at first; the server's, kept from answer to answer */
    const char *words;   /* instead of `text`: static; NULL: none */
};

struct admin_page {
    const char *method; /* "GET", which is HEAD, too; or "POST": not for browsers */
    const char *path;   /* "/": instead of the list, for browsers */
    const char *doc;    /* for the list at /, a line or more, without the last newline; NULL: not in it */
    /* Answers at the head of a request; bodies are of no interest. Control loop. */
    void (*handle)(void *context, const struct http_exchange *x, struct admin_answer *a);
    void *context;
    bool is_open; /* shown also to who does not say who he is; then its status is all that he learns */
    /* Instead of handle, for who answers later or in pieces: replies, or gives the exchange to a handler of
     * its own (http_exchange.handler). Of a POST it does the latter, and that replies no sooner than on_end.
     */
    void (*take)(void *context, struct http_exchange *x);
};

/* The answer is these words, static, for a person. Needs no memory. */
void admin_say(struct admin_answer *a, uint32_t status, const char *words);

/* The answer is the JSON document in a->text, written with the result r: below 0 it is 500. */
void admin_say_json(struct admin_answer *a, int r);

#endif
