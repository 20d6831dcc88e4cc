/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What each message is asked, and what is seen of a message when all of it was read: which fields it had.
 */
#include "proto/otlp/check/parts.h"

/* Memory of one profile's samples that is kept for the next one's. */
#define KEEP_BYTES ((size_t)1 << 20)

/* http[s]://server[:port]/path/<version> */
static bool is_schema_url(struct bytes url)
{
    const size_t scheme = bytes_starts(url, "https://") ? 8 : bytes_starts(url, "http://") ? 7 : 0;
    const struct bytes version = bytes_after_last(url, '/');
    bool digits = false;
    for (size_t i = 0; i < version.n; i++)
        digits |= version.p[i] >= '0' && version.p[i] <= '9';
    return scheme > 0 && digits && url.n - version.n > scheme + 1;
}

/* The schema URL of resource_profiles and scope_profiles, which both have it as field 3. */
static void schema_url(struct check *c, enum message message, struct bytes b)
{
    struct wire_reader r = wire_reader(b);
    struct wire_field f;
    _Static_assert((int)ROW_RESOURCE_PROFILES_SCHEMA_URL == (int)ROW_SCOPE_PROFILES_SCHEMA_URL, "as it says");
    for (uint32_t row; (row = check_next(c, message, &r, &f)) != NOWHERE;)
        if (row == ROW_RESOURCE_PROFILES_SCHEMA_URL && f.bytes.n > 0 && !is_schema_url(f.bytes))
            check_found(c, CHECK_SCHEMA_URL, "schema_url", NOWHERE, "%.*s",
                        (int)min_of(f.bytes.n, (size_t)200), (const char *)f.bytes.p);
}

/* Entry 0 of a table, of which there is a rule of its own. */
static bool is_entry_0(const struct check *c)
{
    return c->depth > 1 && c->frame[c->depth - 2].message == MESSAGE_DICTIONARY &&
           c->frame[c->depth - 1].index == 0;
}

void check_enter(struct check *c, struct bytes message)
{
    const enum message kind = c->frame[c->depth - 1].message;
    if (is_entry_0(c))
        return;
    switch (kind) {
    case MESSAGE_RESOURCE_PROFILES:
    case MESSAGE_SCOPE_PROFILES: schema_url(c, kind, message); break;
    case MESSAGE_PROFILE: check_profile(c, message); break;
    case MESSAGE_SAMPLE: check_sample(c, message); break;
    case MESSAGE_MAPPING: check_mapping(c, message); break;
    case MESSAGE_LOCATION: check_location(c, message); break;
    case MESSAGE_LINE: check_line(c, message); break;
    case MESSAGE_FUNCTION: check_function(c, message); break;
    case MESSAGE_LINK: check_link(c, message); break;
    case MESSAGE_RESOURCE:
    case MESSAGE_SCOPE:
    case MESSAGE_KEY_VALUE_LIST: check_key_values(c, message); break;
    case MESSAGE_KEY_VALUE: check_key_value(c, message); break;
    case MESSAGE_KEY_VALUE_AND_UNIT: check_key_value_and_unit(c, message); break;
    case MESSAGE_ENTITY_REF: check_entity(c, message); break;
    default: break;
    }
}

/* ---- what was there ----------------------------------------------------------------------------- */

static void missing(struct check *c, uint32_t row, enum check_rule rule)
{
    if (c->frame[c->depth - 1].seen[row] == 0)
        check_found(c, rule, NULL, NOWHERE, "%s", "");
}

static void dictionary(struct check *c)
{
    const struct check_frame *f = &c->frame[c->depth - 1];
    for (uint32_t t = 1; t < TABLES; t++)
        c->before[t] += f->seen[check_row_number(MESSAGE_DICTIONARY, c->field[MESSAGE_DICTIONARY][t])];
}

/* Of a key, not of an element of an array. */
static bool is_of_key(const struct check *c)
{
    const enum message parent = c->frame[c->depth - 2].message;
    return parent == MESSAGE_KEY_VALUE || parent == MESSAGE_KEY_VALUE_AND_UNIT;
}

static void value(struct check *c)
{
    const struct check_frame *f = &c->frame[c->depth - 1];
    bool any = false;
    for (uint32_t i = 0; i < ROWS_ANY_VALUE; i++)
        any |= f->seen[i] > 0;
    /* entry 0 of the table is two frames up */
    if (!any && is_of_key(c) &&
        !(c->depth == 4 && c->frame[1].message == MESSAGE_DICTIONARY && c->frame[2].index == 0))
        check_found(c, CHECK_VALUE_EMPTY, NULL, NOWHERE, "%s", "");
}

void check_leave(struct check *c)
{
    switch (c->frame[c->depth - 1].message) {
    case MESSAGE_REQUEST: missing(c, ROW_REQUEST_RESOURCE_PROFILES, CHECK_NO_RESOURCES); break;
    case MESSAGE_RESOURCE_PROFILES:
        missing(c, ROW_RESOURCE_PROFILES_SCOPE_PROFILES, CHECK_NO_SCOPES);
        missing(c, ROW_RESOURCE_PROFILES_RESOURCE, CHECK_NO_RESOURCE);
        break;
    case MESSAGE_SCOPE_PROFILES:
        missing(c, ROW_SCOPE_PROFILES_PROFILES, CHECK_NO_PROFILES);
        missing(c, ROW_SCOPE_PROFILES_SCOPE, CHECK_NO_SCOPE);
        break;
    case MESSAGE_PROFILE:
        missing(c, ROW_PROFILE_SAMPLES, CHECK_NO_SAMPLES);
        check_set_clear(&c->profile.samples);
        arena_reset(&c->identities, KEEP_BYTES);
        break;
    case MESSAGE_DICTIONARY: dictionary(c); break;
    case MESSAGE_KEY_VALUE: missing(c, ROW_KEY_VALUE_VALUE, CHECK_VALUE_EMPTY); break;
    case MESSAGE_KEY_VALUE_AND_UNIT:
        if (!is_entry_0(c))
            missing(c, ROW_KEY_VALUE_AND_UNIT_VALUE, CHECK_VALUE_EMPTY);
        break;
    case MESSAGE_ANY_VALUE: value(c); break;
    default: break;
    }
}
