/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For tests of layouts: one request as a model, and its bytes in each of five wire layouts. Written from the
 * .proto files of the releases, not from the translator.
 */
#ifndef TESTS_UNIT_PROTO_OTLP_LAYOUTS_LEGACY_ENCODE_H
#define TESTS_UNIT_PROTO_OTLP_LAYOUTS_LEGACY_ENCODE_H

#include "proto/base/rng.h"
#include "tests/unit/proto/otlp/view/handmade.h"

/* Table sizes with their zero entry 0; entries 1 … n - 1 are real. */
enum {
    N_STRINGS = 24,
    N_MAPPINGS = 4,
    N_LOCATIONS = 9,
    N_FUNCTIONS = 7,
    N_LINKS = 3,
    N_ATTRS = 8,
    N_STACKS = 6
};
enum { MAX_LIST = 5, MAX_SAMPLES = 6, MAX_PROFILES = 4 };

struct list {
    uint32_t n, v[MAX_LIST];
};

struct model {
    char string[N_STRINGS][24];  /* all different */
    uint32_t unit_of[N_STRINGS]; /* of attributes with that key; a string, 0: none */
    struct {
        uint64_t start, limit, offset;
        uint32_t filename,
            flags; /* bit i: has_functions, has_filenames, has_line_numbers, has_inline_frames */
        struct list attrs;
    } mapping[N_MAPPINGS];
    struct {
        uint32_t mapping;
        uint64_t address;
        uint32_t n_lines, function[MAX_LIST];
        int64_t line[MAX_LIST];
        bool folded;
        struct list attrs;
    } location[N_LOCATIONS];
    struct {
        uint32_t name, system_name, filename;
        int64_t start_line;
    } function[N_FUNCTIONS];
    char link[N_LINKS][24]; /* trace id, span id */
    struct {
        uint32_t key, kind;
        uint64_t value;
    } attr[N_ATTRS];
    struct list stack[N_STACKS];
    uint32_t n_profiles;
    struct {
        bool new_scope, new_resource;
        uint32_t type, unit, period_type, period_unit, dropped;
        int64_t period;
        uint64_t time, duration;
        char id[16];
        struct list attrs, comments;
        uint32_t n_samples;
        struct {
            uint32_t stack, link, n_values, n_times;
            int64_t value[MAX_LIST];
            uint64_t time[MAX_LIST];
            struct list attrs;
        } sample[MAX_SAMPLES];
    } profile[MAX_PROFILES];
};

/* --- A random one */

static inline uint32_t below(struct rng *rng, uint32_t n)
{
    return (uint32_t)(rng_next(rng) >> 33) % n;
}

static inline uint64_t any_number(struct rng *rng)
{
    return rng_next(rng) >> below(rng, 64);
}

/* Different entries, none of them 0. */
static inline struct list some(struct rng *rng, uint32_t n_table, uint32_t at_least)
{
    struct list list = {0};
    uint32_t from = below(rng, n_table - 1), n = at_least + below(rng, MAX_LIST - at_least);
    for (uint32_t i = 0; i < n && i + 1 < n_table; i++)
        list.v[list.n++] = 1 + (from + i) % (n_table - 1);
    return list;
}

