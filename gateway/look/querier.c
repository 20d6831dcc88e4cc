/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A call is read by the table of its message (querier_messages.c): which field it is says its name, since the
 * messages have the same ones under other numbers. JSON becomes the message first, and the answer JSON last.
 */
#include "gateway/look/querier.h"

#include <errno.h>
#include <math.h>

#include "gateway/look/flamegraph.h"
#include "gateway/look/label_sets.h"
#include "gateway/look/parts.h"
#include "gateway/look/querier_messages.h"
#include "proto/base/clock.h"
#include "proto/grpc/status.h"
#include "proto/wire/reader.h"

/* Points of a series; Prometheus gives as many. */
#define POINTS_MAX 11000u

#define CALL_SITE_MAX 64u

/* A condition beside LOOK_WRONG and LOOK_TOO_LONG: the answer is. */
enum { TOO_LARGE = 3 };

/* As message. */
enum { FORMAT_UNSPECIFIED, FORMAT_FLAMEGRAPH, FORMAT_TREE, FORMAT_DOT, FORMAT_PPROF };

/* What is wrong, if something is; `code` is 0 otherwise. */
struct wrong {
    enum grpc_code code;
    struct error why;
};

#define WRONG(w, code_, ...) ((w)->code = GRPC_##code_, error_set(&(w)->why, LOOK_WRONG, __VA_ARGS__))

struct call {
    enum look_method method;
    struct look_question question;
    int64_t start, end, max_nodes, limit, format;
    double step;
    struct bytes name;
    struct look_label_names_of labels;
    struct bytes call_site[CALL_SITE_MAX];
    uint32_t n_call_site;
    struct wrong wrong;
};

/* ---- reading ------------------------------------------------------------------------------- */

static int read_matchers(struct call *c, uint32_t side, struct bytes text)
{
    struct look_select *s = &c->question.select[side];
    if (s->n > 0)
        return WRONG(&c->wrong, UNIMPLEMENTED, "one selector is taken, several are not");
    int r = look_select_parse(s, text, &c->question.arena, &c->wrong.why);
    if (r == LOOK_WRONG)
        c->wrong.code = GRPC_INVALID_ARGUMENT;
    return r;
}

/* The functions that stacks have to begin with. */
static int read_call_site(struct call *c, struct bytes selector)
{
    struct wire_reader sites = wire_reader(selector);
    struct wire_field site, name;
    int r;
    while ((r = wire_next(&sites, &site)) == 0) {
        if (site.number != 1 || site.type != WIRE_LEN)
            return WRONG(&c->wrong, UNIMPLEMENTED, "of a stack_trace_selector call_site is taken only");
        if (c->n_call_site == CALL_SITE_MAX)
            return WRONG(&c->wrong, INVALID_ARGUMENT, "call_site: at most %u functions", CALL_SITE_MAX);
        struct wire_reader location = wire_reader(site.bytes);
        struct bytes *function = &c->call_site[c->n_call_site++];
        while (wire_next(&location, &name) == 0)
            if (name.number == 1 && name.type == WIRE_LEN)
                *function = name.bytes;
    }
    c->question.under = c->n_call_site > 0 ? c->call_site : NULL;
    c->question.n_under = c->n_call_site;
    return r == WIRE_END ? 0 : WRONG(&c->wrong, INVALID_ARGUMENT, "malformed stack_trace_selector");
}

static int read_text(struct call *c, uint32_t side, const char *name, struct bytes text)
{
    if (strcmp(name, "profile_typeID") == 0)
        c->question.select[side].type = text;
    else if (strcmp(name, "label_selector") == 0 || strcmp(name, "matchers") == 0)
        return read_matchers(c, side, text);
    else if (strcmp(name, "name") == 0)
        c->name = text;
    else if (strcmp(name, "label_names") == 0 || strcmp(name, "group_by") == 0)
        look_set_add_label(&c->labels, text);
    else if (strcmp(name, "stack_trace_selector") == 0)
        return read_call_site(c, text);
    else
        return WRONG(&c->wrong, UNIMPLEMENTED,
                     "%s: stacks are kept by service, host, container and thread only", name);
    return 0;
}

