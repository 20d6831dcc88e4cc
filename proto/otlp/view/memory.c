/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/view/memory.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/otlp/layouts/legacy.h"

#define FIRST_CAP 64u

/* More entries than this in one table would make 32-bit counts overflow; a body has at least two bytes per
 * entry, and is below 4 GiB (string spans), so only an absurd one comes here. */
#define CAP_MAX (UINT32_MAX / 2)

struct column {
    uint8_t group, size;
    bool in_memory; /* in struct profiles_memory rather than in struct profiles */
    uint16_t offset;
};

#define VIEW(group, member)                                                                             \
    {                                                                                                   \
        GROUP_##group, sizeof *((struct profiles *)0)->member, false, offsetof(struct profiles, member) \
    }
#define MEMORY(group, member)                                               \
    {                                                                       \
        GROUP_##group, sizeof *((struct profiles_memory *)0)->member, true, \
            offsetof(struct profiles_memory, member)                        \
    }

/* clang-format off */
static const struct column columns[] = {
    VIEW(STRING, string.span),
    VIEW(MAPPING, mapping.memory_start), VIEW(MAPPING, mapping.memory_limit), VIEW(MAPPING, mapping.file_offset),
    VIEW(MAPPING, mapping.filename), VIEW(MAPPING, mapping.attrs_at),
    VIEW(LOCATION, location.mapping), VIEW(LOCATION, location.address), VIEW(LOCATION, location.lines_at),
    VIEW(LOCATION, location.attrs_at),
    VIEW(LINE, line.function), VIEW(LINE, line.line), VIEW(LINE, line.column),
    VIEW(FUNCTION, function.name), VIEW(FUNCTION, function.system_name), VIEW(FUNCTION, function.filename),
    VIEW(FUNCTION, function.start_line),
    VIEW(LINK, link.trace_at), VIEW(LINK, link.span_at),
    VIEW(ATTRIBUTE, attribute.key), VIEW(ATTRIBUTE, attribute.unit), VIEW(ATTRIBUTE, attribute.value),
    VIEW(STACK, stack.locations_at),
    VIEW(STACK_LOCATION, stack_location.location),
    VIEW(ATTR_INDEX, attr_index.attribute),
    VIEW(RESOURCE, resource.raw), VIEW(RESOURCE, resource.schema_url), VIEW(RESOURCE, resource.attrs_at),
    VIEW(SCOPE, scope.resource), VIEW(SCOPE, scope.name), VIEW(SCOPE, scope.version), VIEW(SCOPE, scope.schema_url),
    VIEW(SCOPE, scope.attrs_at), MEMORY(SCOPE, scope_raw),
    VIEW(KEY_VALUE, key_value.attr),
    VIEW(PROFILE, profile.scope), VIEW(PROFILE, profile.type), VIEW(PROFILE, profile.unit),
    VIEW(PROFILE, profile.period_type), VIEW(PROFILE, profile.period_unit), VIEW(PROFILE, profile.period),
    VIEW(PROFILE, profile.time_unix_nano), VIEW(PROFILE, profile.duration_nano), VIEW(PROFILE, profile.profile_id),
    VIEW(PROFILE, profile.sibling_id), VIEW(PROFILE, profile.raw), VIEW(PROFILE, profile.attrs_at), VIEW(PROFILE, profile.samples_at),
    VIEW(SAMPLE, sample.stack), VIEW(SAMPLE, sample.link), VIEW(SAMPLE, sample.attrs_at),
    VIEW(SAMPLE, sample.n_values), VIEW(SAMPLE, sample.n_timestamps), VIEW(SAMPLE, sample.value_sum),
    MEMORY(MAPPING_ATTR, mapping_attr.index), MEMORY(LOCATION_ATTR, location_attr.index),
    MEMORY(PROFILE_ATTR, profile_attr.index),
    MEMORY(REFERENCE, reference.attribute), MEMORY(REFERENCE, reference.string),
};
/* clang-format on */

static void **column_of(struct profiles *p, const struct column *c)
{
    return (void **)((c->in_memory ? (char *)p->memory : (char *)p) + c->offset);
}

static size_t column_bytes(const struct column *c, size_t cap)
{
    return cap > 0 ? (cap + COLUMN_SLACK) * c->size : 0;
}

static size_t group_bytes(enum profiles_group group, size_t cap)
{
    size_t n = 0;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++)
        if (columns[i].group == group)
            n += column_bytes(&columns[i], cap);
    return n;
}

static bool charge(struct profiles_memory *m, size_t n)
{
    if (n > m->limit || m->used > m->limit - n || !budget_charge(m->budget, n))
        return false;
    m->used += n;
    return true;
}

static void refund(struct profiles_memory *m, size_t n)
{
    m->used -= n;
    budget_refund(m->budget, n);
}

/* A capacity of at least `need`, its growth charged: twice what there was, an eighth more when there is no
 * room for that (so that the next entry need not grow it again), or just enough. 0: there is no room. */
