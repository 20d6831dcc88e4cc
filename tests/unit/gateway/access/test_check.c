/* SPDX-License-Identifier: Apache-2.0 */
/* Who may: tokens, passwords and identities through access.h, with files that change. */
#include "tests/unit/gateway/access/fake.h"

static const struct access_options open_options = {0};
static const struct access_options limited = {.per_client = {.connections = 2}};

#define TOKENS "alpha alice\nbeta bob\n"
#define USERS  "carol:" BCRYPT_SECRET "\ndave:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\n"

#define CAROL       "Basic Y2Fyb2w6c2VjcmV0"     /* carol:secret */
#define CAROL_WRONG "Basic Y2Fyb2w6d3Jvbmc="     /* carol:wrong */
#define DAVE        "Basic ZGF2ZTpzZWNyZXQ="     /* dave:secret */
#define NOBODY      "Basic bm9ib2R5OnNlY3JldA==" /* nobody:secret */

static uint64_t counted(const struct fake *f, enum stats_id id)
{
    return f->stats.value[id];
}

static int reload(struct fake *f)
{
    struct access_files *read;
    int r = access_read(f->access, &read, &f->e);
    if (r == 0)
        access_take(f->access, read);
    return r;
}

UNIT(nothing_demanded_is_no_policy)
{
    struct fake f;
    fake_start(&f, &open_options, NULL, NULL, NULL, 0);
    ck_assert_ptr_null(f.policy);
    struct http_peer peer = {.address = "192.0.2.1:1"};
    ck_assert_int_eq(fake_ask(&f, &peer, NULL), ACCESS_YES);
    ck_assert_uint_eq(counted(&f, STATS_AUTH_ACCEPTED), 0);
    fake_stop(&f);
}

UNIT(bearer_tokens_are_right_wrong_or_missing)
{
    struct fake f;
    fake_start(&f, &open_options, TOKENS, NULL, NULL, 0);
    struct http_peer peer = fake_peer(&f, "192.0.2.1:1");
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES); /* now remembered by the connection */
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alphb"), ACCESS_WRONG);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alph"), ACCESS_WRONG);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer "), ACCESS_WRONG);
    ck_assert_int_eq(fake_ask(&f, &peer, CAROL), ACCESS_WRONG); /* not a kind that is taken here */
    ck_assert_int_eq(fake_ask(&f, &peer, NULL), ACCESS_MISSING);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer beta"), ACCESS_YES);
    ck_assert_uint_eq(counted(&f, STATS_AUTH_ACCEPTED), 3);
    ck_assert_uint_eq(counted(&f, STATS_AUTH_WRONG), 4);
    ck_assert_uint_eq(counted(&f, STATS_AUTH_MISSING), 1);
    struct http_header challenges[ACCESS_CHALLENGES_MAX];
    ck_assert_uint_eq(access_challenges(f.policy, true, challenges), 1);
    ck_assert(bytes_is(challenges[0].value, "Bearer realm=\"profgate\", error=\"invalid_token\""));
    access_leave(f.worker, &peer);
    fake_stop(&f);
}

UNIT(two_authorizations_are_none)
{
    struct fake f;
    fake_start(&f, &open_options, TOKENS, NULL, NULL, 0);
    struct http_header headers[] = {{BYTES_LIT("authorization"), BYTES_LIT("Bearer alpha")},
                                    {BYTES_LIT("authorization"), BYTES_LIT("Bearer beta")}};
    struct http_exchange x = {.headers = headers, .n_headers = 2};
    struct access_wait wait = {0};
    ck_assert_int_eq(access_check(f.worker, &x, f.policy, &wait, 1), ACCESS_WRONG);
    x.n_headers = 1; /* no peer, no connection: it works all the same */
    ck_assert_int_eq(access_check(f.worker, &x, f.policy, &wait, 1), ACCESS_YES);
    fake_stop(&f);
}

UNIT(a_token_removed_from_the_file_stops_working_on_connections_that_exist)
{
    struct fake f;
    fake_start(&f, &open_options, TOKENS, NULL, NULL, 0);
    struct http_peer peer = fake_peer(&f, "192.0.2.1:1");
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES);
    fake_write(f.tokens, "beta bob\ngamma carl\n");
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES); /* nobody has looked yet */
    struct access_files *read;
    ck_assert_int_eq(access_read(f.access, &read, &f.e), 0);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES); /* and read is not taken */
    ck_assert_ptr_null(access_drop(read));
    ck_assert_int_eq(reload(&f), 0);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_WRONG);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer gamma"), ACCESS_YES);
    access_leave(f.worker, &peer);
    fake_stop(&f);
}