static void read_number(struct call *c, const char *name, uint64_t value)
{
    const struct {
        const char *name;
        int64_t *number;
    } numbers[] = {{"start", &c->start}, {"end", &c->end},       {"max_nodes", &c->max_nodes},
                   {"limit", &c->limit}, {"format", &c->format}, {"aggregation", &c->format}};
    for (size_t i = 0; i < ARRAY_LEN(numbers); i++)
        if (strcmp(name, numbers[i].name) == 0)
            *numbers[i].number = (int64_t)value;
}

static const struct mapping_field *field_of(const struct mapping_message *m, uint32_t number)
{
    for (uint32_t i = 0; i < m->n; i++)
        if (m->fields[i].number == number)
            return &m->fields[i];
    return NULL;
}

static int read_message(struct call *c, uint32_t side, const struct mapping_message *m, struct bytes message)
{
    struct wire_reader reader = wire_reader(message);
    struct wire_field f;
    int r = 0;
    while (r == 0 && (r = wire_next(&reader, &f)) == 0) {
        const struct mapping_field *field = field_of(m, f.number);
        if (!field)
            continue;
        if (f.type == WIRE_LEN)
            r = read_text(c, side, field->name, f.bytes);
        else if (f.type == WIRE_I64)
            memcpy(&c->step, &f.value, sizeof c->step);
        else
            read_number(c, field->name, f.value);
    }
    return r == WIRE_END && !c->wrong.code ? 0
           : c->wrong.code || r < 0
               ? r
               : WRONG(&c->wrong, INVALID_ARGUMENT, "the body is no message of that method");
}

/* Milliseconds; neither given means everything there is. `before` is how much more is wanted before it. */
static int set_time(struct call *c, uint32_t side, uint64_t before_ns)
{
    struct look_select *s = &c->question.select[side];
    const int64_t most = INT64_MAX / NSEC_PER_MSEC;
    if (c->start < 0 || c->end < c->start)
        return WRONG(&c->wrong, INVALID_ARGUMENT, "start and end are milliseconds since 1970, start first");
    s->from_ns = (uint64_t)min_of(c->start, most) * NSEC_PER_MSEC;
    s->from_ns -= min_of(s->from_ns, before_ns);
    s->to_ns = c->end == 0 ? c->question.now_ns : (uint64_t)min_of(c->end, most) * NSEC_PER_MSEC;
    return 0;
}

/* A side of a diff is a call of its own, in a field. */
static int read_side(struct call *c, const struct mapping_message *m, uint32_t side, struct bytes message)
{
    struct wire_reader reader = wire_reader(message);
    struct wire_field f;
    int r;
    c->start = c->end = 0;
    while ((r = wire_next(&reader, &f)) == 0)
        if (f.number == m->fields[side].number && f.type == WIRE_LEN &&
            (r = read_message(c, side, m->fields[side].message, f.bytes)) != 0)
            return r;
    return r == WIRE_END ? set_time(c, side, 0)
                         : WRONG(&c->wrong, INVALID_ARGUMENT, "the body is no message of that method");
}

static bool is_of_one_type(enum look_method m)
{
    return m == LOOK_CALL_SELECT_SERIES || m == LOOK_CALL_SELECT_MERGE_STACKTRACES ||
           m == LOOK_CALL_SELECT_MERGE_PROFILE || m == LOOK_CALL_SELECT_MERGE_SPAN_PROFILE ||
           m == LOOK_CALL_DIFF;
}

