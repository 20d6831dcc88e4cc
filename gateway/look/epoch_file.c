/* SPDX-License-Identifier: Apache-2.0 */
/*
 * WAL with synchronous=NORMAL: a commit is an append to the log, there after kill -9; the sync is the
 * checkpoint's, so that a power failure costs the last of it and nothing else.
 */
#include "gateway/look/epoch_file.h"

#include <errno.h>
#include <fcntl.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/hash.h"
#include "proto/sqlite/result.h"
#include "proto/coding/coding.h"
#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* Of what was new once, unpacked. */
#define PART_MAX ((size_t)256 << 20)

static const char settings[] =
    "PRAGMA page_size=8192; PRAGMA locking_mode=EXCLUSIVE; PRAGMA journal_mode=WAL; PRAGMA synchronous=NORMAL;"
    "PRAGMA wal_autocheckpoint=512; PRAGMA journal_size_limit=4194304; PRAGMA cache_size=-1024;"
    "PRAGMA temp_store=MEMORY; PRAGMA trusted_schema=OFF; PRAGMA cell_size_check=ON";

static const char tables[] =
    "CREATE TABLE IF NOT EXISTS dict(seq INTEGER PRIMARY KEY, sum INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE TABLE IF NOT EXISTS slice(id INTEGER PRIMARY KEY, level INTEGER NOT NULL, at INTEGER NOT NULL,"
    " seq INTEGER NOT NULL, sum INTEGER NOT NULL, data BLOB NOT NULL);"
    "CREATE INDEX IF NOT EXISTS slice_at ON slice(level, at)";

enum { BEGIN, COMMIT, ROLLBACK, PUT_DICT, PUT_SLICE, GET_DICT, GET_SLICE, GET_ORPHAN, SPAN, STATEMENTS };

static const char *const statements[STATEMENTS] = {
    [BEGIN] = "BEGIN IMMEDIATE",
    [COMMIT] = "COMMIT",
    [ROLLBACK] = "ROLLBACK",
    [PUT_DICT] = "INSERT INTO dict VALUES(?,?,?)",
    [PUT_SLICE] = "INSERT INTO slice(level,at,seq,sum,data) VALUES(?,?,?,?,?)",
    [GET_DICT] = "SELECT sum,data,seq FROM dict ORDER BY seq",
    [GET_SLICE] = "SELECT sum,data,at,seq FROM slice WHERE level=? AND at>=? AND at<? ORDER BY at",
    /* fine ones of times that no coarse one was written of, since the program ended first */
    [GET_ORPHAN] = ("SELECT sum,data,at,seq FROM slice WHERE level=? AND at>=? AND at<?"
                    " AND at/60 NOT IN (SELECT at FROM slice WHERE level=1) ORDER BY at"),
    [SPAN] = "SELECT min(at),max(at) FROM slice WHERE level=0",
};

