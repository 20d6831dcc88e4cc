/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who it is: a certificate's name, a bearer token or a password, whichever the policy takes.
 *
 * A connection that was let in remembers the digest of the Authorization header it said, and the generation
 * of the files it was right by: as long as both are the same, a request costs one SHA-256 and no search.
 * Something new is searched for in the worker's snapshot, tokens in constant time. A password goes to the
 * verifier's thread (passwords.h) unless the result is known: the request waits in the list of its job, all
 * who say the same in the same one, and the loop brings the answer to each (check_deliver).
 */
#include <stdlib.h>
#include <string.h>

#include "gateway/access/access.h"
#include "gateway/access/authorization.h"
#include "gateway/access/parts.h"
#include "proto/io/loop.h"

/* What is asked, on its way through the kinds of credentials. */
struct question {
    struct access_worker *worker;
    const struct http_exchange *exchange;
    const struct access_policy *policy;
    const struct credentials *credentials;
    struct connection_access *connection; /* NULL: it was not admitted by us */
    struct access_wait *wait;             /* NULL: no time to wait */
    uint64_t now;
    struct digest digest; /* of the Authorization header */
};

/* ---- passwords ---- */

static enum access_verdict check(struct access_worker *w, const struct http_exchange *x,
                                 const struct access_policy *policy, struct access_wait *wait, uint64_t now);
static enum access_verdict count(struct access_worker *w, enum access_verdict verdict);

static void job_unlink(struct password_job *job)
{
    *job->at = job->next;
    if (job->next)
        job->next->at = job->at;
}

/* When the verifier is done with it: everybody who waits asks again. */
void check_deliver(void *user, struct password_job *job)
{
    struct access_worker *w = user;
    job_unlink(job);
    while (job->waits) {
        struct access_wait *wait = job->waits;
        access_cancel(wait);
        enum access_verdict verdict = check(w, wait->exchange, wait->policy, NULL, io_loop_now(w->loop));
        wait->done(wait->user, count(w, verdict));
    }
    password_job_free(job);
}

void access_cancel(struct access_wait *wait)
{
    if (!wait->job)
        return;
    *wait->at = wait->next;
    if (wait->next)
        wait->next->at = wait->at;
    wait->job = NULL;
}

static enum access_verdict wait_for(struct question *q, struct password_job *job)
{
    struct access_wait *wait = q->wait;
    wait->exchange = q->exchange;
    wait->policy = q->policy;
    wait->job = job;
    wait->next = job->waits;
    wait->at = &job->waits;
    if (wait->next)
        wait->next->at = &wait->next;
    job->waits = wait;
    return ACCESS_WAIT;
}

static enum access_verdict verify(struct question *q, const struct authorization *a, struct bytes hash,
                                  bool is_decoy, const struct digest *key)
{
    struct access_worker *w = q->worker;
    if (!q->wait)
        return ACCESS_BUSY;
    for (struct password_job *job = w->jobs; job; job = job->next)
        if (digest_eq(&job->key, key))
            return wait_for(q, job);
    struct password_job *job = calloc(1, sizeof *job);
    if (!job)
        return ACCESS_BUSY;
    job->key = *key;
    memcpy(job->hash, hash.p, hash.n);
    memcpy(job->password, a->password.p, a->password.n);
    job->is_decoy = is_decoy;
    job->address = q->connection ? q->connection->address : 0;
    job->next = w->jobs;
    job->at = &w->jobs;
    enum access_verdict verdict = wait_for(q, job);
    if (passwords_submit(w->inbox, job) != 0) {
        access_cancel(q->wait);
        password_job_free(job);
        return ACCESS_BUSY;
    }
    if (job->next)
        job->next->at = &job->next;
    w->jobs = job;
    return verdict;
}

/* A name that nobody has is verified against somebody's hash, chosen by the name: it costs as much, and
 * always as much for the same name. */
static const struct credential_user *decoy(const struct credentials *c, const struct digest *digest)
{
    return &c->users.p[(digest->bytes[0] | (uint32_t)digest->bytes[1] << 8) % c->users.n];
}

static enum access_verdict check_basic(struct question *q, const struct authorization *a)
{
    struct access_worker *w = q->worker;
    const struct credentials *c = q->credentials;
    if (c->users.n == 0)
        return ACCESS_WRONG;
    struct digest name, key;
    if (digest_of(w->digester, &a->user, 1, &name) < 0)
        return ACCESS_BUSY;
    const struct credential_user *user = credentials_find_user(c, a->user);
    bool is_decoy = user == NULL;
    if (is_decoy)
        user = decoy(c, &name);
    /* With who it is for: a decoy's key must not be that of the user whose hash it borrows. */
    const struct bytes texts[] = {a->user, a->password, user->hash};
    if (digest_of(w->digester, texts, 3, &key) < 0)
        return ACCESS_BUSY;
    switch (passwords_recall(w->access->passwords, &key, q->now)) {
    case PASSWORD_GOOD: return q->connection ? connection_name(w, q->connection, a->user) : ACCESS_YES;
    case PASSWORD_BAD: return ACCESS_WRONG;
    default: return verify(q, a, user->hash, is_decoy, &key);
    }
}

