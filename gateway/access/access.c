/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/access/access.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "gateway/access/parts.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

/* ---- the process's ---- */

static void limits_init(struct limits *to, const struct access_limits *from)
{
    to->of = *from;
    to->any = from->bytes_per_second || from->connections || from->memory || from->requests;
    if (from->bytes_per_second)
        to->burst_ns =
            from->burst_bytes ? gcra_cost(from->burst_bytes, from->bytes_per_second) : NSEC_PER_SEC;
}

/* Lower case, as the session gives names; RFC 9110 §5.6.2 token. */
static int set_tenant_header(struct access *a, const char *name, struct error *e)
{
    if (!name || !name[0])
        return 0;
    a->tenant_header = strdup(name);
    if (!a->tenant_header)
        return error_set(e, -ENOMEM, "out of memory");
    for (char *c = a->tenant_header; *c; c++) {
        if (*c >= 'A' && *c <= 'Z')
            *c = (char)(*c - 'A' + 'a');
        if (!strchr("!#$%&'*+-.^_`|~", *c) && !(*c >= 'a' && *c <= 'z') && !(*c >= '0' && *c <= '9'))
            return error_set(e, -EINVAL, "\"%s\" is no name of a header", name);
    }
    return 0;
}

static int make_tables(struct access *a, struct budget *budget)
{
    size_t client = a->client.of.memory ? min_of(a->client.of.memory, (uint64_t)SIZE_MAX) : SIZE_MAX;
    size_t tenant = a->tenant.of.memory ? min_of(a->tenant.of.memory, (uint64_t)SIZE_MAX) : SIZE_MAX;
    if (a->client.any && !(a->clients = parties_new(CLIENTS_MAX, client, budget)))
        return -ENOMEM;
    if (a->tenant.any && a->tenant_header && !(a->tenants = parties_new(TENANTS_MAX, tenant, budget)))
        return -ENOMEM;
    return 0;
}

int access_new(struct access **ret, const struct access_options *options, struct budget *budget,
               struct error *e)
{
    struct access *a = calloc(1, sizeof *a);
    if (!a)
        return error_set(e, -ENOMEM, "out of memory");
    a->tenant_required = options->tenant_required;
    limits_init(&a->client, &options->per_client);
    limits_init(&a->tenant, &options->per_tenant);
    a->waiting = (struct budget)BUDGET_INIT(WAITING_BYTES, budget);
    int r = set_tenant_header(a, options->tenant_header, e);
    if (r == 0 && (r = digest_secret(a->secret)) < 0)
        error_set(e, r, "no randomness: %s", strerror(-r));
    if (r == 0) {
        a->digester = digester_new(a->secret);
        a->passwords = passwords_new();
        if (!a->digester || !a->passwords || make_tables(a, budget) < 0)
            r = error_set(e, -ENOMEM, "out of memory");
    }
    if (r < 0) {
        access_free(a);
        return r;
    }
    *ret = a;
    return 0;
}

struct access *access_free(struct access *a)
{
    if (!a)
        return NULL;
    for (uint32_t i = 0; i < a->n_policies; i++)
        policy_free(a->policies[i]);
    passwords_free(a->passwords);
    parties_free(a->clients);
    parties_free(a->tenants);
    digester_free(a->digester);
    free(a->tenant_header);
    explicit_bzero(a->secret, sizeof a->secret);
    free(a);
    return NULL;
}

int access_policy_new(struct access *a, const struct access_policy_options *options,
                      const struct access_policy **ret, struct error *e)
{
    bool files = (options->bearer_tokens_file && options->bearer_tokens_file[0]) ||
                 (options->htpasswd_file && options->htpasswd_file[0]);
    if (!files && options->n_identities == 0) {
        *ret = NULL;
        return 0;
    }
    if (a->n_policies == ACCESS_POLICIES_MAX)
        return error_set(e, -EINVAL, "at most %u addresses that ask who it is", ACCESS_POLICIES_MAX);
    struct access_policy *p;
    int r = policy_new(&p, options, a->digester, e);
    if (r < 0)
        return r;
    p->index = a->n_policies;
    a->policies[a->n_policies++] = p;
    *ret = p;
    return 0;
}

const char *access_vacant_file(const struct access *a, uint32_t *at)
{
    while (*at < 2 * a->n_policies) {
        const struct access_policy *p = a->policies[*at / 2];
        const bool of_users = (*at)++ % 2;
        const char *file = of_users ? p->users_file : p->tokens_file;
        if (file && (of_users ? p->current->users.n : p->current->tokens.n) == 0)
            return file;
    }
    return NULL;
}

struct access_files {
    struct credentials *of[ACCESS_POLICIES_MAX];
    uint32_t n;
};

int access_read(struct access *a, struct access_files **ret, struct error *e)
{
    struct access_files *read = calloc(1, sizeof *read);
    int r = read ? 0 : error_set(e, -ENOMEM, "out of memory");
    while (r == 0 && read->n < a->n_policies) {
        r = policy_load(a->policies[read->n], a->digester, &read->of[read->n], e);
        read->n += r == 0;
    }
    if (r < 0)
        access_drop(read);
    else
        *ret = read;
    return r;
}

void access_take(struct access *a, struct access_files *read)
{
    for (uint32_t i = 0; i < read->n; i++)
        policy_set(a->policies[i], read->of[i]);
    free(read);
}

struct access_files *access_drop(struct access_files *read)
{
    for (uint32_t i = 0; read && i < read->n; i++)
        credentials_drop(read->of[i]);
    free(read);
    return NULL;
}

/* RFC 7617 §2.1: the user's name and password are UTF-8. */
uint32_t access_challenges(const struct access_policy *policy, bool is_wrong, struct http_header *ret)
{
    const struct bytes name = BYTES_LIT("www-authenticate");
    uint32_t n = 0;
    if (policy && policy->tokens_file)
        ret[n++] =
            (struct http_header){name, is_wrong
                                           ? BYTES_LIT("Bearer realm=\"profgate\", error=\"invalid_token\"")
                                           : BYTES_LIT("Bearer realm=\"profgate\"")};
    if (policy && policy->users_file)
        ret[n++] = (struct http_header){name, BYTES_LIT("Basic realm=\"profgate\", charset=\"UTF-8\"")};
    return n;
}

/* ---- a worker's ---- */

struct access_worker *access_worker_new(struct access *a, struct io_loop *loop, struct stats *stats)
{
    struct access_worker *w = calloc(1, sizeof *w);
    if (!w)
        return NULL;
    w->access = a;
    w->loop = loop;
    w->stats = stats;
    w->digester = digester_new(a->secret);
    w->inbox = password_inbox_new(a->passwords, loop, check_deliver, w);
    return w->digester && w->inbox ? w : access_worker_free(w);
}

struct access_worker *access_worker_free(struct access_worker *w)
{
    if (!w)
        return NULL;
    password_inbox_free(w->inbox);
    for (uint32_t i = 0; i < w->access->n_policies; i++)
        credentials_drop(w->held[i]);
    for (uint32_t i = 0; i < WORKER_TENANTS; i++)
        party_drop(w->tenants[i]);
    digester_free(w->digester);
    free(w);
    return NULL;
}

struct budget *access_waiting_budget(struct access_worker *w)
{
    return &w->access->waiting;
}
