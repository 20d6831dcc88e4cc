/* SPDX-License-Identifier: Apache-2.0 */
/* needs: gateway/kafka */
#include "tests/lib/unit.h"

#include "gateway/kafka/progress.h"

#define SEC 1000000000ull

UNIT(what_is_done_is_committed_when_it_was_flushed)
{
    struct progress p;
    int64_t offset = -2;
    progress_init(&p);
    ck_assert(progress_is_settled(&p));
    progress_done(&p, 10, 1 * SEC);
    progress_done(&p, 20, 2 * SEC);
    ck_assert(!progress_ask(&p, &offset));
    progress_flushed(&p, 2 * SEC); /* what was done at that moment is not before it */
    ck_assert(progress_ask(&p, &offset));
    ck_assert_int_eq(offset, 10);
    ck_assert(!progress_ask(&p, &offset)); /* asked once */
    progress_committed(&p, 10, true);
    ck_assert(!progress_is_settled(&p));
    progress_flushed(&p, UINT64_MAX);
    ck_assert(progress_ask(&p, &offset));
    ck_assert_int_eq(offset, 20);
    progress_committed(&p, 20, true);
    ck_assert(progress_is_settled(&p));
}

UNIT(what_failed_is_asked_for_again)
{
    struct progress p;
    int64_t offset;
    progress_init(&p);
    progress_done(&p, 10, 1 * SEC);
    progress_flushed(&p, 2 * SEC);
    ck_assert(progress_ask(&p, &offset));
    progress_committed(&p, 10, false);
    ck_assert(progress_ask(&p, &offset));
    ck_assert_int_eq(offset, 10);
    progress_done(&p, 30, 3 * SEC);
    progress_flushed(&p, 4 * SEC);
    ck_assert(progress_ask(&p, &offset));
    progress_committed(&p, 10, false); /* the answer to an older one: a newer one is under way */
    ck_assert(!progress_ask(&p, &offset));
    progress_committed(&p, 30, true);
    ck_assert(progress_is_settled(&p));
}

/* However many messages and however long without a flush: the notes are few, and never say too much. */
UNIT(notes_are_bounded_and_never_early)
{
    struct progress p;
    int64_t offset;
    progress_init(&p);
    for (uint64_t i = 1; i <= 1000000; i++)
        progress_done(&p, (int64_t)i, i * SEC / 1000); /* a thousand a second, without a flush */
    ck_assert_uint_le(p.n_marks, PROGRESS_MARKS);
    for (uint64_t t = 0; t <= 20; t++) {
        progress_flushed(&p, t * SEC);
        if (progress_ask(&p, &offset)) {
            ck_assert_int_lt(offset, (int64_t)(t * 1000)); /* done before t seconds */
            ck_assert_int_gt(offset, (int64_t)(t * 1000) - 2 * (int64_t)(PROGRESS_MARK_NS / 1000000));
        } else {
            ck_assert_uint_eq(t, 0);
        }
    }
    progress_flushed(&p, 1001 * SEC);
    ck_assert(progress_ask(&p, &offset));
    ck_assert_int_eq(offset, 1000000);
}

/* A topic that was made again begins at 0: what was committed of the former says nothing. */
UNIT(an_offset_before_the_last_begins_anew)
{
    struct progress p;
    int64_t offset;
    progress_init(&p);
    progress_done(&p, 100, 1 * SEC);
    progress_flushed(&p, 2 * SEC);
    ck_assert(progress_ask(&p, &offset));
    progress_done(&p, 5, 3 * SEC);
    progress_committed(&p, 100, true); /* the answer to what was asked before */
    ck_assert(!progress_is_settled(&p));
    progress_flushed(&p, 4 * SEC);
    ck_assert(progress_ask(&p, &offset));
    ck_assert_int_eq(offset, 5);
    progress_committed(&p, 5, true);
    ck_assert(progress_is_settled(&p));
}
