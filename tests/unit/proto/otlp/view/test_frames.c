/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/schema */
/* Lines of locations times mentions of them: frames no byte pays for. */
#include <string.h>

#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/view/handmade.h"

/* Location 2: `lines` inlined functions; then stacks that name it, one of `mentions[i]` after another. */
static void put_inlined(struct wire_writer *w, uint32_t lines, const uint32_t *mentions, uint32_t n_stacks)
{
    IN(w, 2) for (uint32_t i = 0; i < lines; i++) IN(w, 3) wire_put_uint(w, 1, 1);
    for (uint32_t s = 0; s < n_stacks; s++) {
        autofree uint32_t *items = unit_made(malloc((mentions[s] + 1) * sizeof *items));
        for (uint32_t i = 0; i < mentions[s]; i++)
            items[i] = 2;
        IN(w, 7) wire_put_packed32(w, 1, items, mentions[s]);
    }
}

/* A request of a profile whose samples are of stacks 1 … n + 1; the first is a good one of the usual tables.
 */
static int decode_stacks(struct made *m, uint32_t lines, const uint32_t *mentions, uint32_t n)
{
    struct wire_writer *w = made_begin(m);
    IN(w, 2)
    {
        put_tables(w);
        put_inlined(w, lines, mentions, n);
    }
    IN(w, 1)
    {
        IN(w, 2) IN(w, 2) for (uint32_t i = 0; i <= n; i++)
        {
            IN(w, 2)
            {
                wire_put_uint(w, 1, i + 1);
                wire_put_packed64(w, 4, (int64_t[]){7}, 1);
            }
        }
    }
    return made_decode(m);
}

UNIT(a_stack_of_too_many_frames_is_rejected_alone_and_named)
{
    cleanup(made_end) struct made m;
    const uint32_t mentions[] = {PROFILES_STACK_FRAMES_MAX / 64, PROFILES_STACK_FRAMES_MAX / 64 + 1, 3};
    ck_assert_int_eq(decode_stacks(&m, 64, mentions, 3), 0);
    ck_assert_uint_eq(m.v.sample.n, 4);
    ck_assert_uint_eq(m.v.rejected.samples, 1);
    ck_assert_uint_eq(m.v.rejected.profiles, 1);
    ck_assert_uint_eq(m.v.sample.stack[0], 1);
    ck_assert_uint_eq(m.v.sample.stack[1], 2); /* exactly as many as may be */
    ck_assert_uint_eq(m.v.sample.stack[2], PROFILES_REJECTED);
    ck_assert_uint_eq(m.v.sample.stack[3], 4);
    ck_assert_msg(strstr(m.v.rejected.first.text, "samples[2]: stack_table[3]: more than 65536 frames"), "%s",
                  m.v.rejected.first.text);
}

UNIT(a_long_stack_of_single_frames_is_bounded_too)
{
    cleanup(made_end) struct made m;
    const uint32_t mentions[] = {PROFILES_STACK_FRAMES_MAX, PROFILES_STACK_FRAMES_MAX + 1};
    ck_assert_int_eq(decode_stacks(&m, 1, mentions, 2), 0);
    ck_assert_uint_eq(m.v.rejected.samples, 1);
    ck_assert_uint_eq(m.v.sample.stack[1], 2);
}

/* Each stack is small enough, but their sum is not: 16 frames a byte and a million. */
UNIT(stacks_that_mean_too_much_together_are_refused_with_words)
{
    uint32_t mentions[400];
    for (uint32_t i = 0; i < 400; i++)
        mentions[i] = 60;
    struct made m;
    ck_assert_int_eq(decode_stacks(&m, 1000, mentions, 18), 0); /* 1.08 million of some 6 KB */
    ck_assert_uint_eq(m.v.rejected.samples, 0);
    made_end(&m);
    ck_assert_int_eq(decode_stacks(&m, 1000, mentions, 400), PROFILES_TOO_LARGE);
    ck_assert_msg(strstr(m.e.text, "the stacks have 24000001 frames"), "%s", m.e.text);
    ck_assert_uint_eq(m.v.sample.n, 0);
    made_end(&m);
}

/* What no sample uses rejects none, but is not walked for nothing either. */
UNIT(a_deep_stack_that_nobody_uses_harms_nobody)
{
    cleanup(made_end) struct made m;
    const uint32_t mentions[] = {3, 100000};
    struct wire_writer *w = made_begin(&m);
    IN(w, 2)
    {
        put_tables(w);
        put_inlined(w, 1000, mentions, 2);
    }
    IN(w, 1)
    {
        IN(w, 2) IN(w, 2) put_sample(w);
    }
    ck_assert_int_eq(made_decode(&m), 0);
    ck_assert_uint_eq(m.v.rejected.samples, 0);
    ck_assert_uint_eq(m.v.sample.stack[0], 1);
}
