/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The certificates of addresses: read together, swapped together while connections come in. For
 * gateway/listen and for gateway/admin, of which the one is more.
 */
#ifndef GATEWAY_LISTEN_CERTIFICATES_H
#define GATEWAY_LISTEN_CERTIFICATES_H

#include <pthread.h>

#include "gateway/listen/options.h"

struct listen_certificates;
struct tls_context;

struct certificates {
    pthread_mutex_t lock; /* contexts */
    struct tls_context *contexts[LISTEN_ADDRESSES_MAX];
    struct listen_tls files[LISTEN_ADDRESSES_MAX]; /* copies */
    bool has_tls[LISTEN_ADDRESSES_MAX];            /* false: the address is plain */
};

void certificates_init(struct certificates *c);

/* Copies address i's settings (NULL: plain). 0 or -ENOMEM. */
int certificates_set(struct certificates *c, uint32_t i, const struct listen_tls *tls);

/* As listen_read_tls, listen_take_tls and listen_drop_tls; also the first time, before any connection. */
int certificates_read(const struct certificates *c, struct listen_certificates **ret, struct error *e);
void certificates_take(struct certificates *c, struct listen_certificates *read);
struct listen_certificates *certificates_drop(struct listen_certificates *read);

/* What a new connection on address i is to use, an owner more; NULL: plain. Any thread. */
struct tls_context *certificates_get(struct certificates *c, uint32_t i);

/* Whether the address takes TLS, and plain HTTP all the same. Any thread. */
bool certificates_has_tls(const struct certificates *c, uint32_t i);
bool certificates_allow_plaintext(const struct certificates *c, uint32_t i);

/* As listen_tls_expiry. */
int64_t certificates_expiry(struct certificates *c, uint32_t i);

void certificates_release(struct certificates *c);

#endif
