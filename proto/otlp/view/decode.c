/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/view/profiles.h"

#include <inttypes.h>

#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/layouts/legacy.h"
#include "proto/otlp/layouts/sniff.h"
#include "proto/otlp/layouts/unknown.h"
#include "proto/otlp/view/decode.h"

_Static_assert(PROFILES_PADDING >= WIRE_LOAD_PADDING, "the loads read that far behind the body");

/* Spans keep offset and length in 32 bits each. */
#define BODY_MAX (UINT32_MAX - PROFILES_PADDING)

int decode_malformed(struct decode *d, const uint8_t *at, const char *what)
{
    /* at may be in a joined message, outside of the body */
    if (at >= d->base && at <= d->base + d->p->body.n)
        return error_set(d->e, PROFILES_MALFORMED, "%s at byte %zu", what, (size_t)(at - d->base));
    return error_set(d->e, PROFILES_MALFORMED, "%s", what);
}

int decode_too_hollow(struct decode *d, const uint8_t *at)
{
    return decode_malformed(d, at, HOLLOW_WORDS);
}

int decode_wrong_type(struct decode *d, const struct wire_field *f, const char *message)
{
    error_set(d->e, 0, "field %" PRIu32 " of %s has wire type %d", f->number, message, (int)f->type);
    if (f->from >= d->base && f->from < d->base + d->p->body.n) {
        struct error words = d->e ? *d->e : (struct error){""};
        error_set(d->e, 0, "%.400s at byte %zu", words.text, (size_t)(f->from - d->base));
    }
    return PROFILES_MALFORMED;
}

int decode_misfit(struct decode *d, const struct wire_field *f, const char *message, bool *unreadable)
{
    if (d->asks)
        return decode_wrong_type(d, f, message);
    *unreadable = true;
    return 0;
}

int decode_indices(struct decode *d, enum profiles_group group, struct index_pool *pool,
                   const struct wire_field *f, const char *message)
{
    if (f->type != WIRE_VARINT && f->type != WIRE_LEN)
        return decode_wrong_type(d, f, message);
    size_t more = f->type == WIRE_LEN ? f->bytes.n : 1;
    int r = profiles_grow(d->p, group, pool->n + more);
    if (r != 0)
        return r;
    uint32_t *index = pool->index;
    if (group == GROUP_ATTR_INDEX) /* the caller's copy of a column that has perhaps moved */
        index = d->p->attr_index.attribute;
    else if (group == GROUP_STACK_LOCATION)
        index = d->p->stack_location.location;
    if (f->type == WIRE_VARINT) {
        index[pool->n++] = wire_saturate32(f->value);
        return 0;
    }
    const uint8_t *end = f->bytes.p + f->bytes.n;
    return wire_load_packed32(f->bytes.p, end, index, &pool->n) == end
               ? 0
               : decode_malformed(d, f->from, "malformed packed list");
}

/* Entry 0 of a table that the producer left empty. There is room: see begin(). */
static void add_zero_entries(struct decode *d)
{
    struct profiles *v = d->p;
    if (v->string.n == 0)
        v->string.span[v->string.n++] = 0;
    if (v->mapping.n == 0) {
        v->mapping.memory_start[0] = v->mapping.memory_limit[0] = v->mapping.file_offset[0] = 0;
        v->mapping.filename[0] = v->mapping.attrs_at[0] = 0;
        v->mapping.n++;
    }
    if (v->location.n == 0) {
        v->location.address[0] = 0;
        v->location.mapping[0] = v->location.lines_at[0] = v->location.attrs_at[0] = 0;
        v->location.n++;
    }
    if (v->function.n == 0) {
        v->function.name[0] = v->function.system_name[0] = v->function.filename[0] = 0;
        v->function.start_line[0] = 0;
        v->function.n++;
    }
    if (v->link.n == 0) {
        v->link.trace_at[0] = v->link.span_at[0] = 0;
        v->link.n++;
    }
    if (v->attribute.n == 0) {
        v->attribute.key[0] = v->attribute.unit[0] = 0;
        v->attribute.value[0] = (struct attr_value){.kind = ATTR_EMPTY};
        v->attribute.n++;
    }
    if (v->stack.n == 0)
        v->stack.locations_at[v->stack.n++] = 0;
}

