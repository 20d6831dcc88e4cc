/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pages are entries of a hash table in the backend's memory, which the kernel side searches: there is no
 * other record of them here but who is charged for each. Rows fill their blocks to the end (the last one is
 * repeated), so that a block by itself tells which rules it names: rules are counted by rows.
 *
 * When blocks or rules are short, a sixteenth of all is made free at once: pages not used lately, oldest
 * first; if all were used, pages of the user who has most of what is short, so that nobody can drive out
 * others' by running many programs. Blocks that are left rest in a second bit set until no walk can be in
 * them.
 */
#include "sender/unwind/tables.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "sender/foreign/holdings.h"

#define FILE_SLOTS (2 * UNWIND_FILES)
#define RULE_SLOTS (2 * UNWIND_RULES)
#define TOMB       UINT16_MAX

/* Of all blocks, or rules, this part is made free at a time. */
#define PART_FREED 16u

struct file {
    struct unwind_key key;
    struct unwind_file is; /* serial 0: there is none in this place */
    uint64_t gone;         /* when the one before left */
    uint16_t next;         /* with the same hash; 0: none */
};

struct tables {
    struct tables_backend backend;
    uint32_t max_blocks;
    struct file file[UNWIND_FILES]; /* by the low bits of the serial; 0 is nobody's */
    uint16_t file_slot[FILE_SLOTS]; /* heads of lists */
    uint32_t serial;                /* of the file added last */
    uint64_t used[UNWIND_BLOCKS / 64], leaving[UNWIND_BLOCKS / 64]; /* bit sets; what leaves is used, too */
    uint64_t left;                                                  /* when the last of them did */
    uint32_t n_leaving;
    uint64_t made_shards;
    struct unwind_row *open[UNWIND_SHARDS];
    uint8_t owner[UNWIND_PAGES]; /* of each page: who holds it */
    uint32_t turn;               /* where to look for a page that leaves, of many equal ones */
    struct holdings blocks, rules;
    uint32_t rule_count[UNWIND_RULES]; /* rows that name it */
    uint8_t rule_owner[UNWIND_RULES];  /* who made it */
    uint16_t rule_slot[RULE_SLOTS];    /* rule + 1, 0 empty, TOMB deleted */
    uint32_t next_rule;                /* where to look for a free one */
    struct tables_counts counts;
};

static bool bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void bits_set(uint64_t *set, uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < from + n; i++)
        set[i / 64] |= UINT64_C(1) << (i % 64);
}

static void bits_clear(uint64_t *set, uint32_t from, uint32_t n)
{
    for (uint32_t i = from; i < from + n; i++)
        set[i / 64] &= ~(UINT64_C(1) << (i % 64));
}

/* The first run of n clear bits among `size` that crosses no shard's border, or UINT32_MAX. */
static uint32_t bits_find(const uint64_t *set, uint32_t size, uint32_t n)
{
    for (uint32_t i = 0, run = 0; i < size; i++) {
        if (i % UNWIND_SHARD_BLOCKS == 0)
            run = 0;
        if (run == 0 && i % 64 == 0 && set[i / 64] == UINT64_MAX) {
            i += 63;
            continue;
        }
        run = bit(set, i) ? 0 : run + 1;
        if (run == n)
            return i + 1 - n;
    }
    return UINT32_MAX;
}

struct tables *tables_new(const struct tables_backend *backend, uint32_t max_shards)
{
    struct tables *t = calloc(1, sizeof *t);
    if (!t)
        return NULL;
    t->backend = *backend;
    t->max_blocks = max_of(1u, min_of(max_shards, UNWIND_SHARDS)) * UNWIND_SHARD_BLOCKS;
    t->rule_count[0] = 1; /* "nothing is known" is there from the start, all zero */
    t->counts.rules = 1;
    return t;
}

struct tables *tables_free(struct tables *t)
{
    if (t)
        tables_rest(t);
    free(t);
    return NULL;
}

void tables_rest(struct tables *t)
{
    for (uint32_t i = 0; i < UNWIND_SHARDS; i++) {
        if (t->open[i])
            t->backend.shard_close(t->backend.user, i, t->open[i]);
        t->open[i] = NULL;
    }
}

struct tables_counts tables_counts(const struct tables *t)
{
    return t->counts;
}

