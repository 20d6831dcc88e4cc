/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Profiles first, since only then is known which frames there are; the frames that they share behind them.
 * A profile has its samples and its weights in two lists: its samples are gone through twice.
 */
#include "proto/convert/to_speedscope.h"

#include <inttypes.h>
#include <stdio.h>

#include "proto/base/idmap.h"
#include "proto/base/json.h"
#include "proto/base/macros.h"
#include "proto/base/vec.h"

struct writing {
    const struct profiles *v;
    struct json j;
    struct idmap numbers;    /* of frames, by function or by location: the upper half says which */
    VEC(uint64_t) frames;    /* [number]: the same key */
    struct idmap kinds;      /* the first profile of a type and unit, + 1 */
    VEC(uint32_t) next_like; /* [profile]: the next one of its kind, 0: none */
    VEC(uint32_t) last_like; /* [first profile] */
    int failed;              /* -ENOMEM */
};

#define BY_LOCATION (UINT64_C(1) << 32)

static uint32_t number_of(struct writing *w, uint64_t key)
{
    uint32_t *place = idmap_place(&w->numbers, key, 0);
    if (!place || (*place == 0 && vec_append(&w->frames, key) < 0)) {
        w->failed = -ENOMEM;
        return 0;
    }
    *place = *place ? *place : w->frames.n;
    return *place - 1;
}

static bool has_name(const struct profiles *v, uint32_t function)
{
    return profiles_string(v, v->function.name[function]).n > 0 ||
           profiles_string(v, v->function.system_name[function]).n > 0;
}

static void put_location(struct writing *w, uint32_t location)
{
    const struct profiles *v = w->v;
    uint32_t from = v->location.lines_at[location], at = v->location.lines_at[location + 1];
    do {
        uint32_t f = at > from ? v->line.function[at - 1] : 0;
        json_u64(&w->j, number_of(w, has_name(v, f) ? f : BY_LOCATION | location));
    } while (at > from && --at > from);
}

static void put_frames(struct writing *w)
{
    const struct profiles *v = w->v;
    json_open(&w->j, '[');
    for (uint32_t i = 0; i < w->frames.n; i++) {
        uint32_t at = (uint32_t)w->frames.p[i];
        char text[32];
        json_open(&w->j, '{');
        json_key(&w->j, "name");
        if (w->frames.p[i] & BY_LOCATION) {
            snprintf(text, sizeof text, "0x%" PRIx64, v->location.address[at]);
            struct bytes file = profiles_string(v, v->mapping.filename[v->location.mapping[at]]);
            json_string(&w->j, bytes_str(text));
            if (file.n)
                json_key(&w->j, "file"), json_string(&w->j, file);
        } else {
            struct bytes name = profiles_string(v, v->function.name[at]),
                         file = profiles_string(v, v->function.filename[at]);
            json_string(&w->j, name.n ? name : profiles_string(v, v->function.system_name[at]));
            if (file.n)
                json_key(&w->j, "file"), json_string(&w->j, file);
            if (v->function.start_line[at] > 0)
                json_key(&w->j, "line"), json_i64(&w->j, v->function.start_line[at]);
        }
        json_close(&w->j, '}');
    }
    json_close(&w->j, ']');
}

/* ---- profiles --------------------------------------------------------------------------------- */

static bool is_shown(const struct profiles *v, uint32_t sample)
{
    uint32_t stack = v->sample.stack[sample];
    return stack != PROFILES_REJECTED && profiles_sample_value(v, sample) > 0 &&
           v->stack.locations_at[stack] < v->stack.locations_at[stack + 1];
}

static void put_stack(struct writing *w, uint32_t stack)
{
    const struct profiles *v = w->v;
    json_open(&w->j, '[');
    for (uint32_t i = v->stack.locations_at[stack + 1]; i-- > v->stack.locations_at[stack];)
        put_location(w, v->stack_location.location[i]);
    json_close(&w->j, ']');
}

/* The samples of all profiles of the first one's kind. */
#define EACH_SAMPLE(w, p, s, first)                                                                  \
    for (uint32_t p = (first), last_ = 0; last_ == 0;                                                \
         last_ = (w)->next_like.p[p] == 0, p = last_ ? p : (w)->next_like.p[p])                      \
        for (uint32_t s = (w)->v->profile.samples_at[p]; s < (w)->v->profile.samples_at[p + 1]; s++) \
            if (is_shown((w)->v, s))

