/* SPDX-License-Identifier: Apache-2.0 */
/* How much: connections, requests, bytes and memory of clients and tenants, through access.h. */
#include "tests/unit/gateway/access/fake.h"

#define S ((uint64_t)NSEC_PER_SEC)

static struct http_header tenant_header = {BYTES_LIT("x-scope-orgid"), {0}};

static enum access_verdict enter(struct fake *f, const struct http_peer *peer, const char *tenant,
                                 int64_t length, uint64_t now, struct access_pass *pass, uint64_t *retry)
{
    tenant_header.value = bytes_str(tenant);
    struct http_exchange x = {
        .peer = peer, .headers = &tenant_header, .n_headers = tenant != NULL, .content_length = length};
    *retry = 0;
    return access_enter(f->worker, &x, pass, now, retry);
}

UNIT(no_limits_cost_no_tables)
{
    struct fake f;
    struct access_options o = {0};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer peer = fake_peer(&f, "192.0.2.1:1");
    struct access_pass pass;
    uint64_t retry;
    ck_assert_int_eq(enter(&f, &peer, NULL, 1 << 30, S, &pass, &retry), ACCESS_YES);
    ck_assert_ptr_null(pass.client);
    ck_assert_int_eq(access_body(f.worker, &pass, 1 << 30, S, &retry), ACCESS_YES);
    access_exit(f.worker, &pass);
    ck_assert_uint_eq(atomic_load(&f.budget.used), 0);
    access_leave(f.worker, &peer);
    fake_stop(&f);
}

UNIT(connections_are_counted_by_address)
{
    struct fake f;
    struct access_options o = {.per_client = {.connections = 2}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1"), b = fake_peer(&f, "192.0.2.1:2"),
                     other = fake_peer(&f, "[2001:db8::1]:1");
    struct http_peer third = {.address = "192.0.2.1:3"};
    ck_assert(!access_admit(f.worker, &third));
    ck_assert_ptr_null(third.client);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_CLIENT_CONNECTIONS], 1);
    access_leave(f.worker, &a);
    ck_assert(access_admit(f.worker, &third));
    access_leave(f.worker, &third);
    access_leave(f.worker, &third); /* one that was never admitted, or left already */
    access_leave(f.worker, &b);
    access_leave(f.worker, &other);
    fake_stop(&f);
}

UNIT(requests_at_once_are_counted_over_all_connections_of_a_client)
{
    struct fake f;
    struct access_options o = {.per_client = {.requests = 2}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1"), b = fake_peer(&f, "192.0.2.1:2"),
                     other = fake_peer(&f, "192.0.2.9:1");
    struct access_pass pass[4];
    uint64_t retry;
    ck_assert_int_eq(enter(&f, &a, NULL, -1, S, &pass[0], &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, &b, NULL, -1, S, &pass[1], &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, &b, NULL, -1, S, &pass[2], &retry), ACCESS_LIMIT_REQUESTS);
    ck_assert_uint_gt(retry, 0);
    ck_assert_ptr_null(pass[2].client);
    ck_assert_int_eq(enter(&f, &other, NULL, -1, S, &pass[3], &retry), ACCESS_YES);
    access_exit(f.worker, &pass[0]);
    access_exit(f.worker, &pass[0]); /* empty now */
    ck_assert_int_eq(enter(&f, &b, NULL, -1, S, &pass[2], &retry), ACCESS_YES);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_CLIENT_REQUESTS], 1);
    for (int i = 0; i < 4; i++)
        access_exit(f.worker, &pass[i]);
    access_leave(f.worker, &a);
    access_leave(f.worker, &b);
    access_leave(f.worker, &other);
    fake_stop(&f);
}

UNIT(bytes_told_are_paid_at_once)
{
    struct fake f;
    struct access_options o = {.per_client = {.bytes_per_second = 1000, .burst_bytes = 10000}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1");
    struct access_pass pass;
    uint64_t retry;
    ck_assert_int_eq(enter(&f, &a, NULL, 10000, 100 * S, &pass, &retry), ACCESS_YES);
    ck_assert_int_eq(access_body(f.worker, &pass, 10000, 100 * S, &retry), ACCESS_YES); /* not paid twice */
    access_exit(f.worker, &pass);
    ck_assert_int_eq(enter(&f, &a, NULL, 1000, 100 * S, &pass, &retry), ACCESS_LIMIT_BYTES);
    ck_assert_uint_gt(retry, 9 * S / 10);
    ck_assert_uint_le(retry, S);
    ck_assert_int_eq(enter(&f, &a, NULL, 1000, 100 * S + retry, &pass, &retry), ACCESS_YES);
    access_exit(f.worker, &pass);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_CLIENT_BYTES], 1);
    access_leave(f.worker, &a);
    fake_stop(&f);
}

