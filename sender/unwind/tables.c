/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/unwind/tables.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"

#define FILE_SLOTS (2 * UNWIND_FILES)
#define RULE_SLOTS (2 * UNWIND_RULES)

struct file {
    struct unwind_key key;
    struct unwind_file placed;
    uint16_t *chunk; /* the chunks its rows are in */
    uint16_t *rule;  /* the rules they name, each counted */
    uint32_t n_chunks, n_rules;
    uint64_t gone; /* when it left the kernel's table; 0: it is there */
    struct file *next;
};

struct tables {
    struct tables_backend backend;
    uint32_t max_shards;
    struct file *files;                     /* those in use */
    struct file *leaving;                   /* whose room may not be reused yet */
    uint64_t used_pages[UNWIND_PAGES / 64]; /* bit sets */
    uint64_t used_chunks[UNWIND_CHUNKS / 64];
    uint64_t made_shards;
    uint32_t serial;                   /* of the tables added last; 0 is nobody's */
    uint32_t rule_count[UNWIND_RULES]; /* files that name it */
    uint16_t rule_slot[RULE_SLOTS];    /* rule + 1, 0 empty, TOMB deleted */
    struct tables_counts counts;
};

#define TOMB UINT16_MAX

/* How many times larger a file in use must be to leave for another. */
#define MUCH_SMALLER 8u

static bool bit(const uint64_t *set, uint32_t i)
{
    return set[i / 64] >> (i % 64) & 1;
}

static void bits_set(uint64_t *set, uint32_t from, uint32_t n, bool value)
{
    for (uint32_t i = from; i < from + n; i++) {
        if (value)
            set[i / 64] |= UINT64_C(1) << (i % 64);
        else
            set[i / 64] &= ~(UINT64_C(1) << (i % 64));
    }
}

/* The first run of n clear bits among `size`, or UINT32_MAX. */
static uint32_t bits_find(const uint64_t *set, uint32_t size, uint32_t n)
{
    for (uint32_t i = 0, run = 0; i < size; i++) {
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
    t->max_shards = max_of(1u, min_of(max_shards, UNWIND_SHARDS));
    t->rule_count[0] = 1; /* "nothing is known" is there from the start, all zero */
    t->counts.rules = 1;
    return t;
}

static void file_free(struct file *f)
{
    if (!f)
        return;
    free(f->chunk);
    free(f->rule);
    free(f);
}

struct tables *tables_free(struct tables *t)
{
    if (!t)
        return NULL;
    for (struct file *list = t->files, *next; list; list = next) {
        next = list->next;
        file_free(list);
    }
    for (struct file *list = t->leaving, *next; list; list = next) {
        next = list->next;
        file_free(list);
    }
    free(t);
    return NULL;
}

static bool same_key(const struct unwind_key *a, const struct unwind_key *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

static struct file **find(const struct tables *t, const struct unwind_key *key)
{
    struct file **at = (struct file **)&t->files;
    while (*at && !same_key(&(*at)->key, key))
        at = &(*at)->next;
    return at;
}

bool tables_has(const struct tables *t, const struct unwind_key *key)
{
    return *find(t, key) != NULL;
}

static uint64_t rule_bits(const struct unwind_rule *rule)
{
    uint64_t bits;
    memcpy(&bits, rule, sizeof bits);
    return bits;
}

/* The number of a rule in the shared table, counted once more; UINT32_MAX: the table is full. */
static uint32_t rule_take(struct tables *t, const struct unwind_rule *rule)
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
        if (rule_bits(&t->backend.rule[number]) == bits) {
            t->rule_count[number]++;
            return number;
        }
    }
    for (uint32_t number = 1; t->counts.rules < UNWIND_RULES && number < UNWIND_RULES; number++) {
        if (t->rule_count[number])
            continue;
        t->rule_count[number] = 1;
        t->backend.rule[number] = *rule;
        t->rule_slot[tomb != UINT32_MAX ? tomb : slot] = (uint16_t)(number + 1);
        t->counts.rules++;
        return number;
    }
    return UINT32_MAX;
}

