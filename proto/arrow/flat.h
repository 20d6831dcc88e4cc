/* SPDX-License-Identifier: Apache-2.0 */
/*
 * FlatBuffers, read: a table's fields by their numbers, each within bounds (flatbuffers.dev "Internals").
 *
 * Places are offsets from the buffer's beginning; 0 is none. What is absent is 0 or empty; what points out of
 * the buffer is that, too, and remembered: is_bad is looked at when all is read.
 */
#ifndef PROTO_ARROW_FLAT_H
#define PROTO_ARROW_FLAT_H

#include <stdbool.h>
#include <stdint.h>

#include "proto/base/bytes.h"

struct flat {
    struct bytes whole; /* shorter than 2 GiB */
    bool is_bad;
};

struct flat_vector {
    uint32_t at, n; /* the first element; how many */
};

/* The table that the buffer is of. */
uint32_t flat_root(struct flat *f);

/* A number of `size` bytes (1, 2, 4, 8), sign extended. */
int64_t flat_number(struct flat *f, uint32_t table, unsigned field, unsigned size, int64_t absent);

uint32_t flat_table(struct flat *f, uint32_t table, unsigned field);
struct bytes flat_string(struct flat *f, uint32_t table, unsigned field);

/* A vector of elements of that many bytes, all of which are there. */
struct flat_vector flat_vector(struct flat *f, uint32_t table, unsigned field, unsigned size);

/* An element of a vector of tables, whose elements have four bytes; of numbers of eight bytes. */
uint32_t flat_table_at(struct flat *f, struct flat_vector v, uint32_t i);
int64_t flat_number_at(const struct flat *f, struct flat_vector v, uint32_t i);

#endif
