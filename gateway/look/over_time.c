/* SPDX-License-Identifier: Apache-2.0 */
/* A selection over time: the largest groups as rows of steps, the others added up. */
#include <errno.h>
#include <stdlib.h>

#include "gateway/look/parts.h"
#include "proto/base/clock.h"

#define STEPS_DEFAULT 100u
#define STEPS_MAX     2000u

struct over_time {
    const struct look_question *question;
    uint64_t from_ns, step_ns;
    uint32_t n_steps;
    struct intern groups;
    VEC(uint64_t) values;   /* [group × n_steps + step] */
    VEC(uint32_t) group_of; /* [label's string, or frame, of the epoch] + 1; 0: not asked yet */
};

static int begin_epoch(void *context, struct look_epoch *e)
{
    struct over_time *o = context;
    vec_clear(&o->group_of);
    return vec_extend(&o->group_of, max_of(e->dict.strings.n, e->dict.frames.n));
}

/* The row of a group; NULL: no memory. `key` is what of the epoch it is known by. */
static uint64_t *row_of(struct over_time *o, uint32_t key, struct bytes text)
{
    uint32_t *known = &o->group_of.p[key];
    if (*known == 0) {
        const uint32_t group = intern_add(&o->groups, text);
        const uint64_t need = (uint64_t)o->groups.n * o->n_steps;
        if (group == INTERN_NONE || need > UINT32_MAX || vec_extend(&o->values, (uint32_t)need) < 0)
            return NULL;
        *known = group + 1;
    }
    return &o->values.p[(uint64_t)(*known - 1) * o->n_steps];
}

static int add_label(struct over_time *o, struct look_epoch *e, uint32_t step,
                     const struct look_section *section)
{
    const uint32_t string = e->series.p[section->series].label[o->question->group];
    uint64_t *row = row_of(o, string, intern_get(&e->dict.strings, string));
    if (!row)
        return -ENOMEM;
    row[step] = look_add(row[step], section->total);
    return 0;
}

/* What the leaf is. */
static int add_runtimes(struct over_time *o, struct look_epoch *e, uint32_t step,
                        const struct look_section *section)
{
    struct look_section rest = *section;
    uint32_t node = 0;
    uint64_t value;
    while (look_pairs_next(&rest, &node, &value) == 0 && node < e->dict.nodes.n) {
        const uint32_t frame = e->dict.nodes.p[node].frame;
        if (frame == LOOK_NONE)
            continue;
        const struct bytes kind = intern_get(&e->dict.strings, e->dict.frames.p[frame].kind);
        uint64_t *row = row_of(o, frame, kind.n > 0 ? kind : BYTES_LIT("unknown"));
        if (!row)
            return -ENOMEM;
        row[step] = look_add(row[step], value);
    }
    return 0;
}

static int add(void *context, struct look_epoch *e, uint64_t at_ns, const struct look_section *section)
{
    struct over_time *o = context;
    const uint64_t step = at_ns < o->from_ns ? 0 : (at_ns - o->from_ns) / o->step_ns;
    const uint32_t at = (uint32_t)min_of(step, o->n_steps - 1ull);
    return o->question->group == LOOK_NO_LABEL ? add_runtimes(o, e, at, section)
                                               : add_label(o, e, at, section);
}

/* ---- written ------------------------------------------------------------------------------- */

static void put_values(struct json *j, const uint64_t *row, uint32_t n, double unit)
{
    json_open(j, '[');
    for (uint32_t i = 0; i < n; i++)
        json_double(j, (double)row[i] / unit);
    json_close(j, ']');
}

static int put_rows(struct over_time *o, struct budget *budget, double unit, struct json *j)
{
    VEC(struct look_ranked) rows = {.budget = budget};
    VEC(uint64_t) others = {.budget = budget};
    int r = vec_reserve(&rows, (uint64_t)o->groups.n + 1);
    for (uint32_t i = 0; r == 0 && i < o->groups.n; i++) {
        struct look_ranked row = {.group = i};
        for (uint32_t k = 0; k < o->n_steps; k++)
            row.value = look_add(row.value, o->values.p[(uint64_t)i * o->n_steps + k]);
        rows.p[rows.n++] = row;
    }
    const uint32_t shown = min_of(rows.n, o->question->limit);
    if (r == 0 && rows.n > 1)
        qsort(rows.p, rows.n, sizeof *rows.p, look_by_rank);
    if (r == 0 && shown < rows.n)
        r = vec_extend(&others, o->n_steps);
    json_key(j, "series"), json_open(j, '[');
    for (uint32_t i = 0; i < rows.n && r == 0; i++) {
        const uint64_t *row = &o->values.p[(uint64_t)rows.p[i].group * o->n_steps];
        if (i < shown) {
            json_open(j, '{');
            json_key(j, "label"), json_string(j, intern_get(&o->groups, rows.p[i].group));
            json_key(j, "values"), put_values(j, row, o->n_steps, unit);
            json_close(j, '}');
            continue;
        }
        for (uint32_t k = 0; k < o->n_steps; k++)
            others.p[k] = look_add(others.p[k], row[k]);
    }
    json_close(j, ']');
    json_key(j, "other"), put_values(j, others.p, others.n, unit);
    vec_release(&rows);
    vec_release(&others);
    return r;
}

/* A whole number of slices, so many that they are not too many. */
static void choose_step(struct over_time *o, const struct look_found *found)
{
    const uint64_t slice = found->level == LOOK_COARSE ? LOOK_COARSE_SLICES * LOOK_SLICE_NS : LOOK_SLICE_NS;
    const uint64_t length = found->to_ns - found->from_ns;
    uint64_t step = o->question->step_ns > 0 ? o->question->step_ns : length / STEPS_DEFAULT;
    step = max_of(step, length / STEPS_MAX);
    o->step_ns = max_of((step + slice - 1) / slice * slice, slice);
    o->from_ns = found->from_ns;
    o->n_steps = (uint32_t)max_of((length + o->step_ns - 1) / o->step_ns, 1ull);
}

int look_write_series(const struct look_asked *asked, struct json *j)
{
    const struct look_question *q = asked->question;
    const bool is_of_services = q->group == LOOK_NO_LABEL || q->group == LOOK_SERVICE;
    struct over_time o = {.question = q, .groups = INTERN_INIT(asked->budget)};
    o.values.budget = o.group_of.budget = asked->budget;
    const struct look_visit visit = {.select = &q->select[0],
                                     .is_of_services = is_of_services,
                                     .deadline_ns = asked->deadline_ns,
                                     .begin = begin_epoch,
                                     .show = add,
                                     .context = &o,
                                     .budget = asked->budget};
    struct look_found found;
    uint32_t from, to;
    look_range(asked->store, &q->select[0], is_of_services, &found, &from, &to);
    choose_step(&o, &found);
    int r = look_visit(asked->store, &visit, &found);
    if (r == 0) {
        const bool is_cpu = bytes_is(q->select[0].type, LOOK_CPU_TYPE);
        json_open(j, '{');
        json_key(j, "from"), json_u64(j, o.from_ns / NSEC_PER_MSEC);
        json_key(j, "step"), json_u64(j, o.step_ns / NSEC_PER_MSEC);
        json_key(j, "unit"), json_string(j, is_cpu ? BYTES_LIT("cores") : BYTES_LIT("per second"));
        r = put_rows(&o, asked->budget, (double)o.step_ns / (is_cpu ? 1 : NSEC_PER_SEC), j);
        json_close(j, '}');
    }
    intern_release(&o.groups);
    vec_release(&o.values);
    vec_release(&o.group_of);
    return r;
}