static int read_call(struct call *c, struct bytes message)
{
    const struct mapping_message *m = look_messages[c->method].call;
    const uint32_t sides = c->method == LOOK_CALL_DIFF ? LOOK_SIDES : 1;
    int r = 0;
    if (c->method == LOOK_CALL_DIFF)
        for (uint32_t side = 0; side < LOOK_SIDES && r == 0; side++)
            r = read_side(c, m, side, message);
    else if ((r = read_message(c, 0, m, message)) == 0)
        r = set_time(c, 0, 0);
    for (uint32_t side = 0; side < sides && r == 0; side++) {
        const struct bytes type = c->question.select[side].type;
        uint32_t colons = 0;
        for (size_t i = 0; i < type.n; i++)
            colons += type.p[i] == ':';
        if (is_of_one_type(c->method) && colons != 4)
            r = WRONG(&c->wrong, INVALID_ARGUMENT,
                      "profile_typeID: name:type:unit:period_type:period_unit, as ProfileTypes has them");
    }
    if (c->max_nodes != 0) /* below 0 is all there are, as far as it goes */
        c->question.nodes = (uint32_t)min_of((uint64_t)c->max_nodes, (uint64_t)LOOK_NODES_MAX);
    return r;
}

/* ---- answering ----------------------------------------------------------------------------- */

static void put_name(void *context, struct bytes text)
{
    wire_put_bytes(context, 1, text);
}

static void put_type(void *context, struct bytes id)
{
    static const uint32_t fields[LOOK_TYPE_PARTS] = {2, 4, 5, 6, 7};
    struct wire_writer *w = context;
    const size_t mark = wire_begin(w, 1);
    wire_put_bytes(w, 1, id);
    for (uint32_t i = 0; i < LOOK_TYPE_PARTS; i++)
        wire_put_bytes_nonempty(w, fields[i], look_type_part(id, i));
    wire_end(w, mark);
}

static int answer_texts(struct call *c, const struct look_asked *asked, struct wire_writer *w)
{
    struct look_question *q = &c->question;
    const bool is_type = bytes_is(c->name, LOOK_TYPE_LABEL);
    q->endpoint = c->method == LOOK_CALL_PROFILE_TYPES || is_type ? LOOK_TYPES : LOOK_LABELS;
    q->name = look_label_of(c->name);
    q->names_unknown = c->method == LOOK_CALL_LABEL_VALUES && q->name == LOOK_NO_LABEL;
    return look_each_text(asked, c->method == LOOK_CALL_PROFILE_TYPES ? put_type : put_name, w);
}

static int answer_series(struct call *c, const struct look_asked *asked, struct wire_writer *w)
{
    if (c->labels.n == 0)
        look_set_add_all(&c->labels);
    return look_put_label_sets(asked, &c->labels, NULL, 2, w);
}

static int answer_select_series(struct call *c, const struct look_asked *asked, struct wire_writer *w)
{
    if (!isfinite(c->step) || c->step < 0.001 || c->step > 1e9)
        return WRONG(&c->wrong, INVALID_ARGUMENT, "step: seconds, 0.001 to 1e9");
    if (c->format != 0)
        return WRONG(&c->wrong, UNIMPLEMENTED, "aggregation: sums are taken only");
    if (c->question.under)
        return WRONG(&c->wrong, UNIMPLEMENTED, "stack_trace_selector: not of series");
    const uint64_t step = (uint64_t)(c->step * NSEC_PER_SEC);
    const struct look_select *s = &c->question.select[0];
    struct look_found kept;
    uint32_t first, last;
    look_range(asked->store, s, false, &kept, &first, &last);
    /* of the points asked for, those for which there is something */
    const uint64_t skipped = (max_of(kept.from_ns, s->from_ns) - s->from_ns) / step;
    const uint64_t from = s->from_ns + skipped * step, to = max_of(min_of(s->to_ns, kept.to_ns + step), from);
    const struct look_steps steps = {.from_ns = from,
                                     .step_ns = step,
                                     .n = (uint32_t)min_of((to - from) / step + 1, POINTS_MAX + 1ull),
                                     .limit = (uint32_t)min_of((uint64_t)c->limit, (uint64_t)UINT32_MAX)};
    if (steps.n > POINTS_MAX)
        return WRONG(&c->wrong, INVALID_ARGUMENT,
                     "step: more than %u points; ask for longer steps, or less time", POINTS_MAX);
    int r = set_time(c, 0, step);
    return r != 0 ? r : look_put_label_sets(asked, &c->labels, &steps, 1, w);
}

