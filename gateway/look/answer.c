/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/answer.h"

#include "gateway/look/judge.h"
#include "gateway/look/parts.h"
#include "proto/base/clock.h"
#include "proto/base/macros.h"

#define JSON "application/json"

int look_by_rank(const void *a, const void *b)
{
    const struct look_ranked *x = a, *y = b;
    return order_of(y->value, x->value) ?: order_of(x->group, y->group);
}

/* ---- what answers have in common ----------------------------------------------------------- */

void look_put_window(struct json *j, const struct look_found *found)
{
    json_key(j, "window"), json_open(j, '{');
    json_key(j, "from"), json_u64(j, found->from_ns / NSEC_PER_MSEC);
    json_key(j, "to"), json_u64(j, found->to_ns / NSEC_PER_MSEC);
    json_key(j, "level"), json_string(j, bytes_str(found->level == LOOK_FINE ? "fine" : "coarse"));
    json_close(j, '}');
}

void look_put_type(struct json *j, const struct look_question *q, struct bytes unit)
{
    json_key(j, "type"), json_string(j, q->select[0].type);
    json_key(j, "unit"), json_string(j, unit);
}

/* Samples are counted by section, not by stack: of a tree that leaves some out they are its share by value.
 */
static uint64_t samples_of(uint64_t samples, uint64_t part, uint64_t whole)
{
    if (part >= whole || samples == 0)
        return samples;
    const double n = (double)samples * ((double)part / (double)whole);
    return part > 0 ? max_of((uint64_t)(n + 0.5), (uint64_t)1) : 0;
}

void look_put_counts(struct json *j, const struct look_found *found, const struct look_tree *t, uint32_t side)
{
    const uint64_t seen = look_samples(found->seen), part = t->total[side].p[LOOK_ROOT];
    json_key(j, "seen"), json_u64(j, samples_of(seen, part, found->total));
    json_key(j, "kept"), json_u64(j, samples_of(found->kept, part, found->total));
    json_key(j, "p"), json_double(j, seen > found->kept ? (double)found->kept / (double)seen : 1);
    json_key(j, "not_kept"), json_u64(j, t->self[side].p[LOOK_NODE_NOT_KEPT]);
}

int look_tree_of(const struct look_asked *asked, uint32_t most, struct look_tree *ret,
                 struct look_found found[LOOK_SIDES])
{
    const struct look_question *q = asked->question;
    const bool leaves_out = q->filter.p || q->under || q->metric.p;
    int r = look_tree_init(ret, asked->budget, q->detail, leaves_out ? LOOK_ALL_NODES : most);
    const uint32_t n = q->endpoint == LOOK_DIFF ? 2 : 1;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = look_tree_gather(ret, i, asked->store, &q->select[i], asked->deadline_ns, &found[i]);
    if (r == 0)
        r = look_tree_grow(ret);
    if (r == 0 && q->filter.p)
        r = look_tree_filter(ret, q->filter, false);
    if (r == 0 && q->function.p && q->endpoint == LOOK_RULES)
        r = look_tree_filter(ret, q->function, true);
    if (r == 0 && q->under)
        r = look_tree_under(ret, q->under, q->n_under);
    for (uint32_t i = 0; i < n && r == 0 && q->metric.p; i++)
        r = look_tree_metric(ret, i, asked);
    return r == 0 ? look_tree_sum(ret) : r;
}

/* ---- status -------------------------------------------------------------------------------- */

static int write_status(const struct look_asked *asked, struct json *j)
{
    const struct look_store *s = asked->store;
    uint64_t nodes = 0, frames = 0, strings = 0, series = 0, slices = 0, oldest = UINT64_MAX, newest = 0;
    for (uint32_t i = 0; i < s->n_epochs; i++) {
        const struct look_epoch *e = s->epochs[i];
        nodes += e->dict.nodes.n;
        frames += e->dict.frames.n;
        strings += e->dict.strings.n;
        series += e->series.n;
        slices += e->slices.n + e->open.n;
        oldest = min_of(oldest, (uint64_t)e->oldest);
        newest = e->oldest <= e->newest ? max_of(newest, e->newest + 1ull) : newest;
    }
    uint64_t files = 0, disk = 0;
    for (uint32_t i = 0; s->shelf && i < look_shelf_n(s->shelf); i++, files++) {
        const struct look_shelved *file = look_shelf_at(s->shelf, i);
        disk += file->bytes;
        oldest = min_of(oldest, (uint64_t)file->oldest);
        newest = file->oldest <= file->newest ? max_of(newest, file->newest + 1ull) : newest;
    }
    const uint64_t ms = LOOK_SLICE_NS / NSEC_PER_MSEC;
    const struct {
        const char *name;
        uint64_t value;
    } numbers[] = {{"memory", s->options.memory},
                   {"bytes", s->budget.used},
                   {"nodes", nodes},
                   {"frames", frames},
                   {"strings", strings},
                   {"series", series},
                   {"slices", slices},
                   {"epochs", s->n_epochs},
                   {"oldest", newest > 0 ? oldest * ms : 0},
                   {"newest", newest * ms},
                   {"seen", s->counts.seen},
                   {"kept", s->counts.kept},
                   {"not_kept", s->counts.not_kept},
                   {"late", s->counts.late},
                   {"lost", s->counts.lost},
                   {"files", files},
                   {"file_bytes", disk},
                   {"samples_per_second", s->options.samples_per_second}};
    json_open(j, '{');
    for (uint32_t i = 0; i < ARRAY_LEN(numbers); i++)
        json_key(j, numbers[i].name), json_u64(j, numbers[i].value);
    json_close(j, '}');
    return j->r;
}

