/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/digest.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "proto/base/library/library.h"

struct digester {
    EVP_MD *md; /* fetched once, since looking the algorithm up costs more than a short text, and not before
                 * the first text: OpenSSL is megabytes to those who need none of it */
    EVP_MD_CTX *ctx;
    uint8_t secret[DIGEST_BYTES];
};

int digest_secret(uint8_t ret[DIGEST_BYTES])
{
    ssize_t n;
    do
        n = getrandom(ret, DIGEST_BYTES, 0);
    while (n < 0 && errno == EINTR);
    return n == (ssize_t)DIGEST_BYTES ? 0 : n < 0 ? -errno : -EIO;
}

struct digester *digester_new(const uint8_t secret[DIGEST_BYTES])
{
    struct digester *d = calloc(1, sizeof *d);
    if (!d)
        return NULL;
    memcpy(d->secret, secret, sizeof d->secret);
    return d;
}

static bool is_ready(struct digester *d)
{
    if (library_load(&library_openssl, NULL) < 0)
        return false;
    if (!d->md)
        d->md = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (!d->ctx)
        d->ctx = EVP_MD_CTX_new();
    return d->md && d->ctx;
}

struct digester *digester_free(struct digester *d)
{
    if (!d)
        return NULL;
    if (d->ctx)
        EVP_MD_CTX_free(d->ctx);
    if (d->md)
        EVP_MD_free(d->md);
    explicit_bzero(d->secret, sizeof d->secret);
    free(d);
    return NULL;
}

int digest_of(struct digester *d, const struct bytes *texts, size_t n, struct digest *ret)
{
    int ok = is_ready(d) && EVP_DigestInit_ex(d->ctx, d->md, NULL) &&
             EVP_DigestUpdate(d->ctx, d->secret, sizeof d->secret);
    for (size_t i = 0; i < n && ok; i++) {
        uint64_t length = texts[i].n;
        ok = EVP_DigestUpdate(d->ctx, &length, sizeof length) &&
             EVP_DigestUpdate(d->ctx, texts[i].p, texts[i].n);
    }
    ok = ok && EVP_DigestFinal_ex(d->ctx, ret->bytes, NULL);
    return ok ? 0 : -ENOMEM;
}

bool digest_eq(const struct digest *a, const struct digest *b)
{
    return CRYPTO_memcmp(a->bytes, b->bytes, DIGEST_BYTES) == 0;
}
