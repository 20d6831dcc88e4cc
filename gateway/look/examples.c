/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks with the traces that they were seen in, the newest first. */
#include <stdlib.h>

#include "gateway/look/parts.h"
#include "proto/base/clock.h"
#include "proto/otlp/json/text.h"

struct chosen {
    struct look_epoch *epoch;
    const struct look_example *example;
};

struct choosing {
    const struct look_question *question;
    VEC(struct chosen) chosen;
};

static struct bytes name_of(const struct look_dict *d, uint32_t node)
{
    return intern_get(&d->strings, d->frames.p[d->nodes.p[node].frame].name);
}

/* The stack's nodes, leaf first. How many. */
static uint32_t path_of(const struct look_dict *d, uint32_t node, uint32_t path[LOOK_STACK_MAX])
{
    uint32_t n = 0;
    for (; node != LOOK_ROOT && n < LOOK_STACK_MAX; node = d->nodes.p[node].parent)
        path[n++] = node;
    return n;
}

static bool is_asked_for(const struct look_question *q, const struct look_dict *d, uint32_t node)
{
    uint32_t path[LOOK_STACK_MAX];
    const uint32_t n = path_of(d, node, path);
    bool has = !q->filter.p;
    if (q->n_under > n)
        return false;
    for (uint32_t i = 0; i < q->n_under; i++)
        if (!bytes_eq(q->under[i], name_of(d, path[n - 1 - i])))
            return false;
    for (uint32_t i = 0; i < n && !has; i++) {
        const struct bytes name = name_of(d, path[i]);
        has = q->filter.n <= name.n && memmem(name.p, name.n, q->filter.p, q->filter.n);
    }
    return has;
}

static int choose(void *context, struct look_epoch *e, const struct look_example *x)
{
    struct choosing *c = context;
    if (!is_asked_for(c->question, &e->dict, x->node))
        return 0;
    return vec_append(&c->chosen, (struct chosen){e, x});
}

static int newest_first(const void *a, const void *b)
{
    const uint32_t x = ((const struct chosen *)a)->example->at, y = ((const struct chosen *)b)->example->at;
    return (x < y) - (x > y);
}

static void put_example(struct json *j, const struct chosen *c)
{
    static const uint8_t no_span[8];
    const struct look_epoch *e = c->epoch;
    const struct look_example *x = c->example;
    uint32_t path[LOOK_STACK_MAX], n = path_of(&e->dict, x->node, path);
    json_open(j, '{');
    json_key(j, "at"), json_u64(j, x->at * (LOOK_SLICE_NS / NSEC_PER_MSEC));
    json_key(j, "trace_id"), json_put_hex(j, bytes_of(x->trace, sizeof x->trace));
    if (memcmp(x->span, no_span, sizeof no_span) != 0)
        json_key(j, "span_id"), json_put_hex(j, bytes_of(x->span, sizeof x->span));
    json_key(j, "value"), json_u64(j, x->value);
    json_key(j, "labels"), json_open(j, '{');
    for (uint32_t i = 0; i < LOOK_N_LABELS; i++) {
        const uint32_t value = e->series.p[x->series].label[i];
        if (value != LOOK_EMPTY)
            json_key(j, look_labels[i].name), json_string(j, intern_get(&e->dict.strings, value));
    }
    json_close(j, '}');
    json_key(j, "stack"), json_open(j, '[');
    while (n-- > 0)
        json_string(j, name_of(&e->dict, path[n]));
    json_close(j, ']');
    json_close(j, '}');
}

int look_write_examples(const struct look_asked *asked, struct json *j)
{
    const struct look_question *q = asked->question;
    struct choosing c = {.question = q, .chosen.budget = asked->budget};
    struct look_found found;
    const struct look_visit visit = {
        .select = &q->select[0], .example = choose, .context = &c, .budget = asked->budget};
    int r = look_visit(asked->store, &visit, &found);
    if (r == 0 && c.chosen.n > 1)
        qsort(c.chosen.p, c.chosen.n, sizeof *c.chosen.p, newest_first);
    if (r == 0) {
        json_open(j, '[');
        for (uint32_t i = 0; i < min_of(q->limit, c.chosen.n); i++)
            put_example(j, &c.chosen.p[i]);
        json_close(j, ']');
    }
    vec_release(&c.chosen);
    return r;
}
