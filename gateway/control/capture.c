/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What lasts is an immutable snapshot with a count of its users. The control loop makes a new one for each
 * change, without what is over, and publishes it under the lock with a new version; a reader compares
 * versions (one atomic load a request) and only when they differ takes the lock to change over. Who lets go
 * of a snapshot last frees it.
 */
#include "gateway/control/capture.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/base/bytes_list.h"
#include "proto/base/clock.h"

/* Immutable once it is shared; the last who lets go frees it. */
struct snapshot {
    atomic_uint users;
    uint32_t n;
    struct item {
        uint32_t id;
        struct capture_rule rule; /* keys, values and their bytes are in `own` */
        struct bytes *own;
    } items[];
};

struct captures {
    pthread_mutex_t lock; /* of `now` */
    struct snapshot *now; /* NULL: nothing is captured */
    atomic_uint version;  /* changes with every change of `now` */
    uint32_t last_id;
};

struct capture_reader {
    struct captures *captures;
    struct snapshot *seen;
    unsigned version;
    uint64_t time;
};

/* ---- snapshots ---- */

static struct snapshot *snapshot_drop(struct snapshot *s)
{
    if (!s || atomic_fetch_sub(&s->users, 1) > 1)
        return NULL;
    for (uint32_t i = 0; i < s->n; i++)
        free(s->items[i].own);
    free(s);
    return NULL;
}

/* Keys, then values, then their bytes, in one piece. */
static int copy_item(const struct capture_rule *rule, uint32_t id, struct item *to)
{
    const size_t texts = bytes_total(rule->keys, rule->n) + bytes_total(rule->values, rule->n);
    struct bytes *own = calloc(1, 2 * rule->n * sizeof *own + texts + 1);
    if (!own)
        return -ENOMEM;
    uint8_t *at = (uint8_t *)(own + 2 * (size_t)rule->n);
    at = bytes_copy_list(own, rule->keys, rule->n, at);
    bytes_copy_list(own + rule->n, rule->values, rule->n, at);
    *to = (struct item){id, *rule, own};
    to->rule.keys = own;
    to->rule.values = own + rule->n;
    return 0;
}

/* A copy of what still lasts, without `but`, with `more` (or NULL). 0, CAPTURES_FULL or
 * -ENOMEM. */
static int snapshot_with(const struct snapshot *from, uint32_t but, const struct capture_rule *more,
                         uint32_t id, struct snapshot **ret)
{
    uint32_t n = from ? from->n : 0;
    uint64_t now = clock_monotonic();
    struct snapshot *s = calloc(1, sizeof *s + (n + 1) * sizeof *s->items);
    if (!s)
        return -ENOMEM;
    s->users = 1;
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        const struct item *item = &from->items[i];
        if (item->id == but || item->rule.until_ns <= now)
            continue;
        r = copy_item(&item->rule, item->id, &s->items[s->n]);
        s->n += r == 0;
    }
    if (r == 0 && more && s->n >= CAPTURES_MAX)
        r = CAPTURES_FULL;
    if (r == 0 && more) {
        r = copy_item(more, id, &s->items[s->n]);
        s->n += r == 0;
    }
    if (r != 0 || s->n == 0)
        s = snapshot_drop(s);
    *ret = s;
    return r;
}

static void publish(struct captures *c, struct snapshot *next)
{
    pthread_mutex_lock(&c->lock);
    struct snapshot *before = c->now;
    c->now = next;
    atomic_fetch_add(&c->version, 1);
    pthread_mutex_unlock(&c->lock);
    snapshot_drop(before);
}

/* ---- the control loop ---- */

struct captures *captures_new(void)
{
    struct captures *c = calloc(1, sizeof *c);
    if (c)
        pthread_mutex_init(&c->lock, NULL);
    return c;
}

struct captures *captures_free(struct captures *c)
{
    if (!c)
        return NULL;
    snapshot_drop(c->now);
    pthread_mutex_destroy(&c->lock);
    free(c);
    return NULL;
}

