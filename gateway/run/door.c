/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/door.h"

#include <errno.h>

#include "proto/base/log.h"

bool door_asks(const struct config_door *d)
{
    return d->auth_bearer_tokens_file || d->auth_htpasswd_file || d->auth_identities.n > 0;
}

bool door_knows(const struct config_door *d)
{
    return door_asks(d) || (d->tls_client_ca_file && !d->tls_allow_plaintext);
}

bool door_tls(const struct config_door *d, struct listen_tls *ret)
{
    *ret = (struct listen_tls){
        .cert_file = d->tls_cert_file,
        .key_file = d->tls_key_file,
        .client_ca_file = d->tls_client_ca_file,
        .min_version = d->tls_min_version == CONFIG_TLS_1_3 ? "1.3" : "1.2",
        .allow_plaintext = d->tls_allow_plaintext,
    };
    return d->tls_cert_file != NULL;
}

int door_policy(const struct config_door *d, struct access *a, const struct access_policy **ret,
                struct error *e)
{
    const struct access_policy_options policy = {
        .bearer_tokens_file = d->auth_bearer_tokens_file,
        .htpasswd_file = d->auth_htpasswd_file,
        .identities = d->auth_identities.items,
        .n_identities = d->auth_identities.n,
    };
    return access_policy_new(a, &policy, ret, e);
}

void door_warn_vacant(const struct access *a)
{
    uint32_t at = 0;
    for (const char *file; a && (file = access_vacant_file(a, &at));)
        log_warn("nobody is let in by what a file says file=%s error=\"nobody is in it\"", file);
}

/* ---- the admin address's ------------------------------------------------------------------- */

static int ask_who(struct admin_door *d, const struct config_door *from, struct io_loop *loop,
                   struct stats *stats, struct budget *budget, struct error *e)
{
    /* No limits: the server has its own, which nobody's name changes. */
    int r = access_new(&d->access, &(struct access_options){0}, budget, e);
    if (r == 0)
        r = door_policy(from, d->access, &d->policy, e);
    if (r == 0 && !(d->worker = access_worker_new(d->access, loop, stats)))
        r = error_set(e, -ENOMEM, "out of memory");
    return r;
}

int admin_door_init(struct admin_door *d, const struct config_door *from, struct io_loop *loop,
                    struct stats *stats, struct budget *budget, struct error *e)
{
    struct listen_tls tls;
    struct listen_certificates *read;
    *d = (struct admin_door){0};
    certificates_init(&d->certificates);
    int r = certificates_set(&d->certificates, 0, door_tls(from, &tls) ? &tls : NULL);
    r = r < 0 ? error_set(e, r, "out of memory") : certificates_read(&d->certificates, &read, e);
    if (r == 0)
        certificates_take(&d->certificates, read);
    if (r == 0 && door_asks(from))
        r = ask_who(d, from, loop, stats, budget, e);
    return r < 0 ? error_prefix(e, r, "admin: ") : 0;
}

void admin_door_release(struct admin_door *d)
{
    access_worker_free(d->worker);
    access_free(d->access);
    certificates_release(&d->certificates);
}