/* ---- tokens ---- */

static enum access_verdict check_bearer(struct question *q, struct bytes token)
{
    struct digest digest;
    if (digest_of(q->worker->digester, &token, 1, &digest) < 0)
        return ACCESS_BUSY;
    const struct credential_token *t = credentials_find_token(q->credentials, &digest);
    if (!t)
        return ACCESS_WRONG;
    return q->connection ? connection_name(q->worker, q->connection, t->name) : ACCESS_YES;
}

/* ---- the header ---- */

/* The one Authorization field; *ret_n is how many there are. */
static struct bytes find_authorization(const struct http_exchange *x, uint32_t *ret_n)
{
    struct bytes value = {0};
    *ret_n = 0;
    for (uint32_t i = 0; i < x->n_headers; i++)
        if (x->headers[i].name.n == sizeof "authorization" - 1 &&
            bytes_is(x->headers[i].name, "authorization")) {
            value = x->headers[i].value;
            ++*ret_n;
        }
    return value;
}

static enum access_verdict check_header(struct question *q, struct bytes value)
{
    struct authorization a;
    authorization_parse(value, &a);
    enum access_verdict verdict;
    if (a.kind == AUTHORIZATION_BEARER && q->policy->tokens_file)
        verdict = check_bearer(q, a.token);
    else if (a.kind == AUTHORIZATION_BASIC && q->policy->users_file)
        verdict = check_basic(q, &a);
    else
        verdict = ACCESS_WRONG;
    authorization_wipe(&a);
    return verdict;
}

/* A connection that said the same before, under the same files, is who it was. */
static enum access_verdict check_authorization(struct question *q)
{
    uint32_t n;
    struct bytes value = find_authorization(q->exchange, &n);
    if (!q->policy->tokens_file && !q->policy->users_file)
        return ACCESS_FORBIDDEN;
    if (n != 1)
        return n == 0 ? ACCESS_MISSING : ACCESS_WRONG;
    const struct bytes texts[] = {BYTES_LIT("authorization"), value};
    if (digest_of(q->worker->digester, texts, 2, &q->digest) < 0)
        return ACCESS_BUSY;
    struct connection_access *c = q->connection;
    if (c && c->generation == q->credentials->generation && digest_eq(&c->digest, &q->digest))
        return ACCESS_YES;
    enum access_verdict verdict = check_header(q, value);
    if (c && verdict == ACCESS_YES) {
        c->generation = q->credentials->generation;
        c->digest = q->digest;
    }
    return verdict;
}

static enum access_verdict check(struct access_worker *w, const struct http_exchange *x,
                                 const struct access_policy *policy, struct access_wait *wait, uint64_t now)
{
    struct question q = {
        .worker = w,
        .exchange = x,
        .policy = policy,
        .connection = x->peer ? x->peer->client : NULL,
        .wait = wait,
        .now = now,
    };
    const char *identity = x->peer ? x->peer->identity : "";
    if (!policy || policy_allows(policy, identity)) {
        struct connection_access *c = q.connection;
        if (!c || !identity[0] || c->is_named)
            return ACCESS_YES;
        return connection_name(w, c, bytes_str(identity));
    }
    q.credentials = policy_current(w->access->policies[policy->index], &w->held[policy->index]);
    return check_authorization(&q);
}

static enum access_verdict count(struct access_worker *w, enum access_verdict verdict)
{
    static const enum stats_id ids[] = {
        [ACCESS_YES] = STATS_AUTH_ACCEPTED, [ACCESS_MISSING] = STATS_AUTH_MISSING,
        [ACCESS_WRONG] = STATS_AUTH_WRONG,  [ACCESS_FORBIDDEN] = STATS_AUTH_FORBIDDEN,
        [ACCESS_BUSY] = STATS_AUTH_BUSY,
    };
    if (verdict != ACCESS_WAIT && verdict <= ACCESS_BUSY)
        stats_add(w->stats, ids[verdict], 1);
    return verdict;
}

enum access_verdict access_check(struct access_worker *w, const struct http_exchange *x,
                                 const struct access_policy *policy, struct access_wait *wait,
                                 uint64_t now_ns)
{
    enum access_verdict verdict = check(w, x, policy, wait, now_ns);
    return policy ? count(w, verdict) : verdict;
}
