/* SPDX-License-Identifier: Apache-2.0 */
/*
 * SHA-256 (FIPS 180-4, by OpenSSL) over a secret of the process and some texts: how credentials are compared
 * and remembered, so that neither their text nor what a dictionary could be tried on stays in memory.
 */
#ifndef GATEWAY_ACCESS_DIGEST_H
#define GATEWAY_ACCESS_DIGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proto/base/bytes.h"

#define DIGEST_BYTES 32u

struct digest {
    uint8_t bytes[DIGEST_BYTES];
};

struct digester; /* of one thread */

/* The secret of the process, drawn once with getrandom(2). 0 or -errno. */
int digest_secret(uint8_t ret[DIGEST_BYTES]);

/* NULL: memory is out. */
struct digester *digester_new(const uint8_t secret[DIGEST_BYTES]);
struct digester *digester_free(struct digester *d);

/* Of the texts one after another, each with its length before it. 0 or -ENOMEM. */
int digest_of(struct digester *d, const struct bytes *texts, size_t n, struct digest *ret);

/* In a time that does not depend on where they differ. */
bool digest_eq(const struct digest *a, const struct digest *b);

#endif
