/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/listen/certificates.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/base/thread.h"
#include "proto/io/tls.h"

void certificates_init(struct certificates *c)
{
    *c = (struct certificates){.contexts = {NULL}};
    pthread_mutex_init(&c->lock, NULL);
}

static bool copy(const char **to, const char *from)
{
    *to = from ? strdup(from) : NULL;
    return !from || *to;
}

int certificates_set(struct certificates *c, uint32_t i, const struct listen_tls *tls)
{
    if (!tls)
        return 0;
    struct listen_tls *mine = &c->files[i];
    c->has_tls[i] = true;
    mine->allow_plaintext = tls->allow_plaintext;
    return copy(&mine->cert_file, tls->cert_file) && copy(&mine->key_file, tls->key_file) &&
                   copy(&mine->client_ca_file, tls->client_ca_file) &&
                   copy(&mine->min_version, tls->min_version)
               ? 0
               : -ENOMEM;
}

static int load(struct tls_context **ret, const struct listen_tls *files, struct error *e)
{
    static const char *const protocols[] = {"h2", "http/1.1", NULL};
    struct tls_options options = {
        .server = true,
        .cert_file = files->cert_file,
        .key_file = files->key_file,
        .ca_file = files->client_ca_file,
        .min_version = files->min_version,
        .alpn = protocols,
    };
    return tls_context_new(ret, &options, e);
}

struct listen_certificates {
    struct tls_context *contexts[LISTEN_ADDRESSES_MAX];
};

int certificates_read(const struct certificates *c, struct listen_certificates **ret, struct error *e)
{
    struct listen_certificates *read = calloc(1, sizeof *read);
    int r = read ? 0 : error_set(e, -ENOMEM, "out of memory");
    for (uint32_t i = 0; i < LISTEN_ADDRESSES_MAX && r == 0; i++)
        if (c->has_tls[i])
            r = load(&read->contexts[i], &c->files[i], e);
    if (r < 0)
        certificates_drop(read);
    else
        *ret = read;
    return r;
}

void certificates_take(struct certificates *c, struct listen_certificates *read)
{
    pthread_mutex_lock(&c->lock);
    for (uint32_t i = 0; i < LISTEN_ADDRESSES_MAX; i++) {
        struct tls_context *old = c->contexts[i];
        c->contexts[i] = read->contexts[i];
        read->contexts[i] = old;
    }
    pthread_mutex_unlock(&c->lock);
    certificates_drop(read); /* the old ones */
}

struct listen_certificates *certificates_drop(struct listen_certificates *read)
{
    for (uint32_t i = 0; read && i < LISTEN_ADDRESSES_MAX; i++)
        tls_context_free(read->contexts[i]);
    free(read);
    return NULL;
}

struct tls_context *certificates_get(struct certificates *c, uint32_t i)
{
    if (!c->has_tls[i])
        return NULL;
    autolock(&c->lock);
    return tls_context_ref(c->contexts[i]);
}

bool certificates_has_tls(const struct certificates *c, uint32_t i)
{
    return c->has_tls[i];
}

bool certificates_allow_plaintext(const struct certificates *c, uint32_t i)
{
    return c->files[i].allow_plaintext;
}

int64_t certificates_expiry(struct certificates *c, uint32_t i)
{
    struct tls_context *context = certificates_get(c, i);
    int64_t at = context ? tls_context_expiry(context) : INT64_MAX;
    tls_context_free(context);
    return at;
}

void certificates_release(struct certificates *c)
{
    for (uint32_t i = 0; i < LISTEN_ADDRESSES_MAX; i++) {
        tls_context_free(c->contexts[i]);
        free((char *)c->files[i].cert_file);
        free((char *)c->files[i].key_file);
        free((char *)c->files[i].client_ca_file);
        free((char *)c->files[i].min_version);
    }
    pthread_mutex_destroy(&c->lock);
}
