/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WAL with synchronous=NORMAL: a commit is an append to the log, there after kill -9; the sync is the
 * checkpoint's, so that a power failure costs the last of it and nothing else.
 *
 * While an epoch grows, each second's names and slices are rows of their own: small ones, which pack badly
 * and leave half a page each. So those of a while are written anew, names in one row, nodes in a few, slices
 * in few; and when it ends all are, once more, since what is packed together is smaller still. A fine slice
 * stays a row of its own until its coarse one is there, too: who ends before that leaves it to be found
 * (GET_ORPHAN).
 */
#include "gateway/look/epoch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "gateway/look/dict_part.h"
#include "proto/base/hash.h"
#include "proto/base/library/library.h"
#include "proto/coding/coding.h"
#include "proto/sqlite/result.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* Of what was new once, unpacked. */
#define PART_MAX ((size_t)256 << 20)

/* What a row has of an epoch that ended: all that a damaged one costs. */
#define PART_NODES  65536u
#define PACK_SLICES 360u
#define PACK_BYTES  ((size_t)256 << 10)

/* Rows of so many bytes are packed together while the epoch grows. */
#define LOOSE_BYTES ((size_t)128 << 10)

static const char settings[] =
    "PRAGMA page_size=8192; PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
    "PRAGMA wal_autocheckpoint=128; PRAGMA journal_size_limit=1048576; PRAGMA cache_size=-1024;"
    "PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON";

static const char tables[] =
    "CREATE TABLE IF NOT EXISTS dict(seq INTEGER PRIMARY KEY, sum INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS slice(id INTEGER PRIMARY KEY, level INTEGER NOT NULL, at INTEGER NOT NULL,"
    " seq INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS slice_at ON slice(level, at);"
    "CREATE TABLE IF NOT EXISTS pack(id INTEGER PRIMARY KEY, level INTEGER NOT NULL, first INTEGER NOT NULL,"
    " last INTEGER NOT NULL, seq INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL)";

enum {
    BEGIN,
    COMMIT,
    ROLLBACK,
    PUT_DICT,
    PUT_SLICE,
    PUT_PACK,
    CLEAR_DICT,
    CLEAR_SLICES,
    CLEAR_PACKS,
    GET_DICT,
    GET_SLICE,
    GET_PACK,
    GET_ORPHAN,
    SPAN,
    STATEMENTS
};

static const char *const statements[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PUT_DICT] = "INSERT INTO dict VALUES(?,?,?)",
    [PUT_SLICE] = "INSERT INTO slice(level,at,seq,sum,data) VALUES(?,?,?,?,?)",
    [PUT_PACK] = "INSERT INTO pack(level,first,last,seq,sum,data) VALUES(?,?,?,?,?,?)",
    [CLEAR_DICT] = "DELETE FROM dict WHERE seq>=?",
    [CLEAR_SLICES] = "DELETE FROM slice",
    [CLEAR_PACKS] = "DELETE FROM pack",
    [GET_DICT] = "SELECT sum,data,seq FROM dict ORDER BY seq",
    [GET_SLICE] = "SELECT sum,data,at,seq FROM slice WHERE level=? AND at>=? AND at<? ORDER BY at",
    [GET_PACK] =
        "SELECT sum,data,first,last,seq FROM pack WHERE level=? AND last>=? AND first<? ORDER BY first",
    /* fine ones of times that no coarse one was written of, since the program ended first */
    [GET_ORPHAN] = ("SELECT sum,data,at,seq FROM slice WHERE level=? AND at>=? AND at<?"
                    " AND at/60 NOT IN (SELECT at FROM slice WHERE level=1) ORDER BY at"),
    [SPAN] = ("SELECT min(first),max(last) FROM (SELECT at AS first,at AS last FROM slice WHERE level=0"
              " UNION ALL SELECT first,last FROM pack WHERE level=0)"),
};

/* Those that every epoch begins with, and no file has. */
static const struct look_extent first_names = {LOOK_FIRST_STRING, LOOK_FIRST_FRAME, LOOK_FIRST_NODE, 0};