struct look_file {
    struct sqlite3 *db;
    struct sqlite3_stmt *statement[STATEMENTS];
    struct coding_encoder *encoder;
    struct {
        uint32_t strings, frames, nodes, series, slices, seq;
    } written;
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

static uint64_t sum_of(uint64_t a, uint64_t b, uint64_t c, struct bytes data)
{
    const uint64_t head[] = {a, b, c, data.n};
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

/* What is of another program, or of a newer version of this one, is as good as damaged. */
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
    return format == LOOK_FILE_FORMAT && version == LOOK_FILE_VERSION ? 0 : LOOK_FILE_DAMAGED;
}

int look_file_open(struct look_file **ret, const char *path)
{
    struct look_file *f = calloc(1, sizeof *f);
    if (!f)
        return -ENOMEM;
    f->written.strings = LOOK_FIRST_STRING;
    f->written.frames = LOOK_FIRST_FRAME;
    f->written.nodes = LOOK_FIRST_NODE;
    /* For nobody else to read; SQLite gives the log the same mode. */
    autoclose int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    int r = fd < 0 ? -errno : 0;
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

/* How many of each, then each: what look_file_read reads. */
static int encode_dict(const struct look_file *f, const struct look_epoch *e, struct buffer *out)
{
    struct wire_writer w = wire_writer(out);
    const struct look_dict *d = &e->dict;
    wire_put_varint(&w, d->strings.n - f->written.strings);
    wire_put_varint(&w, d->frames.n - f->written.frames);
    wire_put_varint(&w, d->nodes.n - f->written.nodes);
    wire_put_varint(&w, e->series.n - f->written.series);
    for (uint32_t i = f->written.strings; i < d->strings.n; i++) {
        const struct bytes text = intern_get(&d->strings, i);
        wire_put_varint(&w, text.n);
        wire_put_raw(&w, text);
    }
    for (uint32_t i = f->written.frames; i < d->frames.n; i++) {
        const struct look_frame *frame = &d->frames.p[i];
        const uint32_t parts[] = {frame->name, frame->file, frame->lib,
                                  frame->kind, frame->line, frame->inlined};
        for (uint32_t k = 0; k < ARRAY_LEN(parts); k++)
            wire_put_varint(&w, parts[k]);
    }
    for (uint32_t i = f->written.nodes; i < d->nodes.n; i++) {
        wire_put_varint(&w, i - d->nodes.p[i].parent);
        wire_put_varint(&w, d->nodes.p[i].frame);
    }
    for (uint32_t i = f->written.series; i < e->series.n; i++) {
        const struct look_series *s = &e->series.p[i];
        wire_put_varint(&w, s->type);
        wire_put_varint(&w, s->unit);
        for (uint32_t k = 0; k < LOOK_N_LABELS; k++)
            wire_put_varint(&w, s->label[k]);
    }
    return w.failed;
}

static int put_dict(struct look_file *f, const struct look_epoch *e)
{
    struct buffer plain = BUFFER_INIT(PART_MAX), packed = BUFFER_INIT(PART_MAX);
    if (!f->encoder)
        f->encoder = coding_encoder_new(CODING_ZSTD, 0);
    int r = f->encoder ? encode_dict(f, e, &plain) : -ENOMEM;
    if (r == 0)
        r = coding_encode(f->encoder, buffer_bytes(&plain), &packed);
    if (r == 0) {
        bind(f, PUT_DICT, 1, f->written.seq);
        bind(f, PUT_DICT, 2, sum_of(f->written.seq, 0, 0, buffer_bytes(&packed)));
        sqlite3_bind_blob64(f->statement[PUT_DICT], 3, packed.p, packed.n, SQLITE_STATIC);
        r = run(f, PUT_DICT);
    }
    buffer_release(&plain);
    buffer_release(&packed);
    return r;
}

static int put_slice(struct look_file *f, const struct look_slice *slice, uint32_t seq)
{
    const uint64_t numbers[] = {slice->level, slice->at, seq,
                                sum_of(slice->level, slice->at, seq, slice->data)};
    for (int i = 0; i < 4; i++)
        bind(f, PUT_SLICE, i + 1, numbers[i]);
    sqlite3_bind_blob64(f->statement[PUT_SLICE], 5, slice->data.p, slice->data.n, SQLITE_STATIC);
    return run(f, PUT_SLICE);
}

int look_file_write(struct look_file *f, struct look_epoch *e)
{
    if (f->written.slices == e->slices.n)
        return 0; /* names are written with what needs them */
    const bool has_news = f->written.nodes < e->dict.nodes.n || f->written.series < e->series.n;
    const uint32_t seq = f->written.seq + has_news;
    int r = run(f, BEGIN);
    if (r == 0 && has_news)
        r = put_dict(f, e);
    for (uint32_t i = f->written.slices; i < e->slices.n && r == 0; i++)
        r = put_slice(f, &e->slices.p[i], seq);
    if (r == 0)
        r = run(f, COMMIT);
    if (r != 0) {
        if (!sqlite3_get_autocommit(f->db))
            run(f, ROLLBACK);
        return r;
    }
    f->written.strings = e->dict.strings.n;
    f->written.frames = e->dict.frames.n;
    f->written.nodes = e->dict.nodes.n;
    f->written.series = e->series.n;
    f->written.slices = e->slices.n;
    f->written.seq = seq;
    return 0;
}

/* ---- reading ------------------------------------------------------------------------------- */

/* A number below a bound. False: it is none. */
static bool get(struct wire_reader *r, uint64_t below, uint32_t *ret)
{
    uint64_t v;
    if (wire_next_varint(r, &v) != 0 || v >= below)
        return false;
    *ret = (uint32_t)v;
    return true;
}

#define ANY (UINT32_MAX + 1ull)

/* Each must get the number that it had: then those that refer to it are right. 0, LOOK_FILE_DAMAGED or
 * -ENOMEM, as the next three. */
static int get_strings(struct wire_reader *r, struct look_dict *d, uint32_t n)
{
    for (uint32_t length; n-- > 0; r->p += length) {
        if (!get(r, LOOK_NAME_MAX + 1, &length) || length > (size_t)(r->end - r->p))
            return LOOK_FILE_DAMAGED;
        const uint32_t wanted = d->strings.n, number = look_dict_string(d, bytes_of(r->p, length));
        if (number != wanted)
            return number == LOOK_NONE ? -ENOMEM : LOOK_FILE_DAMAGED;
    }
    return 0;
}

static int get_frames(struct wire_reader *r, struct look_dict *d, uint32_t n)
{
    while (n-- > 0) {
        struct look_frame f = {0};
        const uint64_t strings = d->strings.n;
        if (!get(r, strings, &f.name) || !get(r, strings, &f.file) || !get(r, strings, &f.lib) ||
            !get(r, strings, &f.kind) || !get(r, ANY, &f.line) || !get(r, 2, &f.inlined))
            return LOOK_FILE_DAMAGED;
        const uint32_t wanted = d->frames.n, number = look_dict_frame(d, &f);
        if (number != wanted)
            return number == LOOK_NONE ? -ENOMEM : LOOK_FILE_DAMAGED;
    }
    return 0;
}

static int get_nodes(struct wire_reader *r, struct look_dict *d, uint32_t n)
{
    while (n-- > 0) {
        const uint32_t wanted = d->nodes.n;
        uint32_t back, frame;
        if (!get(r, wanted + 1ull, &back) || back == 0 || !get(r, d->frames.n, &frame))
            return LOOK_FILE_DAMAGED;
        const uint32_t number = look_dict_node(d, wanted - back, frame);
        if (number != wanted)
            return number == LOOK_NONE ? -ENOMEM : LOOK_FILE_DAMAGED;
    }
    return 0;
}

static int get_series(struct wire_reader *r, struct look_epoch *e, uint32_t n)
{
    const uint64_t strings = e->dict.strings.n;
    while (n-- > 0) {
        struct look_series s = {0};
        if (!get(r, strings, &s.type) || !get(r, strings, &s.unit))
            return LOOK_FILE_DAMAGED;
        for (uint32_t k = 0; k < LOOK_N_LABELS; k++)
            if (!get(r, strings, &s.label[k]))
                return LOOK_FILE_DAMAGED;
        if (vec_append(&e->series, s) < 0)
            return -ENOMEM;
    }
    return 0;
}

static int get_part(struct bytes part, struct look_epoch *e)
{
    struct wire_reader r = wire_reader(part);
    uint32_t strings, frames, nodes, series;
    if (!get(&r, ANY, &strings) || !get(&r, ANY, &frames) || !get(&r, ANY, &nodes) || !get(&r, ANY, &series))
        return LOOK_FILE_DAMAGED;
    int rc = get_strings(&r, &e->dict, strings);
    rc = rc != 0 ? rc : get_frames(&r, &e->dict, frames);
    rc = rc != 0 ? rc : get_nodes(&r, &e->dict, nodes);
    return rc != 0 ? rc : get_series(&r, e, series);
}

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
    struct buffer plain = BUFFER_INIT(PART_MAX);
    int rc, r = decoder ? 0 : -ENOMEM;
    *ret_seq = 0;
    while (r == 0 && (rc = sqlite3_step(s)) == SQLITE_ROW) {
        const struct bytes data = blob(s, 1);
        const uint64_t seq = (uint64_t)sqlite3_column_int64(s, 2);
        plain.n = 0;
        if (seq != *ret_seq || (uint64_t)sqlite3_column_int64(s, 0) != sum_of(seq, 0, 0, data))
            r = LOOK_FILE_DAMAGED;
        else
            r = coding_decode(decoder, CODING_ZSTD, data, PART_MAX, 0, NULL, &plain);
        r = r > 0 ? LOOK_FILE_DAMAGED : r == 0 ? get_part(buffer_bytes(&plain), e) : r;
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
    buffer_release(&plain);
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
        const struct look_slice slice = {(uint32_t)sqlite3_column_int64(s, 2), level, blob(s, 1)};
        const uint64_t seq = (uint64_t)sqlite3_column_int64(s, 3);
        if (seq > n_seq || (uint64_t)sqlite3_column_int64(s, 0) != sum_of(level, slice.at, seq, slice.data))
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

int look_file_read(struct look_file *f, enum look_level level, uint32_t from, uint32_t to,
                   struct budget *budget, struct look_epoch **ret, uint32_t *ret_bad)
{
    struct look_epoch *e = look_epoch_new(budget, 0);
    uint32_t seq = 0;
    *ret_bad = 0;
    int r = e ? read_dict(f, e, &seq, ret_bad) : -ENOMEM;
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
