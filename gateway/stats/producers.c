/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/producers.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>

#include "proto/base/thread.h"

struct name {
    uint8_t text[PRODUCER_NAME_MAX];
    uint32_t n;
};

/* Names are added under the lock and never change: whoever reads `n_names` may read that many. */
static struct name names[STATS_PRODUCERS];
static uint32_t n_names;
static pthread_mutex_t adding = PTHREAD_MUTEX_INITIALIZER;

#define OTHER STATS_PRODUCERS

static const char *const layouts[STATS_LAYOUTS] = {"1.5", "1.7", "1.8", "1.9", "1.10"};

/* What a label may hold of what a peer calls itself: cut between characters, a question mark for each control
 * character and for each byte that is no UTF-8. */
static struct name clean(struct bytes b)
{
    struct name ret = {.n = 0};
    const struct bytes given = bytes_cut(b.n > 0 ? b : BYTES_LIT("unknown"), PRODUCER_NAME_MAX);
    const bool utf8 = bytes_is_utf8(given);
    for (size_t i = 0; i < given.n; i++) {
        const uint8_t c = given.p[i];
        ret.text[ret.n++] = c < 0x20 || c == 0x7f || (c >= 0x80 && !utf8) ? '?' : c;
    }
    return ret;
}

static uint32_t find(struct bytes name, uint32_t from, uint32_t to)
{
    while (from < to && !bytes_eq(name, bytes_of(names[from].text, names[from].n)))
        from++;
    return from;
}

static uint32_t find_or_add(const struct name *cleaned)
{
    const struct bytes name = bytes_of(cleaned->text, cleaned->n);
    const uint32_t known = __atomic_load_n(&n_names, __ATOMIC_ACQUIRE);
    uint32_t i = find(name, 0, known);
    if (likely(i < known) || known == STATS_PRODUCERS)
        return i; /* or OTHER, which is one behind the last */
    autolock(&adding);
    const uint32_t n = n_names;
    i = find(name, known, n);
    if (i == n && n < STATS_PRODUCERS) {
        names[n] = *cleaned;
        __atomic_store_n(&n_names, n + 1, __ATOMIC_RELEASE);
    }
    return i;
}

_Static_assert(OTHER == STATS_PRODUCERS, "a name that is not found in a full list is other");

struct bytes producers_of(const struct profiles *view)
{
    if (!view || view->profile.n == 0)
        return BYTES_LIT("");
    const uint32_t scope = view->profile.scope[0], resource = view->scope.resource[scope];
    if (view->scope.name[scope].n > 0)
        return view->scope.name[scope];
    for (uint32_t i = view->resource.attrs_at[resource]; i < view->resource.attrs_at[resource + 1]; i++) {
        const struct attr *a = &view->key_value.attr[i];
        if (bytes_is(a->key, "telemetry.sdk.name") && a->value.kind == ATTR_STRING)
            return a->value.text;
    }
    return BYTES_LIT("");
}

uint32_t producers_number(struct bytes name)
{
    const uint32_t known = __atomic_load_n(&n_names, __ATOMIC_ACQUIRE), i = find(name, 0, known);
    if (likely(i < known)) /* cleaning would change nothing */
        return i;
    const struct name cleaned = clean(name);
    return find_or_add(&cleaned);
}

void producers_add(struct stats *s, enum stats_id layout, struct bytes name)
{
    if (!s)
        return;
    uint64_t *count = &s->producer[producers_number(name)][layout - STATS_LAYOUT_1_5];
    __atomic_store_n(count, *count + 1, __ATOMIC_RELAXED);
}

static uint64_t sum(uint32_t producer, uint32_t layout)
{
    uint64_t n = 0;
    for (const struct stats *s = stats_blocks(); s; s = s->next)
        n += __atomic_load_n(&s->producer[producer][layout], __ATOMIC_RELAXED);
    return n;
}

struct bytes producers_name(uint32_t number)
{
    return number < OTHER ? bytes_of(names[number].text, names[number].n) : BYTES_LIT("other");
}

/* Series that were ever counted, one after another: *at is where to go on, 0 at first. False: no more. */
static bool next_series(uint32_t *at, uint32_t *producer, uint32_t *layout, uint64_t *value)
{
    const uint32_t n = __atomic_load_n(&n_names, __ATOMIC_ACQUIRE);
    for (; *at < (OTHER + 1) * STATS_LAYOUTS; ++*at) {
        *producer = *at / STATS_LAYOUTS;
        *layout = *at % STATS_LAYOUTS;
        if (*producer >= n && *producer < OTHER)
            continue;
        *value = sum(*producer, *layout);
        if (*value > 0) {
            ++*at;
            return true;
        }
    }
    return false;
}

void producers_prometheus(struct exposition *x)
{
    uint32_t at = 0, producer, layout;
    uint64_t value;
    for (bool first = true; next_series(&at, &producer, &layout, &value); first = false) {
        if (first)
            exposition_family(x, PRODUCERS_NAME, "counter", PRODUCERS_DESCRIPTION);
        exposition_print(x, PRODUCERS_NAME "{layout=\"%s\",", layouts[layout]);
        exposition_label(x, "producer", producers_name(producer));
        exposition_print(x, "} %" PRIu64 "\n", value);
    }
}

int producers_points(struct arena *arena, uint64_t start_unix_nano, uint64_t now_unix_nano,
                     struct metric_point **ret, uint32_t *ret_n)
{
    uint32_t at = 0, producer, layout, n = 0, max = 0;
    uint64_t value;
    while (next_series(&at, &producer, &layout, &value))
        max++;
    struct metric_point *points = arena_calloc(arena, max, sizeof *points);
    if (!points)
        return -ENOMEM;
    at = 0; /* series may have come since; they wait for the next time */
    while (n < max && next_series(&at, &producer, &layout, &value)) {
        struct attr *attrs = arena_calloc(arena, 2, sizeof *attrs);
        if (!attrs)
            return -ENOMEM;
        attrs[0] =
            (struct attr){BYTES_LIT("layout"), {.kind = ATTR_STRING, .text = bytes_str(layouts[layout])}};
        attrs[1] =
            (struct attr){BYTES_LIT("producer"), {.kind = ATTR_STRING, .text = producers_name(producer)}};
        points[n++] = (struct metric_point){.start_unix_nano = start_unix_nano,
                                            .time_unix_nano = now_unix_nano,
                                            .integer = (int64_t)value,
                                            .attrs = attrs,
                                            .n_attrs = 2};
    }
    *ret = points;
    *ret_n = n;
    return 0;
}
