/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An access with one policy, one worker on a loop, and requests made by hand.
 */
#ifndef TESTS_UNIT_GATEWAY_ACCESS_FAKE_H
#define TESTS_UNIT_GATEWAY_ACCESS_FAKE_H

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gateway/access/access.h"
#include "proto/base/clock.h"
#include "proto/io/loop.h"
#include "tests/lib/unit.h"

#define BCRYPT_SECRET "$2y$04$abcdefghijklmnopqrstuu2r9OfJnfCsdneAXAGHnS4UpFFP8WIrW"

struct fake {
    struct budget budget;
    struct io_loop *loop;
    struct access *access;
    struct access_worker *worker;
    const struct access_policy *policy;
    struct stats stats;
    char dir[UNIT_PATH_MAX], tokens[UNIT_PATH_MAX + 8], users[UNIT_PATH_MAX + 8];
    struct error e;
};

static inline void fake_write(const char *path, const char *text)
{
    FILE *f = unit_made(fopen(path, "w"));
    ck_assert_int_ge(fputs(text, f), 0);
    ck_assert_int_eq(fclose(f), 0);
}

/* Files with these texts; NULL: none. */
static inline void fake_start(struct fake *f, const struct access_options *options, const char *tokens,
                              const char *users, const char *const *identities, uint32_t n_identities)
{
    *f = (struct fake){.budget = BUDGET_INIT(64 << 20, NULL)};
    unit_new_folder(f->dir);
    snprintf(f->tokens, sizeof f->tokens, "%s/tokens", f->dir);
    snprintf(f->users, sizeof f->users, "%s/users", f->dir);
    if (tokens)
        fake_write(f->tokens, tokens);
    if (users)
        fake_write(f->users, users);
    f->loop = unit_made(io_loop_new());
    ck_assert_msg(access_new(&f->access, options, &f->budget, &f->e) == 0, "%s", f->e.text);
    struct access_policy_options o = {tokens ? f->tokens : NULL, users ? f->users : "", identities,
                                      n_identities};
    ck_assert_msg(access_policy_new(f->access, &o, &f->policy, &f->e) == 0, "%s", f->e.text);
    f->worker = unit_made(access_worker_new(f->access, f->loop, &f->stats));
}

static inline void fake_stop(struct fake *f)
{
    access_worker_free(f->worker);
    io_loop_free(f->loop);
    access_free(f->access);
    ck_assert_uint_eq(atomic_load(&f->budget.used), 0);
}

static inline struct http_peer fake_peer(struct fake *f, const char *address)
{
    struct http_peer peer = {.tls = false};
    snprintf(peer.address, sizeof peer.address, "%s", address);
    ck_assert(access_admit(f->worker, &peer));
    return peer;
}

struct fake_wait {
    struct access_wait wait;
    enum access_verdict verdict;
    unsigned n;
};

static inline void fake_done(void *user, enum access_verdict verdict)
{
    struct fake_wait *w = user;
    w->verdict = verdict;
    w->n++;
}

/* One Authorization header (NULL: none); waits for the verifier if it comes to that. */
static inline enum access_verdict fake_ask(struct fake *f, const struct http_peer *peer,
                                           const char *authorization)
{
    struct http_header headers[] = {{BYTES_LIT("content-type"), BYTES_LIT("application/grpc")},
                                    {BYTES_LIT("authorization"), bytes_str(authorization)}};
    struct http_exchange x = {.peer = peer, .headers = headers, .n_headers = authorization ? 2 : 1};
    struct fake_wait w = {.wait = {.done = fake_done, .user = &w}};
    enum access_verdict verdict = access_check(f->worker, &x, f->policy, &w.wait, clock_monotonic());
    if (verdict != ACCESS_WAIT)
        return verdict;
    while (w.n == 0)
        io_loop_run_once(f->loop, NSEC_PER_SEC);
    ck_assert_uint_eq(w.n, 1);
    ck_assert_ptr_null(w.wait.job);
    return w.verdict;
}

#endif
