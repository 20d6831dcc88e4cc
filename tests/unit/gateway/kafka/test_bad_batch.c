/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/kafka */
#include "tests/lib/unit.h"

#include "gateway/kafka/bad_batch.h"
#include "proto/base/macros.h"
#include "proto/base/rng.h"

#define BATCHES 12u

/* A partition of batches one behind the other, of which some cannot be read; from some only the last offsets
 * are left, and in some the last are missing (compaction). */
struct partition {
    struct {
        int64_t base, first, last, next; /* of the batch, and of the messages that are left in it */
        bool is_bad;
    } batches[BATCHES];
    int64_t end;
};

static void make(struct partition *p, struct rng *rng)
{
    int64_t at = (int64_t)(rng_next(rng) % 1000);
    for (uint32_t i = 0; i < BATCHES; i++) {
        const int64_t n = rng_next(rng) % 3 == 0 ? 1 : 1 + (int64_t)(rng_next(rng) % 5000);
        p->batches[i].base = at;
        p->batches[i].next = at + n;
        p->batches[i].first = at + (int64_t)(rng_next(rng) % (uint64_t)n);
        p->batches[i].last = p->batches[i].first;
        p->batches[i].is_bad = rng_next(rng) % 3 == 0;
        at += n + (rng_next(rng) % 4 == 0 ? 7 : 0);
    }
    p->end = at;
}

/* The first thing that a fetch at that offset leads to. */
static enum bad_batch_turn read_at(const struct partition *p, int64_t offset, struct bad_batch *b,
                                   int64_t *at, int64_t *message)
{
    *message = -1;
    for (uint32_t i = 0; i < BATCHES; i++) {
        if (p->batches[i].next <= offset)
            continue;
        if (p->batches[i].is_bad)
            return bad_batch_failed(b, p->batches[i].base, p->end, at);
        if (p->batches[i].last < offset)
            continue;
        *message = max_of(p->batches[i].first, offset);
        return bad_batch_passed(b, *message, at);
    }
    *message = p->end;
    return bad_batch_passed(b, p->end, at);
}

UNIT(what_can_be_read_is_read_once_and_what_cannot_is_passed_over)
{
    struct rng rng;
    rng_seed(&rng, 1);
    for (uint32_t round = 0; round < unit_rounds(2000); round++) {
        struct partition p;
        struct bad_batch b;
        int64_t offset, at, message;
        uint32_t n_fetches = 0, n_over = 0, n_bad = 0;
        bool was_read[BATCHES] = {false};
        make(&p, &rng);
        bad_batch_init(&b);
        for (offset = p.batches[0].base; offset < p.end && n_fetches < 10000; n_fetches++) {
            const enum bad_batch_turn turn = read_at(&p, offset, &b, &at, &message);
            if (turn == BAD_BATCH_SEEK) {
                offset = at;
                continue;
            }
            if (turn == BAD_BATCH_OVER) {
                bool is_one = false;
                for (uint32_t i = 0; i < BATCHES; i++)
                    /* up to where the next one is, which nobody can tell from a gap */
                    is_one |=
                        p.batches[i].is_bad && p.batches[i].base == b.base && b.next == p.batches[i].next;
                ck_assert_msg(is_one, "round %u: [%ld, %ld)", round, (long)b.base, (long)b.next);
                n_over++;
                bad_batch_init(&b);
                offset = at >= 0 ? at : offset;
                if (at >= 0)
                    continue;
            }
            for (uint32_t i = 0; i < BATCHES && message >= 0; i++)
                if (message >= p.batches[i].base && message < p.batches[i].next) {
                    ck_assert(!was_read[i]);
                    was_read[i] = true;
                    offset = p.batches[i].next;
                }
            offset = message == p.end ? p.end : offset;
        }
        for (uint32_t i = 0; i < BATCHES; i++) {
            ck_assert_msg(was_read[i] != p.batches[i].is_bad, "round %u, batch %u", round, i);
            n_bad += p.batches[i].is_bad;
        }
        ck_assert_uint_eq(n_over, n_bad);
        ck_assert_uint_le(n_fetches, BATCHES + 1 + n_bad * (BAD_BATCH_SURE + 2 * 13 + 2));
    }
}

UNIT(once_or_twice_is_not_believed)
{
    struct bad_batch b;
    int64_t at;
    bad_batch_init(&b);
    ck_assert_int_eq(bad_batch_failed(&b, 5, 10, &at), BAD_BATCH_NONE);
    ck_assert_int_eq(bad_batch_failed(&b, 5, 10, &at), BAD_BATCH_NONE);
    ck_assert_int_eq(bad_batch_passed(&b, 5, &at), BAD_BATCH_NONE);
    ck_assert_int_eq(bad_batch_failed(&b, 5, 10, &at), BAD_BATCH_NONE);
    ck_assert_int_eq(bad_batch_failed(&b, 5, 10, &at), BAD_BATCH_NONE);
    ck_assert_int_eq(bad_batch_failed(&b, 5, 10, &at), BAD_BATCH_SEEK);
    ck_assert_int_eq(at, 6);
}

UNIT(the_last_one_of_a_partition_ends_where_that_does)
{
    struct bad_batch b;
    int64_t at;
    bad_batch_init(&b);
    for (uint32_t i = 1; i < BAD_BATCH_SURE; i++)
        ck_assert_int_eq(bad_batch_failed(&b, 41, 42, &at), BAD_BATCH_NONE);
    ck_assert_int_eq(bad_batch_failed(&b, 41, 42, &at), BAD_BATCH_OVER);
    ck_assert_int_eq(at, 42);
}

UNIT(who_is_read_elsewhere_is_forgotten)
{
    struct bad_batch b;
    int64_t at;
    bad_batch_init(&b);
    for (uint32_t i = 0; i < BAD_BATCH_SURE; i++)
        bad_batch_failed(&b, 5, 100, &at);
    ck_assert_int_eq(bad_batch_passed(&b, 3, &at), BAD_BATCH_NONE); /* before it */
    ck_assert_int_eq(b.base, -1);
}
