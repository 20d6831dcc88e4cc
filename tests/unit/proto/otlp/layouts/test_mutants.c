/* SPDX-License-Identifier: Apache-2.0 */
/* needs: proto/otlp/view proto/schema */
/*
 * Requests of 1.5 … 1.10 and of releases to come, with one message changed: every sample has the numbers that
 * it has in the layout the request was made in, or is rejected by itself. protobuf-c says what captures hold;
 * what the changed sample holds is said by mutate.h.
 *
 * PG_MUTANTS=100000 tries so many (tests/e2e/test_layouts.py, with --soak).
 */
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/lib/unit.h"
#include "tests/unit/proto/otlp/layouts/legacy_encode.h"
#include "tests/unit/proto/otlp/layouts/mutate.h"

#define MUTANTS     600u
#define SAMPLES_MAX 48u

struct base {
    enum profiles_layout layout;
    struct buffer bytes;
    uint32_t n; /* samples, all of one profile */
    struct truth truth[SAMPLES_MAX];
    struct reach reach;
};

/* What became of mutants. */
static struct {
    uint32_t same, rejected, refused;
} became;

static uint32_t n_mutants(void)
{
    const char *n = getenv("PG_MUTANTS");
    return n ? (uint32_t)strtoul(n, NULL, 10) : MUTANTS;
}

/* --- A capture in a layout */

/* Field types of a release to come; 0: none. */
struct future {
    uint32_t of[3]; /* Sample, Profile, all of the dictionary */
};

static void put_future(struct wire_writer *w, uint32_t number, uint32_t kind, uint32_t seed)
{
    switch (kind) {
    case 0: break;
    case 1: wire_put_uint(w, number, 1 + seed % 3); break;
    case 2: wire_put_packed32(w, number, (uint32_t[]){1, 2}, 1 + seed % 2); break;
    case 3: wire_put_fixed64(w, number, seed); break;
    default: wire_put_bytes(w, number, BYTES_LIT("sixteen letters!"));
    }
}

static struct truth put_captured_sample(struct wire_writer *w, enum profiles_layout layout, const Sample *s,
                                        uint32_t shape, const struct future *future)
{
    /* stack, attributes, link, values, times; in 1.10, in 1.8 and 1.9 */
    static const uint8_t order[2][5] = {{1, 2, 3, 4, 5}, {1, 3, 4, 2, 5}};
    const uint8_t *number = order[layout != PROFILES_LAYOUT_1_10];
    int64_t sums[2] = {0}, value[2] = {1000 + s->stack_index, 7};
    struct truth t = {
        .good = true, .n_attrs = (uint32_t)s->n_attribute_indices, .stack = (uint64_t)s->stack_index};
    if (shape == 0) { /* as it was */
        t.n_values = (uint32_t)s->n_values;
        t.n_times = (uint32_t)s->n_timestamps_unix_nano;
        for (size_t i = 0; i < s->n_values; i++)
            sums[0] += s->values[i];
        t.sum = sums[0];
    } else { /* values alone */
        t.n_values = shape;
        t.sum = value[0] + (shape == 2 ? value[1] : 0);
    }
    for (uint32_t field = 1; field <= 5; field++) {
        if (number[0] == field)
            wire_put_uint_nonzero(w, field, (uint64_t)s->stack_index);
        if (number[1] == field)
            wire_put_packed32(w, field, (const uint32_t *)s->attribute_indices, s->n_attribute_indices);
        if (number[2] == field)
            wire_put_uint_nonzero(w, field, (uint64_t)s->link_index);
        if (number[3] == field && shape == 0)
            wire_put_packed64(w, field, s->values, s->n_values);
        else if (number[3] == field)
            wire_put_packed64(w, field, value, shape);
        if (number[4] == field && shape == 0)
            wire_put_packed_fixed64(w, field, s->timestamps_unix_nano, s->n_timestamps_unix_nano);
    }
    put_future(w, 6, future->of[0], (uint32_t)s->stack_index);
    return t;
}

static void put_captured_type(struct wire_writer *w, uint32_t field, enum profiles_layout layout,
                              int32_t type, int32_t unit)
{
    IN(w, field)
    {
        wire_put_uint_nonzero(w, 1, (uint64_t)type);
        wire_put_uint_nonzero(w, 2, (uint64_t)unit);
        if (layout == PROFILES_LAYOUT_1_8)
            wire_put_uint(w, 3, 1);
    }
}