int captures_begin(struct captures *c, const struct capture_rule *rule, uint32_t *ret_id)
{
    struct snapshot *next;
    if (rule->n > CAPTURE_KEYS_MAX)
        return -E2BIG;
    int r = snapshot_with(c->now, 0, rule, c->last_id + 1, &next);
    if (r != 0)
        return r;
    *ret_id = ++c->last_id;
    publish(c, next);
    return 0;
}

void captures_end(struct captures *c, uint32_t id)
{
    struct snapshot *next;
    bool known = false;
    for (uint32_t i = 0; c->now && i < c->now->n; i++)
        known |= c->now->items[i].id == id;
    /* Without memory for the rest it goes on until its time is over. */
    if (known && snapshot_with(c->now, id, NULL, 0, &next) == 0)
        publish(c, next);
}

int captures_each(const struct captures *c,
                  int (*each)(void *context, uint32_t id, const struct capture_rule *rule), void *context)
{
    uint64_t now = clock_monotonic();
    int r = 0;
    for (uint32_t i = 0; c->now && i < c->now->n && r >= 0; i++) {
        const struct item *item = &c->now->items[i];
        if (item->rule.until_ns > now)
            r = each(context, item->id, &item->rule);
    }
    return r < 0 ? r : 0;
}

/* ---- a worker ---- */

struct capture_reader *capture_reader_new(struct captures *c)
{
    struct capture_reader *r = calloc(1, sizeof *r);
    if (r)
        *r = (struct capture_reader){.captures = c, .version = atomic_load(&c->version) - 1};
    return r;
}

struct capture_reader *capture_reader_free(struct capture_reader *r)
{
    if (r)
        snapshot_drop(r->seen);
    free(r);
    return NULL;
}

bool capture_reader_begin(struct capture_reader *r)
{
    struct captures *c = r->captures;
    if (atomic_load_explicit(&c->version, memory_order_acquire) != r->version) {
        pthread_mutex_lock(&c->lock);
        struct snapshot *before = r->seen;
        r->seen = c->now;
        if (r->seen)
            atomic_fetch_add(&r->seen->users, 1);
        r->version = atomic_load(&c->version);
        pthread_mutex_unlock(&c->lock);
        snapshot_drop(before);
    }
    if (!r->seen)
        return false;
    r->time = clock_monotonic();
    for (uint32_t i = 0; i < r->seen->n; i++)
        if (r->seen->items[i].rule.until_ns > r->time)
            return true;
    return false;
}

struct bytes capture_text(const struct attr_value *value, char space[CAPTURE_TEXT_MAX])
{
    int n = 0;
    switch (value->kind) {
    case ATTR_STRING: return value->text.p ? value->text : bytes_of("", 0);
    case ATTR_BOOL: n = snprintf(space, CAPTURE_TEXT_MAX, "%s", value->boolean ? "true" : "false"); break;
    case ATTR_INT: n = snprintf(space, CAPTURE_TEXT_MAX, "%lld", (long long)value->integer); break;
    case ATTR_DOUBLE: n = snprintf(space, CAPTURE_TEXT_MAX, "%.17g", value->real); break;
    case ATTR_EMPTY:
    case ATTR_BYTES:
    case ATTR_ARRAY:
    case ATTR_KVLIST: return (struct bytes){0};
    }
    return bytes_of(space, (size_t)n);
}

static bool meets(const struct capture_rule *rule, const struct attr *attrs, uint32_t n_attrs)
{
    for (uint32_t i = 0; i < rule->n; i++) {
        char space[CAPTURE_TEXT_MAX];
        struct bytes value = {0};
        for (uint32_t k = 0; k < n_attrs; k++) {
            if (bytes_eq(attrs[k].key, rule->keys[i])) {
                value = capture_text(&attrs[k].value, space);
                break; /* of attributes with one key the first counts, as in the aggregate */
            }
        }
        if (!value.p != !rule->values[i].p || (value.p && !bytes_eq(value, rule->values[i])))
            return false;
    }
    return true;
}

bool capture_wants(const struct capture_reader *r, const struct attr *attrs, uint32_t n_attrs)
{
    for (uint32_t i = 0; r->seen && i < r->seen->n; i++) {
        const struct capture_rule *rule = &r->seen->items[i].rule;
        if (rule->until_ns > r->time && meets(rule, attrs, n_attrs))
            return true;
    }
    return false;
}
