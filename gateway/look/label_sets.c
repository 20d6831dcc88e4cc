/* SPDX-License-Identifier: Apache-2.0 */
/* A set is a text: the numbers of its labels' values, as 32 bits each, in one table of texts for all epochs.
 */
#include "gateway/look/label_sets.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/macros.h"

struct sets {
    const struct look_label_names_of *names;
    const struct look_steps *steps; /* NULL: no values */
    struct intern values, sets;
    VEC(uint32_t) set_of; /* [series of the epoch] + 1; 0: not asked yet */
    VEC(double) points;   /* [set × n + step] */
    struct look_found found;
};

static void add_label(struct look_label_names_of *names, enum look_label label)
{
    for (uint32_t i = 0; i < names->n; i++)
        if (names->label[i] == label)
            return;
    names->label[names->n++] = label;
}

void look_set_add_label(struct look_label_names_of *names, struct bytes name)
{
    const enum look_label label = look_label_of(name);
    if (label != LOOK_NO_LABEL || bytes_is(name, LOOK_TYPE_LABEL))
        add_label(names, label);
}

void look_set_add_all(struct look_label_names_of *names)
{
    for (uint32_t i = 0; i <= LOOK_NO_LABEL; i++)
        add_label(names, (enum look_label)i);
}

static int begin_epoch(void *context, struct look_epoch *e)
{
    struct sets *s = context;
    vec_clear(&s->set_of);
    return vec_extend(&s->set_of, e->series.n + 1);
}

/* + 1; 0: no memory. */
static uint32_t set_of(struct sets *s, const struct look_epoch *e, uint32_t series)
{
    uint32_t *known = &s->set_of.p[series], values[LOOK_SET_LABELS_MAX];
    if (*known != 0)
        return *known;
    const struct look_series *of = &e->series.p[series];
    for (uint32_t i = 0; i < s->names->n; i++) {
        const enum look_label label = s->names->label[i];
        values[i] = intern_add(&s->values, intern_get(&e->dict.strings,
                                                      label == LOOK_NO_LABEL ? of->type : of->label[label]));
        if (values[i] == INTERN_NONE)
            return 0;
    }
    const uint32_t set = intern_add(&s->sets, bytes_of(values, s->names->n * sizeof *values));
    if (set == INTERN_NONE || (s->steps && ((uint64_t)s->sets.n * s->steps->n > UINT32_MAX ||
                                            vec_extend(&s->points, s->sets.n * s->steps->n) < 0)))
        return 0;
    return *known = set + 1;
}

/* Shares a slice's value out over the steps that it lies in. Whole, as a flame graph of the same time has it:
 * what of the slice lies outside is taken for inside (the newest one ends later than now). */
static void spread(const struct sets *s, double *row, uint64_t at_ns, uint64_t value)
{
    const struct look_steps *steps = s->steps;
    const uint64_t begin = steps->from_ns - min_of(steps->from_ns, steps->step_ns);
    const uint64_t end = begin + steps->n * steps->step_ns;
    const uint64_t first = min_of(max_of(at_ns, begin), end - 1);
    const uint64_t last = max_of(min_of(at_ns + s->found.slice_ns, end), first + 1);
    for (uint64_t from = first; from < last;) {
        const uint64_t step = (from - begin) / steps->step_ns;
        const uint64_t to = min_of(last, begin + (step + 1) * steps->step_ns);
        row[step] += (double)value * (double)(to - from) / (double)(last - first);
        from = to;
    }
}

static int add(void *context, struct look_epoch *e, uint64_t at_ns, const struct look_section *section)
{
    struct sets *s = context;
    const uint32_t set = set_of(s, e, section->series);
    if (set > 0 && s->steps)
        spread(s, &s->points.p[(uint64_t)(set - 1) * s->steps->n], at_ns, section->total);
    return set > 0 ? 0 : -ENOMEM;
}

/* ---- written ------------------------------------------------------------------------------- */

