/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Health checking and the framing of calls, with http_reply and its pieces faked: they write down what was
 * said.
 */
#include <stdlib.h>

#include "gateway/serve/calls/services.h"
#include "tests/lib/unit.h"

#define HEALTH "/grpc.health.v1.Health/"
#define OK     "-- grpc-status=0 "

static struct buffer said;
static int write_result;

static void say(const char *what, struct bytes b)
{
    buffer_add_str(&said, what);
    for (size_t i = 0; i < b.n; i++)
        buffer_printf(&said, b.p[i] >= 0x20 && b.p[i] < 0x7f ? "%c" : "\\%x", b.p[i]);
}

static void say_fields(const struct http_header *h, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        say("", h[i].name);
        say("=", h[i].value);
        say(" ", bytes_of(NULL, 0));
    }
}

int http_reply(struct http_exchange *x, const struct http_reply *reply)
{
    ck_assert_uint_eq(reply->status, 200);
    ck_assert(bytes_is(reply->headers[0].value, "application/grpc"));
    say("whole ", reply->body);
    say(reply->body.n > 0 ? " -- " : "-- ", bytes_of(NULL, 0));
    say_fields(reply->trailers, reply->n_trailers);
    return 0;
}

int http_reply_begin(struct http_exchange *x, const struct http_reply *head)
{
    ck_assert_uint_eq(head->status, 200);
    say("begin ", bytes_of(NULL, 0));
    return 0;
}

int http_reply_write(struct http_exchange *x, struct bytes piece)
{
    say("piece ", piece);
    say(" ", bytes_of(NULL, 0));
    return write_result;
}

int http_reply_end(struct http_exchange *x, const struct http_header *trailers, uint32_t n)
{
    say("-- ", bytes_of(NULL, 0));
    say_fields(trailers, n);
    return 0;
}

/* What was said since the last time. */
static const char *heard(void)
{
    static char text[2000];
    ck_assert_uint_lt(said.n, sizeof text);
    memcpy(text, said.p ? said.p : (const uint8_t *)"", said.n);
    text[said.n] = 0;
    said.n = 0;
    return text;
}

struct state {
    bool serving, stopping;
};

static bool is_serving(void *context)
{
    return ((struct state *)context)->serving;
}

static bool is_stopping(void *context)
{
    return ((struct state *)context)->stopping;
}

static struct services *make(struct state *state)
{
    struct services_options o = {is_serving, is_stopping, state};
    struct services *s = unit_made(services_new(&o));
    return s;
}

static const struct http_header grpc_type = {BYTES_LIT("content-type"), BYTES_LIT("application/grpc")};

static struct http_exchange request(const char *path)
{
    return (struct http_exchange){.version = HTTP_VERSION_2,
                                  .method = BYTES_LIT("POST"),
                                  .path = bytes_str(path),
                                  .headers = &grpc_type,
                                  .n_headers = 1,
                                  .content_length = -1};
}

static void body(struct http_exchange *x, struct bytes b, size_t step)
{
    for (size_t at = 0; at < b.n; at += step)
        x->handler->on_body(x->context, x, bytes_of(b.p + at, step < b.n - at ? step : b.n - at));
}

static void begin(struct services *s, struct http_exchange *x, struct bytes message)
{
    uint8_t prefix[5] = {0, 0, 0, 0, (uint8_t)message.n};
    ck_assert(services_take(s, x));
    body(x, bytes_of(prefix, 5), 2);
    body(x, message, 7);
    x->handler->on_end(x->context, x);
}

static void end(struct http_exchange *x)
{
    x->handler->on_close(x->context, x);
}

/* What a unary call is answered with. */
static const char *ask(struct services *s, const char *path, struct bytes message)
{
    struct http_exchange x = request(path);
    begin(s, &x, message);
    end(&x);
    return heard();
}

UNIT(check_tells_the_state_of_what_is_known)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    ck_assert_str_eq(ask(s, HEALTH "Check", BYTES_LIT("")), "whole \\0\\0\\0\\0\\2\\8\\1 " OK);
    services_free(s);
}

UNIT(check_knows_the_service_of_profiles)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    static const char name[] = "opentelemetry.proto.collector.profiles.v1development.ProfilesService";
    uint8_t message[2 + sizeof name] = {0x0a, sizeof name - 1};
    memcpy(message + 2, name, sizeof name - 1);
    struct bytes m = bytes_of(message, sizeof name + 1);
    ck_assert_str_eq(ask(s, HEALTH "Check", m), "whole \\0\\0\\0\\0\\2\\8\\1 " OK);
    state.serving = false;
    ck_assert_str_eq(ask(s, HEALTH "Check", m), "whole \\0\\0\\0\\0\\2\\8\\2 " OK);
    state = (struct state){.serving = true, .stopping = true};
    ck_assert_str_eq(ask(s, HEALTH "Check", m), "whole \\0\\0\\0\\0\\2\\8\\2 " OK);
    m.n--; /* cut short */
    ck_assert_str_eq(ask(s, HEALTH "Check", m),
                     "whole -- grpc-status=3 grpc-message=malformed HealthCheckRequest ");
    services_free(s);
}