/* Moves a pool behind what attr_index holds, and the owners' bounds with it. */
static int append_pool(struct decode *d, const struct index_pool *pool, uint32_t *attrs_at, uint32_t n_owners)
{
    struct profiles *v = d->p;
    int r = profiles_grow(v, GROUP_ATTR_INDEX, (size_t)v->attr_index.n + pool->n);
    if (r != 0)
        return r;
    if (pool->n > 0)
        memcpy(v->attr_index.attribute + v->attr_index.n, pool->index, pool->n * sizeof *pool->index);
    typedef uint32_t four __attribute__((vector_size(16)));
    for (uint32_t i = 0; i < n_owners; i += 4) { /* whole vectors: the column has slack */
        four at;
        memcpy(&at, attrs_at + i, sizeof at);
        at += v->attr_index.n;
        memcpy(attrs_at + i, &at, sizeof at);
    }
    v->attr_index.n += pool->n;
    attrs_at[n_owners] = v->attr_index.n;
    return 0;
}

/* The ends of `_at` columns, and the pools that fields in any order made necessary. */
static int complete_columns(struct decode *d)
{
    struct profiles *v = d->p;
    v->location.lines_at[v->location.n] = v->line.n;
    v->stack.locations_at[v->stack.n] = v->stack_location.n;
    v->profile.samples_at[v->profile.n] = v->sample.n;
    v->sample.attrs_at[v->sample.n] = v->attr_index.n;
    int r = append_pool(d, &d->m->location_attr, v->location.attrs_at, v->location.n);
    if (r == 0)
        r = append_pool(d, &d->m->mapping_attr, v->mapping.attrs_at, v->mapping.n);
    if (r == 0)
        r = append_pool(d, &d->m->profile_attr, v->profile.attrs_at, v->profile.n);
    return r;
}

static int read_tree(struct decode *d)
{
    struct wire_reader in = wire_reader(d->p->body);
    struct wire_field f;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > REQUEST_HIGHEST) {
            decode_unknown(d);
            continue;
        }
        if (f.type != WIRE_LEN)
            return decode_wrong_type(d, &f, "ExportProfilesServiceRequest");
        r = f.number == REQUEST_RESOURCE_PROFILES ? decode_resource_profiles(d, f.bytes)
                                                  : decode_dictionary(d, f.bytes);
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed ExportProfilesServiceRequest");
}

/* decode's word for "of the layout that the view now says": never leaves this file. */
#define ASKED PROFILES_UNSUPPORTED

static int ask(struct profiles *p, struct bytes body, const struct profiles_producer *producer)
{
    const struct layout_verdict verdict = layout_sniff(body, producer);
    p->layout = verdict.layout;
    p->told = verdict.told;
    p->contradicts = verdict.contradicts;
    return ASKED;
}

/* The body of a view without one, so that an empty slice of it can be taken. */
static const uint8_t nothing[PROFILES_PADDING];

static int begin(struct decode *d, struct bytes body, const struct profiles_limits *limits)
{
    d->m->limit = limits->column_bytes;
    d->m->joined_budget.limit = limits->column_bytes;
    profiles_empty(d->p);
    d->p->body = body.p ? body : bytes_of(nothing, 0);
    d->base = d->p->body.p;
    d->depth = min_of(limits->depth, WIRE_DEPTH_MAX);
    for (enum profiles_group group = 0; group < GROUPS; group++) { /* no column is NULL from here on */
        int r = profiles_room(d->p, group, 0);
        if (r != 0)
            return r;
    }
    return 0;
}

/* The columns of a body of 1.10. With a producer it is not known to be that; then what speaks against it, and
 * be it that it is malformed, is looked into, and if it is of another layout after all, or could not be read
 * to its end, the answer is ASKED. */
static int decode(struct profiles *p, struct bytes body, const struct profiles_limits *limits,
                  const struct profiles_producer *producer, struct error *e)
{
    struct decode d = {.p = p, .m = p->memory, .e = e, .asks = producer != NULL};
    bool dangling = false;
    if (body.n > BODY_MAX)
        return PROFILES_OVER_BUDGET;
    int r = begin(&d, body, limits);
    if (r == 0)
        r = read_tree(&d);
    if (r == 0) {
        add_zero_entries(&d);
        r = complete_columns(&d);
    }
    if (r == 0)
        r = decode_scopes(&d, NULL, NULL, &dangling);
    if (r == PROFILES_MALFORMED && producer)
        return ask(p, body, producer);
    if (r != 0)
        return r;
    bool good = !dangling && check_all_good(&d);
    p->layout = PROFILES_LAYOUT_1_10;
    if (producer && !(good && !d.doubt && decode_is_plain_1_10(&d, &p->told)))
        ask(p, body, producer);
    if (p->layout != PROFILES_LAYOUT_1_10)
        return ASKED;
    if (producer && p->profile.n == 0)
        p->layout = PROFILES_LAYOUT_UNKNOWN;
    return check_indices(&d, good);
}