/* Up to SAMPLES_MAX neighbours of a profile. */
static void make_base(struct base *b, const Request *q, struct bytes dictionary, const struct future *future,
                      struct rng *rng)
{
    struct wire_writer writer = wire_writer(&b->bytes), *w = &writer;
    const ResourceProfiles *r = q->resource_profiles[upto(rng, (uint32_t)q->n_resource_profiles)];
    const ScopeProfiles *s = r->scope_profiles[0];
    const Profile *p = s->profiles[upto(rng, (uint32_t)s->n_profiles)];
    const uint32_t all = (uint32_t)p->n_samples, shape = upto(rng, 3),
                   later = b->layout == PROFILES_LAYOUT_1_8;
    const bool first = upto(rng, 2);
    b->n = min_of(all, 4 + upto(rng, SAMPLES_MAX - 4));
    const uint32_t from = upto(rng, all - b->n + 1);
    b->bytes.n = 0;
    b->reach =
        (struct reach){max_of(q->dictionary->n_stack_table, 1u), max_of(q->dictionary->n_attribute_table, 1u),
                       max_of(q->dictionary->n_link_table, 1u)};
    if (first)
        wire_put_bytes(w, 2, dictionary);
    IN(w, 1)
    {
        IN(w, 1) IN(w, 1)
        {
            put_str(w, 1, "service.name");
            IN(w, 2) put_str(w, 1, "captured");
        }
        IN(w, 2)
        {
            IN(w, 1) put_str(w, 1, "scope");
            IN(w, 2)
            {
                put_captured_type(w, 1, b->layout, p->sample_type ? p->sample_type->type_strindex : 0,
                                  p->sample_type ? p->sample_type->unit_strindex : 0);
                for (uint32_t i = 0; i < b->n; i++)
                    IN(w, 2)
                b->truth[i] = put_captured_sample(w, b->layout, p->samples[from + i], shape, future);
                wire_put_fixed64(w, 3, p->time_unix_nano);
                wire_put_uint(w, 4, p->duration_nano);
                put_captured_type(w, 5, b->layout, 1, 2);
                wire_put_uint(w, 6, 52631578);
                if (later && upto(rng, 2))
                    wire_put_packed32(w, 7, (uint32_t[]){1}, 1); /* a comment */
                uint8_t id[16];
                for (size_t i = 0; i < sizeof id; i++)
                    id[i] = (uint8_t)rng_next(rng);
                if (upto(rng, 2))
                    wire_put_bytes(w, 7 + later, bytes_of(id, sizeof id));
                if (upto(rng, 2))
                    wire_put_packed32(w, 11 + later, (uint32_t[]){1}, 1);
                put_future(w, 12 + later, future->of[1], 5);
            }
        }
    }
    if (!first)
        wire_put_bytes(w, 2, dictionary);
    ck_assert_int_eq(w->failed, 0);
}

/* --- What must hold */

static bool same_numbers(const struct profiles *v, uint32_t i, const struct truth *t, bool slices)
{
    return v->sample.n_values[i] == t->n_values && v->sample.n_timestamps[i] == t->n_times &&
           v->sample.value_sum[i] == t->sum &&
           v->sample.attrs_at[i + 1] - v->sample.attrs_at[i] == t->n_attrs &&
           (slices || v->sample.stack[i] == t->stack);
}

/* One mutant of a base: NULL, or what is wrong. */
static const char *try_mutant(struct profiles *v, const struct base *b, struct mutation *m, struct error *e)
{
    const bool same = m->change <= CHANGE_REVERSE, slices = b->layout <= PROFILES_LAYOUT_1_7;
    const bool in_sample = m->target == TARGET_SAMPLE,
               in_profile = m->target == TARGET_PROFILE || m->target == TARGET_SAMPLE_TYPE;
    cleanup(buffer_release) struct buffer out = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&out);
    put_mutated(&w, buffer_bytes(&b->bytes), 0, m);
    ck_assert_int_eq(w.failed, 0);
    autofree uint8_t *body = padded(out.p, out.n);
    int r = profiles_decode(v, bytes_of(body, out.n), &profiles_limits_default, e);
    const char *wrong = NULL;
    uint32_t rejected = 0;
    if (r != 0) { /* a table's entry that cannot be read refuses all; so does a profile before 1.8 */
        wrong = r != PROFILES_MALFORMED || same || in_sample || (in_profile && !slices) ? "refused" : NULL;
        became.refused++;
    } else if (m->change == CHANGE_EMPTY && in_profile && m->target == TARGET_PROFILE) {
        wrong = v->sample.n == 0 ? NULL : "samples from nowhere";
    } else if (v->sample.n != b->n) {
        wrong = "not as many samples";
    }
    for (uint32_t i = 0; r == 0 && !wrong && i < v->sample.n; i++) {
        struct truth t = b->truth[i];
        const bool changed = in_sample && m->done && i == m->at[3];
        if (changed)
            t = truth_of(b->layout, buffer_bytes(&m->changed), &b->reach);
        if (v->sample.stack[i] == PROFILES_REJECTED) {
            rejected++;
            if (same || (in_sample && !(changed && !t.good)))
                wrong = "rejected";
        } else if (changed && !t.good) {
            wrong = "not rejected";
        } else if (!same_numbers(v, i, &t, slices)) {
            wrong = "other numbers";
        }
    }
    if (r == 0 && !wrong && rejected > 0 && v->rejected.first.text[0] == '\0')
        wrong = "rejected without a word";
    became.same += r == 0 && rejected == 0;
    became.rejected += rejected > 0;
    return wrong;
}

