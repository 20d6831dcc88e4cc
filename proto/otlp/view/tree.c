/* SPDX-License-Identifier: Apache-2.0 */
/*
 * ResourceProfiles → resources, scopes and profiles.
 *
 * A message's own fields may come behind those of what it holds, and in pieces, so a level is walked once and
 * its columns are filled at the end of the walk; of resources and scopes only the bytes are kept, which
 * decode_scopes reads when all strings are known.
 */

#include "proto/otlp/view/run.h"

#define PROFILE_ID_SIZE 16u

struct profile_row {
    uint64_t type, unit, period_type, period_unit, period, time, duration;
    struct bytes id;
    bool unreadable;
};

static int value_type(struct decode *d, struct bytes message, struct profile_row *w, uint64_t *type,
                      uint64_t *unit)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number > VALUE_TYPE_HIGHEST)
            decode_unknown(d);
        else if (f.type == WIRE_VARINT)
            *(f.number == VALUE_TYPE_TYPE_STRINDEX ? type : unit) = f.value;
        else if ((r = decode_misfit(d, &f, "ValueType", &w->unreadable)) != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed ValueType");
}

static int profile_field(struct decode *d, const struct wire_field *f, struct profile_row *w)
{
    int r;
    switch (WIRE_TAG(f->number, f->type)) {
    case WIRE_TAG(PROFILE_SAMPLE_TYPE, WIRE_LEN): return value_type(d, f->bytes, w, &w->type, &w->unit);
    case WIRE_TAG(PROFILE_SAMPLES, WIRE_LEN):
        r = decode_entry(d, f->bytes, HOLLOW_BYTES);
        if (r == 0)
            r = profiles_room(d->p, GROUP_SAMPLE, d->p->sample.n);
        return r != 0 ? r : decode_sample(d, f->bytes);
    case WIRE_TAG(PROFILE_TIME_UNIX_NANO, WIRE_I64): w->time = f->value; return 0;
    case WIRE_TAG(PROFILE_DURATION_NANO, WIRE_VARINT): w->duration = f->value; return 0;
    case WIRE_TAG(PROFILE_PERIOD_TYPE, WIRE_LEN):
        return value_type(d, f->bytes, w, &w->period_type, &w->period_unit);
    case WIRE_TAG(PROFILE_PERIOD, WIRE_VARINT): w->period = f->value; return 0;
    case WIRE_TAG(PROFILE_PROFILE_ID, WIRE_LEN):
        /* of another size it is no id; nobody is served by losing the samples for it */
        w->id = f->bytes.n == PROFILE_ID_SIZE ? f->bytes : (struct bytes){0};
        d->doubt |= f->bytes.n != PROFILE_ID_SIZE && f->bytes.n != 0;
        return 0;
    case WIRE_TAG(PROFILE_DROPPED_ATTRIBUTES_COUNT, WIRE_VARINT):
    case WIRE_TAG(PROFILE_ORIGINAL_PAYLOAD_FORMAT, WIRE_LEN):
    case WIRE_TAG(PROFILE_ORIGINAL_PAYLOAD, WIRE_LEN): return 0;
    default: break;
    }
    if (f->number == PROFILE_ATTRIBUTE_INDICES && (f->type == WIRE_LEN || f->type == WIRE_VARINT))
        return decode_indices(d, GROUP_PROFILE_ATTR, &d->m->profile_attr, f, "Profile");
    return f->number <= PROFILE_HIGHEST ? decode_misfit(d, f, "Profile", &w->unreadable) : decode_unknown(d);
}

/* Whether a profile without an id is a sibling of the one before it: what older layouts have as one profile
 * of several types becomes several, of which the first one has its id (legacy_profile_1_7.c). */
static bool goes_with_the_last(const struct profiles *v, uint32_t i)
{
    return i > 0 && v->profile.profile_id[i].n == 0 && v->profile.scope[i - 1] == v->profile.scope[i] &&
           v->profile.time_unix_nano[i - 1] == v->profile.time_unix_nano[i] &&
           v->profile.duration_nano[i - 1] == v->profile.duration_nano[i];
}