/* Translated bytes kept from one request to the next: a small sender's. Old senders are rare, and what they
 * send can be asked for again. */
#define TRANSLATED_KEEP ((size_t)1 << 20)

static int decode_translated(struct profiles *p, struct bytes body, const struct profiles_limits *limits,
                             enum profiles_layout from, struct error *e)
{
    struct profiles_memory *m = p->memory;
    int r = legacy_transcode(from, body, limits, m->budget, &m->translated, e);
    if (r == 0)
        r = decode(p, buffer_bytes(&m->translated), limits, NULL, e);
    if (r == PROFILES_MALFORMED)
        error_prefix(e, 0, "read as OTLP profiles %s: ", profiles_layout_name(from));
    if (r == 0) {
        p->layout = from;
        p->unknown_fields = layout_unknown_fields(from, body); /* the translation has none of them */
    }
    return r;
}

static int decode_known(struct profiles *p, struct bytes body, const struct profiles_limits *limits,
                        enum profiles_layout layout, struct error *e)
{
    return profiles_layout_is_old(layout) ? decode_translated(p, body, limits, layout, e)
                                          : decode(p, body, limits, NULL, e);
}

/* Nearly all requests are of 1.10 and nothing in them speaks against it: that is found out in passing. */
static int decode_asking(struct profiles *p, struct bytes body, const struct profiles_limits *limits,
                         const struct profiles_producer *producer, struct error *e)
{
    int r = profiles_layout_is_old(producer->layout) ? ask(p, body, producer)
                                                     : decode(p, body, limits, producer, e);
    if (r != ASKED)
        return r;
    error_set(e, 0, "%s", ""); /* what it was not, as 1.10 */
    return decode_known(p, body, limits, p->layout, e);
}

static int decode_any(struct profiles *p, struct bytes body, const struct profiles_limits *limits,
                      enum profiles_layout layout, const struct profiles_producer *producer, struct error *e)
{
    p->told = p->contradicts = false;
    return layout != PROFILES_LAYOUT_UNKNOWN ? decode_known(p, body, limits, layout, e)
                                             : decode_asking(p, body, limits, producer, e);
}

static int decode_again(struct profiles *p, struct bytes body, enum profiles_layout layout,
                        const struct profiles_producer *producer, const struct profiles_limits *limits,
                        struct error *e)
{
    if (p->memory->translated.max > TRANSLATED_KEEP) {
        profiles_empty(p);
        legacy_release(&p->memory->translated, p->memory->budget);
    }
    size_t kept = profiles_memory_used(p);
    int r = decode_any(p, body, limits, layout, producer, e);
    if (r == PROFILES_OVER_BUDGET && kept > 0) { /* what is kept from other requests may be in the way */
        profiles_trim(p, 0);
        r = decode_any(p, body, limits, layout, producer, e);
    }
    if (r == PROFILES_OVER_BUDGET)
        error_set(e, 0, "the decoded request would take more than %zu bytes, or memory is short",
                  limits->column_bytes);
    if (r != 0)
        profiles_empty(p);
    return r;
}

static const struct profiles_producer nobody = {PROFILES_LAYOUT_UNKNOWN, 0};

int profiles_decode_as(struct profiles *p, struct bytes body, enum profiles_layout layout,
                       const struct profiles_limits *limits, struct error *e)
{
    return decode_again(p, body, layout, &nobody, limits, e);
}

int profiles_decode_of(struct profiles *p, struct bytes body, const struct profiles_producer *producer,
                       const struct profiles_limits *limits, struct error *e)
{
    return decode_again(p, body, PROFILES_LAYOUT_UNKNOWN, producer, limits, e);
}

int profiles_decode(struct profiles *p, struct bytes body, const struct profiles_limits *limits,
                    struct error *e)
{
    return decode_again(p, body, PROFILES_LAYOUT_UNKNOWN, &nobody, limits, e);
}
