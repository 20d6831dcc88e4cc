/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/layouts/legacy.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/otlp/layouts/legacy_parts.h"

int legacy_malformed(struct legacy *t, const uint8_t *at, const char *what)
{
    if (at >= t->body.p && at <= t->body.p + t->body.n) /* at may be in a joined dictionary */
        return error_set(t->e, PROFILES_MALFORMED, "%s at byte %zu", what, (size_t)(at - t->body.p));
    return error_set(t->e, PROFILES_MALFORMED, "%s", what);
}

int legacy_wrong_type(struct legacy *t, const struct wire_field *f, const char *message)
{
    return error_set(t->e, PROFILES_MALFORMED, "field %" PRIu32 " of %s has wire type %d", f->number, message,
                     (int)f->type);
}

int legacy_ended(struct legacy *t, int r, const struct wire_reader *in, const char *message)
{
    char what[64];
    if (r != WIRE_MALFORMED)
        return 0;
    snprintf(what, sizeof what, "malformed %s", message);
    return legacy_malformed(t, in->p, what);
}

int legacy_room(struct legacy *t, struct buffer *b, size_t more)
{
    size_t need;
    if (__builtin_add_overflow(b->n, more, &need) || need > SIZE_MAX / 2)
        return PROFILES_OVER_BUDGET;
    if (need > b->max) {
        size_t to = max_of(need, 2 * b->max);
        if (!budget_charge(&t->budget, to - b->max)) {
            to = need + need / 8; /* an eighth at least: else each entry would move the buffer */
            if (!budget_charge(&t->budget, to - b->max))
                return PROFILES_OVER_BUDGET;
        }
        b->max = to;
    }
    return buffer_reserve(b, more) == 0 ? 0 : -ENOMEM; /* max is no reason: see above */
}

void legacy_release(struct buffer *out, struct budget *budget)
{
    budget_refund(budget, out->max);
    buffer_release(out);
    out->max = 0;
}

/* --- The tree: resources and scopes did not change since 1.5 */

static int copy_field(struct legacy *t, const struct wire_field *f, const uint8_t *end)
{
    size_t n = (size_t)(end - f->from);
    int r = legacy_room(t, t->out, n);
    if (r == 0)
        wire_put_raw(&t->w, bytes_of(f->from, n));
    return r;
}

/* Room for the tag and the length of a message that begins, and for the length to grow when it ends. */
#define NESTING_ROOM 64u

static int scope_profiles(struct legacy *t, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number <= SCOPE_PROFILES_HIGHEST && f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f, "ScopeProfiles");
        if (f.number != SCOPE_PROFILES_PROFILES)
            r = copy_field(t, &f, in.p);
        else if (t->from >= PROFILES_LAYOUT_1_8)
            r = legacy_profile_1_9(t, f.bytes);
        else
            r = legacy_profile_1_7(t, f.bytes);
        if (r != 0)
            return r;
    }
    return legacy_ended(t, r, &in, "ScopeProfiles");
}

/* A message whose own fields `within` writes. */
static int nested(struct legacy *t, uint32_t field, struct bytes message,
                  int (*within)(struct legacy *, struct bytes))
{
    int r = legacy_room(t, t->out, NESTING_ROOM);
    if (r != 0)
        return r;
    size_t mark = wire_begin(&t->w, field);
    r = within(t, message);
    if (r == 0)
        r = legacy_room(t, t->out, NESTING_ROOM);
    if (r == 0)
        wire_end(&t->w, mark);
    return r;
}

static int resource_profiles(struct legacy *t, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number <= RESOURCE_PROFILES_HIGHEST && f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f, "ResourceProfiles");
        r = f.number == RESOURCE_PROFILES_SCOPE_PROFILES ? nested(t, f.number, f.bytes, scope_profiles)
                                                         : copy_field(t, &f, in.p);
        if (r != 0)
            return r;
    }
    return legacy_ended(t, r, &in, "ResourceProfiles");
}

static int request(struct legacy *t)
{
    struct wire_reader in = wire_reader(t->body);
    struct wire_field f;
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number == REQUEST_RESOURCE_PROFILES)
            r = nested(t, f.number, f.bytes, resource_profiles);
        else if (f.number > REQUEST_HIGHEST)
            r = copy_field(t, &f, in.p);
        if (r != 0)
            return r;
    }
    return legacy_ended(t, r, &in, "ExportProfilesServiceRequest");
}

/* The dictionary in one piece: protobuf says that concatenating two encodings merges them. */
static int find_dictionary(struct legacy *t)
{
    struct wire_reader in = wire_reader(t->body);
    struct wire_field f;
    size_t n = 0;
    uint32_t pieces = 0;
    int r;
    while ((r = wire_next(&in, &f)) == 0) {
        if (f.number <= REQUEST_HIGHEST && f.type != WIRE_LEN)
            return legacy_wrong_type(t, &f, "ExportProfilesServiceRequest");
        if (f.number != REQUEST_DICTIONARY)
            continue;
        pieces++;
        n += f.bytes.n;
        t->dictionary = f.bytes;
    }
    r = legacy_ended(t, r, &in, "ExportProfilesServiceRequest");
    if (r != 0 || pieces <= 1)
        return r;
    uint8_t *p = arena_alloc(&t->arena, n);
    if (!p)
        return PROFILES_OVER_BUDGET;
    t->dictionary = bytes_of(p, n);
    in = wire_reader(t->body);
    while (wire_next(&in, &f) == 0)
        if (f.number == REQUEST_DICTIONARY && f.bytes.n > 0) {
            memcpy(p, f.bytes.p, f.bytes.n);
            p += f.bytes.n;
        }
    return 0;
}

