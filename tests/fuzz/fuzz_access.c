/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/access */
/*
 * What decides who may: an Authorization header (from anybody), a token file and an htpasswd file (from an
 * operator's hand), chosen by the first byte: A, T or H. Whatever is taken keeps the bounds that the rest
 * relies on.
 */
#include "gateway/access/authorization.h"
#include "gateway/access/credentials.h"
#include "gateway/access/passwords.h"
#include "proto/io/address.h"
#include "tests/fuzz/fuzz.h"

static void header(struct bytes value)
{
    struct authorization a;
    authorization_parse(value, &a);
    if (a.kind == AUTHORIZATION_BEARER)
        require(a.token.n > 0 && a.token.n <= AUTHORIZATION_TOKEN_MAX && !memchr(a.token.p, ' ', a.token.n));
    if (a.kind == AUTHORIZATION_BASIC) {
        require(a.user.n > 0 && a.user.n <= AUTHORIZATION_NAME_MAX && !memchr(a.user.p, ':', a.user.n));
        require(a.password.n <= AUTHORIZATION_PASSWORD_MAX);
        require(a.password.n == 0 || !memchr(a.password.p, 0, a.password.n));
    }
    authorization_wipe(&a);
}

static void name_is_bounded(struct bytes name)
{
    require(name.n > 0 && name.n <= CREDENTIALS_NAME_MAX && bytes_is_utf8(name));
}

static void tokens(struct digester *d, struct bytes text)
{
    struct credentials *c = credentials_new();
    struct error e = {""};
    require(c != NULL);
    int r = credentials_add_tokens(c, d, text, &e);
    require((r == 0) == (e.text[0] == 0) && c->tokens.n <= CREDENTIALS_MAX);
    for (uint32_t i = 0; i < c->tokens.n; i++) {
        name_is_bounded(c->tokens.p[i].name);
        require(credentials_find_token(c, &c->tokens.p[i].digest) == &c->tokens.p[i]);
    }
    credentials_drop(c);
}

static void users(struct bytes text)
{
    struct credentials *c = credentials_new();
    struct error e = {""};
    require(c != NULL);
    int r = credentials_add_users(c, text, &e);
    require((r == 0) == (e.text[0] == 0) && c->users.n <= CREDENTIALS_MAX);
    for (uint32_t i = 0; i < c->users.n; i++) {
        name_is_bounded(c->users.p[i].name);
        require(c->users.p[i].hash.n < PASSWORD_HASH_MAX && password_hash_is_taken(c->users.p[i].hash));
        require(r != 0 || credentials_find_user(c, c->users.p[i].name) == &c->users.p[i]);
    }
    credentials_drop(c);
}

/* A peer's address is made by us, of what the system says; but a name of a certificate stands there one day.
 */
static void address(struct bytes text)
{
    char copy[64] = "", key[ADDRESS_KEY_MAX];
    memcpy(copy, text.p, text.n < sizeof copy - 1 ? text.n : sizeof copy - 1);
    struct bytes got = address_key(copy, key);
    require(got.n >= 3 && got.n < ADDRESS_KEY_MAX);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static const uint8_t secret[DIGEST_BYTES] = "x";
    static struct digester *d;
    if (!d)
        require((d = digester_new(secret)) != NULL);
    if (len == 0)
        return 0;
    struct bytes rest = bytes_of(data + 1, len - 1);
    switch (data[0]) {
    case 'T': tokens(d, rest); break;
    case 'H': users(rest); break;
    case 'I': address(rest); break;
    default: header(rest); break;
    }
    return 0;
}
