/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What stands in a column of a record batch. An index that is not there gives what null does; so do
 * dictionaries' numbers, offsets and views that lead nowhere. Any thread that nobody reads the stream on
 * meanwhile.
 */
#ifndef PROTO_ARROW_COLUMN_H
#define PROTO_ARROW_COLUMN_H

#include "proto/arrow/stream.h"

/* The column of that name right below `parent` (0: of the record; a dictionary's children are below the
 * column behind it); 0: there is none. The first or the next one below it; 0: there is no further one. */
uint32_t arrow_find(const struct arrow_stream *s, uint32_t parent, const char *name);
uint32_t arrow_child(const struct arrow_stream *s, uint32_t parent, uint32_t after);

bool arrow_is_null(const struct arrow_column *c, uint64_t i);

/* A whole number, or how many a dictionary has before what is meant; false: null. One of 64 bits without a
 * sign is cut. */
bool arrow_number(const struct arrow_column *c, uint64_t i, int64_t *ret);

/* Text or bytes, also by a dictionary; .p is NULL where it is null. */
struct bytes arrow_bytes(const struct arrow_stream *s, uint32_t column, uint64_t i);

/* Which elements of the child a list has; false: null, or not all of them are there. */
bool arrow_list(const struct arrow_stream *s, uint32_t column, uint64_t i, uint64_t *ret_from,
                uint64_t *ret_n);

/* Where a column's element i stands in `column`, which is another one for run-end encoded columns: asked for
 * in rising order, each costs nothing. */
struct arrow_cursor {
    uint32_t column;   /* of the values; 0: there is none, and all is null */
    uint32_t ends;     /* 0: it is not run-end encoded */
    uint64_t run, end; /* `column` has the same up to the element `end` */
};
struct arrow_cursor arrow_cursor(const struct arrow_stream *s, uint32_t column);

/* The place of element i in cursor->column. False: the runs end before it, or do not rise. */
bool arrow_seek(const struct arrow_stream *s, struct arrow_cursor *cursor, uint64_t i, uint64_t *ret);

#endif