UNIT(a_bad_file_changes_nothing_anywhere)
{
    struct fake f;
    fake_start(&f, &open_options, TOKENS, USERS, NULL, 0);
    struct http_peer peer = fake_peer(&f, "192.0.2.1:1");
    fake_write(f.tokens, "gamma carl\n");
    fake_write(f.users, "carol:plain\n");
    ck_assert_int_lt(reload(&f), 0);
    ck_assert_ptr_nonnull(strstr(f.e.text, f.users));
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer gamma"), ACCESS_WRONG);
    unlink(f.tokens);
    ck_assert_int_lt(reload(&f), 0);
    ck_assert_ptr_nonnull(strstr(f.e.text, f.tokens));
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES);
    access_leave(f.worker, &peer);
    fake_stop(&f);
}

UNIT(passwords_are_verified_once_and_remembered)
{
    struct fake f;
    fake_start(&f, &open_options, TOKENS, USERS, NULL, 0);
    struct http_peer peer = fake_peer(&f, "192.0.2.1:1"), other = fake_peer(&f, "192.0.2.2:1");
    ck_assert_int_eq(fake_ask(&f, &peer, CAROL), ACCESS_YES);
    ck_assert_int_eq(fake_ask(&f, &peer, CAROL_WRONG), ACCESS_WRONG);
    ck_assert_int_eq(fake_ask(&f, &peer, DAVE), ACCESS_YES);
    ck_assert_int_eq(fake_ask(&f, &peer, NOBODY), ACCESS_WRONG);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer beta"), ACCESS_YES); /* either kind suffices */
    struct http_header header = {BYTES_LIT("authorization"), BYTES_LIT(CAROL)};
    struct http_exchange x = {.peer = &other, .headers = &header, .n_headers = 1};
    ck_assert_int_eq(access_check(f.worker, &x, f.policy, NULL, clock_monotonic()), ACCESS_YES);
    header.value = BYTES_LIT(CAROL_WRONG);
    ck_assert_int_eq(access_check(f.worker, &x, f.policy, NULL, clock_monotonic()), ACCESS_WRONG);
    header.value = BYTES_LIT("Basic Y2Fyb2w6bmV3"); /* never seen, and no time to wait */
    ck_assert_int_eq(access_check(f.worker, &x, f.policy, NULL, clock_monotonic()), ACCESS_BUSY);
    struct http_header challenges[ACCESS_CHALLENGES_MAX];
    ck_assert_uint_eq(access_challenges(f.policy, false, challenges), 2);
    ck_assert(bytes_is(challenges[0].value, "Bearer realm=\"profgate\""));
    ck_assert(bytes_is(challenges[1].value, "Basic realm=\"profgate\", charset=\"UTF-8\""));
    access_leave(f.worker, &peer);
    access_leave(f.worker, &other);
    fake_stop(&f);
}

UNIT(a_changed_password_counts_at_once_and_so_does_a_user_who_is_gone)
{
    struct fake f;
    fake_start(&f, &open_options, NULL, USERS, NULL, 0);
    struct http_peer peer = fake_peer(&f, "192.0.2.1:1");
    ck_assert_int_eq(fake_ask(&f, &peer, CAROL), ACCESS_YES);
    ck_assert_int_eq(fake_ask(&f, &peer, DAVE), ACCESS_YES);
    fake_write(f.users, "carol:{SHA}2kuSN7rMzfGcB2DKt67EqDWQELA=\n"); /* of "x" */
    ck_assert_int_eq(reload(&f), 0);
    ck_assert_int_eq(fake_ask(&f, &peer, CAROL), ACCESS_WRONG);
    ck_assert_int_eq(fake_ask(&f, &peer, DAVE), ACCESS_WRONG);
    fake_write(f.users, "");
    ck_assert_int_eq(reload(&f), 0);
    ck_assert_int_eq(fake_ask(&f, &peer, CAROL), ACCESS_WRONG);
    access_leave(f.worker, &peer);
    fake_stop(&f);
}

