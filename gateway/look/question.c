/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/look/question.h"

#include <errno.h>

#include "proto/base/clock.h"
#include "proto/base/quantity.h"
#include "proto/http/query.h"

#define LAST_NS        (15 * 60ull * NSEC_PER_SEC)
#define TOP_DEFAULT    100u
#define TOP_MAX        1000u
#define STEP_MAX_NS    (1000000000ull * NSEC_PER_SEC)
#define GROUPS_DEFAULT 10u
#define GROUPS_MAX     20u

static int wrong(struct error *e, struct bytes name, const char *what)
{
    return error_set(e, LOOK_WRONG, "%.*s: %s", BYTES_FMT(name), what);
}

static int number(struct bytes value, uint32_t most, uint32_t *ret)
{
    uint64_t n;
    if (quantity_u64(value, &n) < 0 || n == 0 || n > most)
        return LOOK_WRONG;
    *ret = (uint32_t)n;
    return 0;
}

/* Of a selection: where `name` is without a., b.; of both where it has none. */
static int put_select(struct look_question *q, struct bytes name, struct bytes value, bool sides[2],
                      struct error *e)
{
    int r = 0;
    for (uint32_t i = 0; i < 2 && r == 0; i++) {
        struct look_select *s = &q->select[i];
        if (!sides[i])
            continue;
        if (bytes_is(name, "from") || bytes_is(name, "to")) {
            r = look_moment(value, q->now_ns, bytes_is(name, "to") ? &s->to_ns : &s->from_ns);
            if (r != 0)
                return wrong(e, name, "milliseconds since 1970, RFC 3339, now or now-15m");
        } else if (bytes_is(name, "type")) {
            s->type = value;
        } else {
            look_select_release(s);
            r = look_select_parse(s, value, &q->arena, e);
        }
    }
    return r;
}

static bool is_of_select(struct bytes name)
{
    return bytes_is(name, "from") || bytes_is(name, "to") || bytes_is(name, "type") ||
           bytes_is(name, "query");
}

static int put_group(struct look_question *q, struct bytes name, struct bytes value, struct error *e)
{
    q->group = look_label_of(value);
    if (q->group == LOOK_NO_LABEL && !bytes_is(value, "runtime"))
        return wrong(e, name, "runtime, service, host, container, thread or a label's name");
    return 0;
}

static int put_step(struct look_question *q, struct bytes name, struct bytes value, struct error *e)
{
    uint64_t ms;
    if (quantity_u64(value, &ms) == 0 && ms <= STEP_MAX_NS / NSEC_PER_MSEC)
        q->step_ns = ms * NSEC_PER_MSEC;
    else if (quantity_duration(value, &q->step_ns) < 0)
        q->step_ns = 0;
    const bool is_step = q->step_ns > 0 && q->step_ns <= STEP_MAX_NS;
    return is_step ? 0 : wrong(e, name, "milliseconds, or a duration as 30s, of 1000000000s at most");
}

static int put_by(struct look_question *q, struct bytes name, struct bytes value, struct error *e)
{
    static const char *const words[] = {
        [LOOK_BY_FUNCTION] = "function", [LOOK_BY_LIBRARY] = "library", [LOOK_BY_FILE] = "file"};
    for (uint32_t i = 0; i < ARRAY_LEN(words); i++) {
        if (bytes_is(value, words[i])) {
            q->by = (enum look_by)i;
            return 0;
        }
    }
    return wrong(e, name, "function, library or file");
}

static int put_trace(struct look_question *q, struct bytes name, struct bytes value, struct error *e)
{
    for (uint32_t i = 0; i < sizeof q->trace; i++) {
        const int high = value.n == 32 ? bytes_hex_value(value.p[2 * i]) : -1;
        const int low = high < 0 ? -1 : bytes_hex_value(value.p[2 * i + 1]);
        if (low < 0)
            return wrong(e, name, "32 hexadecimal digits");
        q->trace[i] = (uint8_t)(high << 4 | low);
    }
    for (uint32_t i = 0; i < 2; i++)
        q->select[i].trace = bytes_of(q->trace, sizeof q->trace);
    return 0;
}

