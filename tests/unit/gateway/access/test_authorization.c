/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/authorization.h"
#include "tests/lib/unit.h"

static struct authorization parsed;

static enum authorization_kind parse(const char *value)
{
    authorization_parse(bytes_str(value), &parsed);
    return parsed.kind;
}

UNIT(a_bearer_token_is_a_word_of_token_characters)
{
    ck_assert_int_eq(parse("Bearer abc.DEF-123_~+/=="), AUTHORIZATION_BEARER);
    ck_assert(bytes_is(parsed.token, "abc.DEF-123_~+/=="));
    ck_assert_int_eq(parse("bEaReR   x  "), AUTHORIZATION_BEARER); /* RFC 9110 §11.1: schemes have no case */
    ck_assert(bytes_is(parsed.token, "x"));
    const char *bad[] = {"Bearer",     "Bearer ",    "Bearer =",       "Bearer a=b",
                         "Bearer a b", "Bearer a,b", "Bearer \xc3\xa4"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(parse(bad[i]) == AUTHORIZATION_MALFORMED, "%s", bad[i]);
}

UNIT(a_bearer_token_has_a_longest)
{
    char value[AUTHORIZATION_TOKEN_MAX + 16] = "Bearer ";
    memset(value + 7, 'x', AUTHORIZATION_TOKEN_MAX);
    ck_assert_int_eq(parse(value), AUTHORIZATION_BEARER);
    value[7 + AUTHORIZATION_TOKEN_MAX] = 'x';
    ck_assert_int_eq(parse(value), AUTHORIZATION_MALFORMED);
}

UNIT(basic_is_a_name_a_colon_and_a_password)
{
    ck_assert_int_eq(parse("Basic QWxhZGRpbjpvcGVuIHNlc2FtZQ=="), AUTHORIZATION_BASIC); /* RFC 7617 §2 */
    ck_assert(bytes_is(parsed.user, "Aladdin"));
    ck_assert(bytes_is(parsed.password, "open sesame"));
    ck_assert_int_eq(parse("Basic dGVzdDoxMjPCow=="), AUTHORIZATION_BASIC); /* §2.1, in UTF-8 */
    ck_assert(bytes_is(parsed.password, "123\xc2\xa3"));
    ck_assert_int_eq(parse("basic YTpiOmM="), AUTHORIZATION_BASIC);
    ck_assert(bytes_is(parsed.user, "a") && bytes_is(parsed.password, "b:c"));
    ck_assert_int_eq(parse("Basic YTo="), AUTHORIZATION_BASIC); /* an empty password is one */
    ck_assert_uint_eq(parsed.password.n, 0);
}

UNIT(basic_that_is_none_is_malformed)
{
    /* no base64, no colon, an empty name, a NUL in the password, a line end in the name, two values */
    const char *bad[] = {"Basic",          "Basic !",        "Basic YWJj",     "Basic OmFiYw==",
                         "Basic YTphAGI=", "Basic YQo6Yg==", "Basic YTpi,YTpi"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(parse(bad[i]) == AUTHORIZATION_MALFORMED, "%s", bad[i]);
    char longest[2048] = "Basic ";
    memset(longest + 6, 'Y', 1600); /* 1,200 bytes: more than a name and a password have */
    ck_assert_int_eq(parse(longest), AUTHORIZATION_MALFORMED);
}

UNIT(other_schemes_are_none_of_ours)
{
    ck_assert_int_eq(parse(""), AUTHORIZATION_OTHER);
    ck_assert_int_eq(parse("Digest username=\"x\""), AUTHORIZATION_OTHER);
    ck_assert_int_eq(parse("Bearerx y"), AUTHORIZATION_OTHER);
}