static void put_labels(const struct sets *s, uint32_t set, struct wire_writer *w)
{
    const struct bytes numbers = intern_get(&s->sets, set);
    for (uint32_t i = 0; i < s->names->n; i++) {
        const enum look_label label = s->names->label[i];
        uint32_t number;
        memcpy(&number, numbers.p + i * sizeof number, sizeof number);
        const struct bytes value = intern_get(&s->values, number);
        if (value.n == 0)
            continue;
        const size_t mark = wire_begin(w, 1);
        wire_put_bytes(w, 1, bytes_str(label == LOOK_NO_LABEL ? LOOK_TYPE_LABEL : look_labels[label].name));
        wire_put_bytes(w, 2, value);
        wire_end(w, mark);
    }
}

static void put_points(const struct sets *s, uint32_t set, struct wire_writer *w)
{
    const struct look_steps *steps = s->steps;
    for (uint32_t i = 0; i < steps->n; i++) {
        const double value = s->points.p[(uint64_t)set * steps->n + i];
        if (value == 0)
            continue;
        const size_t mark = wire_begin(w, 2);
        wire_put_double(w, 1, value);
        wire_put_int(w, 2, (int64_t)((steps->from_ns + i * steps->step_ns) / NSEC_PER_MSEC));
        wire_end(w, mark);
    }
}

struct row {
    double value;
    uint32_t set;
};

static int by_value(const void *a, const void *b)
{
    const struct row *x = a, *y = b;
    return order_of(y->value, x->value) ?: order_of(x->set, y->set);
}

static int put_sets(const struct sets *s, uint32_t field, struct budget *budget, struct wire_writer *w)
{
    VEC(struct row) rows = {.budget = budget};
    int r = vec_reserve(&rows, (uint64_t)s->sets.n + 1);
    for (uint32_t i = 0; i < s->sets.n && r == 0; i++) {
        struct row row = {.set = i};
        for (uint32_t k = 0; s->steps && k < s->steps->n; k++)
            row.value += s->points.p[(uint64_t)i * s->steps->n + k];
        if (!s->steps || row.value > 0)
            rows.p[rows.n++] = row;
    }
    if (rows.n > 1)
        qsort(rows.p, rows.n, sizeof *rows.p, by_value);
    const uint32_t shown = s->steps && s->steps->limit > 0 ? min_of(rows.n, s->steps->limit) : rows.n;
    for (uint32_t i = 0; i < shown; i++) {
        const size_t mark = wire_begin(w, field);
        put_labels(s, rows.p[i].set, w);
        if (s->steps)
            put_points(s, rows.p[i].set, w);
        wire_end(w, mark);
    }
    vec_release(&rows);
    return r;
}

int look_put_label_sets(const struct look_asked *asked, const struct look_label_names_of *names,
                        const struct look_steps *steps, uint32_t field, struct wire_writer *w)
{
    bool is_of_services = true;
    for (uint32_t i = 0; i < names->n; i++)
        is_of_services &= names->label[i] == LOOK_SERVICE || names->label[i] == LOOK_NO_LABEL;
    struct sets s = {.names = names,
                     .steps = steps,
                     .values = INTERN_INIT(asked->budget),
                     .sets = INTERN_INIT(asked->budget)};
    s.set_of.budget = s.points.budget = asked->budget;
    const struct look_visit visit = {.select = &asked->question->select[0],
                                     .is_of_services = is_of_services,
                                     .deadline_ns = asked->deadline_ns,
                                     .begin = begin_epoch,
                                     .show = add,
                                     .context = &s,
                                     .budget = asked->budget};
    int r = look_visit(asked->store, &visit, &s.found);
    if (r == 0)
        r = put_sets(&s, field, asked->budget, w);
    intern_release(&s.values);
    intern_release(&s.sets);
    vec_release(&s.set_of);
    vec_release(&s.points);
    return r;
}
