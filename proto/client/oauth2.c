/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/oauth2.h"

#include <errno.h>
#include <json-c/json.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"
#include "proto/client/basic.h"
#include "proto/client/endpoint.h"
#include "proto/client/inquiry.h"
#include "proto/io/loop.h"
#include "proto/io/timer.h"
#include "proto/io/tls.h"

/* An answer has a token of some KiB. */
#define ANSWER_MAX (64u << 10)

/* From one failed attempt to the next. */
#define PAUSE_NS ((uint64_t)NSEC_PER_SEC)

struct oauth2 {
    struct io_loop *loop;
    struct endpoint endpoint;
    struct tls_context *tls;
    struct inquiry *inquiry;   /* NULL: nothing is asked */
    struct io_timer *timer;    /* for the end of a pause */
    struct buffer body, basic; /* what is asked, and who asks: texts */
    char *token;               /* "Bearer …" */
    struct http_header headers[3];
    uint64_t expires_ns, expiry_buffer_ns, timeout_ns;
    uint64_t not_before_ns; /* no attempt sooner: the last one failed */
    struct error failure;   /* of the last attempt */
    void (*on_change)(void *user);
    void *user;
};

/* ---- asking ---- */

static void fail(struct oauth2 *o, const char *why)
{
    error_set(&o->failure, 0, "no token of %s: %s", o->endpoint.authority, why);
    o->not_before_ns = io_loop_now(o->loop) + PAUSE_NS;
    io_timer_set(o->timer, o->not_before_ns);
}

/* RFC 6749 §5.1. A token that is no header's value is none. NULL: there is none in it. */
static char *read_token(struct bytes answer, uint64_t *ret_seconds)
{
    char *token = NULL;
    json_tokener *tokener = json_tokener_new();
    json_object *root =
        tokener ? json_tokener_parse_ex(tokener, (const char *)answer.p, (int)answer.n) : NULL;
    json_object *value, *seconds;
    *ret_seconds = 0;
    if (root && json_object_is_type(root, json_type_object) &&
        json_object_object_get_ex(root, "access_token", &value) &&
        json_object_is_type(value, json_type_string)) {
        const char *text = json_object_get_string(value);
        size_t n = strlen(text), good = 0;
        while (good < n && text[good] > ' ' && text[good] < 0x7f)
            good++;
        if (n > 0 && good == n && asprintf(&token, "Bearer %s", text) < 0)
            token = NULL;
        if (json_object_object_get_ex(root, "expires_in", &seconds))
            *ret_seconds = (uint64_t)max_of(json_object_get_int64(seconds), (int64_t)0);
    }
    json_object_put(root);
    if (tokener)
        json_tokener_free(tokener);
    return token;
}

static void on_answer(void *user, const struct http_response *response)
{
    struct oauth2 *o = user;
    uint64_t seconds = 0;
    char why[64];
    char *token = response->status == 200 ? read_token(response->body, &seconds) : NULL;
    if (!token) {
        snprintf(why, sizeof why, response->status == 200 ? "HTTP %u without one" : "HTTP %u",
                 response->status);
        fail(o, why);
        return;
    }
    free(o->token);
    o->token = token;
    const uint64_t lasts = min_of(seconds, (uint64_t)366 * 86400) * NSEC_PER_SEC;
    o->expires_ns =
        lasts > 0 ? io_loop_now(o->loop) + lasts - min_of(o->expiry_buffer_ns, lasts / 2) : UINT64_MAX;
    error_clear(&o->failure);
}

static void on_end(void *user, enum inquiry_end end, const char *why)
{
    struct oauth2 *o = user;
    o->inquiry = NULL;
    if (end != INQUIRY_ANSWERED)
        fail(o, why);
    o->on_change(o->user);
}

static void ask(struct oauth2 *o)
{
    if (o->inquiry)
        return;
    if (io_loop_now(o->loop) < o->not_before_ns) {
        io_timer_set(o->timer, o->not_before_ns);
        return;
    }
    const struct inquiry_options options = {
        .connection = {.loop = o->loop, .endpoint = &o->endpoint, .tls = o->tls, .response_max = ANSWER_MAX},
        .request = {.method = "POST",
                    .path = o->endpoint.path[0] ? o->endpoint.path : "/",
                    .headers = o->headers,
                    .n_headers = ARRAY_LEN(o->headers),
                    .body = buffer_bytes(&o->body)},
        .timeout_ns = o->timeout_ns,
        .on_answer = on_answer,
        .on_end = on_end,
        .user = o,
    };
    o->inquiry = inquiry_new(&options);
    if (!o->inquiry)
        fail(o, "out of memory");
}