static void mutate(struct profiles *v, const struct base *b, uint64_t seed)
{
    struct rng rng;
    struct error e = {""};
    rng_seed(&rng, seed);
    struct mutation m = {.layout = b->layout, .rng = &rng};
    m.target = upto(&rng, 2) ? TARGET_SAMPLE : (enum target)upto(&rng, TARGETS);
    m.change = (enum change)upto(&rng, CHANGES);
    const bool holds = m.target == TARGET_REQUEST || m.target == TARGET_RESOURCE_PROFILES ||
                       m.target == TARGET_SCOPE_PROFILES;
    if (holds || (m.target >= TARGET_PROFILE && m.change == CHANGE_REPACK))
        m.change = CHANGE_ADD;
    if (m.change == CHANGE_REVERSE && (m.target == TARGET_PROFILE || m.target == TARGET_DICTIONARY))
        m.change = CHANGE_ADD;
    if (m.change == CHANGE_DUPLICATE && m.target == TARGET_PROFILE && b->layout <= PROFILES_LAYOUT_1_7)
        m.change = CHANGE_ADD; /* two sample types are two profiles */
    const char *wrong = try_mutant(v, b, &m, &e);
    ck_assert_msg(!wrong, "seed %llu, %s, target %d of %u, change %d: %s; read as %s: %s %s",
                  (unsigned long long)seed, profiles_layout_name(b->layout), (int)m.target, m.at[3],
                  (int)m.change, wrong, profiles_layout_name(v->layout), e.text, v->rejected.first.text);
    buffer_release(&m.changed);
}

/* --- Captures */

/* The dictionary, with a field of a release to come in each entry. */
static struct buffer pack_dictionary(Dictionary *d, uint32_t kind)
{
    static uint8_t data[32];
    struct buffer field = BUFFER_INIT(0), out = BUFFER_INIT(0);
    struct wire_writer w = wire_writer(&field);
    put_future(&w, 1, kind, 1);
    ProtobufCMessageUnknownField unknown = {.data = data};
    if (kind > 0) {
        unknown.wire_type = (uint8_t)(field.p[0] & 7);
        unknown.len = field.n - 1;
        memcpy(data, field.p + 1, unknown.len);
    }
#define EACH(table, number, n_unknown)                                    \
    for (size_t i = 0; i < d->n_##table; i++) {                           \
        d->table[i]->base.n_unknown_fields = (n_unknown);                 \
        d->table[i]->base.unknown_fields = (n_unknown) ? &unknown : NULL; \
    }
    struct wire_writer o = wire_writer(&out);
#define PUT(table, field_number, free_number, type)                        \
    unknown.tag = (free_number);                                           \
    EACH(table, field_number, kind > 0)                                    \
    for (size_t i = 0; i < d->n_##table; i++) {                            \
        uint8_t entry[4096];                                               \
        size_t n = protobuf_c_message_get_packed_size(&d->table[i]->base); \
        ck_assert_uint_le(n, sizeof entry);                                \
        protobuf_c_message_pack(&d->table[i]->base, entry);                \
        wire_put_bytes(&o, field_number, bytes_of(entry, n));              \
    }                                                                      \
    EACH(table, field_number, 0)
    PUT(mapping_table, 1, 6, Mapping)
    PUT(location_table, 2, 5, Location)
    PUT(function_table, 3, 5, Function)
    PUT(link_table, 4, 3, Link)
    for (size_t i = 0; i < d->n_string_table; i++)
        put_str(&o, 5, d->string_table[i]);
    PUT(attribute_table, 6, 4, KeyValueAndUnit)
    for (size_t i = 0; i < d->n_stack_table; i++) {
        IN(&o, 7)
        {
            wire_put_packed32(&o, 1, (const uint32_t *)d->stack_table[i]->location_indices,
                              d->stack_table[i]->n_location_indices);
            put_future(&o, 2, kind, 1);
        }
    }
    ck_assert_int_eq(o.failed, 0);
    buffer_release(&field);
    return out;
}