static const char *unit_of(struct bytes unit)
{
    static const char *const units[][2] = {
        {"nanoseconds", "nanoseconds"},
        {"ns", "nanoseconds"},
        {"microseconds", "microseconds"},
        {"us", "microseconds"},
        {"ms", "milliseconds"},
        {"milliseconds", "milliseconds"},
        {"s", "seconds"},
        {"seconds", "seconds"},
        {"bytes", "bytes"},
        {"By", "bytes"},
    };
    for (size_t i = 0; i < ARRAY_LEN(units); i++)
        if (bytes_is(unit, units[i][0]))
            return units[i][1];
    return "none";
}

static void put_profile(struct writing *w, uint32_t first)
{
    const struct profiles *v = w->v;
    int64_t sum = 0;
    json_open(&w->j, '{');
    json_key(&w->j, "type"), json_string(&w->j, BYTES_LIT("sampled"));
    json_key(&w->j, "name"), json_string(&w->j, profiles_string(v, v->profile.type[first]));
    json_key(&w->j, "unit"),
        json_string(&w->j, bytes_str(unit_of(profiles_string(v, v->profile.unit[first]))));
    json_key(&w->j, "samples"), json_open(&w->j, '[');
    EACH_SAMPLE(w, p, s, first)
    put_stack(w, v->sample.stack[s]);
    json_close(&w->j, ']');
    json_key(&w->j, "weights"), json_open(&w->j, '[');
    EACH_SAMPLE(w, p, s, first)
    {
        json_i64(&w->j, profiles_sample_value(v, s));
        if (__builtin_add_overflow(sum, profiles_sample_value(v, s), &sum))
            sum = INT64_MAX;
    }
    json_close(&w->j, ']');
    json_key(&w->j, "startValue"), json_u64(&w->j, 0);
    json_key(&w->j, "endValue"), json_i64(&w->j, sum);
    json_close(&w->j, '}');
}

static int find_kinds(struct writing *w)
{
    const struct profiles *v = w->v;
    int r = vec_extend(&w->next_like, v->profile.n);
    r = r < 0 ? r : vec_extend(&w->last_like, v->profile.n);
    for (uint32_t p = 0; p < v->profile.n && r == 0; p++) {
        uint32_t *first = idmap_place(&w->kinds, (uint64_t)v->profile.type[p] << 32 | v->profile.unit[p], 0);
        if (!first)
            return -ENOMEM;
        if (*first)
            w->next_like.p[w->last_like.p[*first - 1]] = p;
        else
            *first = p + 1;
        w->last_like.p[*first - 1] = p;
    }
    return r;
}

static bool is_first_of_kind(const struct writing *w, uint32_t p)
{
    const uint32_t *first =
        idmap_find(&w->kinds, (uint64_t)w->v->profile.type[p] << 32 | w->v->profile.unit[p]);
    return first && *first == p + 1;
}

static void put_document(struct writing *w)
{
    json_open(&w->j, '{');
    json_key(&w->j, "$schema");
    json_string(&w->j, BYTES_LIT("https://www.speedscope.app/file-format-schema.json"));
    json_key(&w->j, "exporter"), json_string(&w->j, BYTES_LIT("profgate " PROFGATE_VERSION));
    json_key(&w->j, "profiles"), json_open(&w->j, '[');
    for (uint32_t p = 0; p < w->v->profile.n; p++)
        if (is_first_of_kind(w, p))
            put_profile(w, p);
    json_close(&w->j, ']');
    json_key(&w->j, "activeProfileIndex"), json_u64(&w->j, 0);
    json_key(&w->j, "shared"), json_open(&w->j, '{');
    json_key(&w->j, "frames"), put_frames(w);
    json_close(&w->j, '}');
    json_close(&w->j, '}');
}

int to_speedscope(const struct profiles *view, struct budget *budget, struct buffer *out)
{
    struct writing w = {.v = view, .j = JSON_INIT(out)};
    size_t was = out->n;
    w.frames.budget = w.next_like.budget = w.last_like.budget = w.numbers.budget = w.kinds.budget = budget;
    int r = find_kinds(&w);
    if (r == 0) {
        put_document(&w);
        r = w.failed ? w.failed : w.j.r < 0 ? w.j.r : buffer_add_str(out, "\n");
    }
    if (r < 0)
        out->n = was;
    idmap_release(&w.numbers);
    idmap_release(&w.kinds);
    vec_release(&w.frames);
    vec_release(&w.next_like);
    vec_release(&w.last_like);
    return r;
}