static inline void random_tables(struct model *m, struct rng *rng)
{
    for (uint32_t i = 1; i < N_STRINGS; i++) {
        snprintf(m->string[i], sizeof m->string[i], "%c%u", (char)('a' + below(rng, 26)), i);
        m->unit_of[i] = below(rng, 2) ? below(rng, N_STRINGS) : 0;
    }
    for (uint32_t i = 1; i < N_ATTRS; i++) { /* keys differ, so that lists of them are valid */
        m->attr[i].key = 2 * i;
        m->attr[i].kind = below(rng, 8);
        m->attr[i].value = any_number(rng);
    }
    for (uint32_t i = 1; i < N_LINKS; i++)
        snprintf(m->link[i], sizeof m->link[i], "%023llx", (unsigned long long)rng_next(rng));
    for (uint32_t i = 1; i < N_MAPPINGS; i++) {
        m->mapping[i].start = any_number(rng);
        m->mapping[i].limit = any_number(rng);
        m->mapping[i].offset = any_number(rng);
        m->mapping[i].filename = below(rng, N_STRINGS);
        m->mapping[i].flags = below(rng, 16);
        m->mapping[i].attrs = some(rng, N_ATTRS, 0);
    }
    for (uint32_t i = 1; i < N_FUNCTIONS; i++) {
        m->function[i].name = 1 + below(rng, N_STRINGS - 1);
        m->function[i].system_name = below(rng, N_STRINGS);
        m->function[i].filename = below(rng, N_STRINGS);
        m->function[i].start_line = (int64_t)any_number(rng);
    }
    for (uint32_t i = 1; i < N_LOCATIONS; i++) {
        m->location[i].mapping = below(rng, N_MAPPINGS);
        m->location[i].address = any_number(rng);
        m->location[i].n_lines = below(rng, MAX_LIST);
        for (uint32_t k = 0; k < m->location[i].n_lines; k++) {
            m->location[i].function[k] = 1 + below(rng, N_FUNCTIONS - 1);
            m->location[i].line[k] = (int64_t)any_number(rng);
        }
        m->location[i].folded = below(rng, 3) == 0;
        m->location[i].attrs = some(rng, N_ATTRS, 0);
    }
    for (uint32_t i = 1; i < N_STACKS; i++)
        m->stack[i] = some(rng, N_LOCATIONS, 1);
}

static inline void random_profile(struct model *m, uint32_t p, struct rng *rng)
{
    uint32_t shape = below(rng, 3); /* values, timestamps, both */
    m->profile[p].new_scope = below(rng, 2) || p == 0;
    m->profile[p].new_resource = below(rng, 2) || p == 0;
    m->profile[p].type = 1 + below(rng, N_STRINGS - 1);
    m->profile[p].unit = 1 + below(rng, N_STRINGS - 1);
    m->profile[p].period_type = below(rng, N_STRINGS);
    m->profile[p].period_unit = below(rng, N_STRINGS);
    m->profile[p].dropped = below(rng, 3);
    m->profile[p].period = (int64_t)any_number(rng);
    m->profile[p].time = any_number(rng);
    m->profile[p].duration = any_number(rng);
    for (int i = 0; i < 16; i++)
        m->profile[p].id[i] = (char)('0' + below(rng, 10));
    m->profile[p].attrs = some(rng, N_ATTRS, 0);
    m->profile[p].comments = below(rng, 3) ? (struct list){0} : some(rng, N_STRINGS, 1);
    m->profile[p].n_samples = 1 + below(rng, MAX_SAMPLES - 1);
    for (uint32_t i = 0; i < m->profile[p].n_samples; i++) {
        uint32_t n = 1 + below(rng, MAX_LIST - 1);
        m->profile[p].sample[i].stack = below(rng, N_STACKS);
        m->profile[p].sample[i].link = below(rng, N_LINKS);
        m->profile[p].sample[i].n_values = shape == 1 && i > 0 ? 0 : n;
        m->profile[p].sample[i].n_times = shape == 0 ? 0 : n;
        for (uint32_t k = 0; k < n; k++) {
            m->profile[p].sample[i].value[k] =
                below(rng, 4) ? (int64_t)below(rng, 1000) : (int64_t)any_number(rng) / 64;
            m->profile[p].sample[i].time[k] = any_number(rng);
        }
        m->profile[p].sample[i].attrs =
            some(rng, N_ATTRS, i == 0); /* one with values and attributes says which layout it is */
    }
}

static inline void random_model(struct model *m, uint64_t seed)
{
    struct rng rng;
    rng_seed(&rng, seed);
    *m = (struct model){0};
    random_tables(m, &rng);
    m->n_profiles = 1 + below(&rng, MAX_PROFILES);
    for (uint32_t p = 0; p < m->n_profiles; p++)
        random_profile(m, p, &rng);
}

/* --- Its bytes */

struct enc {
    struct wire_writer *w;
    const struct model *m;
    enum profiles_layout to;
    uint32_t turn; /* 1.5: tables are turned by so much, differently in each profile */
    bool unpacked; /* repeated numbers one by one, as a parser must accept too */
};

static inline uint32_t old(const struct enc *e) /* 0 or 1: zero entries that are not there */
{
    return e->to <= PROFILES_LAYOUT_1_7;
}