/* The rows of a block, or NULL and why in *error. */
static struct unwind_row *open_block(struct tables *t, uint32_t block, int *error)
{
    uint32_t shard = block / UNWIND_SHARD_BLOCKS;
    *error = 0;
    if (!t->open[shard]) {
        *error = t->backend.shard_open(t->backend.user, shard, &t->open[shard]);
        if (*error < 0) {
            t->open[shard] = NULL;
            return NULL;
        }
        if (!(t->made_shards >> shard & 1)) {
            t->made_shards |= UINT64_C(1) << shard;
            t->counts.shards++;
        }
    }
    return t->open[shard] + block % UNWIND_SHARD_BLOCKS * UNWIND_BLOCK_ROWS;
}

static uint64_t rule_bits(const struct unwind_rule *rule)
{
    uint64_t bits;
    memcpy(&bits, rule, sizeof bits);
    return bits;
}

/* The number of a rule in the shared table, made if it is new; UINT32_MAX: the table is full. Not counted. */
static uint32_t rule_number(struct tables *t, const struct unwind_rule *rule, uint8_t owner)
{
    uint64_t bits = rule_bits(rule);
    if (bits == 0)
        return 0;
    uint32_t slot = (uint32_t)(hash_mix(bits, 0) % RULE_SLOTS), tomb = UINT32_MAX;
    for (uint32_t i = 0; i < RULE_SLOTS && t->rule_slot[slot]; i++, slot = (slot + 1) % RULE_SLOTS) {
        if (t->rule_slot[slot] == TOMB) {
            tomb = min_of(tomb, slot);
            continue;
        }
        uint32_t number = t->rule_slot[slot] - 1u;
        if (rule_bits(&t->backend.rule[number]) == bits)
            return number;
    }
    for (uint32_t i = 0; t->counts.rules < UNWIND_RULES && i < UNWIND_RULES; i++) {
        uint32_t number = t->next_rule++ % UNWIND_RULES;
        if (number == 0 || t->rule_count[number])
            continue;
        t->backend.rule[number] = *rule;
        t->rule_owner[number] = owner;
        holdings_add(&t->rules, owner, 1);
        t->rule_slot[tomb != UINT32_MAX ? tomb : slot] = (uint16_t)(number + 1);
        t->counts.rules++;
        return number;
    }
    return UINT32_MAX;
}

/* One row less, or none at all, names a rule. */
static void rule_give(struct tables *t, uint32_t number, uint32_t rows)
{
    if (number == 0 || (t->rule_count[number] -= rows) > 0)
        return;
    uint32_t slot = (uint32_t)(hash_mix(rule_bits(&t->backend.rule[number]), 0) % RULE_SLOTS);
    while (t->rule_slot[slot] != number + 1)
        slot = (slot + 1) % RULE_SLOTS;
    t->rule_slot[slot] = TOMB;
    holdings_take(&t->rules, t->rule_owner[number], 1);
    t->counts.rules--;
}

static bool shard_is_empty(const struct tables *t, uint32_t shard)
{
    for (uint32_t i = 0; i < UNWIND_SHARD_BLOCKS / 64; i++)
        if (t->used[shard * (UNWIND_SHARD_BLOCKS / 64) + i])
            return false;
    return true;
}

static void drop_shard(struct tables *t, uint32_t shard)
{
    if (t->open[shard])
        t->backend.shard_close(t->backend.user, shard, t->open[shard]);
    t->open[shard] = NULL;
    t->made_shards &= ~(UINT64_C(1) << shard);
    t->counts.shards--;
    t->backend.shard_drop(t->backend.user, shard);
}

/* Frees what left long enough ago. */
static void settle(struct tables *t, uint64_t now)
{
    int error;
    if (t->n_leaving == 0 || now - t->left < TABLES_GRACE_NS)
        return;
    for (uint32_t block = 0; block < t->max_blocks && t->n_leaving > 0; block++) {
        if (!bit(t->leaving, block))
            continue;
        const struct unwind_row *row = open_block(t, block, &error);
        if (!row)
            return; /* no memory for now */
        for (uint32_t i = 0; i < UNWIND_BLOCK_ROWS; i++)
            rule_give(t, row[i].rule, 1);
        bits_clear(t->leaving, block, 1);
        bits_clear(t->used, block, 1);
        t->n_leaving--;
        t->counts.blocks--;
    }
    for (uint32_t shard = 0; shard < UNWIND_SHARDS; shard++)
        if (t->made_shards >> shard & 1 && shard_is_empty(t, shard))
            drop_shard(t, shard);
}

