/* SPDX-License-Identifier: Apache-2.0 */
/* The tables over plain memory in place of BPF maps: what a walk would find in them. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "sender/unwind/tables.h"

#define SECOND UINT64_C(1073741824) /* of tables_backend.used */

static bpf_u32 page[UNWIND_PAGES];
static struct unwind_rule rule[UNWIND_RULES];
static bpf_u32 used[UNWIND_FILES];
static struct unwind_row *shard[UNWIND_SHARDS];
static int open_shards, additions, departures;

static struct {
    struct unwind_key key;
    struct unwind_file file;
    bool is_there;
} files[256];

static int shard_open(void *user, uint32_t i, struct unwind_row **ret)
{
    if (!shard[i])
        shard[i] = calloc(UNWIND_SHARD_ROWS, sizeof **shard);
    *ret = shard[i];
    open_shards++;
    return 0;
}

static void shard_close(void *user, uint32_t i, struct unwind_row *rows)
{
    ck_assert_ptr_eq(rows, shard[i]);
    open_shards--;
}

static void shard_drop(void *user, uint32_t i)
{
    free(shard[i]);
    shard[i] = NULL;
}

static int file_set(void *user, const struct unwind_key *key, const struct unwind_file *file)
{
    files[key->inode].key = *key;
    files[key->inode].file = *file;
    files[key->inode].is_there = true;
    return 0;
}

static void file_drop(void *user, const struct unwind_key *key)
{
    ck_assert(files[key->inode].is_there);
    files[key->inode].is_there = false;
}

static void changed(void *user, bool is_gone)
{
    *(is_gone ? &departures : &additions) += 1;
}

static const struct tables_backend backend = {.page = page,
                                              .rule = rule,
                                              .used = used,
                                              .shard_open = shard_open,
                                              .shard_close = shard_close,
                                              .shard_drop = shard_drop,
                                              .file_set = file_set,
                                              .file_drop = file_drop,
                                              .changed = changed};

static struct unwind_key key(uint64_t inode)
{
    return (struct unwind_key){.inode = inode, .size = 1000, .mtime = 7, .device = 1};
}

/* A file of n_pages pages with `each` rows a page, whose rules are CFA = rsp + 8 * (first + row % 7). */
static struct rows rows_of(uint32_t n_pages, uint32_t each, int first)
{
    struct rows r = {.first_page = 3, .n_pages = n_pages, .n = n_pages * each, .n_rules = 8};
    r.row = calloc(r.n + 1, sizeof *r.row);
    r.page = calloc(n_pages + 1, sizeof *r.page);
    r.rule = calloc(8, sizeof *r.rule);
    for (int i = 1; i < 8; i++)
        r.rule[i] = (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 8 * (first + i - 1)};
    for (uint32_t i = 0; i < r.n; i++)
        r.row[i] = (struct unwind_row){.low = (uint16_t)(i % each * 4), .rule = (uint16_t)(1 + i % each % 7)};
    for (uint32_t i = 0; i <= n_pages; i++)
        r.page[i] = i * each;
    return r;
}

/* The rule for a file offset, as the kernel side finds it. */
static struct unwind_rule look_up(uint64_t inode, uint64_t offset)
{
    const struct unwind_file *f = &files[inode].file;
    uint64_t number = (offset >> UNWIND_PAGE_BITS) - f->first_page;
    ck_assert(files[inode].is_there && number < f->n_pages);
    bpf_u32 p = page[f->page + number];
    if (!UNWIND_PAGE_N(p))
        return rule[0];
    return rule[unwind_search(shard[UNWIND_PAGE_SHARD(p)], UNWIND_PAGE_FIRST_ROW(p), UNWIND_PAGE_N(p),
                              offset & (UNWIND_PAGE_SIZE - 1))];
}

static int add(struct tables *t, uint64_t inode, struct rows rows, uint64_t now)
{
    struct unwind_key k = key(inode);
    int r = tables_add(t, &k, &rows, now);
    rows_release(&rows);
    ck_assert_int_eq(open_shards, 0);
    return r;
}

static bool has(struct tables *t, uint64_t inode)
{
    struct unwind_key k = key(inode);
    ck_assert(tables_has(t, &k) == files[inode].is_there);
    return tables_has(t, &k);
}