/* An index as the layout has it: up to 1.7 there is no zero entry. */
static inline uint32_t at(const struct enc *e, uint32_t i, uint32_t n_table)
{
    return old(e) ? (i - 1 + e->turn) % (n_table - 1) : i;
}
static inline uint32_t entry_at(const struct enc *e, uint32_t i, uint32_t n_table)
{
    return old(e) ? 1 + (i + n_table - 1 - e->turn % (n_table - 1)) % (n_table - 1) : i;
}
/* Strings have their entry 0 in all layouts. */
static inline uint32_t str(const struct enc *e, uint32_t i)
{
    return i == 0 ? 0 : 1 + (i - 1 + e->turn) % (N_STRINGS - 1);
}
static inline uint32_t str_entry(const struct enc *e, uint32_t i)
{
    return i == 0 ? 0 : 1 + (i - 1 + N_STRINGS - 1 - e->turn % (N_STRINGS - 1)) % (N_STRINGS - 1);
}

static inline void put_list(const struct enc *e, uint32_t field, const uint32_t *v, uint32_t n)
{
    if (!e->unpacked)
        wire_put_packed32(e->w, field, v, n);
    for (uint32_t i = 0; i < n && e->unpacked; i++)
        wire_put_uint(e->w, field, v[i]);
}

/* Behind the attribute table's own entries, from 1.8 on: 4 flags, is_folded; from 1.9 on: comments by
 * profile. */
enum { ATTR_FLAGS = N_ATTRS, ATTR_FOLDED = N_ATTRS + 4, ATTR_COMMENTS = N_ATTRS + 5 };
static const char *const flag_keys[] = {"pprof.mapping.has_functions",    "pprof.mapping.has_filenames",
                                        "pprof.mapping.has_line_numbers", "pprof.mapping.has_inline_frames",
                                        "pprof.location.is_folded",       "pprof.profile.comment"};

static inline void put_attrs(const struct enc *e, uint32_t field, const struct list *list, uint32_t flags,
                             int more)
{
    uint32_t v[MAX_LIST + 6], n = 0;
    for (uint32_t i = 0; i < list->n; i++)
        v[n++] = at(e, list->v[i], N_ATTRS);
    for (uint32_t i = 0; i < 4; i++)
        if (flags >> i & 1)
            v[n++] = ATTR_FLAGS + i;
    if (more >= 0)
        v[n++] = (uint32_t)more;
    put_list(e, field, v, n);
}

static inline void put_any(const struct enc *e, uint32_t kind, uint64_t value)
{
    struct wire_writer *w = e->w;
    switch (kind) {
    case 0: break;
    case 1: put_str(w, 1, "text"); break;
    case 2: wire_put_uint(w, 2, value & 1); break;
    case 3: wire_put_uint(w, 3, value); break;
    case 4: wire_put_double(w, 4, (double)value); break;
    case 5: IN(w, 5) IN(w, 1) wire_put_uint(w, 3, value); break;
    case 6:
        IN(w, 6) IN(w, 1)
        {
            put_str(w, 1, "key");
            IN(w, 2) put_str(w, 1, "inner");
        }
        break;
    default: put_str(w, 7, "bytes");
    }
}

static inline void put_mappings(const struct enc *e, uint32_t field)
{
    struct wire_writer *w = e->w;
    for (uint32_t k = 0; k < N_MAPPINGS - old(e); k++) {
        uint32_t i = entry_at(e, k, N_MAPPINGS), flags = e->m->mapping[i].flags;
        IN(w, field)
        {
            wire_put_uint_nonzero(w, 1, e->m->mapping[i].start);
            wire_put_uint_nonzero(w, 2, e->m->mapping[i].limit);
            wire_put_uint_nonzero(w, 3, e->m->mapping[i].offset);
            wire_put_uint_nonzero(w, 4, str(e, e->m->mapping[i].filename));
            put_attrs(e, 5, &e->m->mapping[i].attrs, old(e) ? 0 : flags, -1);
            for (uint32_t bit = 0; bit < 4 && old(e); bit++)
                wire_put_uint_nonzero(w, 6 + bit, flags >> bit & 1);
        }
    }
}