static bpf_u64 *place_of(const struct tables *t, uint32_t i)
{
    return &t->backend.page[i / UNWIND_PAGE_WAYS].page[i % UNWIND_PAGE_WAYS];
}

/* Words that the other side reads, and of which it writes a byte. */
static uint64_t get(const bpf_u64 *place)
{
    return __atomic_load_n(place, __ATOMIC_RELAXED);
}

static void put(bpf_u64 *place, uint64_t entry)
{
    __atomic_store_n(place, entry, __ATOMIC_RELEASE);
}

static uint32_t blocks_of(uint64_t entry)
{
    return (UNWIND_PAGE_N(entry) + UNWIND_BLOCK_ROWS - 1) / UNWIND_BLOCK_ROWS;
}

/* Takes the page in place i out of the kernel's sight; returns the blocks that leave. */
static uint32_t leave(struct tables *t, uint32_t i, uint64_t now)
{
    uint64_t entry = get(place_of(t, i));
    uint32_t n = blocks_of(entry);
    put(place_of(t, i), 0);
    bits_set(t->leaving, UNWIND_PAGE_BLOCK(entry), n);
    t->n_leaving += n;
    t->left = now;
    holdings_take(&t->blocks, t->owner[i], n);
    t->counts.pages--;
    return n;
}

static uint32_t age_of(uint64_t entry, uint64_t now)
{
    return ((uint32_t)(now >> UNWIND_USED_SHIFT) - UNWIND_PAGE_USED(entry)) & 255;
}

/* Sends pages away that were not used lately, the oldest, until `wanted` blocks are on their way. */
static uint32_t evict_old(struct tables *t, uint32_t wanted, uint64_t now)
{
    uint32_t blocks[256] = {0}, age, found = 0, left = 0;
    for (uint32_t i = 0; i < UNWIND_PAGES; i++)
        if (get(place_of(t, i)))
            blocks[age_of(get(place_of(t, i)), now)] += blocks_of(get(place_of(t, i)));
    for (age = 255; age >= TABLES_RECENT && found < wanted; age--)
        found += blocks[age];
    for (uint32_t i = 0; i < UNWIND_PAGES; i++) {
        if (!get(place_of(t, i)) || age_of(get(place_of(t, i)), now) <= age)
            continue;
        left += leave(t, i, now);
        t->counts.evicted++;
    }
    return left;
}

/* The same of one user's, used or not, wherever they are. */
static uint32_t evict_of(struct tables *t, uint8_t owner, uint32_t wanted, uint64_t now)
{
    uint32_t left = 0;
    for (uint32_t i = 0; i < UNWIND_PAGES && left < wanted; i++) {
        uint32_t at = t->turn++ % UNWIND_PAGES;
        if (t->owner[at] != owner || !get(place_of(t, at)))
            continue;
        left += leave(t, at, now);
        t->counts.evicted++;
    }
    return left;
}

static int make_room(struct tables *t, bool of_rules, uint64_t now)
{
    if (t->n_leaving > 0)
        return TABLES_LATER; /* first what is on its way */
    uint32_t wanted = t->max_blocks / PART_FREED;
    uint32_t left = of_rules ? 0 : evict_old(t, wanted, now);
    if (left < wanted / 4)
        left += evict_of(t, of_rules ? t->rules.most : t->blocks.most, wanted / 4, now);
    if (left == 0)
        t->counts.refused++;
    return left ? TABLES_LATER : -ENOSPC;
}

static uint32_t hash_of(const struct unwind_key *key)
{
    return (uint32_t)(hash_mix(key->inode ^ key->size << 20 ^ (uint64_t)key->device << 32, key->mtime) %
                      FILE_SLOTS);
}

static uint16_t *find(struct tables *t, const struct unwind_key *key)
{
    uint16_t *at = &t->file_slot[hash_of(key)];
    while (*at && memcmp(&t->file[*at].key, key, sizeof *key) != 0)
        at = &t->file[*at].next;
    return at;
}