static void mutate_capture(struct profiles *v, const char *name, uint32_t n)
{
    size_t len;
    char path[512];
    snprintf(path, sizeof path, "connector/%.255s", name);
    autofree unsigned char *data = unit_data(path, &len);
    Request *q = unit_made(request_unpack(data, len));
    struct base b = {.bytes = BUFFER_INIT(0)};
    for (uint32_t future = 0; future < 2; future++) {
        struct rng rng;
        rng_seed(&rng, len + future);
        struct future f = {{0}};
        for (uint32_t i = 0; i < 3 && future; i++)
            f.of[i] = 1 + upto(&rng, 4);
        cleanup(buffer_release) struct buffer dictionary = pack_dictionary(q->dictionary, f.of[2]);
        for (uint32_t i = 0; i < n; i++) {
            uint64_t seed = len * 1000003 + 2 * i + future;
            b.layout = PROFILES_LAYOUT_1_8 + i % 3;
            rng_seed(&rng, seed);
            make_base(&b, q, buffer_bytes(&dictionary), &f, &rng);
            mutate(v, &b, seed);
        }
    }
    buffer_release(&b.bytes);
    request_free(q);
}

UNIT(a_changed_message_of_a_capture_changes_nothing_else)
{
    char names[64][256];
    uint32_t n = 0;
    cleanup(profiles_release) struct profiles v;
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    DIR *dir = unit_made(opendir(PG_SOURCE_DIR "/tests/data/connector"));
    for (struct dirent *entry; (entry = readdir(dir)) && n < ARRAY_LEN(names);) {
        size_t len = strlen(entry->d_name);
        if (strncmp(entry->d_name, "ebpf-", 5) == 0 && strcmp(entry->d_name + len - 3, ".pb") == 0)
            snprintf(names[n++], sizeof *names, "%s", entry->d_name);
    }
    closedir(dir);
    ck_assert_uint_ge(n, 10);
    for (uint32_t i = 0; i < n; i++)
        mutate_capture(&v, names[i], (n_mutants() / 2 + n - 1) / n);
    ck_assert_uint_gt(became.rejected, became.same / 20);
    ck_assert_uint_gt(became.same, became.rejected);
    if (getenv("PG_MUTANTS"))
        printf("%u mutants of captures: %u with the same numbers, %u with a sample rejected, %u refused\n",
               became.same + became.rejected + became.refused, became.same, became.rejected, became.refused);
}

/* --- Models, in the layouts that have other tables, too: 1.5 and 1.7 */

static struct reach model_reach(const struct model *m, enum profiles_layout layout)
{
    if (layout <= PROFILES_LAYOUT_1_7)
        return (struct reach){path_at(m, N_STACKS), N_ATTRS - 1, N_LINKS - 1};
    return (struct reach){N_STACKS, N_ATTRS + 5 + (layout >= PROFILES_LAYOUT_1_9 ? m->n_profiles : 0),
                          N_LINKS};
}

static void model_base(struct base *b, const struct model *m, bool first)
{
    struct wire_writer w = wire_writer(&b->bytes);
    b->bytes.n = 0;
    encode_model(m, b->layout, false, first, &w);
    ck_assert_int_eq(w.failed, 0);
    b->reach = model_reach(m, b->layout);
    b->n = m->profile[0].n_samples;
    for (uint32_t i = 0; i < b->n; i++) {
        const __typeof__(m->profile[0].sample[i]) *s = &m->profile[0].sample[i];
        b->truth[i] = (struct truth){.good = true,
                                     .n_values = s->n_values,
                                     .n_times = s->n_times,
                                     .n_attrs = s->attrs.n,
                                     .stack = s->stack};
        for (uint32_t k = 0; k < s->n_values; k++) {
            int64_t was = b->truth[i].sum;
            if (__builtin_add_overflow(was, s->value[k], &b->truth[i].sum))
                b->truth[i].sum = s->value[k] > 0 ? INT64_MAX : INT64_MIN;
        }
    }
}

UNIT(a_changed_message_of_a_model_changes_nothing_else)
{
    memset(&became, 0, sizeof became); /* without a process of its own (CK_FORK=no) */
    struct profiles v;
    struct base b = {.bytes = BUFFER_INIT(0)};
    autofree struct model *m = unit_made(calloc(1, sizeof *m));
    uint64_t seed = 1;
    ck_assert_int_eq(profiles_init(&v, NULL), 0);
    for (uint32_t i = 0; i < n_mutants() / 2; i++) {
        do /* with few samples none is the odd one */
            random_model(m, seed++);
        while (m->profile[0].n_samples < MAX_SAMPLES - 1);
        m->n_profiles = 1;
        b.layout = PROFILES_LAYOUT_1_5 + i % 5;
        model_base(&b, m, i & 1);
        mutate(&v, &b, 1000000007 * seed);
    }
    ck_assert_uint_gt(became.rejected, became.same / 20);
    ck_assert_uint_gt(became.same, became.rejected);
    if (getenv("PG_MUTANTS"))
        printf("%u mutants of models: %u with the same numbers, %u with a sample rejected, %u refused\n",
               became.same + became.rejected + became.refused, became.same, became.rejected, became.refused);
    profiles_release(&v);
    buffer_release(&b.bytes);
}
