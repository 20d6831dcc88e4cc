/* SPDX-License-Identifier: Apache-2.0 */
/* Which wire layout a request has: its own header (opentelemetry-proto#857), its listener, or recognising. */
#include <stdio.h>

#include "tests/unit/gateway/serve/fake.h"

static enum profiles_layout layout_of(struct serve *s, const char *value, enum profiles_layout configured)
{
    const struct serve_listener listener = {.layout = configured};
    const struct http_peer peer = {.address = "x", .listener = (void *)&listener};
    struct call call = {.path = GRPC_PATH, .headers = {GRPC_TYPE}, .body = BYTES_LIT("\0\0\0\0\1x")};
    if (value)
        call.headers[1] =
            (struct http_header){BYTES_LIT("otlp-profiles-development-version"), bytes_str(value)};
    struct http_exchange x;
    said.n = 0;
    n_replies = n_pushes = 0;
    exchange_begin(&call, &x);
    x.peer = &peer;
    serve_handler()->on_head(s, &x);
    serve_handler()->on_body(s, &x, call.body);
    serve_handler()->on_end(s, &x);
    serve_handler()->on_close(s, &x);
    ck_assert_uint_eq(n_replies, 1);
    ck_assert_int_eq(buffer_add(&said, "", 1), 0);
    if (n_pushes > 0)
        return pushed_layout;
    ck_assert_msg(strstr((const char *)said.p, "grpc-status: 3\n") != NULL, "%s", (const char *)said.p);
    return (enum profiles_layout) - 1;
}

UNIT(a_version_or_a_release_in_the_header_says_the_layout)
{
    static const struct {
        const char *value;
        enum profiles_layout layout;
    } cases[] = {
        {"1", PROFILES_LAYOUT_1_10},      {"1.10", PROFILES_LAYOUT_1_10}, {"v1.10.0", PROFILES_LAYOUT_1_10},
        {"1.11.0", PROFILES_LAYOUT_1_10}, {"1.9.0", PROFILES_LAYOUT_1_9}, {"1.8", PROFILES_LAYOUT_1_8},
        {"1.7.0", PROFILES_LAYOUT_1_7},   {"v1.5", PROFILES_LAYOUT_1_5},  {"1.4.0", PROFILES_LAYOUT_1_5},
    };
    struct serve *s = serve_with(1000, NULL);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        ck_assert_msg(layout_of(s, cases[i].value, PROFILES_LAYOUT_UNKNOWN) == cases[i].layout, "%s",
                      cases[i].value);
    fake_release(s);
}

UNIT(malformed_and_unknown_versions_are_refused_before_decoding)
{
    const char *bad[] = {"",      "0",         "01",     "2",     "-1",    "+1",     "1.0", "1.3",
                         "1.6.0", "1.12",      "1.100",  "1.1",   "1.10.", "1.10.x", "v1",  "1, 1",
                         "one",   "1.10.1234", "1.7.0-", "vv1.7", "1 10",  "1.9.0.0"};
    struct serve *s = serve_with(1000, NULL);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(layout_of(s, bad[i], PROFILES_LAYOUT_1_9) == (enum profiles_layout) - 1, "%s", bad[i]);
    ck_assert_ptr_nonnull(strstr((const char *)said.p, "otlp-profiles-development-version"));
    fake_release(s);
}

UNIT(the_header_wins_over_the_listener_and_the_listener_over_recognising)
{
    struct serve *s = serve_with(1000, NULL);
    ck_assert_int_eq(layout_of(s, NULL, PROFILES_LAYOUT_UNKNOWN), PROFILES_LAYOUT_UNKNOWN);
    ck_assert_int_eq(layout_of(s, NULL, PROFILES_LAYOUT_1_7), PROFILES_LAYOUT_1_7);
    ck_assert_int_eq(layout_of(s, "1.9", PROFILES_LAYOUT_1_7), PROFILES_LAYOUT_1_9);
    fake_release(s);
}

UNIT(over_http_a_bad_version_is_400_with_the_header_s_name)
{
    struct serve *s = serve_with(1000, NULL);
    struct call call = {.path = HTTP_PATH,
                        .headers = {JSON_TYPE, H("otlp-profiles-development-version", "9")},
                        .body = BYTES_LIT("{}")};
    ck_assert_int_eq(strncmp(ask(s, &call), "400\n", 4), 0);
    ck_assert_ptr_nonnull(strstr((const char *)said.p, "\"field\":\"otlp-profiles-development-version\""));
    call.headers[1].value = BYTES_LIT("1.7"); /* JSON has names, and only those of today are known */
    ck_assert_int_eq(strncmp(ask(s, &call), "400\n", 4), 0);
    call.headers[1].value = BYTES_LIT("1");
    ck_assert_int_eq(strncmp(ask(s, &call), "200\n", 4), 0);
    call.headers[2] = call.headers[1]; /* repeated */
    ck_assert_int_eq(strncmp(ask(s, &call), "400\n", 4), 0);
    fake_release(s);
}