struct look_file {
    struct sqlite3 *db;
    struct sqlite3_stmt *statement[STATEMENTS];
    struct coding_encoder *encoder;
    struct {
        struct look_extent names;
        uint32_t slices, seq;
    } written;
    struct {
        struct look_extent names;
        uint32_t seq;
    } packed;             /* of it; what came later is in rows of its own */
    VEC(uint32_t) loose;  /* slices that are rows of their own: their numbers in the epoch */
    size_t loose_bytes;   /* of all such rows */
    bool is_coarse_loose; /* one of them */
};

static int result(const struct look_file *f, int rc)
{
    return sqlite_result(f->db, rc, LOOK_FILE_DAMAGED);
}

static int run(struct look_file *f, int which)
{
    const int r = result(f, sqlite3_step(f->statement[which]));
    sqlite3_reset(f->statement[which]);
    sqlite3_clear_bindings(f->statement[which]);
    return r;
}

static uint64_t sum_of(uint64_t a, uint64_t b, uint64_t c, uint64_t d, struct bytes data)
{
    const uint64_t head[] = {a, b, c, d, data.n};
    return hash_bytes(data, hash_bytes(bytes_of(head, sizeof head), LOOK_FILE_FORMAT));
}

static void bind(struct look_file *f, int which, int at, uint64_t v)
{
    sqlite3_bind_int64(f->statement[which], at, (int64_t)v);
}

/* ---- opening ------------------------------------------------------------------------------- */

static int number_of(struct look_file *f, const char *sql, int64_t *ret)
{
    struct sqlite3_stmt *s = NULL;
    int rc = sqlite3_prepare_v2(f->db, sql, -1, &s, NULL);
    if (rc == SQLITE_OK)
        rc = sqlite3_step(s);
    *ret = rc == SQLITE_ROW ? sqlite3_column_int64(s, 0) : 0;
    const int r = result(f, rc);
    sqlite3_finalize(s);
    return r;
}

static int check_format(struct look_file *f)
{
    int64_t format, version, n;
    int r = number_of(f, "PRAGMA application_id", &format);
    r = r != 0 ? r : number_of(f, "PRAGMA user_version", &version);
    r = r != 0 ? r : number_of(f, "SELECT count(*) FROM sqlite_schema", &n);
    if (r != 0)
        return r;
    char sql[96];
    snprintf(sql, sizeof sql, "PRAGMA application_id=%d; PRAGMA user_version=%d", LOOK_FILE_FORMAT,
             LOOK_FILE_VERSION);
    if (format == 0 && n == 0)
        return result(f, sqlite3_exec(f->db, sql, NULL, NULL, NULL));
    return format == LOOK_FILE_FORMAT && version == LOOK_FILE_VERSION ? 0 : LOOK_FILE_FOREIGN;
}

int look_file_open(struct look_file **ret, const char *path)
{
    int r = library_load(&library_sqlite3, NULL);
    if (r < 0)
        return r;
    struct look_file *f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->written.names = f->packed.names = first_names;
    /* For nobody else to read; SQLite gives the log the same mode. */
    autoclose int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    r = fd < 0 ? -errno : 0;
    if (r == 0)
        r = result(f, sqlite3_open_v2(path, &f->db, SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, NULL));
    if (r == 0)
        r = result(f, sqlite3_exec(f->db, settings, NULL, NULL, NULL));
    if (r == 0)
        r = check_format(f);
    if (r == 0)
        r = result(f, sqlite3_exec(f->db, tables, NULL, NULL, NULL));
    for (int i = 0; r == 0 && i < STATEMENTS; i++)
        r = result(f, sqlite3_prepare_v3(f->db, statements[i], -1, SQLITE_PREPARE_PERSISTENT,
                                         &f->statement[i], NULL));
    if (r != 0) {
        look_file_close(f);
        return r;
    }
    *ret = f;
    return 0;
}

struct look_file *look_file_close(struct look_file *f)
{
    if (!f)
        return NULL;
    for (int i = 0; i < STATEMENTS; i++)
        sqlite3_finalize(f->statement[i]);
    sqlite3_close(f->db);
    coding_encoder_free(f->encoder);
    vec_release(&f->loose);
    free(f);
    return NULL;
}