UNIT(nobody_is_verified_like_somebody)
{
    struct fake f;
    fake_start(&f, &open_options, NULL, USERS, NULL, 0);
    struct http_header header = {BYTES_LIT("authorization"), BYTES_LIT(NOBODY)};
    struct http_exchange x = {.headers = &header, .n_headers = 1};
    struct fake_wait w = {.wait = {.done = fake_done, .user = &w}};
    ck_assert_int_eq(access_check(f.worker, &x, f.policy, &w.wait, clock_monotonic()), ACCESS_WAIT);
    while (w.n == 0)
        io_loop_run_once(f.loop, NSEC_PER_SEC);
    ck_assert_int_eq(w.verdict, ACCESS_WRONG); /* though the password is the one of the borrowed hash */
    fake_stop(&f);
}

UNIT(many_who_ask_the_same_wait_for_one_verification)
{
    struct fake f;
    /* A hash that takes longer than asking twenty times: else the later ones find it done. */
    fake_start(&f, &open_options, NULL,
               "carol:$2y$11$abcdefghijklmnopqrstuuViuGI07N4McP9Kl.tD6XMEzyuvcY8LG\n", NULL, 0);
    struct http_header header = {BYTES_LIT("authorization"), BYTES_LIT(CAROL)};
    struct http_exchange x = {.headers = &header, .n_headers = 1};
    struct fake_wait w[20];
    for (int i = 0; i < 20; i++) {
        w[i] = (struct fake_wait){.wait = {.done = fake_done, .user = &w[i]}};
        ck_assert_int_eq(access_check(f.worker, &x, f.policy, &w[i].wait, clock_monotonic()), ACCESS_WAIT);
        ck_assert_ptr_eq(w[i].wait.job, w[0].wait.job);
    }
    access_cancel(&w[3].wait); /* its exchange is gone */
    access_cancel(&w[3].wait);
    access_cancel(&w[19].wait);
    while (w[0].n == 0)
        io_loop_run_once(f.loop, NSEC_PER_SEC);
    for (int i = 0; i < 20; i++) {
        ck_assert_uint_eq(w[i].n, i != 3 && i != 19);
        ck_assert(w[i].n == 0 || w[i].verdict == ACCESS_YES);
    }
    fake_stop(&f);
}

UNIT(guessing_takes_a_few_slots_and_others_are_served)
{
    struct fake f;
    fake_start(&f, &open_options, NULL, USERS, NULL, 0);
    struct http_peer guesser = fake_peer(&f, "192.0.2.1:1"), carol = fake_peer(&f, "192.0.2.2:1");
    struct fake_wait w[64];
    unsigned waits = 0, busy = 0;
    for (int i = 0; i < 64; i++) {
        char value[32]; /* base64 of "carol:" and a guess of three digits */
        snprintf(value, sizeof value, "Basic Y2Fyb2w6MD%c%c", 'A' + i / 8, 'A' + i % 8 * 3);
        struct http_header header = {BYTES_LIT("authorization"), bytes_str(value)};
        struct http_exchange x = {.peer = &guesser, .headers = &header, .n_headers = 1};
        w[i] = (struct fake_wait){.wait = {.done = fake_done, .user = &w[i]}};
        switch (access_check(f.worker, &x, f.policy, &w[i].wait, clock_monotonic())) {
        case ACCESS_WAIT: waits++; break;
        case ACCESS_BUSY: busy++; break;
        default: break; /* not every one of them is base64 */
        }
        access_cancel(&w[i].wait);
    }
    ck_assert_uint_gt(waits, 0);
    ck_assert_int_eq(fake_ask(&f, &carol, CAROL), ACCESS_YES);
    access_leave(f.worker, &guesser);
    access_leave(f.worker, &carol);
    fake_stop(&f);
}

UNIT(a_worker_that_ends_while_a_password_is_verified_leaves_nothing)
{
    struct fake f;
    fake_start(&f, &open_options, NULL, USERS, NULL, 0);
    struct http_header header = {BYTES_LIT("authorization"), BYTES_LIT(CAROL)};
    struct http_exchange x = {.headers = &header, .n_headers = 1};
    struct fake_wait w = {.wait = {.done = fake_done, .user = &w}};
    ck_assert_int_eq(access_check(f.worker, &x, f.policy, &w.wait, clock_monotonic()), ACCESS_WAIT);
    access_cancel(&w.wait);
    fake_stop(&f);
    ck_assert_uint_eq(w.n, 0);
}