/* Parameters of one endpoint or another; what is not known is passed over, since tools add their own. */
static int put(struct look_question *q, struct bytes name, struct bytes value, struct error *e)
{
    if (bytes_is(name, "nodes"))
        return number(value, LOOK_NODES_MAX, &q->nodes) == 0 ? 0 : wrong(e, name, "1 to 65536");
    if (bytes_is(name, "limit")) {
        const uint32_t most = q->endpoint == LOOK_SERIES ? GROUPS_MAX : TOP_MAX;
        return number(value, most, &q->limit) == 0
                   ? 0
                   : wrong(e, name, most == TOP_MAX ? "1 to 1000" : "1 to 20");
    }
    if (bytes_is(name, "group"))
        return put_group(q, name, value, e);
    if (bytes_is(name, "step"))
        return put_step(q, name, value, e);
    if (bytes_is(name, "by"))
        return put_by(q, name, value, e);
    if (bytes_is(name, "root"))
        return vec_append(&q->root, value);
    if (bytes_is(name, "trace_id"))
        return put_trace(q, name, value, e);
    if (bytes_starts(name, "metric."))
        return vec_append(&q->metric_labels, (struct look_metric_label){bytes_from(name, 7), value});
    if (bytes_is(name, "lines")) {
        const bool has_lines = bytes_is(value, "1") || bytes_is(value, "true");
        q->detail = has_lines ? LOOK_LINES : LOOK_FUNCTIONS;
        return has_lines || bytes_is(value, "0") || bytes_is(value, "false") ? 0 : wrong(e, name, "0 or 1");
    }
    if (bytes_is(name, "sort")) {
        q->by_total = bytes_is(value, "total");
        return q->by_total || bytes_is(value, "self") ? 0 : wrong(e, name, "self or total");
    }
    if (bytes_is(name, "filter"))
        q->filter = value;
    else if (bytes_is(name, "metric"))
        q->metric = value;
    else if (bytes_is(name, "function"))
        q->function = value;
    else if (bytes_is(name, "name")) {
        q->name = look_label_of(value);
        q->names_unknown = q->name == LOOK_NO_LABEL;
    }
    return 0;
}

static int decode(struct look_question *q, struct bytes encoded, struct bytes *ret)
{
    uint8_t *out = arena_alloc(&q->arena, encoded.n + 1);
    if (!out)
        return -ENOMEM;
    return query_decode_form(encoded, out, encoded.n, ret) < 0 ? LOOK_WRONG : 0;
}

/* Those of both sides first, so that what one side says for itself stands. */
static int put_all(struct look_question *q, struct bytes query, bool of_one_side, struct error *e)
{
    struct bytes name, value;
    int r = 0;
    while (r == 0 && query_next(&query, &name, &value)) {
        r = decode(q, name, &name);
        r = r == 0 ? decode(q, value, &value) : r;
        if (r == LOOK_WRONG)
            return error_set(e, r, "the query is not percent-encoded");
        const bool a = bytes_starts(name, "a."), b = bytes_starts(name, "b.");
        if (r != 0 || of_one_side != (a || b))
            continue;
        if (a || b)
            name = bytes_from(name, 2);
        bool sides[2] = {!b, !a};
        if (is_of_select(name))
            r = put_select(q, name, value, sides, e);
        else if (!of_one_side)
            r = put(q, name, value, e);
    }
    return r;
}

int look_question_read(struct look_question *q, enum look_endpoint endpoint, struct bytes query,
                       uint64_t now_ns, struct error *e)
{
    *q = (struct look_question){
        .endpoint = endpoint,
        .now_ns = now_ns,
        .nodes = LOOK_NODES_DEFAULT,
        .limit = endpoint == LOOK_SERIES ? GROUPS_DEFAULT : TOP_DEFAULT,
        .detail = LOOK_FUNCTIONS,
        .group = LOOK_NO_LABEL,
        .name = LOOK_NO_LABEL,
    };
    for (uint32_t i = 0; i < 2; i++)
        q->select[i] = (struct look_select){
            .from_ns = now_ns - min_of(now_ns, LAST_NS), .to_ns = now_ns, .type = BYTES_LIT(LOOK_CPU_TYPE)};
    error_clear(e);
    int r = put_all(q, query, false, e);
    if (r == 0)
        r = put_all(q, query, true, e);
    q->under = q->root.n > 0 ? q->root.p : NULL;
    q->n_under = q->root.n;
    for (uint32_t i = 0; i < 2 && r == 0; i++)
        if (q->select[i].from_ns > q->select[i].to_ns)
            r = error_set(e, LOOK_WRONG, "from: it is behind `to`");
    if (r == 0 && endpoint == LOOK_SANDWICH && !q->function.p)
        r = error_set(e, LOOK_WRONG, "function: the whole name of one belongs there");
    if (r == 0 && q->metric_labels.n > 0 && !q->metric.p)
        r = error_set(e, LOOK_WRONG, "metric.%.*s: without metric= it is a label of none",
                      BYTES_FMT(q->metric_labels.p[0].name));
    if (endpoint == LOOK_TYPES)
        q->select[0].type = (struct bytes){0};
    return r;
}

void look_question_release(struct look_question *q)
{
    look_select_release(&q->select[0]);
    look_select_release(&q->select[1]);
    vec_release(&q->root);
    vec_release(&q->metric_labels);
    arena_release(&q->arena);
}