const struct unwind_file *tables_file(const struct tables *t, const struct unwind_key *key)
{
    uint16_t at = *find((struct tables *)t, key);
    return at ? &t->file[at].is : NULL;
}

const struct unwind_key *tables_key(const struct tables *t, uint32_t serial)
{
    const struct file *f = &t->file[serial % UNWIND_FILES];
    return serial && f->is.serial == serial ? &f->key : NULL;
}

const struct unwind_key *tables_marked(const struct tables *t, uint32_t mark)
{
    const struct file *found = NULL; /* of two that have it none is the one */
    for (uint32_t i = 1; i < UNWIND_FILES; i++) {
        if (!t->file[i].is.serial || unwind_mark(&t->file[i].key) != mark)
            continue;
        if (found)
            return NULL;
        found = &t->file[i];
    }
    return found ? &found->key : NULL;
}

/* Takes a file and its pages out of the kernel's sight. */
static void forget(struct tables *t, uint16_t *at, uint64_t now)
{
    uint32_t place = *at;
    struct file *f = &t->file[place];
    *at = f->next;
    t->backend.file_drop(t->backend.user, &f->key);
    t->backend.changed(t->backend.user, true);
    for (uint32_t i = 0; i < UNWIND_PAGES; i++)
        if ((uint32_t)get(place_of(t, i)) >> 20 == place)
            (void)leave(t, i, now);
    *f = (struct file){.gone = now};
    t->counts.files--;
}

/* A place for another file; 0: none yet. They are given in turn, so that no walk takes one file for another.
 */
static uint32_t free_place(struct tables *t, uint64_t now)
{
    for (uint32_t i = 1; i < UNWIND_FILES; i++) {
        uint32_t place = (t->serial + i) % UNWIND_FILES;
        const struct file *f = &t->file[place];
        if (place && !f->is.serial && (!f->gone || now - f->gone >= TABLES_GRACE_NS))
            return place;
    }
    return 0;
}

static void forget_oldest(struct tables *t, uint64_t now)
{
    uint32_t oldest = 0;
    for (uint32_t i = 1; i < UNWIND_FILES; i++)
        if (t->file[i].is.serial &&
            (!oldest || ((volatile bpf_u32 *)t->backend.used)[i] < t->backend.used[oldest]))
            oldest = i;
    if (oldest)
        forget(t, find(t, &t->file[oldest].key), now);
}

int tables_add(struct tables *t, const struct unwind_key *key, const struct unwind_file *is, uint64_t now)
{
    settle(t, now);
    uint16_t *old = find(t, key);
    if (*old)
        forget(t, old, now);
    if (t->counts.files >= UNWIND_FILES - 2)
        forget_oldest(t, now);
    uint32_t place = free_place(t, now);
    if (!place)
        return TABLES_LATER;
    /* serials ascend; again the same after two billion files */
    t->serial += (place - t->serial % UNWIND_FILES + UNWIND_FILES) % UNWIND_FILES;
    t->serial &= ~UNWIND_MARK;
    struct file f = {.key = *key, .is = *is};
    f.is.serial = t->serial;
    t->backend.used[place] = (bpf_u32)(now >> 30);
    int r = t->backend.file_set(t->backend.user, key, &f.is);
    if (r < 0)
        return r;
    uint16_t *head = &t->file_slot[hash_of(key)];
    f.next = *head;
    *head = (uint16_t)place;
    t->file[place] = f;
    t->counts.files++;
    t->backend.changed(t->backend.user, false);
    return 0;
}

/* The place of a page in its bucket: its own, an empty one, or that of the page not used for longest, of who
 * has most of them there. */
static uint32_t choose_place(struct tables *t, uint32_t name, uint64_t now)
{
    uint32_t first = UNWIND_PAGE_BUCKET(name) * UNWIND_PAGE_WAYS, best = first, best_score = 0;
    for (uint32_t i = first; i < first + UNWIND_PAGE_WAYS; i++)
        if ((uint32_t)get(place_of(t, i)) == name)
            return i;
    for (uint32_t i = first; i < first + UNWIND_PAGE_WAYS; i++) {
        uint64_t entry = get(place_of(t, i));
        uint32_t same = 0;
        if (!entry)
            return i;
        for (uint32_t j = first; j < first + UNWIND_PAGE_WAYS; j++)
            same += t->owner[j] == t->owner[i];
        if (same * 256 + age_of(entry, now) > best_score) {
            best = i;
            best_score = same * 256 + age_of(entry, now);
        }
    }
    return best;
}