static int profile_any(struct decode *d, struct bytes message, uint32_t scope)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct profile_row w = {0};
    struct profiles *v = d->p;
    uint32_t i = v->profile.n, attrs_at = d->m->profile_attr.n;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r == 0)
        r = profiles_room(v, GROUP_PROFILE, i);
    if (r != 0)
        return r;
    v->profile.samples_at[i] = v->sample.n;
    while (in.p < in.end) {
        if (*in.p == WIRE_TAG(PROFILE_SAMPLES, WIRE_LEN)) {
            const uint8_t *was = in.p;
            r = profiles_room(v, GROUP_SAMPLE, v->sample.n);
            if (r != 0)
                return r;
            in.p = decode_sample_run(d, in.p, in.end);
            if (in.p != was)
                continue;
        }
        if (wire_load_next(&in, &f) != 0)
            return decode_malformed(d, in.p, "malformed Profile");
        r = profile_field(d, &f, &w);
        if (r != 0)
            return r;
    }
    v->profile.scope[i] = scope;
    v->profile.type[i] = w.unreadable ? UNREADABLE : wire_saturate32(w.type);
    v->profile.unit[i] = wire_saturate32(w.unit);
    v->profile.period_type[i] = wire_saturate32(w.period_type);
    v->profile.period_unit[i] = wire_saturate32(w.period_unit);
    v->profile.period[i] = (int64_t)w.period;
    v->profile.time_unix_nano[i] = w.time;
    v->profile.duration_nano[i] = w.duration;
    v->profile.profile_id[i] = w.id;
    v->profile.sibling_id[i] = goes_with_the_last(v, i) ? v->profile.sibling_id[i - 1] : w.id;
    v->profile.raw[i] = message;
    v->profile.attrs_at[i] = attrs_at;
    v->profile.n++;
    return 0;
}

/* Scopes and resources may come behind what they hold, and in pieces: only their bytes are kept here. */
static int add_piece(struct decode *d, struct joined *j, struct bytes *raw, struct bytes piece)
{
    struct bytes joined = profiles_join(d->p, j, *raw, piece);
    if (!joined.p)
        return PROFILES_OVER_BUDGET;
    *raw = joined;
    return 0;
}

static int scope_profiles(struct decode *d, struct bytes message, uint32_t resource)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct profiles *v = d->p;
    uint32_t i = v->scope.n;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r == 0)
        r = profiles_room(v, GROUP_SCOPE, i);
    if (r != 0)
        return r;
    v->scope.n++;
    v->scope.resource[i] = resource;
    v->scope.name[i] = v->scope.version[i] = v->scope.schema_url[i] = (struct bytes){0};
    v->scope.attrs_at[i] = 0;
    d->m->scope_raw[i] = bytes_of(message.p, 0);
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(SCOPE_PROFILES_SCOPE, WIRE_LEN):
            r = add_piece(d, &d->scope, &d->m->scope_raw[i], f.bytes);
            break;
        case WIRE_TAG(SCOPE_PROFILES_PROFILES, WIRE_LEN): r = profile_any(d, f.bytes, i); break;
        case WIRE_TAG(SCOPE_PROFILES_SCHEMA_URL, WIRE_LEN): v->scope.schema_url[i] = f.bytes; break;
        default:
            r = f.number <= SCOPE_PROFILES_HIGHEST ? decode_wrong_type(d, &f, "ScopeProfiles")
                                                   : decode_unknown(d);
        }
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed ScopeProfiles");
}

int decode_resource_profiles(struct decode *d, struct bytes message)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct profiles *v = d->p;
    uint32_t i = v->resource.n;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r == 0)
        r = profiles_room(v, GROUP_RESOURCE, i);
    if (r != 0)
        return r;
    v->resource.n++;
    v->resource.raw[i] = bytes_of(message.p, 0);
    v->resource.schema_url[i] = (struct bytes){0};
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(RESOURCE_PROFILES_RESOURCE, WIRE_LEN):
            r = add_piece(d, &d->resource, &v->resource.raw[i], f.bytes);
            break;
        case WIRE_TAG(RESOURCE_PROFILES_SCOPE_PROFILES, WIRE_LEN): r = scope_profiles(d, f.bytes, i); break;
        case WIRE_TAG(RESOURCE_PROFILES_SCHEMA_URL, WIRE_LEN): v->resource.schema_url[i] = f.bytes; break;
        default:
            r = f.number <= RESOURCE_PROFILES_HIGHEST ? decode_wrong_type(d, &f, "ResourceProfiles")
                                                      : decode_unknown(d);
        }
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed ResourceProfiles");
}

/* --- Attributes of resources and scopes, when all strings are known */

/* A reference into the string table: false when it dangles. */
static bool resolve(const struct profiles *p, uint64_t index, struct bytes *ret)
{
    if (index >= p->string.n)
        return false;
    *ret = profiles_string(p, (uint32_t)index);
    return true;
}

