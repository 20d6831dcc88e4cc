/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/dict_part.h"

#include <errno.h>

#include "proto/wire/reader.h"
#include "proto/wire/writer.h"

/* Columns are the fields of these records, which are all 32-bit numbers. */
#define FRAME_FIELDS  (sizeof(struct look_frame) / sizeof(uint32_t))
#define SERIES_FIELDS (sizeof(struct look_series) / sizeof(uint32_t))

/* ---- writing ------------------------------------------------------------------------------- */

static void put_records(struct wire_writer *w, const void *records, size_t fields, uint32_t from, uint32_t to)
{
    const uint32_t *p = records;
    for (size_t k = 0; k < fields; k++)
        for (uint32_t i = from; i < to; i++)
            wire_put_varint(w, p[i * fields + k]);
}

int look_part_write(const struct look_epoch *e, struct look_extent from, struct look_extent to,
                    struct buffer *out)
{
    struct wire_writer w = wire_writer(out);
    const struct look_dict *d = &e->dict;
    wire_put_varint(&w, to.strings - from.strings);
    wire_put_varint(&w, to.frames - from.frames);
    wire_put_varint(&w, to.nodes - from.nodes);
    wire_put_varint(&w, to.series - from.series);
    for (uint32_t i = from.strings; i < to.strings; i++)
        wire_put_varint(&w, intern_get(&d->strings, i).n);
    for (uint32_t i = from.strings; i < to.strings; i++)
        wire_put_raw(&w, intern_get(&d->strings, i));
    put_records(&w, d->frames.p, FRAME_FIELDS, from.frames, to.frames);
    for (uint32_t i = from.nodes; i < to.nodes; i++)
        wire_put_varint(&w, i - d->nodes.p[i].parent);
    for (uint32_t i = from.nodes; i < to.nodes; i++)
        wire_put_varint(&w, d->nodes.p[i].frame);
    put_records(&w, e->series.p, SERIES_FIELDS, from.series, to.series);
    return w.failed;
}

/* ---- reading ------------------------------------------------------------------------------- */

#define ANY (UINT32_MAX + 1ull)

/* A number below a bound. False: it is none. */
static bool get(struct wire_reader *r, uint64_t below, uint32_t *ret)
{
    uint64_t v;
    if (wire_next_varint(r, &v) != 0 || v >= below)
        return false;
    *ret = (uint32_t)v;
    return true;
}

static bool pass_over(struct wire_reader *r, uint32_t n)
{
    for (uint32_t unused; n > 0; n--)
        if (!get(r, ANY, &unused))
            return false;
    return true;
}

static int get_strings(struct wire_reader *r, struct look_dict *d, uint32_t n)
{
    struct wire_reader lengths = *r;
    if (!pass_over(r, n))
        return LOOK_PART_DAMAGED;
    for (uint32_t length; n > 0; n--, r->p += length) {
        if (!get(&lengths, LOOK_NAME_MAX + 1, &length) || length > (size_t)(r->end - r->p))
            return LOOK_PART_DAMAGED;
        if (intern_append(&d->strings, bytes_of(r->p, length)) == INTERN_NONE)
            return -ENOMEM;
    }
    return 0;
}

/* `below` of each field. Adds n records at the end of those that there are. */
static int get_records(struct wire_reader *r, uint32_t *records, size_t fields, uint32_t n,
                       const uint64_t *below)
{
    for (size_t k = 0; k < fields; k++)
        for (uint32_t i = 0; i < n; i++)
            if (!get(r, below[k], &records[i * fields + k]))
                return LOOK_PART_DAMAGED;
    return 0;
}

static int get_frames(struct wire_reader *r, struct look_dict *d, uint32_t n)
{
    const uint64_t strings = d->strings.n, below[FRAME_FIELDS] = {strings, strings, strings, strings, ANY, 2};
    if (n == 0)
        return 0;
    if (vec_reserve(&d->frames, (uint64_t)d->frames.n + n) < 0)
        return -ENOMEM;
    int rc = get_records(r, (uint32_t *)(d->frames.p + d->frames.n), FRAME_FIELDS, n, below);
    d->frames.n += rc == 0 ? n : 0;
    return rc;
}

static int get_nodes(struct wire_reader *r, struct look_dict *d, uint32_t n)
{
    struct wire_reader parents = *r;
    if (vec_reserve(&d->nodes, (uint64_t)d->nodes.n + n) < 0)
        return -ENOMEM;
    if (!pass_over(r, n))
        return LOOK_PART_DAMAGED;
    for (uint32_t back, frame; n > 0; n--) {
        const uint32_t number = d->nodes.n;
        if (!get(&parents, number + 1ull, &back) || back == 0 || !get(r, d->frames.n, &frame))
            return LOOK_PART_DAMAGED;
        d->nodes.p[d->nodes.n++] = (struct look_node){number - back, frame};
    }
    return 0;
}

static int get_series(struct wire_reader *r, struct look_epoch *e, uint32_t n)
{
    uint64_t below[SERIES_FIELDS];
    if (n == 0)
        return 0;
    for (size_t k = 0; k < SERIES_FIELDS; k++)
        below[k] = e->dict.strings.n;
    if (vec_reserve(&e->series, (uint64_t)e->series.n + n) < 0)
        return -ENOMEM;
    int rc = get_records(r, (uint32_t *)(e->series.p + e->series.n), SERIES_FIELDS, n, below);
    e->series.n += rc == 0 ? n : 0;
    return rc;
}

int look_part_read(struct look_epoch *e, struct bytes part)
{
    struct wire_reader r = wire_reader(part);
    uint32_t strings, frames, nodes, series;
    const uint64_t below = part.n; /* each has a byte at least */
    if (!get(&r, below, &strings) || !get(&r, below, &frames) || !get(&r, below, &nodes) ||
        !get(&r, below, &series))
        return LOOK_PART_DAMAGED;
    int rc = get_strings(&r, &e->dict, strings);
    rc = rc != 0 ? rc : get_frames(&r, &e->dict, frames);
    rc = rc != 0 ? rc : get_nodes(&r, &e->dict, nodes);
    return rc != 0 ? rc : get_series(&r, e, series);
}
