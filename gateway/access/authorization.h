/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The Authorization request header (RFC 9110 §11.6.2) in the two schemes that are taken: Bearer (RFC 6750
 * §2.1) and Basic (RFC 7617 §2).
 */
#ifndef GATEWAY_ACCESS_AUTHORIZATION_H
#define GATEWAY_ACCESS_AUTHORIZATION_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

enum authorization_kind {
    AUTHORIZATION_OTHER,     /* a scheme that is not taken */
    AUTHORIZATION_MALFORMED, /* of Bearer or Basic, but not as the RFC says, or longer than the bounds below
                              */
    AUTHORIZATION_BEARER,
    AUTHORIZATION_BASIC,
};

/* Bounds: a header has 16 KiB in all; crypt(3) takes 512 bytes of a pass phrase (CRYPT_MAX_PASSPHRASE_SIZE).
 */
#define AUTHORIZATION_TOKEN_MAX    4096u
#define AUTHORIZATION_NAME_MAX     128u
#define AUTHORIZATION_PASSWORD_MAX 511u

struct authorization {
    enum authorization_kind kind;
    struct bytes token;          /* Bearer: a slice of the value */
    struct bytes user, password; /* Basic: slices of .plain; no control characters, no NUL */
    uint8_t plain[1024];
};

/* Reads a value. ret->plain may hold a password afterwards: authorization_wipe. */
void authorization_parse(struct bytes value, struct authorization *ret);
void authorization_wipe(struct authorization *a);

/* Whether it is one (RFC 6750 §2.1 b64token, at most AUTHORIZATION_TOKEN_MAX). */
bool authorization_token_is_valid(struct bytes token);

#endif
