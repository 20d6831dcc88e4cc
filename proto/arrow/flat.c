/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table begins with how far before it its vtable is; that has its own length, the table's, and for each
 * field how far behind the table's beginning it stands. Strings, vectors and tables in it are offsets from
 * where they stand to where they are.
 */
#include "proto/arrow/flat.h"

#include <endian.h>
#include <string.h>

static bool has(const struct flat *f, uint64_t at, uint64_t n)
{
    return at <= f->whole.n && n <= f->whole.n - at;
}

static uint32_t bad(struct flat *f)
{
    f->is_bad = true;
    return 0;
}

static uint16_t u16_at(const struct flat *f, uint32_t at)
{
    uint16_t v;
    memcpy(&v, f->whole.p + at, sizeof v);
    return le16toh(v);
}

static uint32_t u32_at(const struct flat *f, uint32_t at)
{
    uint32_t v;
    memcpy(&v, f->whole.p + at, sizeof v);
    return le32toh(v);
}

/* Where the offset at `at` leads, if there are as many bytes. */
static uint32_t follow(struct flat *f, uint32_t at, uint32_t n)
{
    if (!has(f, at, sizeof(uint32_t)))
        return bad(f);
    const uint64_t to = (uint64_t)at + u32_at(f, at);
    return to > at && has(f, to, n) ? (uint32_t)to : bad(f);
}

/* Where the field stands, 0: nowhere. It has `size` bytes. */
static uint32_t field_at(struct flat *f, uint32_t table, unsigned field, unsigned size)
{
    if (table == 0 || !has(f, table, sizeof(uint32_t)))
        return 0;
    const int64_t vtable = (int64_t)table - (int32_t)u32_at(f, table);
    if (vtable < 0 || !has(f, (uint64_t)vtable, 4))
        return bad(f);
    const uint32_t length = u16_at(f, (uint32_t)vtable), entry = 4 + 2 * field;
    if (entry + 2 > length)
        return 0;
    if (!has(f, (uint64_t)vtable, length))
        return bad(f);
    const uint32_t offset = u16_at(f, (uint32_t)vtable + entry);
    if (offset == 0)
        return 0;
    return has(f, (uint64_t)table + offset, size) ? table + offset : bad(f);
}

uint32_t flat_root(struct flat *f)
{
    return follow(f, 0, sizeof(uint32_t));
}

int64_t flat_number(struct flat *f, uint32_t table, unsigned field, unsigned size, int64_t absent)
{
    const uint32_t at = field_at(f, table, field, size);
    uint64_t v = 0;
    if (at == 0)
        return absent;
    memcpy(&v, f->whole.p + at, size);
    const unsigned above = 64 - 8 * size;
    return (int64_t)(le64toh(v) << above) >> above;
}

uint32_t flat_table(struct flat *f, uint32_t table, unsigned field)
{
    const uint32_t at = field_at(f, table, field, sizeof(uint32_t));
    return at == 0 ? 0 : follow(f, at, sizeof(uint32_t));
}

struct flat_vector flat_vector(struct flat *f, uint32_t table, unsigned field, unsigned size)
{
    const uint32_t at = flat_table(f, table, field), n = at ? u32_at(f, at) : 0;
    if (at == 0)
        return (struct flat_vector){0};
    if (!has(f, (uint64_t)at + sizeof n, (uint64_t)n * size)) {
        (void)bad(f);
        return (struct flat_vector){0};
    }
    return (struct flat_vector){at + (uint32_t)sizeof n, n};
}

struct bytes flat_string(struct flat *f, uint32_t table, unsigned field)
{
    const struct flat_vector v = flat_vector(f, table, field, 1);
    return bytes_of(f->whole.p + v.at, v.n);
}

uint32_t flat_table_at(struct flat *f, struct flat_vector v, uint32_t i)
{
    return i < v.n ? follow(f, v.at + i * (uint32_t)sizeof(uint32_t), sizeof(uint32_t)) : bad(f);
}

int64_t flat_number_at(const struct flat *f, struct flat_vector v, uint32_t i)
{
    uint64_t number = 0;
    if (i < v.n)
        memcpy(&number, f->whole.p + v.at + (size_t)i * sizeof number, sizeof number);
    return (int64_t)le64toh(number);
}
