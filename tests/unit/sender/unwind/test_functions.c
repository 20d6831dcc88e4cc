/* SPDX-License-Identifier: Apache-2.0 */
/* Functions of a large program found in its linker's table, which is made here. */
#include "tests/lib/unit.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "sender/unwind/functions.h"

#define N      200000u
#define AROUND 64u
#define PAGE   4096u

struct made {
    int32_t (*entry)[2]; /* N of (start, FDE), from `code` on */
    uint64_t n_reads;
    struct functions f;
};

static size_t read_made(void *of, uint64_t offset, void *to, size_t n)
{
    struct made *m = of;
    m->n_reads++;
    memcpy(to, (const char *)m->entry + offset, n);
    return n;
}

/* Deterministic, and anything but even: small ones by the thousand, and large ones. */
static uint32_t size_of(uint32_t i)
{
    uint32_t x = i * 2654435761u >> 16;
    return i / 3000 % 3 == 0 ? 16 + x % 32 : i / 3000 % 3 == 1 ? 2000 + x % 20000 : 64 + x % 2000;
}

static void make(struct made *m, struct source *s)
{
    const uint64_t code = 0x10000;
    uint64_t at = code;
    m->entry = unit_made(calloc(N, sizeof *m->entry));
    for (uint32_t i = 0; i < N; i++, at += size_of(i)) {
        m->entry[i][0] = (int32_t)at;
        m->entry[i][1] = (int32_t)i;
    }
    ck_assert_uint_lt(at, INT32_MAX);
    *s = source_read_by(read_made, m, N * sizeof *m->entry);
    m->f = (struct functions){.image = {.source = s, .n_segments = 1, .n_table = N}};
    m->f.image.segment[0] = (struct image_segment){code, code - 0x1000, at - code};
    m->f.image.frames = (struct cfi_section){.size = UINT32_MAX};
}

static uint32_t around(struct made *m, uint64_t page, struct function *ret)
{
    const struct image_segment *segment = &m->f.image.segment[0];
    uint64_t from = segment->offset + page * PAGE;
    return functions_around(&m->f, segment, from, from + PAGE, ret, AROUND);
}

static void release(struct made *m)
{
    vec_release(&m->f.fences);
    free(m->entry);
}

/* What there is by looking at each. */
static void check(const struct made *m, uint64_t page, const struct function *one, uint32_t n)
{
    const struct image_segment *segment = &m->f.image.segment[0];
    uint64_t from = segment->address + page * PAGE;
    uint32_t i = first_where(N, k, (uint64_t)m->entry[k][0] >= from);
    i -= i > 0;
    ck_assert_uint_gt(n, 0);
    for (uint32_t k = 0; k < n; k++, i++) {
        ck_assert_uint_eq(one[k].entry, i);
        ck_assert_uint_eq(one[k].offset, (uint64_t)m->entry[i][0] - segment->address + segment->offset);
    }
    if (i < N && n < AROUND - 1) /* the last one is behind the page */
        ck_assert_uint_ge((uint64_t)m->entry[i - 1][0], from + PAGE);
}

/* Pages come as samples ask for them; each costs some four reads of a table of 1.6 MB, once some were had. */
UNIT(a_page_of_a_large_program_costs_some_reads)
{
    struct made m = {0};
    struct source s;
    struct function one[AROUND];
    enum { FIRST = 300, ALL = 1500 };
    make(&m, &s);
    uint64_t n_pages = m.f.image.segment[0].size / PAGE;
    for (uint32_t i = 0; i < ALL; i++) {
        if (i == FIRST)
            m.n_reads = 0;
        uint64_t page = (i * UINT64_C(2654435761) >> 7) % n_pages;
        check(&m, page, one, around(&m, page, one));
    }
    ck_assert_uint_le(m.n_reads, 9 * (ALL - FIRST) / 2);
    ck_assert_uint_le(m.f.fences.n, FUNCTIONS_FENCES);
    release(&m);
}

/* Neither is a table in no order, or one that changes meanwhile, an endless search. */
UNIT(a_damaged_table_costs_bounded_time)
{
    struct made m = {0};
    struct source s;
    struct function one[AROUND];
    make(&m, &s);
    uint64_t n_pages = m.f.image.segment[0].size / PAGE;
    for (uint32_t i = 0; i < 2000; i++) {
        for (uint32_t k = 0; k < 100; k++) {
            uint32_t at = (i * 7919 + k * 104729) % N;
            m.entry[at][0] = (int32_t)(at * 2654435761u);
        }
        m.n_reads = 0;
        ck_assert_uint_lt(around(&m, (i * UINT64_C(2654435761) >> 7) % n_pages, one), AROUND);
        ck_assert_uint_le(m.n_reads, 40);
    }
    for (uint32_t i = 1; i < m.f.fences.n; i++) {
        ck_assert_uint_lt(m.f.fences.p[i - 1].i, m.f.fences.p[i].i);
        ck_assert_uint_le(m.f.fences.p[i - 1].address, m.f.fences.p[i].address);
    }
    release(&m);
}