/* Appends the profile in `field`, or bare. */
static int put_profile(const struct look_asked *asked, const struct look_tree *tree,
                       const struct look_found *found, struct wire_writer *w, bool is_bare)
{
    const size_t answer = is_bare ? 0 : wire_begin(w, 5), mark = is_bare ? 0 : wire_begin(w, 1);
    int r = w->failed < 0 ? w->failed : look_write_profile(asked, tree, found, w->out);
    if (!is_bare) {
        wire_end(w, mark);
        wire_end(w, answer);
    }
    return r;
}

static int answer_tree(struct call *c, const struct look_asked *asked, struct wire_writer *w)
{
    const bool is_diff = c->method == LOOK_CALL_DIFF, is_bare = c->method == LOOK_CALL_SELECT_MERGE_PROFILE;
    const bool is_profile = !is_diff && (is_bare || c->format == FORMAT_PPROF);
    struct look_tree tree;
    struct look_found found[LOOK_SIDES] = {0};
    if (!is_diff && !is_profile && c->format != FORMAT_UNSPECIFIED && c->format != FORMAT_FLAMEGRAPH)
        return WRONG(&c->wrong, UNIMPLEMENTED, "format: flame graphs and pprof are given only");
    c->question.endpoint = is_diff ? LOOK_DIFF : LOOK_FLAME;
    c->question.detail = is_profile ? LOOK_LINES : LOOK_NAMES; /* as Pyroscope's are */
    int r = look_tree_of(asked, is_profile ? LOOK_ALL_NODES : c->question.nodes, &tree, found);
    if (r == 0 && is_profile) {
        r = put_profile(asked, &tree, &found[0], w, is_bare);
    } else if (r == 0) {
        const size_t mark = wire_begin(w, 1);
        r = look_put_flamegraph(&tree, is_diff ? 2 : 1, c->question.nodes, w);
        wire_end(w, mark);
    }
    look_tree_release(&tree);
    return r;
}

static int answer_stats(const struct look_asked *asked, struct wire_writer *w)
{
    const struct look_select all = {.to_ns = UINT64_MAX};
    struct look_found found;
    uint32_t from, to;
    look_range(asked->store, &all, false, &found, &from, &to);
    wire_put_uint_nonzero(w, 1, from < to);
    if (from < to) {
        wire_put_uint(w, 2, found.from_ns / NSEC_PER_MSEC);
        wire_put_uint(w, 3, found.to_ns / NSEC_PER_MSEC);
    }
    return 0;
}

static int answer(struct call *c, const struct look_asked *asked, struct wire_writer *w)
{
    switch (c->method) {
    case LOOK_CALL_PROFILE_TYPES:
    case LOOK_CALL_LABEL_NAMES:
    case LOOK_CALL_LABEL_VALUES: return answer_texts(c, asked, w);
    case LOOK_CALL_SERIES: return answer_series(c, asked, w);
    case LOOK_CALL_SELECT_SERIES: return answer_select_series(c, asked, w);
    case LOOK_CALL_SELECT_MERGE_STACKTRACES:
    case LOOK_CALL_SELECT_MERGE_PROFILE:
    case LOOK_CALL_DIFF: return answer_tree(c, asked, w);
    case LOOK_CALL_GET_PROFILE_STATS: return answer_stats(asked, w);
    case LOOK_CALL_SELECT_MERGE_SPAN_PROFILE:
        return WRONG(&c->wrong, UNIMPLEMENTED, "stacks are not kept by span");
    default: return WRONG(&c->wrong, UNIMPLEMENTED, "not offered here");
    }
}