/* A pause is over: who still wants one asks again. */
static void on_time(void *user)
{
    struct oauth2 *o = user;
    o->on_change(o->user);
}

const char *oauth2_authorization(struct oauth2 *o)
{
    if (o->token && io_loop_now(o->loop) < o->expires_ns)
        return o->token;
    ask(o);
    return NULL;
}

void oauth2_forget(struct oauth2 *o)
{
    o->expires_ns = 0;
}

const char *oauth2_failure(const struct oauth2 *o)
{
    return o->failure.text;
}

/* ---- life ---- */

/* application/x-www-form-urlencoded. */
static int put_field(struct buffer *out, const char *name, const char *value)
{
    int r = out->n > 0 ? buffer_add_str(out, "&") : 0;
    if (r == 0)
        r = buffer_add_percent(out, name, "");
    if (r == 0)
        r = buffer_add_str(out, "=");
    return r < 0 ? r : buffer_add_percent(out, value, "");
}

static int make_body(struct oauth2 *o, const struct client_oauth2 *options)
{
    int r = put_field(&o->body, "grant_type", "client_credentials");
    if (r == 0 && options->scope)
        r = put_field(&o->body, "scope", options->scope);
    for (uint32_t i = 0; r == 0 && i < options->n_params; i++)
        r = put_field(&o->body, options->params[i].name, options->params[i].value);
    return r;
}

/* RFC 6749 §2.3.1: both parts encoded as in a form, then as RFC 7617 has it. */
static int make_basic(struct oauth2 *o, const struct client_oauth2 *options)
{
    cleanup(buffer_release) struct buffer both = BUFFER_INIT(0);
    int r = buffer_add_percent(&both, options->client_id, "");
    if (r == 0)
        r = buffer_add_str(&both, ":");
    if (r == 0)
        r = buffer_add_percent(&both, options->client_secret, "");
    if (r == 0)
        r = basic_append(buffer_bytes(&both), &o->basic);
    return r;
}

static int make(struct oauth2 *o, const struct client_oauth2 *options, struct error *e)
{
    static const char *const alpn[] = {"http/1.1", NULL};
    int r = endpoint_parse(&o->endpoint, options->token_url, 0, e);
    const struct tls_options tls = {.ca_file = options->ca_file, .alpn = alpn};
    if (r == 0 && o->endpoint.tls)
        r = tls_context_new(&o->tls, &tls, e);
    if (r == 0)
        r = make_body(o, options);
    if (r == 0)
        r = make_basic(o, options);
    if (r == 0 && !(o->timer = io_timer_new(o->loop, on_time, o)))
        r = -ENOMEM;
    const struct http_header headers[] = {
        {BYTES_LIT("content-type"), BYTES_LIT("application/x-www-form-urlencoded")},
        {BYTES_LIT("accept"), BYTES_LIT("application/json")},
        {BYTES_LIT("authorization"), buffer_bytes(&o->basic)},
    };
    memcpy(o->headers, headers, sizeof headers);
    return r;
}

int oauth2_new(struct oauth2 **ret, struct io_loop *loop, const struct client_oauth2 *options,
               uint64_t timeout_ns, void (*on_change)(void *user), void *user, struct error *e)
{
    struct oauth2 *o = calloc(1, sizeof *o);
    if (!o)
        return -ENOMEM;
    o->loop = loop;
    o->body = o->basic = (struct buffer)BUFFER_INIT(0);
    o->timeout_ns = timeout_ns;
    o->expiry_buffer_ns = options->expiry_buffer_ns;
    o->on_change = on_change;
    o->user = user;
    int r = make(o, options, e);
    if (r < 0)
        oauth2_free(o);
    else
        *ret = o;
    return r;
}

struct oauth2 *oauth2_free(struct oauth2 *o)
{
    if (!o)
        return NULL;
    inquiry_free(o->inquiry);
    io_timer_free(o->timer);
    tls_context_free(o->tls);
    endpoint_release(&o->endpoint);
    buffer_release(&o->body);
    buffer_release(&o->basic);
    free(o->token);
    free(o);
    return NULL;
}