int look_file_span(struct look_file *f, uint32_t *ret_oldest, uint32_t *ret_newest)
{
    struct sqlite3_stmt *s = f->statement[SPAN];
    const int rc = sqlite3_step(s);
    const bool has = rc == SQLITE_ROW && sqlite3_column_type(s, 0) != SQLITE_NULL;
    *ret_oldest = has ? (uint32_t)sqlite3_column_int64(s, 0) : UINT32_MAX;
    *ret_newest = has ? (uint32_t)sqlite3_column_int64(s, 1) : 0;
    sqlite3_reset(s);
    return result(f, rc);
}

/* ---- writing ------------------------------------------------------------------------------- */

/* The row with these numbers, which stand first and are summed up with the data, and the data packed. */
static int put_row(struct look_file *f, int which, const uint64_t *numbers, uint32_t n,
                   const struct buffer *plain)
{
    cleanup(buffer_release) struct buffer packed = BUFFER_INIT(PART_MAX);
    uint64_t head[4] = {0};
    if (!f->encoder)
        f->encoder = coding_encoder_new(CODING_ZSTD, 0);
    int r = f->encoder ? coding_encode(f->encoder, buffer_bytes(plain), &packed) : -ENOMEM;
    if (r == 0) {
        memcpy(head, numbers, n * sizeof *numbers);
        for (uint32_t i = 0; i < n; i++)
            bind(f, which, (int)i + 1, numbers[i]);
        bind(f, which, (int)n + 1, sum_of(head[0], head[1], head[2], head[3], buffer_bytes(&packed)));
        sqlite3_bind_blob64(f->statement[which], (int)n + 2, packed.p, packed.n, SQLITE_STATIC);
        r = run(f, which);
        f->loose_bytes += packed.n;
    }
    return r;
}

static int put_dict(struct look_file *f, const struct look_epoch *e, uint64_t seq, struct look_extent from,
                    struct look_extent to)
{
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(PART_MAX);
    int r = look_part_write(e, from, to, &plain);
    r = r < 0 ? r : put_row(f, PUT_DICT, &seq, 1, &plain);
    return r;
}

static int put_slice(struct look_file *f, const struct look_slice *slice, uint32_t seq)
{
    const uint64_t numbers[] = {slice->level, slice->at, seq,
                                sum_of(slice->level, slice->at, seq, 0, slice->data)};
    for (int i = 0; i < 4; i++)
        bind(f, PUT_SLICE, i + 1, numbers[i]);
    sqlite3_bind_blob64(f->statement[PUT_SLICE], 5, slice->data.p, slice->data.n, SQLITE_STATIC);
    f->loose_bytes += slice->data.n;
    return run(f, PUT_SLICE);
}

/* The end of a transaction of which all or, with r, nothing is to be there. */
static int end(struct look_file *f, int r)
{
    r = r == 0 ? run(f, COMMIT) : r;
    if (r != 0 && !sqlite3_get_autocommit(f->db))
        run(f, ROLLBACK);
    return r;
}

static int write_news(struct look_file *f, const struct look_epoch *e)
{
    const struct look_extent now = look_extent_of(e), was = f->written.names;
    const bool has_news = was.nodes < now.nodes || was.series < now.series;
    const uint32_t seq = f->written.seq + has_news;
    if (vec_reserve(&f->loose, (uint64_t)f->loose.n + e->slices.n - f->written.slices) < 0)
        return -ENOMEM;
    int r = run(f, BEGIN);
    if (r == 0 && has_news)
        r = put_dict(f, e, f->written.seq, was, now);
    for (uint32_t i = f->written.slices; i < e->slices.n && r == 0; i++)
        r = put_slice(f, &e->slices.p[i], seq);
    r = end(f, r);
    if (r != 0)
        return r;
    for (uint32_t i = f->written.slices; i < e->slices.n; i++) {
        f->loose.p[f->loose.n++] = i;
        f->is_coarse_loose |= e->slices.p[i].level == LOOK_COARSE;
    }
    f->written.names = has_news ? now : was;
    f->written.slices = e->slices.n;
    f->written.seq = seq;
    return 0;
}