static inline void put_locations(const struct enc *e, uint32_t field)
{
    struct wire_writer *w = e->w;
    for (uint32_t k = 0; k < N_LOCATIONS - old(e); k++) {
        uint32_t i = entry_at(e, k, N_LOCATIONS), mapping = e->m->location[i].mapping;
        bool folded = e->m->location[i].folded;
        IN(w, field)
        {
            if (old(e) && mapping > 0) /* optional */
                wire_put_uint(w, 1, at(e, mapping, N_MAPPINGS));
            else if (!old(e))
                wire_put_uint_nonzero(w, 1, mapping);
            wire_put_uint_nonzero(w, 2, e->m->location[i].address);
            for (uint32_t l = 0; l < e->m->location[i].n_lines; l++)
                IN(w, 3)
                {
                    wire_put_uint_nonzero(w, 1, at(e, e->m->location[i].function[l], N_FUNCTIONS));
                    wire_put_int_nonzero(w, 2, e->m->location[i].line[l]);
                    wire_put_int_nonzero(w, 3, l);
                }
            if (old(e))
                wire_put_uint_nonzero(w, 4, folded);
            put_attrs(e, old(e) ? 5 : 4, &e->m->location[i].attrs, 0, !old(e) && folded ? ATTR_FOLDED : -1);
        }
    }
}

static inline void put_functions_and_links(const struct enc *e, uint32_t function_field, uint32_t link_field)
{
    struct wire_writer *w = e->w;
    for (uint32_t k = 0; k < N_FUNCTIONS - old(e); k++) {
        uint32_t i = entry_at(e, k, N_FUNCTIONS);
        IN(w, function_field)
        {
            wire_put_uint_nonzero(w, 1, str(e, e->m->function[i].name));
            wire_put_uint_nonzero(w, 2, str(e, e->m->function[i].system_name));
            wire_put_uint_nonzero(w, 3, str(e, e->m->function[i].filename));
            wire_put_int_nonzero(w, 4, e->m->function[i].start_line);
        }
    }
    for (uint32_t k = 0; k < N_LINKS - old(e); k++) {
        uint32_t i = entry_at(e, k, N_LINKS);
        IN(w, link_field)
        {
            wire_put_bytes(w, 1, bytes_of(e->m->link[i], 16));
            wire_put_bytes(w, 2, bytes_of(e->m->link[i] + 16, 8));
        }
    }
}

/* KeyValue and AttributeUnit. */
static inline void put_attributes_old(const struct enc *e, uint32_t field, uint32_t unit_field)
{
    struct wire_writer *w = e->w;
    for (uint32_t k = 0; k < N_ATTRS - 1; k++) {
        uint32_t i = entry_at(e, k, N_ATTRS), key = e->m->attr[i].key;
        IN(w, field)
        {
            put_str(w, 1, e->m->string[key]);
            IN(w, 2) put_any(e, e->m->attr[i].kind, e->m->attr[i].value);
        }
        if (e->m->unit_of[key] == 0)
            continue;
        IN(w, unit_field)
        {
            wire_put_uint(w, 1, str(e, key));
            wire_put_uint(w, 2, str(e, e->m->unit_of[key]));
        }
    }
}

/* KeyValueAndUnit. The strings of flag_keys are behind the model's. */
static inline void put_attributes(const struct enc *e)
{
    struct wire_writer *w = e->w;
    for (uint32_t i = 0; i < N_ATTRS; i++)
        IN(w, 6)
        {
            wire_put_uint_nonzero(w, 1, e->m->attr[i].key);
            if (i > 0)
                IN(w, 2) put_any(e, e->m->attr[i].kind, e->m->attr[i].value);
            wire_put_uint_nonzero(w, 3, e->m->unit_of[e->m->attr[i].key]);
        }
    for (uint32_t i = 0; i < 5; i++)
        IN(w, 6)
        {
            wire_put_uint(w, 1, N_STRINGS + i);
            IN(w, 2) wire_put_uint(w, 2, 1);
        }
    for (uint32_t p = 0; p < e->m->n_profiles && e->to >= PROFILES_LAYOUT_1_9; p++)
        IN(w, 6)
        {
            wire_put_uint(w, 1, N_STRINGS + 5);
            IN(w, 2) IN(w, 5)
            {
                const struct list *comments = &e->m->profile[p].comments;
                for (uint32_t i = 0; i < comments->n; i++)
                    IN(w, 1) put_str(w, 1, e->m->string[comments->v[i]]);
            }
        }
}