static size_t charged_capacity(struct profiles_memory *m, enum profiles_group group, size_t was, size_t need)
{
    const size_t tries[] = {max_of(need, was ? was * 2 : FIRST_CAP), max_of(need, was + was / 8), need};
    for (size_t i = 0; i < ARRAY_LEN(tries); i++)
        if (charge(m, group_bytes(group, tries[i]) - group_bytes(group, was)))
            return tries[i];
    return 0;
}

int profiles_grow(struct profiles *p, enum profiles_group group, size_t need)
{
    struct profiles_memory *m = p->memory;
    size_t was = m->cap[group];
    if (need <= was)
        return 0;
    size_t cap = need > CAP_MAX ? 0 : charged_capacity(m, group, was, need);
    if (cap == 0)
        return PROFILES_OVER_BUDGET;
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        if (columns[i].group != group)
            continue;
        void **column = column_of(p, &columns[i]);
        void *grown = realloc(*column, column_bytes(&columns[i], cap));
        if (!grown) { /* those that did grow stay so; they are charged again when growing succeeds */
            refund(m, group_bytes(group, cap) - group_bytes(group, was));
            return -ENOMEM;
        }
        *column = grown;
    }
    m->cap[group] = (uint32_t)cap;
    return 0;
}

void *profiles_scratch(struct profiles *p, size_t n)
{
    if (!charge(p->memory, n))
        return NULL;
    void *scratch = calloc(n ? n : 1, 1);
    if (!scratch)
        refund(p->memory, n);
    return scratch;
}

void profiles_scratch_free(struct profiles *p, void *scratch, size_t n)
{
    if (!scratch)
        return;
    free(scratch);
    refund(p->memory, n);
}

struct bytes profiles_join(struct profiles *p, struct joined *j, struct bytes a, struct bytes b)
{
    const size_t n = a.n + b.n;
    if (a.n == 0)
        return b;
    if (b.n == 0)
        return a;
    if (a.p != j->p || n > j->room) {
        const size_t room = n + n / 2;
        uint8_t *larger = arena_alloc(&p->memory->joined, room + WIRE_LOAD_PADDING);
        if (!larger)
            return (struct bytes){0};
        memcpy(larger, a.p, a.n);
        *j = (struct joined){larger, room};
    }
    memcpy(j->p + a.n, b.p, b.n);
    memset(j->p + n, 0, WIRE_LOAD_PADDING);
    return bytes_of(j->p, n);
}

void profiles_empty(struct profiles *p)
{
    struct profiles_memory *m = p->memory;
    p->body = (struct bytes){0};
    p->layout = PROFILES_LAYOUT_UNKNOWN;
    p->unknown_fields = 0;
    p->string.n = p->mapping.n = p->location.n = p->line.n = p->function.n = p->link.n = 0;
    p->attribute.n = p->stack.n = p->stack_location.n = p->attr_index.n = 0;
    p->resource.n = p->scope.n = p->key_value.n = p->profile.n = p->sample.n = 0;
    p->rejected.samples = p->rejected.profiles = 0;
    p->rejected.first.text[0] = '\0';
    m->mapping_attr.n = m->location_attr.n = m->profile_attr.n = m->reference.n = 0;
    if (m->joined.blocks) /* rare: not worth keeping */
        arena_release(&m->joined);
}

int profiles_init(struct profiles *p, struct budget *budget)
{
    *p = (struct profiles){0};
    p->memory = calloc(1, sizeof *p->memory);
    if (!p->memory)
        return -ENOMEM;
    p->memory->budget = budget;
    shapes_init(&p->memory->shapes);
    p->memory->joined_budget = (struct budget)BUDGET_INIT(0, budget);
    p->memory->joined = (struct arena)ARENA_INIT(&p->memory->joined_budget);
    return 0;
}

static void release_columns(struct profiles *p)
{
    for (size_t i = 0; i < ARRAY_LEN(columns); i++) {
        void **column = column_of(p, &columns[i]);
        free(*column);
        *column = NULL;
    }
    legacy_release(&p->memory->translated, p->memory->budget);
    budget_refund(p->memory->budget, p->memory->used);
    p->memory->used = 0;
    memset(p->memory->cap, 0, sizeof p->memory->cap);
}

void profiles_release(struct profiles *p)
{
    if (!p->memory)
        return;
    profiles_empty(p);
    release_columns(p);
    free(take_ptr(p->memory));
}

void profiles_trim(struct profiles *p, size_t keep_max)
{
    if (profiles_memory_used(p) <= keep_max)
        return;
    profiles_empty(p);
    release_columns(p);
}

size_t profiles_memory_used(const struct profiles *p)
{
    const struct profiles_memory *m = p->memory;
    return m->used + atomic_load_explicit(&m->joined_budget.used, memory_order_relaxed) + m->translated.max;
}