/* ---- the whole ----------------------------------------------------------------------------- */

/* connectrpc.com/docs/protocol, "Error Codes". */
static uint32_t status_of(enum grpc_code code)
{
    switch (code) {
    case GRPC_CANCELLED: return 499;
    case GRPC_DEADLINE_EXCEEDED: return 504;
    case GRPC_UNIMPLEMENTED: return 501;
    default: return grpc_code_to_http(code);
    }
}

int look_query_error(struct look_answer *ret, enum grpc_code code, const char *words)
{
    ret->status = status_of(code);
    ret->type = "application/json";
    ret->is_gzip = false;
    ret->body.n = 0;
    return grpc_connect_error(&ret->body, code, bytes_str(words));
}

/* The answer as JSON instead. 0, TOO_LARGE or -ENOMEM. */
static int to_json(const struct mapping_message *m, struct buffer *body)
{
    struct buffer text = BUFFER_INIT(LOOK_ANSWER_MAX);
    struct json j = JSON_INIT(&text);
    int r = mapping_write(m, buffer_bytes(body), &j);
    if (r == 0) {
        buffer_release(body);
        *body = text;
        return 0;
    }
    r = buffer_is_short_of(&text, LOOK_ANSWER_ROOM) ? TOO_LARGE : -ENOMEM;
    buffer_release(&text);
    return r;
}

static int try_query(struct look_store *s, struct call *c, bool is_json, struct bytes body,
                     uint64_t deadline_ns, struct budget *budget, struct look_answer *ret)
{
    const struct look_messages *m = &look_messages[c->method];
    const struct look_asked asked = {s, &c->question, deadline_ns, budget};
    cleanup(buffer_release) struct buffer message = BUFFER_INIT(LOOK_ANSWER_MAX);
    struct wire_writer w = wire_writer(&ret->body);
    int r = is_json ? mapping_read(m->call, body, &message, &c->wrong.why) : 0;
    if (r == MAPPING_MALFORMED)
        c->wrong.code = GRPC_INVALID_ARGUMENT;
    if (r == 0)
        r = read_call(c, is_json ? buffer_bytes(&message) : body);
    r = r == 0 ? answer(c, &asked, &w) : r;
    r = r == 0 ? w.failed : r;
    if (r == 0 && is_json)
        r = to_json(m->answer, &ret->body);
    return r;
}

int look_query(struct look_store *s, enum look_method method, bool is_json, struct bytes body,
               uint64_t now_ns, uint64_t deadline_ns, struct look_answer *ret)
{
    struct budget budget = BUDGET_INIT(LOOK_QUESTION_BYTES, s->budget.parent);
    struct call c = {.method = method};
    *ret = (struct look_answer){.status = 200,
                                .type = is_json ? "application/json" : "application/proto",
                                .body = BUFFER_INIT(LOOK_ANSWER_MAX)};
    c.question = (struct look_question){
        .now_ns = now_ns, .nodes = LOOK_NODES_DEFAULT, .group = LOOK_NO_LABEL, .name = LOOK_NO_LABEL};
    int r = try_query(s, &c, is_json, body, deadline_ns, &budget, ret);
    if (c.wrong.code)
        r = look_query_error(ret, c.wrong.code, c.wrong.why.text);
    else if (r == LOOK_TOO_LONG)
        r = look_query_error(ret, GRPC_DEADLINE_EXCEEDED,
                             "it takes too long; ask for less time or one service");
    else if (r == TOO_LARGE || (r < 0 && buffer_is_short_of(&ret->body, LOOK_ANSWER_ROOM)))
        r = look_query_error(ret, GRPC_RESOURCE_EXHAUSTED,
                             "the answer is larger than 16 MiB; ask for fewer nodes, or less time");
    else if (r < 0)
        r = look_query_error(ret, GRPC_UNAVAILABLE,
                             "no memory, or a file cannot be read; ask for less time or one service");
    look_question_release(&c.question);
    return r;
}