static inline void put_dictionary(const struct enc *e)
{
    struct wire_writer *w = e->w;
    put_mappings(e, 1);
    put_locations(e, 2);
    put_functions_and_links(e, 3, 4);
    for (uint32_t i = 0; i < N_STRINGS; i++)
        put_str(w, 5, e->m->string[str_entry(e, i)]);
    if (old(e)) {
        put_attributes_old(e, 6, 7);
        return;
    }
    for (size_t i = 0; i < ARRAY_LEN(flag_keys); i++)
        put_str(w, 5, flag_keys[i]);
    put_attributes(e);
    for (uint32_t i = 0; i < N_STACKS; i++)
        IN(w, 7) put_list(e, 1, e->m->stack[i].v, e->m->stack[i].n);
}

static inline void put_tables_1_5(const struct enc *e)
{
    put_mappings(e, 3);
    put_locations(e, 4);
    put_functions_and_links(e, 6, 9);
    put_attributes_old(e, 7, 8);
    for (uint32_t i = 0; i < N_STRINGS; i++)
        put_str(e->w, 10, e->m->string[str_entry(e, i)]);
}

/* Profile.location_indices: all stacks, one behind the other; a stack is where it begins there. */
static inline uint32_t path_at(const struct model *m, uint32_t stack)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < stack; i++)
        n += m->stack[i].n;
    return n;
}

static inline void put_path(const struct enc *e, uint32_t field)
{
    uint32_t v[N_STACKS * MAX_LIST], n = 0;
    for (uint32_t i = 0; i < N_STACKS; i++)
        for (uint32_t k = 0; k < e->m->stack[i].n; k++)
            v[n++] = at(e, e->m->stack[i].v[k], N_LOCATIONS);
    put_list(e, field, v, n);
}

static inline void put_sample_of(const struct enc *e, uint32_t p, uint32_t i)
{
    struct wire_writer *w = e->w;
    const __typeof__(e->m->profile[p].sample[i]) *s = &e->m->profile[p].sample[i];
    switch (e->to) {
    case PROFILES_LAYOUT_1_5:
    case PROFILES_LAYOUT_1_7:
        wire_put_uint_nonzero(w, 1, path_at(e->m, s->stack));
        wire_put_uint_nonzero(w, 2, e->m->stack[s->stack].n);
        wire_put_packed64(w, 3, s->value, s->n_values);
        put_attrs(e, 4, &s->attrs, 0, -1);
        if (s->link > 0) /* optional */
            wire_put_uint(w, 5, at(e, s->link, N_LINKS));
        wire_put_packed64(w, 6, (const int64_t *)s->time, s->n_times);
        break;
    case PROFILES_LAYOUT_1_8:
    case PROFILES_LAYOUT_1_9:
        wire_put_uint_nonzero(w, 1, s->stack);
        wire_put_packed64(w, 2, s->value, s->n_values);
        put_attrs(e, 3, &s->attrs, 0, -1);
        wire_put_uint_nonzero(w, 4, s->link);
        wire_put_packed_fixed64(w, 5, s->time, s->n_times);
        break;
    default:
        wire_put_uint_nonzero(w, 1, s->stack);
        put_attrs(e, 2, &s->attrs, 0, -1);
        wire_put_uint_nonzero(w, 3, s->link);
        wire_put_packed64(w, 4, s->value, s->n_values);
        wire_put_packed_fixed64(w, 5, s->time, s->n_times);
    }
}

static inline void put_type(const struct enc *e, uint32_t field, uint32_t type, uint32_t unit)
{
    IN(e->w, field)
    {
        wire_put_uint_nonzero(e->w, 1, str(e, type));
        wire_put_uint_nonzero(e->w, 2, str(e, unit));
        if (e->to <= PROFILES_LAYOUT_1_8)
            wire_put_uint(e->w, 3, 1); /* aggregation_temporality */
    }
}