/* ---- packing ------------------------------------------------------------------------------- */

/* What becomes rows together. */
struct packing {
    const struct look_epoch *e;
    struct look_extent from, to; /* names */
    uint32_t seq;                /* of the first row of names */
    const uint32_t *slices;      /* numbers in the epoch */
    uint32_t n;
};

/* Rows: all but nodes, and then so many nodes each. *ret is the row behind them. */
static int pack_dict(struct look_file *f, const struct packing *p, uint32_t *ret)
{
    struct look_extent to = p->to;
    bind(f, CLEAR_DICT, 1, p->seq);
    int r = run(f, CLEAR_DICT);
    to.nodes = p->from.nodes;
    r = r != 0 ? r : put_dict(f, p->e, p->seq, p->from, to);
    for (*ret = p->seq + 1; to.nodes < p->to.nodes && r == 0; ++*ret) {
        const struct look_extent from = to;
        to.nodes += min_of(PART_NODES, p->to.nodes - from.nodes);
        r = put_dict(f, p->e, *ret, from, to);
    }
    return r;
}

/* A slice needs rows up to that of its last node. */
static uint32_t rows_for(const struct packing *p, uint32_t nodes)
{
    return p->seq + 1 + (nodes > p->from.nodes ? (nodes - p->from.nodes + PART_NODES - 1) / PART_NODES : 0);
}

static bool is_open(const struct look_epoch *e, enum look_level level, uint32_t at)
{
    for (uint32_t i = 0; i < e->open.n; i++)
        if (e->open.p[i].level == level && e->open.p[i].at == at)
            return true;
    return false;
}

/* Whether all that the slice is part of is there. */
static bool is_whole(const struct look_epoch *e, const struct look_slice *slice)
{
    return slice->level == LOOK_COARSE || !is_open(e, LOOK_COARSE, slice->at / LOOK_COARSE_SLICES);
}

/* Whole slices of a level, from the first on: a row of as many as it takes. *ret is the next one. */
static int put_pack(struct look_file *f, const struct packing *p, enum look_level level, uint32_t first,
                    uint32_t *ret)
{
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(PART_MAX);
    struct wire_writer w = wire_writer(&plain);
    uint64_t numbers[] = {level, UINT64_MAX, 0, 0};
    uint32_t n = 0, i = first;
    for (; i < p->n && n < PACK_SLICES && plain.n < PACK_BYTES && w.failed == 0; i++) {
        const struct look_slice *slice = &p->e->slices.p[p->slices[i]];
        if (slice->level != level || !is_whole(p->e, slice))
            continue;
        wire_put_varint(&w, slice->at);
        wire_put_varint(&w, slice->data.n);
        wire_put_raw(&w, slice->data);
        numbers[1] = min_of(numbers[1], (uint64_t)slice->at);
        numbers[2] = max_of(numbers[2], (uint64_t)slice->at);
        numbers[3] = max_of(numbers[3], (uint64_t)rows_for(p, slice->n_nodes));
        n++;
    }
    *ret = i;
    return w.failed < 0 ? w.failed : n > 0 ? put_row(f, PUT_PACK, numbers, ARRAY_LEN(numbers), &plain) : 0;
}

/* Those that are not whole yet are written anew, since rows of names have other numbers now. */
static int pack_slices(struct look_file *f, const struct packing *p, uint32_t seq)
{
    int r = run(f, CLEAR_SLICES);
    for (int level = LOOK_FINE; level < LOOK_N_LEVELS; level++)
        for (uint32_t i = 0; i < p->n && r == 0;)
            r = put_pack(f, p, (enum look_level)level, i, &i);
    f->loose_bytes = 0;
    for (uint32_t i = 0; i < p->n && r == 0; i++)
        if (!is_whole(p->e, &p->e->slices.p[p->slices[i]]))
            r = put_slice(f, &p->e->slices.p[p->slices[i]], seq);
    return r;
}

