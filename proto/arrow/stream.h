/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An Arrow IPC stream (arrow.apache.org/docs/format/Columnar.html, "Encapsulated message format"), read: one
 * record batch after the other, with its columns where they lie.
 *
 * The columns of the schema are in depth-first order: a column's children follow it, up to `end`. Column 0 is
 * the record itself, a struct. A column with a dictionary has numbers, and the column behind it has what
 * these are numbers of. What a column says is read by column.h, which checks each index; sizes of buffers are
 * not.
 */
#ifndef PROTO_ARROW_STREAM_H
#define PROTO_ARROW_STREAM_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/arena.h"
#include "proto/base/bytes.h"
#include "proto/base/error.h"
#include "proto/base/vec.h"

/* Of a schema. A label of Parca's is four columns. */
#define ARROW_COLUMNS_MAX 1024u
#define ARROW_DEPTH_MAX   16u

enum arrow_kind {
    ARROW_NOTHING,   /* all null */
    ARROW_BITS,      /* booleans */
    ARROW_INTEGER,   /* also a timestamp */
    ARROW_FIXED,     /* `width` bytes each: also floating point, decimals, dates: nobody looks at them */
    ARROW_BYTES,     /* text or bytes: data has where they begin, extra is them */
    ARROW_VIEWS,     /* the same as views: data has those, buffers what they are of */
    ARROW_LIST,      /* data has where they begin in the child */
    ARROW_LIST_VIEW, /* likewise, and extra their sizes */
    ARROW_STRUCT,
    ARROW_RUNS, /* run-end encoded: its children are the ends and the values */
};

struct arrow_column {
    struct bytes name;
    enum arrow_kind kind;
    uint32_t width; /* bytes of a number, an offset or an element */
    bool is_unsigned;
    uint32_t dictionary; /* the column that has what the numbers mean; 0: they mean themselves */
    int64_t id;          /* of that dictionary */
    uint32_t end;        /* the column behind the last one below it */
    /* of the batch that was read last, or of the dictionary */
    uint64_t n;
    struct bytes valid; /* a bit for each element; empty: all are */
    struct bytes data, extra;
    const struct bytes *buffers;
    uint32_t n_buffers;
};

struct arrow_stream {
    struct bytes rest;
    struct arena arena; /* what was compressed, and lists of buffers */
    uint64_t left;      /* bytes that may still come out */
    uint64_t packed;    /* bytes of compressed buffers that may still be read: each once */
    struct arrow_column columns[ARROW_COLUMNS_MAX];
    uint32_t n_columns; /* 0: there was no schema yet */
    uint32_t messages;
    void *lz4, *zstd; /* contexts for decompression, on the budget; NULL: not needed yet */
};

/* Conditions. */
enum {
    ARROW_MALFORMED = 1, /* *e says how */
    ARROW_TOO_LARGE,     /* more than `max` bytes come out */
    ARROW_END,
};

/* Reads `ipc`, which stays where it is; what is compressed in it becomes no more than `max` bytes, charged to
 * `budget` (may be NULL). The struct has 140 KiB: it is not for the stack. */
void arrow_stream_init(struct arrow_stream *s, struct bytes ipc, uint64_t max, struct budget *budget);
void arrow_stream_release(struct arrow_stream *s);

/* The next record batch. What was read of the one before stays readable, but is not pointed to any more. 0, a
 * condition, or -ENOMEM (memory, the budget). */
int arrow_next(struct arrow_stream *s, struct error *e);

#endif