/* 100 KiB a second in requests of 20 KiB, told or not: no more than a second's worth at once. */
UNIT(a_burst_is_a_seconds_worth_unless_it_is_said)
{
    for (int told = 0; told < 2; told++) {
        struct fake f;
        struct access_options o = {.per_client = {.bytes_per_second = 100 << 10}};
        fake_start(&f, &o, NULL, NULL, NULL, 0);
        struct http_peer a = fake_peer(&f, "192.0.2.1:1");
        uint64_t through = 0, retry;
        for (uint64_t ms = 0; ms < 3500; ms += 10) {
            struct access_pass pass;
            uint64_t now = 100 * S + ms * (S / 1000);
            if (enter(&f, &a, NULL, told ? 20 << 10 : -1, now, &pass, &retry) != ACCESS_YES)
                continue;
            if (access_body(f.worker, &pass, 20 << 10, now, &retry) == ACCESS_YES)
                through += 20 << 10;
            access_exit(f.worker, &pass);
        }
        ck_assert_uint_ge(through, 350 << 10);
        ck_assert_uint_le(through, (450 << 10) + (20 << 10));
        access_leave(f.worker, &a);
        fake_stop(&f);
    }
}

UNIT(what_is_more_than_a_burst_waits_for_a_full_bucket_and_is_paid_behind)
{
    struct fake f;
    struct access_options o = {.per_client = {.bytes_per_second = 1000}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1");
    struct access_pass pass;
    uint64_t retry;
    ck_assert_int_eq(enter(&f, &a, NULL, 5000, 100 * S, &pass, &retry), ACCESS_YES);
    access_exit(f.worker, &pass);
    ck_assert_int_eq(enter(&f, &a, NULL, 500, 104 * S, &pass, &retry), ACCESS_LIMIT_BYTES);
    ck_assert_int_eq(enter(&f, &a, NULL, 5000, 104 * S + S / 2, &pass, &retry), ACCESS_LIMIT_BYTES);
    ck_assert_int_eq(enter(&f, &a, NULL, 5000, 105 * S, &pass, &retry), ACCESS_YES);
    access_exit(f.worker, &pass);
    access_leave(f.worker, &a);
    fake_stop(&f);
}

UNIT(bytes_not_told_are_owed_and_the_next_request_waits)
{
    struct fake f;
    struct access_options o = {.per_client = {.bytes_per_second = 1000, .burst_bytes = 10000}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1");
    struct access_pass pass, second;
    uint64_t retry;
    ck_assert_int_eq(enter(&f, &a, NULL, -1, 100 * S, &pass, &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, &a, NULL, -1, 100 * S, &second, &retry), ACCESS_YES);
    ck_assert_int_eq(access_body(f.worker, &pass, 10000, 100 * S, &retry), ACCESS_YES);
    ck_assert_int_eq(access_body(f.worker, &second, 9000, 100 * S, &retry), ACCESS_YES);
    struct access_pass third;
    ck_assert_int_eq(enter(&f, &a, NULL, -1, 100 * S, &third, &retry), ACCESS_LIMIT_BYTES);
    ck_assert_uint_ge(retry, 8 * S);
    ck_assert_uint_le(retry, 9 * S);
    /* Many at once may not owe without end: at a burst of others' debt a request ends in the middle. */
    ck_assert_int_eq(access_body(f.worker, &pass, 3000, 100 * S, &retry), ACCESS_YES);
    ck_assert_int_eq(access_body(f.worker, &second, 1000, 100 * S, &retry), ACCESS_LIMIT_BYTES);
    ck_assert_uint_gt(retry, 10 * S);
    access_exit(f.worker, &pass);
    access_exit(f.worker, &second);
    ck_assert_int_eq(enter(&f, &a, NULL, -1, 114 * S, &third, &retry), ACCESS_YES);
    access_exit(f.worker, &third);
    access_leave(f.worker, &a);
    fake_stop(&f);
}

UNIT(memory_is_of_all_bodies_under_way_and_one_that_never_fits_is_told_so)
{
    struct fake f;
    struct access_options o = {.per_client = {.memory = 100000}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1");
    struct access_pass pass, second;
    uint64_t retry;
    ck_assert_int_eq(enter(&f, &a, NULL, 100001, S, &pass, &retry), ACCESS_LIMIT_NEVER);
    ck_assert_int_eq(enter(&f, &a, NULL, 100000, S, &pass, &retry), ACCESS_YES);
    for (int i = 0; i < 100; i++)
        ck_assert_int_eq(access_body(f.worker, &pass, 600, S, &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, &a, NULL, -1, S, &second, &retry), ACCESS_YES);
    ck_assert_int_eq(access_body(f.worker, &second, 60000, S, &retry), ACCESS_LIMIT_MEMORY);
    ck_assert_uint_gt(retry, 0);
    access_exit(f.worker, &second);
    ck_assert_int_eq(access_body(f.worker, &pass, 40000, S, &retry), ACCESS_YES); /* the whole of it */
    access_exit(f.worker, &pass);
    ck_assert_int_eq(enter(&f, &a, NULL, -1, S, &second, &retry), ACCESS_YES);
    ck_assert_int_eq(access_body(f.worker, &second, 100001, S, &retry), ACCESS_LIMIT_NEVER);
    access_exit(f.worker, &second);
    access_leave(f.worker, &a);
    fake_stop(&f);
}

UNIT(tenants_have_names_of_a_bounded_kind)
{
    struct fake f;
    struct access_options o = {.tenant_header = "X-Scope-OrgID", .tenant_required = true};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct access_pass pass;
    uint64_t retry;
    char longest[130];
    memset(longest, 'a', sizeof longest);
    longest[129] = 0;
    ck_assert_int_eq(enter(&f, NULL, NULL, 1, S, &pass, &retry), ACCESS_NO_TENANT);
    ck_assert_int_eq(enter(&f, NULL, "", 1, S, &pass, &retry), ACCESS_NO_TENANT);
    ck_assert_int_eq(enter(&f, NULL, "team-1_(x)*.'!", 1, S, &pass, &retry), ACCESS_YES);
    const char *bad[] = {"a b", "a|b", "a/b", ".", "..", "\xc3\xa4", longest};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        ck_assert_msg(enter(&f, NULL, bad[i], 1, S, &pass, &retry) == ACCESS_BAD_TENANT, "%s", bad[i]);
    longest[128] = 0;
    ck_assert_int_eq(enter(&f, NULL, longest, 1, S, &pass, &retry), ACCESS_YES);
    struct http_header twice[] = {tenant_header, tenant_header};
    struct http_exchange x = {.headers = twice, .n_headers = 2};
    ck_assert_int_eq(access_enter(f.worker, &x, &pass, S, &retry), ACCESS_BAD_TENANT);
    fake_stop(&f);
    struct access *none = NULL;
    o.tenant_header = "not a header";
    ck_assert_int_lt(access_new(&none, &o, NULL, &f.e), 0);
    ck_assert_ptr_null(none);
}

UNIT(a_tenant_s_limits_hold_over_all_its_clients_and_a_refused_request_costs_the_client_nothing)
{
    struct fake f;
    struct access_options o = {
        .tenant_header = "X-Scope-OrgID",
        .per_client = {.bytes_per_second = 1000, .burst_bytes = 1064, .requests = 5},
        .per_tenant = {.bytes_per_second = 500, .burst_bytes = 1064, .requests = 2, .memory = 5000}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer a = fake_peer(&f, "192.0.2.1:1"), b = fake_peer(&f, "192.0.2.2:1");
    struct access_pass pass[3];
    uint64_t retry, now = 100 * S;
    ck_assert_int_eq(enter(&f, &a, "t", 500, now, &pass[0], &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, &b, "t", 500, now, &pass[1], &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, &b, "t", 100, now, &pass[2], &retry), ACCESS_LIMIT_REQUESTS);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_TENANT_REQUESTS], 1);
    access_exit(f.worker, &pass[1]);
    ck_assert_int_eq(enter(&f, &b, "t", 100, now, &pass[2], &retry), ACCESS_LIMIT_BYTES);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_TENANT_BYTES], 1);
    /* b has used 500 of its own 1,064; what the tenant refused is not among them. */
    ck_assert_int_eq(enter(&f, &b, "other", 560, now, &pass[1], &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, &b, "third", 100, now, &pass[2], &retry), ACCESS_LIMIT_BYTES);
    ck_assert_uint_eq(f.stats.value[STATS_LIMIT_CLIENT_BYTES], 1);
    access_exit(f.worker, &pass[0]);
    access_exit(f.worker, &pass[1]);
    access_leave(f.worker, &a);
    access_leave(f.worker, &b);
    fake_stop(&f);
}