static int pack_loose(struct look_file *f, const struct look_epoch *e)
{
    const struct packing p = {.e = e,
                              .from = f->packed.names,
                              .to = f->written.names,
                              .seq = f->packed.seq,
                              .slices = f->loose.p,
                              .n = f->loose.n};
    uint32_t seq;
    int r = run(f, BEGIN);
    r = r == 0 ? pack_dict(f, &p, &seq) : r;
    r = r == 0 ? pack_slices(f, &p, seq) : r;
    r = end(f, r);
    if (r != 0)
        return r;
    uint32_t left = 0;
    for (uint32_t i = 0; i < p.n; i++)
        if (!is_whole(e, &e->slices.p[f->loose.p[i]]))
            f->loose.p[left++] = f->loose.p[i];
    f->loose.n = left;
    f->is_coarse_loose = false;
    f->written.seq = f->packed.seq = seq;
    f->packed.names = p.to;
    return 0;
}

int look_file_write(struct look_file *f, struct look_epoch *e)
{
    if (f->written.slices == e->slices.n)
        return 0; /* names are written with what needs them */
    int r = write_news(f, e);
    if (r == 0 && f->is_coarse_loose && f->loose_bytes >= LOOSE_BYTES)
        r = pack_loose(f, e) == LOOK_FILE_DAMAGED ? LOOK_FILE_DAMAGED : 0; /* else: it is tried anew */
    return r;
}

