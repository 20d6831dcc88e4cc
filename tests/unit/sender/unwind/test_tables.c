/* SPDX-License-Identifier: Apache-2.0 */
/* The tables over plain memory in place of BPF maps: what a walk would find in them. */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdlib.h>

#include "sender/unwind/tables.h"

#define UNIT_OF_USE (UINT64_C(1) << UNWIND_USED_SHIFT)

static struct unwind_bucket page[UNWIND_BUCKETS];
static struct unwind_rule rule[UNWIND_RULES];
static bpf_u32 used[UNWIND_FILES];
static struct unwind_row *shard[UNWIND_SHARDS];
static int open_shards, additions, departures;

static struct {
    struct unwind_key key;
    struct unwind_file file;
    bool is_there;
} files[2 * UNWIND_FILES];

static int shard_open(void *user, uint32_t i, struct unwind_row **ret)
{
    if (!shard[i])
        shard[i] = calloc(UNWIND_SHARD_ROWS, sizeof **shard);
    if (!shard[i])
        return -ENOMEM;
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

static struct tables *made(uint32_t max_shards)
{
    return unit_made(tables_new(&backend, max_shards));
}

static struct unwind_key key(uint64_t inode)
{
    return (struct unwind_key){.inode = inode, .size = 1000, .mtime = 7, .device = 1};
}

static const struct unwind_file *known(struct tables *t, uint64_t inode)
{
    struct unwind_key k = key(inode);
    const struct unwind_file *f = tables_file(t, &k);
    ck_assert(!!f == files[inode].is_there);
    return f;
}

static int add(struct tables *t, uint64_t inode, uint64_t now)
{
    struct unwind_key k = key(inode);
    return tables_add(t, &k, &(struct unwind_file){.n_pages = UNWIND_FILE_PAGES}, now);
}

/* `n` rows, four bytes each, whose rules are CFA = rsp + 8 * (first + row % 7). */
static const struct rows *rows_of(uint32_t n, int first)
{
    static struct rows r;
    r.n = n;
    r.n_rules = 8;
    for (int i = 1; i < 8; i++)
        r.rule[i] = (struct unwind_rule){.cfa = UNWIND_CFA_RSP, .cfa_offset = 8 * (first + i - 1)};
    for (uint32_t i = 0; i < n; i++)
        r.row[i] = (struct unwind_row){.low = (uint16_t)(i * 4), .rule = (uint16_t)(1 + i % 7)};
    return &r;
}

static int load(struct tables *t, uint64_t inode, uint32_t number, const struct rows *rows, uint32_t user,
                uint64_t now)
{
    return tables_load(t, known(t, inode), number, rows, user, now);
}

/* Loads it, waiting for room as often as it takes; how often it waited. */
static int load_at_last(struct tables *t, uint64_t inode, uint32_t number, const struct rows *rows,
                        uint32_t user, uint64_t *now)
{
    int r, waits = 0;
    while ((r = load(t, inode, number, rows, user, *now)) == TABLES_LATER) {
        ck_assert_int_lt(waits++, 3);
        *now += TABLES_GRACE_NS;
    }
    ck_assert_int_eq(r, 0);
    return waits;
}

/* What the kernel side finds for a file offset: the entry, or 0. */
static uint64_t entry_of(uint64_t inode, uint64_t offset)
{
    uint32_t name = UNWIND_PAGE_NAME(files[inode].file.serial, (uint32_t)(offset >> UNWIND_PAGE_BITS));
    ck_assert(files[inode].is_there);
    for (uint32_t i = 0; i < UNWIND_PAGE_WAYS; i++)
        if ((uint32_t)page[UNWIND_PAGE_BUCKET(name)].page[i] == name)
            return page[UNWIND_PAGE_BUCKET(name)].page[i];
    return 0;
}

static int32_t cfa_at(uint64_t inode, uint64_t offset)
{
    uint64_t entry = entry_of(inode, offset);
    ck_assert_uint_ne(entry, 0);
    uint32_t block = UNWIND_PAGE_BLOCK(entry);
    return rule[unwind_search(shard[block / UNWIND_SHARD_BLOCKS],
                              block % UNWIND_SHARD_BLOCKS * UNWIND_BLOCK_ROWS, UNWIND_PAGE_N(entry),
                              offset & (UNWIND_PAGE_SIZE - 1))]
        .cfa_offset;
}

/* As the kernel side notes that a page was used. */
static void use(uint64_t inode, uint32_t number, uint64_t now)
{
    uint32_t name = UNWIND_PAGE_NAME(files[inode].file.serial, number);
    for (uint32_t i = 0; i < UNWIND_PAGE_WAYS; i++)
        if ((uint32_t)page[UNWIND_PAGE_BUCKET(name)].page[i] == name)
            ((uint8_t *)&page[UNWIND_PAGE_BUCKET(name)].page[i])[7] = (uint8_t)(now >> UNWIND_USED_SHIFT);
}

static struct tables *freed(struct tables *t)
{
    t = tables_free(t);
    ck_assert_int_eq(open_shards, 0);
    return t;
}

UNIT(a_walk_finds_each_row_of_a_page)
{
    struct tables *t = made(4);
    uint64_t now = UNIT_OF_USE;
    ck_assert(add(t, 1, now) == 0 && add(t, 2, now) == 0);
    for (uint32_t p = 0; p < 50; p++)
        ck_assert_int_eq(load(t, 1, 3 + p, rows_of(20 * p + 1, 1 + (int)p % 3), 0, now), 0);
    ck_assert_int_eq(load(t, 2, 3, rows_of(UNWIND_PAGE_ROWS_MAX, 5), 0, now), 0);
    for (uint32_t p = 0; p < 50; p++)
        for (uint32_t low = 0; low < UNWIND_PAGE_SIZE; low++) {
            uint32_t row = low / 4 < 20 * p + 1 ? low / 4 : 20 * p; /* the last one holds to the page's end */
            ck_assert_int_eq(cfa_at(1, (3 + p) * UNWIND_PAGE_SIZE + low), 8 * (1 + (int)(p % 3 + row % 7)));
        }
    ck_assert_int_eq(cfa_at(2, 3 * UNWIND_PAGE_SIZE + 4095), 8 * (5 + (int)((UNWIND_PAGE_ROWS_MAX - 1) % 7)));
    struct unwind_rule found;
    ck_assert(tables_find(t, known(t, 2), 3 * UNWIND_PAGE_SIZE + 4, &found) && found.cfa_offset == 48);
    ck_assert(!tables_find(t, known(t, 2), 4 * UNWIND_PAGE_SIZE, &found));
    struct tables_counts c = tables_counts(t);
    ck_assert_uint_eq(c.files, 2);
    ck_assert_uint_eq(c.pages, 51);
    ck_assert_uint_eq(c.rules, 1 + 11); /* 8 … 88: shared by all */
    ck_assert_int_eq(additions, 2);
    ck_assert_int_eq(departures, 0); /* what walks remember stays true */
    freed(t);
}

UNIT(a_page_without_rows_is_known_all_the_same)
{
    struct tables *t = made(1);
    struct unwind_rule found = {.cfa = 1};
    ck_assert_int_eq(add(t, 1, UNIT_OF_USE), 0);
    ck_assert_uint_eq(entry_of(1, 0), 0);
    ck_assert_int_eq(load(t, 1, 0, rows_of(0, 1), 0, UNIT_OF_USE), 0);
    ck_assert_uint_ne(entry_of(1, 0), 0);
    ck_assert(tables_find(t, known(t, 1), 5, &found) && found.cfa == UNWIND_CFA_NONE);
    ck_assert_uint_eq(tables_counts(t).blocks, 0);
    freed(t);
}

UNIT(what_was_not_used_for_longest_leaves_and_its_room_rests_a_while)
{
    struct tables *t = made(1); /* 64 pages of 32 blocks */
    ck_assert_int_eq(add(t, 1, UNIT_OF_USE), 0);
    for (uint32_t p = 0; p < 64; p++)
        ck_assert_int_eq(load(t, 1, p, rows_of(1000, (int)(10 * p)), 0, (1 + p / 8) * UNIT_OF_USE), 0);
    use(1, 3, 9 * UNIT_OF_USE);
    uint64_t now = 10 * UNIT_OF_USE;
    ck_assert_int_eq(load(t, 1, 100, rows_of(1000, 7000), 0, now), TABLES_LATER);
    ck_assert_uint_eq(entry_of(1, 0), 0);
    ck_assert_int_eq(cfa_at(1, 3 * UNWIND_PAGE_SIZE), 240); /* of the eight oldest the one that was used */
    ck_assert_int_eq(cfa_at(1, 40 * UNWIND_PAGE_SIZE), 3200);
    ck_assert_int_eq(load(t, 1, 100, rows_of(1000, 7000), 0, now + TABLES_GRACE_NS / 2), TABLES_LATER);
    ck_assert_int_eq(load(t, 1, 100, rows_of(1000, 7000), 0, now + TABLES_GRACE_NS), 0);
    ck_assert_int_eq(cfa_at(1, 100 * UNWIND_PAGE_SIZE), 56000);
    ck_assert_int_eq(cfa_at(1, 63 * UNWIND_PAGE_SIZE + 4), 8 * 631);
    ck_assert_uint_eq(tables_counts(t).evicted, 7); /* a sixteenth and what is as old */
    ck_assert_int_eq(departures, 0);
    freed(t);
}

/* The share of file 1's pages that are still there. */
static uint32_t left_of(uint64_t inode, uint32_t n)
{
    uint32_t left = 0;
    for (uint32_t p = 0; p < n; p++)
        left += entry_of(inode, (uint64_t)p * UNWIND_PAGE_SIZE) != 0;
    return left;
}

UNIT(who_has_most_makes_room_when_all_is_in_use)
{
    struct tables *t = made(1);
    uint64_t now = 9 * UNIT_OF_USE;
    ck_assert(add(t, 1, now) == 0 && add(t, 2, now) == 0);
    for (uint32_t p = 0; p < 8; p++)
        ck_assert_int_eq(load(t, 1, p, rows_of(1000, 1), 1000, now), 0);
    for (uint32_t p = 0; p < 500; p++) { /* all that there is, and more */
        (void)load_at_last(t, 2, p, rows_of(1000, 1), 2000, &now);
        use(1, p % 8, now);
    }
    ck_assert_uint_eq(left_of(1, 8), 8);
    ck_assert_uint_ge(left_of(2, 500), 48);
    for (uint32_t p = 0; p < 16; p++)
        (void)load_at_last(t, 1, 8 + p, rows_of(1000, 1), 1000, &now);
    ck_assert_uint_eq(left_of(1, 24), 24);
    freed(t);
}

/* Pages with as many rules as they can have, each another. */
static const struct rows *all_rules(int first)
{
    static struct rows r;
    r.n = r.n_rules = ROWS_RULES_MAX;
    for (uint32_t i = 0; i < r.n; i++) {
        r.row[i] = (struct unwind_row){.low = (uint16_t)(i * 4), .rule = (uint16_t)i};
        r.rule[i] = (struct unwind_rule){.cfa = UNWIND_CFA_RBP, .cfa_offset = first + (int)i};
    }
    return &r;
}

UNIT(rules_are_taken_from_who_made_most_of_them)
{
    struct tables *t = made(4);
    uint64_t now = 9 * UNIT_OF_USE;
    ck_assert(add(t, 1, now) == 0 && add(t, 2, now) == 0);
    ck_assert_int_eq(load(t, 1, 0, rows_of(100, 1), 1000, now), 0);
    int waits = 0;
    for (uint32_t p = 0; p < 200; p++)
        waits += load_at_last(t, 2, p, all_rules((int)(p * ROWS_RULES_MAX)), 2000, &now);
    ck_assert_int_ge(waits, 1);
    ck_assert_int_eq(load_at_last(t, 1, 1, rows_of(100, 3000), 1000, &now), 0);
    ck_assert_int_eq(cfa_at(1, 0), 8);
    ck_assert_int_eq(cfa_at(1, UNWIND_PAGE_SIZE), 24000);
    ck_assert_uint_le(tables_counts(t).rules, UNWIND_RULES);
    freed(t);
}

UNIT(a_bucket_that_is_full_takes_another_page)
{
    struct tables *t = made(1);
    uint64_t now = UNIT_OF_USE;
    uint32_t same[12], n = 0;
    ck_assert_int_eq(add(t, 1, now), 0);
    uint32_t serial = known(t, 1)->serial, bucket = UNWIND_PAGE_BUCKET(UNWIND_PAGE_NAME(serial, 0));
    for (uint32_t p = 0; n < 12; p++)
        if (UNWIND_PAGE_BUCKET(UNWIND_PAGE_NAME(serial, p)) == bucket)
            same[n++] = p;
    for (uint32_t i = 0; i < 12; i++) {
        ck_assert_int_eq(load(t, 1, same[i], rows_of(40, (int)i), 0, now), 0);
        ck_assert_int_eq(cfa_at(1, (uint64_t)same[i] << UNWIND_PAGE_BITS), 8 * (int)i);
        now += UNIT_OF_USE;
    }
    ck_assert_uint_eq(entry_of(1, (uint64_t)same[0] << UNWIND_PAGE_BITS), 0);
    ck_assert_uint_eq(tables_counts(t).evicted, 4);
    freed(t);
}

/* Two hundred programs one after the other, 1,500 pages of code sampled of each: as much as clang's in a
 * minute. */
UNIT(many_large_programs_run_in_turn)
{
    struct tables *t = made(24); /* as the unwinder has */
    uint64_t now = UNIT_OF_USE;
    int waits = 0;
    for (uint64_t i = 1; i <= 200; i++, now += UNIT_OF_USE / 4) {
        ck_assert_int_eq(add(t, i, now), 0);
        for (uint32_t p = 0; p < 1500; p++) /* code that runs lies together */
            waits += load_at_last(t, i, p / 10 * 64 + p % 10, rows_of(40 + p % 100, 1), 0, &now);
        uint32_t left = 0;
        for (uint32_t p = 0; p < 1500; p++)
            left += entry_of(i, (uint64_t)(p / 10 * 64 + p % 10) << UNWIND_PAGE_BITS) != 0;
        ck_assert_uint_ge(left, 1490); /* the table of pages has room where they want to be */
    }
    ck_assert_int_ge(waits, 10);
    ck_assert_int_le(waits, 200 * 2);
    ck_assert_uint_le(tables_counts(t).blocks, 24 * UNWIND_SHARD_BLOCKS);
    freed(t);
}

UNIT(everything_is_given_back)
{
    struct tables *t = made(2);
    uint64_t now = UNIT_OF_USE;
    uint32_t serial = 0;
    for (int round = 0; round < 300; round++) { /* each with rules of its own, in place of the one before */
        ck_assert_int_eq(add(t, 1, now), 0);
        ck_assert_uint_eq(tables_counts(t).pages, 0);
        ck_assert_uint_ne(known(t, 1)->serial,
                          serial); /* a rule found in the old rows is not taken for the new */
        serial = known(t, 1)->serial;
        for (uint32_t p = 0; p < 30; p++)
            ck_assert_int_eq(load(t, 1, p, rows_of(700, 1 + 50 * round), 0, now), 0);
        now += TABLES_GRACE_NS;
    }
    struct tables_counts c = tables_counts(t);
    ck_assert_uint_eq(c.files, 1);
    ck_assert_uint_le(c.blocks, 2 * 30 * 22);
    ck_assert_uint_le(c.rules, 1 + 7 * 2);
    ck_assert_int_eq(cfa_at(1, 0), 8 * (1 + 50 * 299));
    freed(t);
}

UNIT(of_too_many_files_the_one_not_used_for_longest_leaves)
{
    struct tables *t = made(1);
    uint64_t now = UNIT_OF_USE;
    for (uint64_t i = 1; i < UNWIND_FILES + 50; i++, now += TABLES_GRACE_NS) {
        ck_assert_int_eq(add(t, i, now), 0);
        used[files[1].file.serial % UNWIND_FILES] = UINT32_MAX; /* always */
    }
    ck_assert(known(t, 1) && !known(t, 2) && known(t, UNWIND_FILES + 49));
    ck_assert_uint_le(tables_counts(t).files, UNWIND_FILES - 1);
    freed(t);
}
