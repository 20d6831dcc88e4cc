/* SPDX-License-Identifier: Apache-2.0 */
#include <pthread.h>
#include <stdio.h>

#include "gateway/access/parties.h"
#include "tests/lib/unit.h"

static struct party *find(struct parties *t, const char *prefix, int i)
{
    char key[64];
    snprintf(key, sizeof key, "%s%d", prefix, i);
    return parties_find(t, bytes_str(key));
}

UNIT(one_key_is_one_party_with_or_without_holders)
{
    struct parties *t = unit_made(parties_new(64, SIZE_MAX, NULL));
    struct party *a = find(t, "a", 1), *b = find(t, "b", 1);
    ck_assert_ptr_ne(a, b);
    ck_assert_ptr_eq(find(t, "a", 1), a);
    party_drop(a);
    a->rate.paid_until = 7;
    party_drop(a);
    ck_assert_ptr_eq(find(t, "a", 1), a); /* kept for its rate */
    ck_assert_uint_eq(a->rate.paid_until, 7);
    party_drop(a);
    party_drop(b);
    ck_assert_uint_eq(parties_count(t), 2);
    parties_free(t);
}

UNIT(the_table_is_bounded_by_forgetting_those_idle_longest)
{
    struct budget budget = BUDGET_INIT(1 << 20, NULL);
    struct parties *t = unit_made(parties_new(64, SIZE_MAX, &budget));
    struct party *used = find(t, "used", 0);
    for (int i = 0; i < 10000; i++)
        party_drop(find(t, "k", i));
    ck_assert_uint_le(parties_count(t), 64);
    ck_assert_ptr_eq(find(t, "used", 0), used);
    party_drop(used);
    party_drop(used);
    parties_free(t);
    ck_assert_uint_eq(budget.used, 0);
}

UNIT(when_all_are_in_use_the_rest_share_one)
{
    struct parties *t = unit_made(parties_new(64, 1000, NULL));
    struct party *all[1000];
    unsigned shared = 0;
    for (int i = 0; i < 1000; i++)
        all[i] = find(t, "k", i);
    for (int i = 0; i < 1000; i++)
        shared += all[i]->shard == NULL;
    ck_assert_uint_eq(shared, 1000 - parties_count(t));
    ck_assert_uint_le(parties_count(t), 64);
    for (int i = 0; i < 1000; i++) {
        ck_assert_uint_eq(all[i]->memory.limit, 1000);
        party_drop(all[i]);
    }
    parties_free(t);
}

UNIT(without_memory_a_party_is_the_shared_one)
{
    struct budget none = BUDGET_INIT(10, NULL);
    struct parties *t = unit_made(parties_new(64, 1000, &none));
    struct party *p = find(t, "k", 1);
    ck_assert_ptr_null(p->shard);
    party_drop(p);
    parties_free(t);
}

/* References come and go on two threads at once: a sanitizer, or the count at the end, would tell. */
static void *churn(void *arg)
{
    struct parties *t = arg;
    for (int i = 0; i < 20000; i++) {
        struct party *p = find(t, "k", i % 100), *again = party_hold(p);
        atomic_fetch_add(&p->requests, 1);
        party_drop(p);
        atomic_fetch_sub(&again->requests, 1);
        party_drop(again);
    }
    return NULL;
}

UNIT(threads_find_and_drop_the_same_parties)
{
    struct parties *t = unit_made(parties_new(64, SIZE_MAX, NULL));
    pthread_t other;
    ck_assert_int_eq(pthread_create(&other, NULL, churn, t), 0);
    churn(t);
    pthread_join(other, NULL);
    for (int i = 0; i < 100; i++) {
        struct party *p = find(t, "k", i);
        ck_assert_uint_eq(atomic_load(&p->requests), 0);
        ck_assert(!p->shard || atomic_load(&p->refs) == 1);
        party_drop(p);
    }
    parties_free(t);
}