UNIT(requests_without_a_tenant_are_those_of_one)
{
    struct fake f;
    struct access_options o = {.tenant_header = "X-Scope-OrgID", .per_tenant = {.requests = 1}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct access_pass pass, second;
    uint64_t retry;
    ck_assert_int_eq(enter(&f, NULL, NULL, 1, S, &pass, &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, NULL, NULL, 1, S, &second, &retry), ACCESS_LIMIT_REQUESTS);
    ck_assert_int_eq(enter(&f, NULL, "t", 1, S, &second, &retry), ACCESS_YES);
    access_exit(f.worker, &pass);
    access_exit(f.worker, &second);
    fake_stop(&f);
}

UNIT(what_is_fetched_on_a_tenant_s_behalf_is_that_tenant_s)
{
    struct fake f;
    struct access_options o = {.tenant_header = "X-Scope-OrgID",
                               .per_tenant = {.requests = 1, .memory = 5000}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct access_pass pass, second;
    uint64_t retry;
    ck_assert_int_eq(access_enter_for(f.worker, BYTES_LIT("t"), 1, &pass, S, &retry), ACCESS_YES);
    ck_assert_int_eq(enter(&f, NULL, "t", 1, S, &second, &retry), ACCESS_LIMIT_REQUESTS);
    ck_assert_int_eq(access_enter_for(f.worker, BYTES_LIT(""), 1, &second, S, &retry), ACCESS_YES);
    ck_assert_uint_ne(access_client(&pass), access_client(&second));
    access_exit(f.worker, &pass);
    ck_assert_int_eq(access_enter_for(f.worker, BYTES_LIT("t"), 5001, &pass, S, &retry), ACCESS_LIMIT_NEVER);
    ck_assert_int_eq(enter(&f, NULL, "t", 1, S, &pass, &retry), ACCESS_YES);
    access_exit(f.worker, &pass);
    access_exit(f.worker, &second);
    fake_stop(&f);
}

UNIT(any_number_of_tenants_is_held_in_a_bounded_table)
{
    struct fake f;
    struct access_options o = {.tenant_header = "X-Scope-OrgID", .per_tenant = {.requests = 1}};
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct access_pass pass;
    uint64_t retry;
    for (int i = 0; i < 20000; i++) {
        char name[16];
        snprintf(name, sizeof name, "t%d", i);
        ck_assert_int_eq(enter(&f, NULL, name, 1, S, &pass, &retry), ACCESS_YES);
        access_exit(f.worker, &pass);
    }
    ck_assert_uint_le(atomic_load(&f.budget.used), 4096 * 200);
    fake_stop(&f);
}

/* 20 addresses send bodies that do not end, one after the other, each as much as it may: whoever comes then
 * has room, and when there are more, those that came early give way at their next byte. */
UNIT(addresses_that_are_many_leave_room_to_one_more)
{
    enum { N = 20, PIECE = 64 << 10 };
    struct fake f;
    struct access_options o = {.per_client = {.memory = 16 << 20}}; /* of 64 MiB, in the fake */
    fake_start(&f, &o, NULL, NULL, NULL, 0);
    struct http_peer peers[N + 1];
    struct access_pass passes[N + 1];
    uint64_t retry;
    size_t held = 0;
    for (int i = 0; i <= N; i++) {
        char address[32];
        snprintf(address, sizeof address, "192.0.2.%d:1", i + 1);
        peers[i] = fake_peer(&f, address);
        ck_assert_int_eq(enter(&f, &peers[i], NULL, -1, S, &passes[i], &retry), ACCESS_YES);
    }
    for (int i = 0; i < N; i++)
        while (passes[i].memory < 15 << 20 &&
               access_body(f.worker, &passes[i], PIECE, S, &retry) == ACCESS_YES) {
            ck_assert(budget_charge(&f.budget, PIECE)); /* as who collects the body does */
            held += PIECE;
        }
    ck_assert_uint_eq(passes[0].memory, 15 << 20); /* nearly a quarter, while it was alone */
    ck_assert_int_eq(access_body(f.worker, &passes[0], 1, S, &retry), ACCESS_LIMIT_MEMORY);
    ck_assert_uint_gt(retry, 0);
    budget_refund(&f.budget, passes[0].memory);
    held -= passes[0].memory;
    access_exit(f.worker, &passes[0]);
    ck_assert_int_eq(access_body(f.worker, &passes[N], 256 << 10, S, &retry), ACCESS_YES);
    for (int i = 1; i <= N; i++)
        access_exit(f.worker, &passes[i]);
    for (int i = 0; i <= N; i++)
        access_leave(f.worker, &peers[i]);
    budget_refund(&f.budget, held);
    fake_stop(&f);
}