/* Numbers of a page's rules; counted by `rows` each in count. False: the table is full, and nothing was
 * taken. */
static bool take_rules(struct tables *t, const struct rows *rows, uint8_t owner, uint16_t *number)
{
    for (uint32_t i = 0; i < rows->n_rules; i++) {
        uint32_t n = rule_number(t, &rows->rule[i], owner);
        if (n == UINT32_MAX) {
            while (i-- > 0)
                rule_give(t, number[i], 1);
            return false;
        }
        t->rule_count[n]++; /* so that the next one does not take its place */
        number[i] = (uint16_t)n;
    }
    return true;
}

static void write_rows(struct tables *t, struct unwind_row *to, const struct rows *rows, uint32_t n,
                       const uint16_t *number)
{
    for (uint32_t i = 0; i < n; i++) {
        const struct unwind_row *row = &rows->row[min_of(i, rows->n - 1)];
        to[i] = (struct unwind_row){.low = row->low, .rule = number[row->rule]};
        t->rule_count[to[i].rule]++;
    }
    for (uint32_t i = 0; i < rows->n_rules; i++)
        rule_give(t, number[i], 1);
}

int tables_load(struct tables *t, const struct unwind_file *file, uint32_t page, const struct rows *rows,
                uint32_t user, uint64_t now)
{
    uint32_t name = UNWIND_PAGE_NAME(file->serial, page), n = (rows->n + 3) / 4 * 4;
    uint8_t owner = holder_of(user);
    uint32_t n_blocks = (n + UNWIND_BLOCK_ROWS - 1) / UNWIND_BLOCK_ROWS, block = 0;
    uint16_t number[ROWS_RULES_MAX];
    int r;
    settle(t, now);
    if (n_blocks > 0) {
        block = bits_find(t->used, t->max_blocks, n_blocks);
        if (block == UINT32_MAX)
            return make_room(t, false, now);
        struct unwind_row *to = open_block(t, block, &r);
        if (!to)
            return r;
        if (!take_rules(t, rows, owner, number))
            return make_room(t, true, now);
        write_rows(t, to, rows, n_blocks * UNWIND_BLOCK_ROWS, number);
        bits_set(t->used, block, n_blocks);
        t->counts.blocks += n_blocks;
    }
    uint32_t i = choose_place(t, name, now);
    if (get(place_of(t, i))) {
        t->counts.evicted += (uint32_t)get(place_of(t, i)) != name;
        (void)leave(t, i, now);
    }
    t->owner[i] = owner;
    holdings_add(&t->blocks, owner, n_blocks);
    t->counts.pages++;
    put(place_of(t, i), UNWIND_PAGE(name, block, n) | (now >> UNWIND_USED_SHIFT) << 56);
    return 0;
}

bool tables_find(struct tables *t, const struct unwind_file *file, uint64_t offset, struct unwind_rule *ret)
{
    uint32_t name = UNWIND_PAGE_NAME(file->serial, (uint32_t)(offset >> UNWIND_PAGE_BITS));
    uint32_t first = UNWIND_PAGE_BUCKET(name) * UNWIND_PAGE_WAYS;
    int error;
    for (uint32_t i = first; i < first + UNWIND_PAGE_WAYS; i++) {
        uint64_t entry = get(place_of(t, i));
        if ((uint32_t)entry != name || !entry)
            continue;
        *ret = (struct unwind_rule){0};
        if (UNWIND_PAGE_N(entry) == 0)
            return true;
        const struct unwind_row *rows = open_block(t, UNWIND_PAGE_BLOCK(entry), &error);
        if (rows)
            *ret = t->backend
                       .rule[unwind_search(t->open[UNWIND_PAGE_BLOCK(entry) / UNWIND_SHARD_BLOCKS],
                                           UNWIND_PAGE_BLOCK(entry) % UNWIND_SHARD_BLOCKS * UNWIND_BLOCK_ROWS,
                                           UNWIND_PAGE_N(entry), offset & (UNWIND_PAGE_SIZE - 1))];
        return rows != NULL;
    }
    return false;
}