UNIT(check_of_the_unknown_is_not_found)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    ck_assert_str_eq(ask(s, HEALTH "Check", BYTES_LIT("\x0a\x03xyz")),
                     "whole -- grpc-status=5 grpc-message=unknown service ");
    services_free(s);
}

UNIT(list_has_every_service)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    const char *list = ask(s, HEALTH "List", BYTES_LIT(""));
    ck_assert_ptr_nonnull(strstr(list, "\\a\\6\\a\\0\\12\\2\\8\\1")); /* "" */
    ck_assert_ptr_nonnull(strstr(list, "v1development.ProfilesService\\12\\2\\8\\1 " OK));
    services_free(s);
}

UNIT(watch_tells_each_change_once_until_the_client_goes)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    struct http_exchange x = request(HEALTH "Watch"), other = request(HEALTH "Watch");
    begin(s, &x, BYTES_LIT(""));
    ck_assert_str_eq(heard(), "begin piece \\0\\0\\0\\0\\2\\8\\1 ");
    begin(s, &other, BYTES_LIT("\x0a\x01x"));
    ck_assert_str_eq(heard(), "begin piece \\0\\0\\0\\0\\2\\8\\3 "); /* SERVICE_UNKNOWN, and it stays open */
    services_changed(s);
    ck_assert_str_eq(heard(), "");
    state.serving = false;
    services_changed(s);
    ck_assert_str_eq(heard(), "piece \\0\\0\\0\\0\\2\\8\\2 ");
    end(&other);
    state.serving = true;
    services_changed(s);
    ck_assert_str_eq(heard(), "piece \\0\\0\\0\\0\\2\\8\\1 ");
    end(&x);
    state.serving = false;
    services_changed(s);
    ck_assert_str_eq(heard(), "");
    services_free(s);
}

UNIT(watch_ends_when_the_gateway_stops)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    struct http_exchange x = request(HEALTH "Watch"), late = request(HEALTH "Watch");
    begin(s, &x, BYTES_LIT(""));
    heard();
    state.stopping = true;
    services_changed(s);
    ck_assert_str_eq(heard(),
                     "piece \\0\\0\\0\\0\\2\\8\\2 -- grpc-status=14 grpc-message=the gateway is stopping ");
    services_changed(s);
    ck_assert_str_eq(heard(), "");
    begin(s, &late, BYTES_LIT(""));
    ck_assert_str_eq(
        heard(), "begin piece \\0\\0\\0\\0\\2\\8\\2 -- grpc-status=14 grpc-message=the gateway is stopping ");
    end(&late);
    end(&x);
    services_free(s);
}

UNIT(a_watcher_that_does_not_read_loses_its_call)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    struct http_exchange x = request(HEALTH "Watch");
    begin(s, &x, BYTES_LIT(""));
    heard();
    write_result = HTTP_REPLY_FULL;
    state.serving = false;
    services_changed(s);
    ck_assert_str_eq(heard(),
                     "piece \\0\\0\\0\\0\\2\\8\\2 -- grpc-status=8 grpc-message=the answers are not read ");
    state.serving = true;
    services_changed(s);
    ck_assert_str_eq(heard(), "");
    end(&x);
    services_free(s);
}

UNIT(watchers_are_bounded_and_leave_room_for_checks)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    static struct http_exchange x[65];
    for (int i = 0; i < 65; i++) {
        x[i] = request(HEALTH "Watch");
        heard();
        ck_assert(services_take(s, &x[i]));
    }
    ck_assert_str_eq(heard(), "whole -- grpc-status=8 grpc-message=too many of these calls are open ");
    end(&x[64]);
    ck_assert_str_eq(ask(s, HEALTH "Check", BYTES_LIT("")), "whole \\0\\0\\0\\0\\2\\8\\1 " OK);
    end(&x[0]);
    x[0] = request(HEALTH "Watch");
    begin(s, &x[0], BYTES_LIT(""));
    ck_assert_str_eq(heard(), "begin piece \\0\\0\\0\\0\\2\\8\\1 ");
    for (int i = 0; i < 64; i++)
        end(&x[i]);
    services_free(s);
}

