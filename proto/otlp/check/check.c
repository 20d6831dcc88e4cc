/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A request: its layout, its tables, then everything in it. The tables come first, since what refers to them
 * may stand before them.
 */
#include "proto/otlp/check/check.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/otlp/check/parts.h"
#include "proto/otlp/layouts/legacy.h"
#include "proto/otlp/layouts/sniff.h"

#define KEEP_BYTES ((size_t)1 << 20) /* of texts, for the next request */

/* What translating an older layout may take. */
static const struct profiles_limits limits = {.column_bytes = (size_t)4 << 30, .depth = DEPTH_MAX};

struct check *check_new(uint32_t per_rule, struct budget *budget)
{
    struct check *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->per_rule = per_rule;
    c->budget = budget;
    c->arena.budget = c->identities.budget = budget;
    c->findings.budget = c->list.budget = budget;
    struct check_set *sets[] = {&c->profile.samples, &c->resource_keys, &c->profile_ids, &c->set};
    for (size_t i = 0; i < ARRAY_LEN(sets); i++)
        sets[i]->of.budget = sets[i]->table.budget = budget;
    for (uint32_t t = 0; t < TABLES; t++)
        c->table[t].at.budget = budget;
    return c;
}

struct check *check_free(struct check *c)
{
    if (!c)
        return NULL;
    vec_release(&c->findings);
    arena_release(&c->arena);
    arena_release(&c->identities);
    vec_release(&c->list);
    check_set_release(&c->profile.samples);
    check_set_release(&c->resource_keys);
    check_set_release(&c->profile_ids);
    check_set_release(&c->set);
    check_scratch_clear(c, &c->entry, 0);
    check_scratch_clear(c, &c->other, 0);
    free(c);
    return NULL;
}

uint64_t check_count(const struct check *c, enum check_rule rule)
{
    return c->count[rule];
}

const struct check_finding *check_findings(const struct check *c, uint32_t *ret_n)
{
    *ret_n = c->findings.n;
    return c->findings.p;
}

void check_clear(struct check *c)
{
    memset(c->count, 0, sizeof c->count);
    vec_clear(&c->findings);
    arena_reset(&c->arena, KEEP_BYTES);
}

/* ---- a request ----------------------------------------------------------------------------------- */

/* Thousands of small requests one after the other have the same. */
static void set_layout(struct check *c, enum profiles_layout layout)
{
    if (c->layout == layout)
        return;
    c->layout = layout;
    memset(c->field, 0, sizeof c->field);
    for (uint32_t m = 0; m < MESSAGES; m++)
        for (uint32_t number = 1; number < FIELD_NUMBERS; number++)
            c->field[m][number] = field_numbered(layout, (enum message)m, number);
}

/* In a layout of 1.8 or later. */
static void check_content(struct check *c)
{
    c->has_content = true;
    memset(c->before, 0, sizeof c->before);
    check_collect_tables(c);
    if (!c->is_out)
        check_duplicates(c);
    if (!c->is_out)
        check_attributes_of_table(c);
    if (!c->is_out)
        check_mappings_of_table(c);
    if (!c->is_out && check_walk(c) && !c->is_out) {
        check_entries_0(c);
        check_orphans(c);
    }
    check_release_tables(c);
    check_set_clear(&c->profile_ids);
    check_set_clear(&c->profile.samples);
    arena_reset(&c->identities, KEEP_BYTES);
    check_scratch_clear(c, &c->entry, KEEP_BYTES);
    check_scratch_clear(c, &c->other, KEEP_BYTES);
}

/* 1.7 and older: the wire as it is, the rest as it reads in 1.10. What has no translation is malformed. */
static void check_older(struct check *c)
{
    struct buffer translated = BUFFER_INIT(0);
    struct error e = {""};
    c->has_content = false;
    if (!check_walk(c))
        return;
    int r = legacy_transcode(c->layout, c->body, &limits, c->budget, &translated, &e);
    if (r == 0) {
        c->is_translated = true;
        c->has_order = false;
        c->body = buffer_bytes(&translated);
        set_layout(c, PROFILES_LAYOUT_1_10);
        check_content(c);
        c->is_translated = false;
    } else if (r == PROFILES_MALFORMED) {
        check_found(c, CHECK_MALFORMED, NULL, NOWHERE, "%s", e.text);
    } else {
        c->is_out = true;
    }
    legacy_release(&translated, c->budget);
}

int check_request(struct check *c, struct bytes body, enum profiles_layout layout, bool is_own_order)
{
    if (body.n > UINT32_MAX)
        return CHECK_TOO_LARGE;
    if (layout == PROFILES_LAYOUT_UNKNOWN)
        layout = layout_sniff(body, &(struct profiles_producer){0}).layout;
    if (layout == PROFILES_LAYOUT_UNKNOWN)
        layout = PROFILES_LAYOUT_1_10;
    c->body = body;
    c->is_out = false;
    c->has_order = is_own_order;
    c->depth = 0;
    set_layout(c, layout);
    if (layout != PROFILES_LAYOUT_1_10)
        check_found(c, CHECK_LAYOUT, NULL, NOWHERE, "%s", profiles_layout_name(layout));
    if (layout >= PROFILES_LAYOUT_1_8)
        check_content(c);
    else
        check_older(c);
    return c->is_out ? -ENOMEM : 0;
}