static int key_value(struct decode *d, struct bytes message, bool *dangling)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    struct attr a = {0};
    uint64_t key_index = 0, reference = INDEX_NONE, piece;
    int r = decode_entry(d, message, HOLLOW_BYTES);
    if (r != 0)
        return r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        switch (WIRE_TAG(f.number, f.type)) {
        case WIRE_TAG(KEY_VALUE_KEY, WIRE_LEN): a.key = f.bytes; break;
        case WIRE_TAG(KEY_VALUE_VALUE, WIRE_LEN):
            r = decode_any_value(d, f.bytes, &a.value, &piece);
            if (piece != INDEX_NONE || f.bytes.n > 0)
                reference = piece;
            break;
        case WIRE_TAG(KEY_VALUE_KEY_STRINDEX, WIRE_VARINT): key_index = f.value; break;
        default: r = f.number <= KEY_VALUE_HIGHEST ? decode_wrong_type(d, &f, "KeyValue") : decode_unknown(d);
        }
        if (r != 0)
            return r;
    }
    if (r != WIRE_END)
        return decode_malformed(d, in.p, "malformed KeyValue");
    if (key_index != 0 && !resolve(d->p, key_index, &a.key)) /* 0 is "not set" */
        *dangling = true;
    if (reference != INDEX_NONE && !resolve(d->p, reference, &a.value.text))
        *dangling = true;
    r = decode_inline(d, &a.value);
    if (r == 0)
        r = profiles_room(d->p, GROUP_KEY_VALUE, d->p->key_value.n);
    if (r == 0)
        d->p->key_value.attr[d->p->key_value.n++] = a;
    return r;
}

/* Resource or InstrumentationScope, by the field that its attributes are; before it, the latter has name and
 * version. */
_Static_assert(RESOURCE_ATTRIBUTES < SCOPE_ATTRIBUTES && SCOPE_NAME < SCOPE_ATTRIBUTES &&
                   SCOPE_VERSION < SCOPE_ATTRIBUTES,
               "what owner() goes by");
static int owner(struct decode *d, struct bytes message, uint32_t attributes_field, struct bytes *name,
                 struct bytes *version, bool *dangling)
{
    struct wire_reader in = wire_reader(message);
    struct wire_field f;
    const uint32_t highest = attributes_field == RESOURCE_ATTRIBUTES ? RESOURCE_HIGHEST : SCOPE_HIGHEST;
    int r;
    while ((r = wire_load_next(&in, &f)) == 0) {
        if (f.number == attributes_field && f.type == WIRE_LEN)
            r = key_value(d, f.bytes, dangling);
        else if (f.number == attributes_field || (f.number < attributes_field && f.type != WIRE_LEN))
            r = decode_wrong_type(
                d, &f, attributes_field == RESOURCE_ATTRIBUTES ? "Resource" : "InstrumentationScope");
        else if (f.number < attributes_field)
            *(f.number == SCOPE_NAME ? name : version) = f.bytes;
        else if (f.number > highest)
            decode_unknown(d);
        if (r != 0)
            return r;
    }
    return r == WIRE_END ? 0 : decode_malformed(d, in.p, "malformed Resource or InstrumentationScope");
}

int decode_scopes(struct decode *d, uint8_t *resource_bad, uint8_t *scope_bad, bool *ret_dangling)
{
    struct profiles *v = d->p;
    v->key_value.n = 0;
    d->inlined = 0; /* this may be the second look */
    *ret_dangling = false;
    for (uint32_t i = 0; i < v->resource.n; i++) {
        bool dangling = false;
        v->resource.attrs_at[i] = v->key_value.n;
        int r = owner(d, v->resource.raw[i], RESOURCE_ATTRIBUTES, NULL, NULL, &dangling);
        if (r != 0)
            return r;
        if (resource_bad)
            resource_bad[i] = dangling;
        *ret_dangling |= dangling;
    }
    v->resource.attrs_at[v->resource.n] = v->key_value.n;
    for (uint32_t i = 0; i < v->scope.n; i++) {
        bool dangling = false;
        v->scope.attrs_at[i] = v->key_value.n;
        int r = owner(d, d->m->scope_raw[i], SCOPE_ATTRIBUTES, &v->scope.name[i], &v->scope.version[i],
                      &dangling);
        if (r != 0)
            return r;
        if (scope_bad)
            scope_bad[i] = dangling;
        *ret_dangling |= dangling;
    }
    v->scope.attrs_at[v->scope.n] = v->key_value.n;
    return 0;
}