/* ---- the answer ---------------------------------------------------------------------------- */

int look_answer_error(struct look_answer *ret, uint32_t status, const char *words)
{
    ret->status = status;
    ret->type = JSON;
    ret->is_gzip = false;
    ret->body.n = 0;
    struct json j = JSON_INIT(&ret->body);
    json_open(&j, '{');
    json_key(&j, "error"), json_string(&j, bytes_str(words));
    json_close(&j, '}');
    return j.r < 0 ? j.r : buffer_add_str(&ret->body, "\n");
}

static int write_selection(const struct look_asked *asked, struct json *j)
{
    static const struct {
        int (*write)(const struct look_asked *asked, const struct look_tree *tree,
                     const struct look_found *found, struct json *j);
        bool needs_all; /* nodes */
    } rows[LOOK_N_ENDPOINTS] = {
        [LOOK_FLAME] = {look_write_flame, false},      [LOOK_DIFF] = {look_write_diff, false},
        [LOOK_SANDWICH] = {look_write_sandwich, true}, [LOOK_TOP] = {look_write_top, true},
        [LOOK_RULES] = {look_write_rules, true},
    };
    const struct look_question *q = asked->question;
    cleanup(look_tree_release) struct look_tree tree;
    struct look_found found[LOOK_SIDES] = {0};
    int r = look_tree_of(asked, rows[q->endpoint].needs_all ? LOOK_ALL_NODES : q->nodes, &tree, found);
    if (r != 0)
        return r;
    json_open(j, '{');
    if (q->endpoint != LOOK_DIFF) {
        look_put_window(j, &found[0]);
        look_put_type(j, q, found[0].unit);
        look_put_counts(j, &found[0], &tree, 0);
    }
    r = rows[q->endpoint].write(asked, &tree, found, j);
    json_close(j, '}');
    return r;
}

static int write_json(const struct look_asked *asked, struct buffer *out)
{
    static int (*const write[LOOK_N_ENDPOINTS])(const struct look_asked *asked, struct json *j) = {
        [LOOK_TYPES] = look_write_lists,       [LOOK_SERVICES] = look_write_lists,
        [LOOK_LABELS] = look_write_labels,     [LOOK_SERIES] = look_write_series,
        [LOOK_EXAMPLES] = look_write_examples, [LOOK_STATUS] = write_status,
    };
    struct json j = JSON_INIT(out);
    int (*const whole)(const struct look_asked *asked, struct json *j) = write[asked->question->endpoint];
    int r = whole ? whole(asked, &j) : write_selection(asked, &j);
    r = r != 0 ? r : j.r;
    return r != 0 ? r : buffer_add_str(out, "\n");
}

static int write_answer(const struct look_asked *asked, struct look_answer *ret)
{
    ret->status = 200;
    switch (asked->question->endpoint) {
    case LOOK_PPROF:
        ret->type = "application/octet-stream";
        ret->is_gzip = true;
        return look_write_pprof(asked, &ret->body);
    case LOOK_FOLDED: ret->type = "text/plain; charset=utf-8"; return look_write_folded(asked, &ret->body);
    default: ret->type = JSON; return write_json(asked, &ret->body);
    }
}

int look_answer(struct look_store *s, enum look_endpoint endpoint, struct bytes query, uint64_t now_ns,
                uint64_t deadline_ns, struct look_answer *ret)
{
    *ret = (struct look_answer){.body = BUFFER_INIT(LOOK_ANSWER_MAX)};
    struct budget budget = BUDGET_INIT(LOOK_QUESTION_BYTES, s->budget.parent);
    struct look_question q;
    struct error e;
    int r = look_question_read(&q, endpoint, query, now_ns, &e);
    if (r == LOOK_WRONG) {
        r = look_answer_error(ret, 400, e.text);
    } else if (r == 0) {
        const struct look_asked asked = {s, &q, deadline_ns, &budget};
        r = write_answer(&asked, ret);
        if (r == LOOK_NO_RULES)
            r = look_answer_error(ret, 400, "there are no rules to ask");
        else if (r == LOOK_NO_METRIC)
            r = look_answer_error(ret, 400, "metric: the rules have none of this name, or it is off");
        else if (r == LOOK_TOO_LONG)
            r = look_answer_error(ret, 504, "it takes too long; ask for less time or one service");
        else if (r < 0 && buffer_is_short_of(&ret->body, LOOK_ANSWER_ROOM))
            r = look_answer_error(ret, 400,
                                  "the answer is larger than 16 MiB; ask for fewer nodes, or less time");
    }
    look_question_release(&q);
    return r < 0 ? look_answer_error(ret, 503,
                                     "no memory, or a file cannot be read; ask for less time or one service")
                 : r;
}