/* --- Messages that hold nothing */

/* The fields of a message that have nothing in them: a proto3 writer leaves empty strings and lists out, so
 * these are messages. `within` of them (0: none) is looked into as well. */
static uint64_t count_hollow(struct bytes message, uint32_t within)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f, g;
    uint64_t n = 0;
    while (wire_next(&in, &f) == 0) {
        if (f.type != WIRE_LEN)
            continue;
        n += f.bytes.n == 0;
        if (f.number != within)
            continue;
        struct wire_reader entry = wire_reader(f.bytes);
        while (wire_next(&entry, &g) == 0)
            n += g.type == WIRE_LEN && g.bytes.n == 0;
    }
    return n;
}

static uint64_t count_hollow_in(struct bytes body)
{
    struct wire_reader in = wire_reader(body);
    struct wire_field f, g, h;
    uint64_t n = count_hollow(body, 0);
    while (wire_next(&in, &f) == 0) {
        if (f.type != WIRE_LEN || f.number > REQUEST_HIGHEST)
            continue;
        bool tree = f.number == REQUEST_RESOURCE_PROFILES; /* else the dictionary: in locations are lines */
        n += count_hollow(f.bytes, tree ? RESOURCE_PROFILES_SCOPE_PROFILES : DICTIONARY_LOCATION_TABLE);
        struct wire_reader resource = wire_reader(f.bytes);
        while (tree && wire_next(&resource, &g) == 0) {
            if (g.type != WIRE_LEN || g.number != RESOURCE_PROFILES_SCOPE_PROFILES)
                continue;
            struct wire_reader scope = wire_reader(g.bytes);
            while (wire_next(&scope, &h) == 0)
                if (h.type == WIRE_LEN && h.number == SCOPE_PROFILES_PROFILES)
                    n += count_hollow(h.bytes, PROFILE_LOCATION_TABLE_1_5);
        }
    }
    return n;
}

/* --- Begin and end */

static int begin(struct legacy *t)
{
    for (enum message m = 0; m < MESSAGES; m++)
        fields_renumber(m, t->from, PROFILES_LAYOUT_1_10, t->renumber[m]);
    t->w = wire_writer(t->out);
    t->ew = wire_writer(&t->entry);
    t->arena = (struct arena)ARENA_INIT(&t->budget);
    t->unit_key = (struct intern)INTERN_INIT(&t->budget);
    for (int i = 0; i < TABLES; i++)
        t->table[i] = (struct intern)INTERN_INIT(&t->budget);
    for (int i = 0; i < TABLES; i++) { /* the entry 0 */
        uint32_t zero;
        int r = legacy_entry_begin(t, 0);
        if (r == 0)
            r = legacy_entry_add(t, (enum legacy_table)i, &zero);
        if (r != 0)
            return r;
    }
    return 0;
}

static int write_all(struct legacy *t)
{
    int r = find_dictionary(t);
    if (r == 0 && t->from == PROFILES_LAYOUT_1_7)
        r = legacy_read_source(t, t->dictionary);
    if (r == 0)
        r = request(t);
    if (r == 0)
        r = t->from >= PROFILES_LAYOUT_1_8 ? legacy_write_dictionary_1_9(t) : legacy_write_dictionary(t);
    if (r == 0)
        r = legacy_room(t, t->out, PROFILES_PADDING);
    if (r != 0)
        return r;
    if (t->w.failed < 0)
        return t->w.full ? PROFILES_OVER_BUDGET : t->w.failed;
    memset(t->out->p + t->out->n, 0, PROFILES_PADDING);
    return 0;
}

static void end(struct legacy *t)
{
    for (int i = 0; i < TABLES; i++) {
        intern_release(&t->table[i]);
        vec_release(&t->source.to[i]);
    }
    intern_release(&t->unit_key);
    vec_release(&t->unit);
    vec_release(&t->attrs);
    vec_release(&t->of_profile);
    vec_release(&t->comments);
    vec_release(&t->path);
    vec_release(&t->stacks);
    budget_refund(&t->budget, t->entries_charged);
    arena_release(&t->arena);
    legacy_release(&t->entry, &t->budget);
}

int legacy_transcode(enum profiles_layout from, struct bytes body, const struct profiles_limits *limits,
                     struct budget *budget, struct buffer *out, struct error *e)
{
    out->n = 0;
    if (count_hollow_in(body) > HOLLOW_MAX)
        return error_set(e, PROFILES_MALFORMED, HOLLOW_WORDS);
    struct legacy *t = calloc(1, sizeof *t);
    if (!t)
        return -ENOMEM;
    t->from = from;
    t->body = body;
    t->limits = limits;
    t->budget = (struct budget)BUDGET_INIT(limits->column_bytes, budget);
    t->e = e;
    t->out = out;
    int r = begin(t);
    if (r == 0)
        r = write_all(t);
    if (r != 0)
        out->n = 0;
    end(t);
    free(t); /* what out grew by stays charged in `budget` */
    return r;
}