int look_file_pack(struct look_file *f, const struct look_epoch *e)
{
    VEC(uint32_t) all = {0};
    uint32_t seq;
    if (f->written.slices != e->slices.n || e->slices.n == 0 || e->open.n > 0)
        return 0;
    if (vec_extend(&all, e->slices.n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i < all.n; i++)
        all.p[i] = i;
    const struct packing p = {
        .e = e, .from = first_names, .to = look_extent_of(e), .slices = all.p, .n = all.n};
    int r = run(f, BEGIN);
    r = r == 0 ? run(f, CLEAR_PACKS) : r;
    r = r == 0 ? pack_dict(f, &p, &seq) : r;
    r = r == 0 ? pack_slices(f, &p, seq) : r;
    r = end(f, r);
    vec_release(&all);
    return r == 0 ? result(f, sqlite3_exec(f->db, "VACUUM", NULL, NULL, NULL)) : r;
}

/* ---- reading ------------------------------------------------------------------------------- */

static struct bytes blob(struct sqlite3_stmt *s, int at)
{
    const void *p = sqlite3_column_blob(s, at);
    return bytes_of(p, (size_t)sqlite3_column_bytes(s, at));
}

/* The rows of the dictionary up to the first that is not as it was written: *ret_seq of them. */
static int read_dict(struct look_file *f, struct look_epoch *e, uint32_t *ret_seq, uint32_t *bad)
{
    struct sqlite3_stmt *s = f->statement[GET_DICT];
    struct coding_decoder *decoder = coding_decoder_new();
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(PART_MAX);
    int rc, r = decoder ? 0 : -ENOMEM;
    *ret_seq = 0;
    while (r == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const struct bytes data = blob(s, 1);
        const uint64_t seq = (uint64_t)sqlite3_column_int64(s, 2);
        plain.n = 0;
        if (seq != *ret_seq || (uint64_t)sqlite3_column_int64(s, 0) != sum_of(seq, 0, 0, 0, data))
            r = LOOK_FILE_DAMAGED;
        else
            r = coding_decode(decoder, CODING_ZSTD, data, PART_MAX, 0, NULL, &plain);
        r = r == 0 ? look_part_read(e, buffer_bytes(&plain)) : r;
        r = r > 0 ? LOOK_FILE_DAMAGED : r;
        *ret_seq += r == 0;
    }
    if (r == 0)
        r = result(f, rc);
    if (r == LOOK_FILE_DAMAGED && *ret_seq > 0) {
        ++*bad;
        r = 0;
    }
    sqlite3_reset(s);
    coding_decoder_free(decoder);
    return r;
}

static int read_slices(struct look_file *f, int which, struct look_epoch *e, enum look_level level,
                       uint64_t from, uint64_t to, uint32_t n_seq, uint32_t *bad)
{
    struct sqlite3_stmt *s = f->statement[which];
    int rc, r = 0;
    bind(f, which, 1, level);
    bind(f, which, 2, from);
    bind(f, which, 3, to);
    while (r == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const struct look_slice slice = {(uint32_t)sqlite3_column_int64(s, 2), level, 0, blob(s, 1)};
        const uint64_t seq = (uint64_t)sqlite3_column_int64(s, 3);
        if (seq > n_seq ||
            (uint64_t)sqlite3_column_int64(s, 0) != sum_of(level, slice.at, seq, 0, slice.data))
            ++*bad;
        else
            r = look_epoch_add_sealed(e, &slice);
    }
    if (r == 0)
        r = result(f, rc);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    return r;
}

/* Those slices of a pack that are in [from, to). 0, LOOK_FILE_DAMAGED or -ENOMEM. */
static int add_pack(struct bytes pack, struct look_epoch *e, enum look_level level, uint64_t from,
                    uint64_t to)
{
    struct wire_reader r = wire_reader(pack);
    int rc = 0;
    while (r.p < r.end && rc == 0) {
        uint64_t at, n;
        if (wire_next_varint(&r, &at) != 0 || wire_next_varint(&r, &n) != 0 || at > UINT32_MAX ||
            n > (size_t)(r.end - r.p))
            return LOOK_FILE_DAMAGED;
        const struct look_slice slice = {(uint32_t)at, level, 0, bytes_of(r.p, n)};
        if (at >= from && at < to)
            rc = look_epoch_add_sealed(e, &slice);
        r.p += n;
    }
    return rc;
}

static int read_packs(struct look_file *f, struct look_epoch *e, enum look_level level, uint64_t from,
                      uint64_t to, uint32_t n_seq, uint32_t *bad)
{
    struct sqlite3_stmt *s = f->statement[GET_PACK];
    struct coding_decoder *decoder = coding_decoder_new();
    cleanup(buffer_release) struct buffer plain = BUFFER_INIT(PART_MAX);
    int rc, r = decoder ? 0 : -ENOMEM;
    bind(f, GET_PACK, 1, level);
    bind(f, GET_PACK, 2, from);
    bind(f, GET_PACK, 3, to);
    while (r == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const uint64_t first = (uint64_t)sqlite3_column_int64(s, 2),
                       last = (uint64_t)sqlite3_column_int64(s, 3),
                       seq = (uint64_t)sqlite3_column_int64(s, 4);
        int part = LOOK_FILE_DAMAGED;
        plain.n = 0;
        if (seq <= n_seq &&
            (uint64_t)sqlite3_column_int64(s, 0) == sum_of(level, first, last, seq, blob(s, 1)))
            part = coding_decode(decoder, CODING_ZSTD, blob(s, 1), PART_MAX, 0, NULL, &plain);
        if (part == 0)
            part = add_pack(buffer_bytes(&plain), e, level, from, to);
        *bad += part > 0;
        r = part < 0 ? part : 0;
    }
    if (r == 0)
        r = result(f, rc);
    sqlite3_reset(s);
    sqlite3_clear_bindings(s);
    coding_decoder_free(decoder);
    return r;
}

int look_file_read(struct look_file *f, enum look_level level, uint32_t from, uint32_t to,
                   struct budget *budget, struct look_epoch **ret, uint32_t *ret_bad)
{
    struct look_epoch *e = look_epoch_new(budget, 0);
    uint32_t seq = 0;
    *ret_bad = 0;
    int r = e ? read_dict(f, e, &seq, ret_bad) : -ENOMEM;
    if (r == 0)
        r = read_packs(f, e, level, from, to, seq, ret_bad);
    if (r == 0)
        r = read_slices(f, GET_SLICE, e, level, from, to, seq, ret_bad);
    if (r == 0 && level == LOOK_COARSE)
        r = read_slices(f, GET_ORPHAN, e, LOOK_FINE, (uint64_t)from * LOOK_COARSE_SLICES,
                        (uint64_t)to * LOOK_COARSE_SLICES, seq, ret_bad);
    if (r != 0) {
        look_epoch_free(e);
        return r;
    }
    e->is_read = true;
    *ret = e;
    return 0;
}