UNIT(a_walk_finds_each_row_of_a_file)
{
    struct tables *t = unit_made(tables_new(&backend, 4));
    ck_assert_int_eq(add(t, 1, rows_of(50, 900, 1), SECOND), 0); /* each page fills a chunk of its own */
    ck_assert_int_eq(add(t, 2, rows_of(9, 1, 5), SECOND), 0);
    for (uint32_t p = 0; p < 50; p++)
        for (uint32_t i = 0; i < 900; i++)
            for (uint32_t low = i * 4; low < i * 4 + 4; low++)
                ck_assert_int_eq(look_up(1, (3 + p) * UNWIND_PAGE_SIZE + low).cfa_offset,
                                 8 * (1 + (int)(i % 7)));
    ck_assert_int_eq(look_up(2, 11 * UNWIND_PAGE_SIZE + 4095).cfa_offset, 40);
    struct tables_counts c = tables_counts(t);
    ck_assert_uint_eq(c.files, 2);
    ck_assert_uint_eq(c.chunks, 51);
    ck_assert_uint_eq(c.pages, 59);
    ck_assert_uint_eq(c.rules, 1 + 11); /* 8 … 88: shared by the two */
    ck_assert_int_eq(additions, 2);
    ck_assert_int_eq(departures, 0); /* what walks remember stays true */
    tables_free(t);
}

UNIT(a_file_without_rows_is_known_all_the_same)
{
    struct tables *t = unit_made(tables_new(&backend, 1));
    struct rows none = {0};
    ck_assert_int_eq(add(t, 1, none, SECOND), 0);
    ck_assert(has(t, 1) && files[1].file.n_pages == 0);
    tables_free(t);
}

UNIT(the_one_not_used_for_longest_leaves_and_its_room_rests_a_while)
{
    struct tables *t = unit_made(tables_new(&backend, 1)); /* 64 chunks */
    for (uint64_t i = 1; i <= 4; i++)
        ck_assert_int_eq(add(t, i, rows_of(14, 1000, (int)(10 * i)), i * SECOND), 0);
    used[files[1].file.serial] = 90; /* it was used since */
    uint64_t now = 100 * SECOND;
    ck_assert_int_eq(add(t, 5, rows_of(14, 1000, 50), now), TABLES_LATER);
    ck_assert(has(t, 1) && !has(t, 2));
    ck_assert_int_eq(look_up(1, 3 * UNWIND_PAGE_SIZE).cfa_offset, 80); /* nothing was overwritten */
    ck_assert_int_eq(add(t, 5, rows_of(14, 1000, 50), now + TABLES_GRACE_NS / 2), TABLES_LATER);
    ck_assert_int_eq(add(t, 5, rows_of(14, 1000, 50), now + 2 * TABLES_GRACE_NS), 0);
    ck_assert_int_eq(look_up(5, 3 * UNWIND_PAGE_SIZE).cfa_offset, 400);
    ck_assert_int_eq(look_up(1, 3 * UNWIND_PAGE_SIZE).cfa_offset, 80);
    ck_assert_uint_ge(tables_counts(t).evicted, 1);
    ck_assert_int_ge(departures, 1);
    tables_free(t);
}

UNIT(what_is_in_use_stays_but_a_giant_leaves_for_a_dwarf)
{
    struct tables *t = unit_made(tables_new(&backend, 1));
    uint64_t now = 100 * SECOND;
    ck_assert_int_eq(add(t, 1, rows_of(60, 1000, 1), now), 0);
    ck_assert_int_eq(add(t, 2, rows_of(40, 1000, 1), now), -ENOSPC);
    ck_assert(has(t, 1));
    ck_assert_uint_eq(tables_counts(t).refused, 1);
    ck_assert_int_eq(add(t, 3, rows_of(5, 1000, 1), now), TABLES_LATER);
    ck_assert(!has(t, 1));
    ck_assert_int_eq(add(t, 3, rows_of(5, 1000, 1), now + TABLES_GRACE_NS), 0);
    ck_assert_int_eq(add(t, 4, rows_of(65, 1000, 1), now), -ENOSPC); /* more than all the room there is */
    tables_free(t);
}

UNIT(everything_is_given_back)
{
    struct tables *t = unit_made(tables_new(&backend, 2));
    uint64_t now = SECOND;
    uint32_t serial = 0;
    for (int round = 0; round < 300;
         round++) { /* each with rules and rows of its own, in place of the one before */
        int r = TABLES_LATER;
        for (int i = 0; i < 3 && r == TABLES_LATER; i++, now += TABLES_GRACE_NS)
            r = add(t, 1, rows_of(30, 700, 1 + 50 * round), now);
        ck_assert_int_eq(r, 0);
        ck_assert_uint_ne(files[1].file.serial,
                          serial); /* a rule found in the old rows is not taken for the new */
        serial = files[1].file.serial;
    }
    struct tables_counts c = tables_counts(t);
    ck_assert_uint_eq(c.files, 1);
    ck_assert_uint_le(c.chunks, 120);
    ck_assert_uint_le(c.rules, 1 + 7 * 4);
    ck_assert_int_eq(look_up(1, 3 * UNWIND_PAGE_SIZE).cfa_offset, 8 * (1 + 50 * 299));
    tables_free(t);
}