static void rule_give(struct tables *t, uint32_t number)
{
    if (number == 0 || --t->rule_count[number] > 0)
        return;
    uint32_t slot = (uint32_t)(hash_mix(rule_bits(&t->backend.rule[number]), 0) % RULE_SLOTS);
    while (t->rule_slot[slot] != number + 1)
        slot = (slot + 1) % RULE_SLOTS;
    t->rule_slot[slot] = TOMB;
    t->counts.rules--;
}

static bool shard_is_empty(const struct tables *t, uint32_t shard)
{
    _Static_assert(UNWIND_SHARD_CHUNKS == 64, "a shard's chunks are one word of the set");
    return t->used_chunks[shard] == 0;
}

/* Gives back everything a file holds. */
static void give_back(struct tables *t, struct file *f)
{
    bits_set(t->used_pages, f->placed.page, f->placed.n_pages, false);
    t->counts.pages -= f->placed.n_pages;
    for (uint32_t i = 0; i < f->n_chunks; i++) {
        uint32_t shard = f->chunk[i] / UNWIND_SHARD_CHUNKS;
        bits_set(t->used_chunks, f->chunk[i], 1, false);
        t->counts.chunks--;
        if (shard_is_empty(t, shard) && t->made_shards >> shard & 1) {
            t->made_shards &= ~(UINT64_C(1) << shard);
            t->counts.shards--;
            t->backend.shard_drop(t->backend.user, shard);
        }
    }
    for (uint32_t i = 0; i < f->n_rules; i++)
        rule_give(t, f->rule[i]);
    file_free(f);
}

/* Frees what left long enough ago. */
static void settle(struct tables *t, uint64_t now)
{
    for (struct file **at = &t->leaving; *at;) {
        struct file *f = *at;
        if (now - f->gone < TABLES_GRACE_NS) {
            at = &f->next;
            continue;
        }
        *at = f->next;
        give_back(t, f);
    }
}

/* Takes a file out of the kernel's sight. */
static void leave(struct tables *t, struct file **at, uint64_t now)
{
    struct file *f = *at;
    *at = f->next;
    t->backend.file_drop(t->backend.user, &f->key);
    t->backend.changed(t->backend.user, true);
    t->counts.files--;
    f->gone = now;
    f->next = t->leaving;
    t->leaving = f;
}

/* When the kernel side last used a file's tables; it writes there meanwhile. */
static volatile bpf_u32 *last_use(const struct tables *t, const struct file *f)
{
    return &t->backend.used[f->placed.serial % UNWIND_FILES];
}

/* Which file should leave for one of n_chunks: the one not used for longest. If all are in use, the largest,
 * where the newcomer is much smaller: many small programs are worth more than a large one. NULL: none. */
static struct file **choose(struct tables *t, uint32_t n_chunks, uint64_t now)
{
    struct file **oldest = NULL, **largest = NULL;
    uint32_t least = UINT32_MAX;
    for (struct file **at = &t->files; *at; at = &(*at)->next) {
        if ((*at)->placed.n_pages == 0 && t->counts.files < UNWIND_FILES - 1)
            continue; /* holds no room */
        uint32_t used = *last_use(t, *at);
        if (!largest || (*at)->n_chunks > (*largest)->n_chunks)
            largest = at;
        if ((uint32_t)(now >> 30) - used >= TABLES_RECENT && used < least) {
            oldest = at;
            least = used;
        }
    }
    if (oldest)
        return oldest;
    return largest && (*largest)->n_chunks / MUCH_SMALLER >= max_of(n_chunks, 1u) ? largest : NULL;
}

static bool evict(struct tables *t, uint32_t n_chunks, uint64_t now)
{
    struct file **at = choose(t, n_chunks, now);
    if (!at)
        return false;
    leave(t, at, now);
    t->counts.evicted++;
    return true;
}