UNIT(what_is_not_ours_is_left_alone)
{
    static const struct http_header json = {BYTES_LIT("content-type"), BYTES_LIT("application/grpc+json")};
    static const struct http_header web = {BYTES_LIT("content-type"), BYTES_LIT("application/grpc-web")};
    static const struct http_header proto = {BYTES_LIT("content-type"),
                                             BYTES_LIT("application/grpc+proto; charset=x")};
    struct state state = {.serving = true};
    struct services *s = make(&state);
    struct http_exchange x = request("/grpc.health.v2.Health/Check");
    ck_assert(!services_take(s, &x));
    x = request(HEALTH "Check");
    x.version = HTTP_VERSION_1;
    ck_assert(!services_take(s, &x));
    x = request(HEALTH "Check");
    x.method = BYTES_LIT("GET");
    ck_assert(!services_take(s, &x));
    x = request(HEALTH "Check");
    x.headers = &json;
    ck_assert(!services_take(s, &x));
    x.headers = &web;
    ck_assert(!services_take(s, &x));
    x.n_headers = 0;
    ck_assert(!services_take(s, &x));
    ck_assert_ptr_null(x.handler);
    x.n_headers = 1;
    x.headers = &proto;
    begin(s, &x, BYTES_LIT(""));
    end(&x);
    ck_assert_str_eq(heard(), "whole \\0\\0\\0\\0\\2\\8\\1 " OK);
    services_free(s);
}

UNIT(an_unknown_method_is_unimplemented)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    ck_assert_str_eq(ask(s, HEALTH "Chuck", BYTES_LIT("")),
                     "whole -- grpc-status=12 grpc-message=unknown method of this service ");
    services_free(s);
}

UNIT(only_health_is_public)
{
    ck_assert(services_is_public(BYTES_LIT(HEALTH "Check")));
    ck_assert(services_is_public(BYTES_LIT(HEALTH "Watch")));
    ck_assert(!services_is_public(BYTES_LIT("/grpc.health.v1.Healthy/Check")));
    ck_assert(!services_is_public(BYTES_LIT("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")));
    ck_assert(!services_is_public(BYTES_LIT("")));
}

UNIT(frames_that_are_none_are_refused)
{
    static const struct {
        struct bytes in;
        const char *want;
    } rows[] = {
        {BYTES_LIT("\2"), "whole -- grpc-status=13 grpc-message=malformed message prefix "},
        {BYTES_LIT("\1\0\0\0\1x"), "whole -- grpc-status=12 grpc-message="
                                   "messages of this service are not taken compressed "},
        {BYTES_LIT("\0\0\0\x10\1"), "whole -- grpc-status=8 grpc-message="
                                    "the message is larger than any request of this service "},
        {BYTES_LIT("\0\0\0\0\0\0"), "whole -- grpc-status=12 grpc-message="
                                    "more than one message in a unary call "},
        {BYTES_LIT("\0\0\0\0\3\x0a"), "whole -- grpc-status=13 grpc-message="
                                      "the call ended without a complete message "},
        {BYTES_LIT("\0\0"), "whole -- grpc-status=13 grpc-message="
                            "the call ended without a complete message "},
        {BYTES_LIT(""), "whole -- grpc-status=13 grpc-message=the call ended without a complete message "},
    };
    struct state state = {.serving = true};
    struct services *s = make(&state);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t step = 1; step < 9; step += 7) {
            struct http_exchange x = request(HEALTH "Check");
            ck_assert(services_take(s, &x));
            body(&x, rows[i].in, step);
            x.handler->on_end(x.context, &x);
            end(&x);
            ck_assert_str_eq(heard(), rows[i].want);
        }
    services_free(s);
}

UNIT(a_reflection_stream_answers_each_message_and_ends_with_it)
{
    struct state state = {.serving = true};
    struct services *s = make(&state);
    struct http_exchange x = request("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo");
    ck_assert(services_take(s, &x));
    body(&x, BYTES_LIT("\0\0\0\0\2\x22\0\0\0\0\0\2\x1a"), 3); /* one and a half */
    const char *one = heard();
    ck_assert_ptr_nonnull(strstr(one, "begin piece "));
    ck_assert_ptr_nonnull(strstr(one, "nothing of this name"));
    body(&x, BYTES_LIT("\0"), 1);
    const char *two = heard();
    ck_assert_ptr_nonnull(strstr(two, "piece "));
    ck_assert_ptr_nonnull(strstr(two, "no file of this name"));
    x.handler->on_end(x.context, &x);
    ck_assert_str_eq(heard(), OK);
    end(&x);
    services_free(s);
}

UNIT(a_reflection_stream_ends_with_what_is_no_request)
{
    static const struct {
        struct bytes in;
        const char *want;
    } rows[] = {
        {BYTES_LIT("\0\0\0\0\0"), "whole -- grpc-status=3 grpc-message=the request asks for nothing "},
        {BYTES_LIT("\0\0\0\0\1\x22"), "whole -- grpc-status=3 grpc-message="
                                      "malformed ServerReflectionRequest "},
        {BYTES_LIT("\0\0\0\0\3\x22\1\xff"), "whole -- grpc-status=3 grpc-message="
                                            "malformed ServerReflectionRequest "},
    };
    struct state state = {.serving = true};
    struct services *s = make(&state);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct http_exchange x = request("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo");
        ck_assert(services_take(s, &x));
        body(&x, rows[i].in, 100);
        ck_assert_str_eq(heard(), rows[i].want);
        x.handler->on_end(x.context, &x);
        end(&x);
        ck_assert_str_eq(heard(), "");
    }
    services_free(s);
}