UNIT(identities_are_whole_names_or_patterns)
{
    struct fake f;
    const char *const names[] = {"spiffe://prod/*", "*.example.org", "exact", "a*z"};
    fake_start(&f, &open_options, NULL, NULL, names, 4);
    static const struct {
        const char *identity;
        enum access_verdict verdict;
    } cases[] = {
        {"spiffe://prod/agent", ACCESS_YES},
        {"spiffe://prod/", ACCESS_YES},
        {"spiffe://test/agent", ACCESS_FORBIDDEN},
        {"host.example.org", ACCESS_YES},
        {"example.org", ACCESS_FORBIDDEN},
        {"exact", ACCESS_YES},
        {"exactly", ACCESS_FORBIDDEN},
        {"az", ACCESS_YES},
        {"a-z", ACCESS_YES},
        {"a", ACCESS_FORBIDDEN},
        {"", ACCESS_FORBIDDEN},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct http_peer peer = {.address = "192.0.2.1:1"};
        snprintf(peer.identity, sizeof peer.identity, "%s", cases[i].identity);
        ck_assert_msg(fake_ask(&f, &peer, NULL) == cases[i].verdict, "%s", cases[i].identity);
        ck_assert(fake_ask(&f, &peer, "Bearer x") == cases[i].verdict);
    }
    ck_assert_uint_gt(counted(&f, STATS_AUTH_FORBIDDEN), 0);
    fake_stop(&f);
}

UNIT(an_identity_that_is_not_listed_may_still_have_a_token)
{
    struct fake f;
    const char *const names[] = {"exact"};
    fake_start(&f, &open_options, TOKENS, NULL, names, 1);
    struct http_peer peer = {.address = "192.0.2.1:1", .identity = "other"};
    ck_assert_int_eq(fake_ask(&f, &peer, NULL), ACCESS_MISSING);
    ck_assert_int_eq(fake_ask(&f, &peer, "Bearer alpha"), ACCESS_YES);
    fake_stop(&f);
}

UNIT(a_policy_is_checked_when_it_is_made)
{
    struct fake f;
    fake_start(&f, &open_options, NULL, NULL, NULL, 0);
    const struct access_policy *p = NULL;
    const char *const two_stars[] = {"a*b*c"};
    struct access_policy_options o = {.identities = two_stars, .n_identities = 1};
    ck_assert_int_lt(access_policy_new(f.access, &o, &p, &f.e), 0);
    ck_assert_ptr_nonnull(strstr(f.e.text, "at most one *"));
    o = (struct access_policy_options){.bearer_tokens_file = "/nonexistent/tokens"};
    ck_assert_int_lt(access_policy_new(f.access, &o, &p, &f.e), 0);
    ck_assert_ptr_nonnull(strstr(f.e.text, "/nonexistent/tokens: No such file"));
    o = (struct access_policy_options){.bearer_tokens_file = "/dev/zero"};
    ck_assert_int_lt(access_policy_new(f.access, &o, &p, &f.e), 0);
    ck_assert_ptr_nonnull(strstr(f.e.text, "/dev/zero: longer than 1 MiB"));
    ck_assert_ptr_null(p);
    fake_stop(&f);
}

UNIT(the_connections_of_one_name_are_counted_whatever_their_addresses)
{
    struct fake f;
    fake_start(&f, &limited, TOKENS, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1"), b = fake_peer(&f, "192.0.2.2:1"),
                     c = fake_peer(&f, "192.0.2.3:1");
    ck_assert_int_eq(fake_ask(&f, &a, "Bearer alpha"), ACCESS_YES);
    ck_assert_int_eq(fake_ask(&f, &b, "Bearer alpha"), ACCESS_YES);
    ck_assert_int_eq(fake_ask(&f, &c, "Bearer alpha"), ACCESS_LIMIT_CONNECTIONS);
    ck_assert_int_eq(fake_ask(&f, &c, "Bearer beta"), ACCESS_YES);
    access_leave(f.worker, &a);
    ck_assert_int_eq(fake_ask(&f, &c, "Bearer alpha"), ACCESS_YES);
    ck_assert_uint_eq(counted(&f, STATS_LIMIT_CLIENT_CONNECTIONS), 1);
    access_leave(f.worker, &b);
    access_leave(f.worker, &c);
    fake_stop(&f);
}