/* The informational part, by field numbers of the layout. */
static inline void put_profile_rest(const struct enc *e, uint32_t p)
{
    struct wire_writer *w = e->w;
    const __typeof__(e->m->profile[p]) *q = &e->m->profile[p];
    /* period type, period, comments, id, dropped, format, payload, attributes */
    static const uint8_t by_layout[][8] = {
        [PROFILES_LAYOUT_1_5] = {13, 14, 15, 17, 19, 20, 21, 22},
        [PROFILES_LAYOUT_1_7] = {6, 7, 8, 10, 11, 12, 13, 14},
        [PROFILES_LAYOUT_1_8] = {5, 6, 7, 8, 9, 10, 11, 12},
        [PROFILES_LAYOUT_1_9] = {5, 6, 0, 7, 8, 9, 10, 11},
        [PROFILES_LAYOUT_1_10] = {5, 6, 0, 7, 8, 9, 10, 11},
    };
    const uint8_t *number = by_layout[e->to];
    if (q->period_type + q->period_unit > 0)
        put_type(e, number[0], q->period_type, q->period_unit);
    wire_put_int_nonzero(w, number[1], q->period);
    uint32_t comment[MAX_LIST];
    for (uint32_t i = 0; i < q->comments.n; i++)
        comment[i] = str(e, q->comments.v[i]);
    if (number[2] > 0)
        put_list(e, number[2], comment, q->comments.n);
    wire_put_bytes(w, number[3], bytes_of(q->id, 16));
    wire_put_uint_nonzero(w, number[4], q->dropped);
    put_str(w, number[5], "jfr");
    put_str(w, number[6], "payload");
    put_attrs(e, number[7], &q->attrs, 0,
              number[2] == 0 && q->comments.n > 0 ? (int)(ATTR_COMMENTS + p) : -1);
}

static inline void put_profile(const struct enc *e, uint32_t p)
{
    struct wire_writer *w = e->w;
    put_type(e, 1, e->m->profile[p].type, e->m->profile[p].unit);
    for (uint32_t i = 0; i < e->m->profile[p].n_samples; i++)
        IN(w, 2) put_sample_of(e, p, i);
    if (old(e)) {
        put_path(e, e->to == PROFILES_LAYOUT_1_5 ? 5 : 3);
        wire_put_uint(w, e->to == PROFILES_LAYOUT_1_5 ? 11 : 4, e->m->profile[p].time);
        wire_put_uint(w, e->to == PROFILES_LAYOUT_1_5 ? 12 : 5, e->m->profile[p].duration);
    } else {
        wire_put_fixed64(w, 3, e->m->profile[p].time);
        wire_put_uint(w, 4, e->m->profile[p].duration);
    }
    put_profile_rest(e, p);
    if (e->to == PROFILES_LAYOUT_1_5)
        put_tables_1_5(e);
}

static inline void put_resource(struct wire_writer *w, uint32_t p)
{
    char name[16];
    snprintf(name, sizeof name, "host-%u", p);
    IN(w, 1) IN(w, 1)
    {
        put_str(w, 1, "host.name");
        IN(w, 2) put_str(w, 1, name);
    }
    put_str(w, 3, "https://schema/1");
}

/* The model in layout `to`, appended to w. */
static inline void encode_model(const struct model *m, enum profiles_layout to, bool unpacked,
                                bool dictionary_first, struct wire_writer *w)
{
    struct enc e = {.w = w, .m = m, .to = to, .unpacked = unpacked};
    if (to != PROFILES_LAYOUT_1_5 && dictionary_first)
        IN(w, 2) put_dictionary(&e);
    for (uint32_t p = 0; p < m->n_profiles;) {
        IN(w, 1)
        {
            put_resource(w, p);
            do
                IN(w, 2)
                {
                    IN(w, 1)
                    {
                        put_str(w, 1, "scope");
                        put_str(w, 2, p % 2 ? "odd" : "even");
                    }
                    do {
                        e.turn = to == PROFILES_LAYOUT_1_5 ? p : 0;
                        IN(w, 2) put_profile(&e, p);
                        p++;
                    } while (p < m->n_profiles && !m->profile[p].new_scope && !m->profile[p].new_resource);
                }
            while (p < m->n_profiles && !m->profile[p].new_resource);
        }
    }
    e.turn = 0;
    if (to != PROFILES_LAYOUT_1_5 && !dictionary_first)
        IN(w, 2) put_dictionary(&e);
}

#endif
