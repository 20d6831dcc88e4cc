/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/authorization.h"

#include <string.h>

#include "proto/base/buffer.h"
#include "proto/base/base64.h"

static bool is_token_char(uint8_t c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || c == '-' ||
           c == '.' || c == '_' || c == '~' || c == '+' || c == '/';
}

bool authorization_token_is_valid(struct bytes token)
{
    size_t n = token.n;
    while (n > 0 && token.p[n - 1] == '=')
        n--;
    if (n == 0 || token.n > AUTHORIZATION_TOKEN_MAX)
        return false;
    for (size_t i = 0; i < n; i++)
        if (!is_token_char(token.p[i]))
            return false;
    return true;
}

/* user-id ":" password, both without control characters (RFC 7617 §2). */
static bool split(struct bytes plain, struct authorization *ret)
{
    const uint8_t *colon = plain.n ? memchr(plain.p, ':', plain.n) : NULL;
    if (!colon)
        return false;
    for (size_t i = 0; i < plain.n; i++)
        if (plain.p[i] < 0x20 || plain.p[i] == 0x7f)
            return false;
    ret->user = bytes_of(plain.p, (size_t)(colon - plain.p));
    ret->password = bytes_of(colon + 1, plain.n - ret->user.n - 1);
    return ret->user.n > 0 && ret->user.n <= AUTHORIZATION_NAME_MAX &&
           ret->password.n <= AUTHORIZATION_PASSWORD_MAX;
}

static enum authorization_kind parse_basic(struct bytes encoded, struct authorization *ret)
{
    struct buffer out = {.p = ret->plain, .cap = sizeof ret->plain, .max = sizeof ret->plain};
    if (base64_decode(encoded, false, &out) != 0 || !split(buffer_bytes(&out), ret))
        return AUTHORIZATION_MALFORMED;
    return AUTHORIZATION_BASIC;
}

void authorization_parse(struct bytes value, struct authorization *ret)
{
    ret->kind = AUTHORIZATION_OTHER;
    ret->token = ret->user = ret->password = (struct bytes){0};
    value = bytes_trim(value);
    const uint8_t *space = value.n ? memchr(value.p, ' ', value.n) : NULL;
    size_t n = space ? (size_t)(space - value.p) : value.n;
    struct bytes scheme = bytes_of(value.p, n);
    struct bytes rest = bytes_trim(bytes_of(value.p + n, value.n - n));
    if (bytes_is_nocase(scheme, "bearer")) {
        ret->token = rest;
        ret->kind = authorization_token_is_valid(rest) ? AUTHORIZATION_BEARER : AUTHORIZATION_MALFORMED;
    } else if (bytes_is_nocase(scheme, "basic")) {
        ret->kind = parse_basic(rest, ret);
    }
}

void authorization_wipe(struct authorization *a)
{
    explicit_bzero(a->plain, sizeof a->plain);
}
