/* SPDX-License-Identifier: Apache-2.0 */
/* What a sealed slice says is what was added to it, and bytes that are none of a slice's are told from one.
 */
#include "gateway/look/slice.h"

#include "proto/base/rng.h"
#include "tests/lib/unit.h"

static struct rng rng;

static look_pairs pairs_at_random(uint32_t n, uint32_t n_series, uint32_t n_nodes)
{
    look_pairs pairs = {0};
    for (uint32_t i = 0; i < n; i++) {
        const struct look_pair pair = {(uint32_t)(rng_next(&rng) % n_series),
                                       (uint32_t)(rng_next(&rng) % n_nodes),
                                       rng_next(&rng) >> rng_next(&rng) % 64, rng_next(&rng) % 1000, 1};
        ck_assert_int_eq(vec_append(&pairs, pair), 0);
    }
    return pairs;
}

/* Reads all of it; -1: damaged. */
static int64_t read_all(struct bytes slice, look_pairs *ret)
{
    struct look_sections sections;
    struct look_section section;
    int64_t n = 0;
    int r = look_sections_begin(slice, &sections);
    while (r == 0 && (r = look_sections_next(&sections, &section)) == 0) {
        struct look_pair pair = {.series = section.series};
        uint64_t total = 0;
        while ((r = look_pairs_next(&section, &pair.node, &pair.value)) == 0) {
            n++;
            total = look_add(total, pair.value);
            if (ret)
                ck_assert_int_eq(vec_append(ret, pair), 0);
        }
        if (ret)
            ck_assert_uint_eq(total, section.total);
        r = r == LOOK_SLICE_END ? 0 : r;
    }
    return r == LOOK_SLICE_END ? n : -1;
}

UNIT(what_is_read_is_what_was_added)
{
    rng_seed(&rng, 17);
    for (uint32_t n = 0; n < 400; n += 1 + n / 3) {
        look_pairs pairs = pairs_at_random(n, 7, 300), read = {0};
        cleanup(buffer_release) struct buffer out = {0};
        uint64_t sum[7][300] = {{0}};
        for (uint32_t i = 0; i < n; i++) {
            uint64_t *at = &sum[pairs.p[i].series][pairs.p[i].node];
            *at = look_add(*at, pairs.p[i].value);
        }
        look_pairs_merge(&pairs);
        ck_assert_int_eq(look_slice_write(&pairs, &out), 0);
        ck_assert_int_eq(read_all(buffer_bytes(&out), &read), pairs.n);
        for (uint32_t i = 0; i < read.n; i++) {
            ck_assert_uint_eq(read.p[i].value, sum[read.p[i].series][read.p[i].node]);
            sum[read.p[i].series][read.p[i].node] = 0;
        }
        for (uint32_t s = 0; s < 7; s++)
            for (uint32_t k = 0; k < 300; k++)
                ck_assert_uint_eq(sum[s][k], 0);
        vec_release(&pairs);
        vec_release(&read);
    }
}

/* Two or three bytes a pair, since all are of one sampler. */
UNIT(values_are_multiples_of_a_period)
{
    look_pairs pairs = {0}, read = {0};
    cleanup(buffer_release) struct buffer out = {0};
    for (uint32_t i = 0; i < 1000; i++)
        ck_assert_int_eq(vec_append(&pairs, (struct look_pair){1, 10 * i, 52631579ull * (1 + i % 3), 256, 1}),
                         0);
    look_pairs_merge(&pairs);
    ck_assert_int_eq(look_slice_write(&pairs, &out), 0);
    ck_assert_uint_lt(out.n, 2100);
    ck_assert_int_eq(read_all(buffer_bytes(&out), &read), pairs.n);
    for (uint32_t i = 0; i < read.n; i++)
        ck_assert_uint_eq(read.p[i].value, pairs.p[i].value);
    vec_release(&pairs);
    vec_release(&read);
}

UNIT(damaged_bytes_end_somewhere)
{
    rng_seed(&rng, 18);
    look_pairs pairs = pairs_at_random(300, 5, 100);
    cleanup(buffer_release) struct buffer out = {0};
    look_pairs_merge(&pairs);
    ck_assert_int_eq(look_slice_write(&pairs, &out), 0);
    for (size_t cut = 0; cut < out.n; cut++)
        ck_assert_int_eq(read_all(bytes_of(out.p, cut), NULL), -1);
    for (uint32_t i = 0; i < 20000; i++) {
        uint8_t *byte = &out.p[rng_next(&rng) % out.n], was = *byte;
        *byte = (uint8_t)rng_next(&rng);
        read_all(buffer_bytes(&out), NULL);
        *byte = was;
    }
    vec_release(&pairs);
}