/* Shards in the kernel's memory are made from the lowest on, so that few are. */
static uint32_t chunk_take(struct tables *t)
{
    uint32_t chunk = bits_find(t->used_chunks, t->max_shards * UNWIND_SHARD_CHUNKS, 1);
    if (chunk != UINT32_MAX) {
        bits_set(t->used_chunks, chunk, 1, true);
        t->counts.chunks++;
    }
    return chunk;
}

/* Writes rows while one shard after the other is open. */
struct writer {
    struct tables *t;
    struct file *f;
    const uint16_t *number; /* rules: the file's own to the shared ones */
    struct unwind_row *rows;
    uint32_t shard, chunk, filled;
};

static void close_shard(struct writer *w)
{
    if (w->rows)
        w->t->backend.shard_close(w->t->backend.user, w->shard, w->rows);
    w->rows = NULL;
}

static int next_chunk(struct writer *w)
{
    struct tables *t = w->t;
    uint32_t chunk = chunk_take(t);
    if (chunk == UINT32_MAX)
        return -ENOSPC;
    w->f->chunk[w->f->n_chunks++] = (uint16_t)chunk;
    uint32_t shard = chunk / UNWIND_SHARD_CHUNKS;
    w->chunk = chunk;
    w->filled = 0;
    if (w->rows && w->shard == shard)
        return 0;
    close_shard(w);
    w->shard = shard;
    int r = t->backend.shard_open(t->backend.user, shard, &w->rows);
    if (r < 0)
        return r;
    if (!(t->made_shards >> shard & 1)) {
        t->made_shards |= UINT64_C(1) << shard;
        t->counts.shards++;
    }
    return 0;
}

static int write_page(struct writer *w, const struct rows *rows, uint32_t page)
{
    uint32_t from = rows->page[page], n = rows->page[page + 1] - from, to = w->f->placed.page + page;
    if (n == 0) {
        w->t->backend.page[to] = 0;
        return 0;
    }
    if (!w->rows || w->filled + n > UNWIND_CHUNK_ROWS) {
        int r = next_chunk(w);
        if (r < 0)
            return r;
    }
    struct unwind_row *at = w->rows + w->chunk % UNWIND_SHARD_CHUNKS * UNWIND_CHUNK_ROWS + w->filled;
    for (uint32_t i = 0; i < n; i++)
        at[i] =
            (struct unwind_row){.low = rows->row[from + i].low, .rule = w->number[rows->row[from + i].rule]};
    w->t->backend.page[to] = UNWIND_PAGE(w->chunk, w->filled, n);
    w->filled += n;
    return 0;
}

/* Chunks that `rows` fill, as write_page does. */
static uint32_t chunks_of(const struct rows *rows)
{
    uint32_t chunks = 0, filled = UNWIND_CHUNK_ROWS;
    for (uint32_t i = 0; i < rows->n_pages; i++) {
        uint32_t n = rows->page[i + 1] - rows->page[i];
        if (n > 0 && filled + n > UNWIND_CHUNK_ROWS) {
            chunks++;
            filled = 0;
        }
        filled += n;
    }
    return chunks;
}

static int place(struct tables *t, struct file *f, const struct rows *rows)
{
    autofree uint16_t *number = malloc(max_of(rows->n_rules, 1u) * sizeof *number);
    if (!number)
        return -ENOMEM;
    f->placed.page = bits_find(t->used_pages, UNWIND_PAGES, rows->n_pages);
    if (f->placed.page == UINT32_MAX)
        return -ENOSPC;
    f->placed.first_page = rows->first_page;
    f->placed.n_pages = rows->n_pages;
    bits_set(t->used_pages, f->placed.page, rows->n_pages, true);
    t->counts.pages += rows->n_pages;
    for (uint32_t i = 0; i < rows->n_rules; i++) {
        uint32_t rule = rule_take(t, &rows->rule[i]);
        if (rule == UINT32_MAX)
            return -ENOSPC;
        number[i] = f->rule[f->n_rules++] = (uint16_t)rule;
    }
    struct writer w = {.t = t, .f = f, .number = number};
    int r = 0;
    for (uint32_t i = 0; i < rows->n_pages && r == 0; i++)
        r = write_page(&w, rows, i);
    close_shard(&w);
    return r;
}

static struct file *file_new(const struct unwind_key *key, const struct rows *rows, uint32_t n_chunks)
{
    struct file *f = calloc(1, sizeof *f);
    if (!f)
        return NULL;
    f->key = *key;
    f->chunk = malloc(max_of(n_chunks, 1u) * sizeof *f->chunk);
    f->rule = malloc(max_of(rows->n_rules, 1u) * sizeof *f->rule);
    if (f->chunk && f->rule)
        return f;
    file_free(f);
    return NULL;
}

/* Whether there is room now: chunks, pages in one piece, and a place among the files. */
static bool has_room(const struct tables *t, const struct rows *rows, uint32_t n_chunks)
{
    return t->counts.files < UNWIND_FILES - 1 && t->counts.rules + rows->n_rules <= UNWIND_RULES &&
           t->counts.chunks + n_chunks <= t->max_shards * UNWIND_SHARD_CHUNKS &&
           (rows->n_pages == 0 || bits_find(t->used_pages, UNWIND_PAGES, rows->n_pages) != UINT32_MAX);
}

/* Sends files away until what is there and what is leaving would make room; false if that is not to be. */
static bool make_room(struct tables *t, uint32_t n_chunks, uint32_t n_pages, uint64_t now)
{
    uint32_t chunks = 0, pages = 0, limit = t->max_shards * UNWIND_SHARD_CHUNKS;
    for (struct file *f = t->leaving; f; f = f->next) {
        chunks += f->n_chunks;
        pages += f->placed.n_pages;
    }
    /* An eighth more than is asked for, so that not each new file makes another one wait. */
    while (t->counts.chunks - chunks + n_chunks + limit / 8 > limit ||
           t->counts.pages - pages + n_pages > UNWIND_PAGES / 4 * 3 || t->counts.files >= UNWIND_FILES - 1) {
        if (!evict(t, n_chunks, now))
            break;
        chunks += t->leaving->n_chunks;
        pages += t->leaving->placed.n_pages;
    }
    return t->leaving && t->counts.chunks - chunks + n_chunks <= limit &&
           t->counts.pages - pages + n_pages <= UNWIND_PAGES && t->counts.files < UNWIND_FILES - 1;
}

int tables_add(struct tables *t, const struct unwind_key *key, const struct rows *rows, uint64_t now)
{
    uint32_t n_chunks = chunks_of(rows);
    settle(t, now);
    struct file **old = find(t, key);
    if (*old)
        leave(t, old, now);
    if (n_chunks > t->max_shards * UNWIND_SHARD_CHUNKS) {
        t->counts.refused++;
        return -ENOSPC;
    }
    if (!has_room(t, rows, n_chunks)) {
        if (make_room(t, n_chunks, rows->n_pages, now))
            return TABLES_LATER;
        t->counts.refused++;
        return -ENOSPC;
    }
    struct file *f = file_new(key, rows, n_chunks);
    if (!f)
        return -ENOMEM;
    int r = rows->n_pages ? place(t, f, rows) : 0;
    f->placed.runtime = rows->runtime;
    f->placed.serial = ++t->serial; /* again the same after four billion files */
    *last_use(t, f) = (bpf_u32)(now >> 30);
    if (r == 0)
        r = t->backend.file_set(t->backend.user, key, &f->placed);
    if (r < 0) {
        if (f->placed.page == UINT32_MAX)
            f->placed = (struct unwind_file){0};
        give_back(t, f); /* no walk has seen it */
        return r;
    }
    f->next = t->files;
    t->files = f;
    t->counts.files++;
    t->backend.changed(t->backend.user, false);
    return 0;
}

struct tables_counts tables_counts(const struct tables *t)
{
    return t->counts;
}
