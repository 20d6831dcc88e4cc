/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Labels and what kind of profile a row is of are run-end encoded: a row is compared with the one before only
 * where one of their runs ends. A stack is known by where its list is, a location by its number in the
 * dictionary.
 */
#include "proto/convert/from_parca.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/arrow/column.h"
#include "proto/base/hash.h"
#include "proto/base/intern.h"
#include "proto/base/macros.h"
#include "proto/convert/escape.h"
#include "proto/convert/finish.h"
#include "proto/convert/ids.h"
#include "proto/convert/names.h"
#include "proto/otlp/write/build.h"

/* What the agent calls time off the CPU; what the rules do. */
#define PARCA_OFF_CPU "wallclock"
#define OFF_CPU       "off_cpu"

/* Labels that the agent sets by itself (reporter/parca_reporter.go, reporter/metadata), and service_name, are
 * what they are called in OTLP; those that differ from sample to sample are the samples'. */
static const struct {
    const char *label, *attribute;
    bool is_sample, is_number;
} known_labels[] = {
    {"node", "host.name"},
    {"comm", "process.executable.name"},
    {"service_name", "service.name"},
    {"thread_name", "thread.name", .is_sample = true},
    {"thread_id", "thread.id", .is_sample = true, .is_number = true},
    {"cpu", "cpu.logical_number", .is_sample = true, .is_number = true},
};

enum label_kind { LABEL_OF_RESOURCE, LABEL_OF_SAMPLE, LABEL_IS_NUMBER, LABEL_IS_TRACE, LABEL_IS_SPAN };

/* A column with few different values, in rows that follow each other. */
struct running {
    uint32_t column;
    struct arrow_cursor cursor;
    uint64_t until;       /* what was read holds up to this row */
    enum label_kind kind; /* of a label */
    struct bytes name;    /* likewise, of the attribute */
    uint32_t text;        /* in `texts`, + 1; 0: null */
    uint32_t attribute;   /* of a sample's label, + 1 */
    int64_t number;
};

enum what { PRODUCER, TYPE, UNIT, PERIOD_TYPE, PERIOD_UNIT, PERIOD, WHAT_N };
static const char *const what_names[WHAT_N] = {"producer",    "sample_type", "sample_unit",
                                               "period_type", "period_unit", "period"};

/* Rows that are one profile. */
struct group {
    uint32_t resource, text[PERIOD];
    int64_t period;
    uint32_t first, last; /* samples, + 1 */
    uint32_t next;        /* of the resource, + 1 */
    uint64_t from, to;    /* timestamps */
    bool has_time;
};

struct sample {
    uint32_t group, stack, attrs, link;
    uint32_t next; /* of the group, + 1 */
    uint32_t first, last;
    int64_t sum;
};

struct row {
    int64_t value;
    uint64_t time;
    uint32_t next; /* of the sample, + 1 */
};

/* Columns; 0: there is none. */
struct places {
    uint32_t value, timestamp, stacktrace, location, address, frame_type, file, build_id, lines;
    uint32_t line, column, function, function_of, system_name, filename, start_line;
};

struct from_parca {
    struct budget *budget;
    struct build *build;
    struct arrow_stream stream;
    struct places at;
    struct running labels[ARROW_COLUMNS_MAX], what[WHAT_N];
    uint32_t n_labels;
    uint64_t changes; /* the row at which one of them ends */
    struct intern texts, resources, attr_sets, groups_known, lists;
    VEC(uint32_t) last_group; /* of each resource, + 1 */
    VEC(uint32_t) first_group;
    VEC(struct group) groups;
    VEC(struct sample) samples;
    struct hash_table known;
    VEC(struct row) rows;
    VEC(uint32_t) stacks;    /* of lists */
    VEC(uint32_t) locations; /* of the dictionary's numbers, + 1 */
    VEC(uint32_t) stack;
    VEC(int64_t) values;
    VEC(uint64_t) times;
    struct buffer key, text;
    uint32_t group, attrs, link; /* of the row */
    uint64_t size, max;          /* bytes that what was read will surely take; of the request */
    int failed;                  /* -ENOMEM */
};

static void each_intern(struct from_parca *c, void (*call)(struct intern *))
{
    struct intern *const all[] = {&c->texts, &c->resources, &c->attr_sets, &c->groups_known, &c->lists};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        call(all[i]);
}

struct from_parca *from_parca_new(struct budget *budget)
{
    struct from_parca *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->budget = budget;
    struct intern *const all[] = {&c->texts, &c->resources, &c->attr_sets, &c->groups_known, &c->lists};
    for (size_t i = 0; i < ARRAY_LEN(all); i++)
        all[i]->budget = all[i]->table.budget = all[i]->arena.budget = budget;
    c->last_group.budget = c->first_group.budget = c->groups.budget = c->samples.budget = c->known.budget =
        budget;
    c->rows.budget = c->stacks.budget = c->locations.budget = c->stack.budget = budget;
    c->values.budget = c->times.budget = budget;
    c->text.max = c->key.max = 1u << 20;
    c->build = build_new(budget);
    return c->build ? c : from_parca_free(c);
}

struct from_parca *from_parca_free(struct from_parca *c)
{
    if (!c)
        return NULL;
    build_free(c->build);
    each_intern(c, intern_release);
    vec_release(&c->last_group);
    vec_release(&c->first_group);
    vec_release(&c->groups);
    vec_release(&c->samples);
    hash_table_release(&c->known);
    vec_release(&c->rows);
    vec_release(&c->stacks);
    vec_release(&c->locations);
    vec_release(&c->stack);
    vec_release(&c->values);
    vec_release(&c->times);
    buffer_release(&c->key);
    buffer_release(&c->text);
    free(c);
    return NULL;
}

static void begin(struct from_parca *c, size_t max)
{
    build_begin(c->build);
    each_intern(c, intern_clear);
    vec_clear(&c->last_group);
    vec_clear(&c->first_group);
    vec_clear(&c->groups);
    vec_clear(&c->samples);
    vec_clear(&c->rows);
    hash_table_clear(&c->known);
    c->at = (struct places){0};
    c->n_labels = 0;
    c->size = 0;
    c->max = max ? max : UINT64_MAX;
    c->failed = 0;
}

static int out_of_memory(struct from_parca *c)
{
    return c->failed = -ENOMEM;
}

/* A list's `next` of its last one, if there is one, or its `first` leads to the one added; numbers are + 1.
 */
static void chain(uint32_t *first, uint32_t *last, uint32_t *next, uint32_t added)
{
    *(*last ? next : first) = added;
    *last = added;
}

/* ---- texts ------------------------------------------------------------------------------------ */

/* As it may stand in a request, until the next call. */
static struct bytes utf8_of(struct from_parca *c, struct bytes text)
{
    if (bytes_is_utf8(text))
        return text;
    c->text.n = 0;
    if (escape_bytes(text, &c->text) < 0)
        (void)out_of_memory(c);
    return buffer_bytes(&c->text);
}

static uint32_t string_of(struct from_parca *c, struct bytes text)
{
    return build_string(c->build, utf8_of(c, text));
}

/* In `texts`, + 1; 0: null, or no memory, which is remembered. */
static uint32_t text_of(struct from_parca *c, struct bytes text)
{
    if (!text.p)
        return 0;
    const uint32_t id = intern_add(&c->texts, utf8_of(c, text));
    if (id == INTERN_NONE)
        (void)out_of_memory(c);
    return id + 1; /* INTERN_NONE + 1 is 0 */
}

static struct bytes text_at(const struct from_parca *c, uint32_t text)
{
    return text ? intern_get(&c->texts, text - 1) : (struct bytes){0};
}

/* ---- the schema ------------------------------------------------------------------------------- */

static bool is_any(struct bytes name, const char *const *names, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        if (bytes_is(name, names[i]))
            return true;
    return false;
}

/* Names that begin with "__" are Parca's own. */
static void add_label(struct from_parca *c, const struct from_pprof_links *links, uint32_t column)
{
    struct running *l = &c->labels[c->n_labels];
    const struct bytes name = c->stream.columns[column].name;
    if (name.n == 0 || bytes_starts(name, "__") || !bytes_is_utf8(name))
        return;
    *l = (struct running){.column = column, .name = name};
    for (size_t i = 0; i < ARRAY_LEN(known_labels); i++)
        if (bytes_is(name, known_labels[i].label)) {
            l->name = bytes_str(known_labels[i].attribute);
            l->kind = known_labels[i].is_number   ? LABEL_IS_NUMBER
                      : known_labels[i].is_sample ? LABEL_OF_SAMPLE
                                                  : LABEL_OF_RESOURCE;
        }
    if (is_any(name, links->trace, links->n_trace))
        l->kind = LABEL_IS_TRACE;
    else if (is_any(name, links->span, links->n_span))
        l->kind = LABEL_IS_SPAN;
    for (uint32_t i = 0; i < c->n_labels; i++)
        if (bytes_eq(c->labels[i].name, l->name))
            return; /* of two labels that are one attribute the first is it */
    c->n_labels++;
}

/* The column that numbers of this one are of, which may be itself. */
static uint32_t meant(const struct arrow_stream *s, uint32_t column)
{
    return column && s->columns[column].dictionary ? s->columns[column].dictionary : column;
}

static int find_columns(struct from_parca *c, const struct from_pprof_links *links, struct error *e)
{
    const struct arrow_stream *s = &c->stream;
    struct places *at = &c->at;
    const uint32_t labels = arrow_find(s, 0, "labels");
    *at = (struct places){
        .value = arrow_find(s, 0, "value"),
        .timestamp = arrow_find(s, 0, "timestamp"),
        .stacktrace = arrow_find(s, 0, "stacktrace"),
    };
    if (!at->value || !at->stacktrace)
        return error_set(
            e, FROM_PARCA_MALFORMED,
            "there is no column %s: what parca-agent sends with --remote-store-use-v2-schema is taken",
            at->value ? "stacktrace" : "value");
    const uint32_t location = arrow_child(s, at->stacktrace, 0), place = meant(s, location);
    at->location = location;
    at->address = location ? arrow_find(s, place, "address") : 0;
    if (!at->address)
        return error_set(e, FROM_PARCA_MALFORMED,
                         "stacktrace: a list of locations with addresses belongs here");
    at->frame_type = arrow_find(s, place, "frame_type");
    at->file = arrow_find(s, place, "mapping_file");
    at->build_id = arrow_find(s, place, "mapping_build_id");
    at->lines = arrow_find(s, place, "lines");
    const uint32_t line = at->lines ? meant(s, arrow_child(s, at->lines, 0)) : 0;
    if (line) {
        at->line = arrow_find(s, line, "line");
        at->column = arrow_find(s, line, "column");
        at->function = arrow_find(s, line, "function");
    }
    at->function_of = meant(s, at->function);
    if (at->function) {
        at->system_name = arrow_find(s, at->function_of, "system_name");
        at->filename = arrow_find(s, at->function_of, "filename");
        at->start_line = arrow_find(s, at->function_of, "start_line");
    }
    for (uint32_t i = labels ? arrow_child(s, labels, 0) : 0; i; i = arrow_child(s, labels, i))
        add_label(c, links, i);
    return 0;
}

/* ---- stacks ----------------------------------------------------------------------------------- */

static int64_t number_of(const struct from_parca *c, uint32_t column, uint64_t i)
{
    int64_t ret = 0;
    return column && arrow_number(&c->stream.columns[column], i, &ret) ? ret : 0;
}

static struct bytes bytes_at(const struct from_parca *c, uint32_t column, uint64_t i)
{
    return column ? arrow_bytes(&c->stream, column, i) : (struct bytes){0};
}

/* The element that is meant by a column's element i, which may have a dictionary; false: there is none. */
static bool element_of(const struct from_parca *c, uint32_t column, uint64_t i, uint64_t *ret)
{
    const struct arrow_column *of = &c->stream.columns[column];
    int64_t number = (int64_t)i;
    if (of->dictionary && (!arrow_number(of, i, &number) || number < 0))
        return false;
    *ret = (uint64_t)number;
    return *ret < c->stream.columns[meant(&c->stream, column)].n;
}

/* Lines of a location at most; the agent has one. */
#define LINES_MAX 64u

static uint32_t put_lines(struct from_parca *c, uint64_t location, struct build_line lines[LINES_MAX])
{
    uint64_t from, n, function;
    uint32_t ret = 0;
    if (!c->at.lines || !c->at.function || !arrow_list(&c->stream, c->at.lines, location, &from, &n))
        return 0;
    for (uint64_t i = from; i < from + n && ret < LINES_MAX; i++) {
        if (!element_of(c, c->at.function, i, &function))
            continue;
        const struct build_function f = {
            .name = string_of(c, bytes_at(c, c->at.system_name, function)),
            .filename = string_of(c, bytes_at(c, c->at.filename, function)),
            .start_line = max_of(number_of(c, c->at.start_line, function), (int64_t)0),
        };
        if (f.name || f.filename)
            lines[ret++] = (struct build_line){build_function(c->build, &f),
                                               max_of(number_of(c, c->at.line, i), (int64_t)0),
                                               max_of(number_of(c, c->at.column, i), (int64_t)0)};
    }
    return ret;
}

/* The agent sends GNU's build id, or Go's, or, where a file has none, the hash of its pages that OTel calls
 * htlhash; GNU's rarely have its length. */
static const char *build_id_key(struct bytes id)
{
    for (size_t i = 0; i < id.n; i++)
        if (bytes_hex_value(id.p[i]) < 0)
            return "process.executable.build_id.go";
    return id.n == 32 ? "process.executable.build_id.htlhash" : NAME_BUILD_ID;
}

static uint32_t put_mapping(struct from_parca *c, uint64_t location)
{
    const struct bytes id = bytes_at(c, c->at.build_id, location);
    struct build_mapping m = {.filename = string_of(c, bytes_at(c, c->at.file, location))};
    uint32_t attr;
    if (id.n > 0) {
        attr = build_attribute_text(c->build, build_id_key(id), utf8_of(c, id));
        m.attrs = &attr;
        m.n_attrs = 1;
    }
    return m.filename || id.n > 0 ? build_mapping(c->build, &m) : 0;
}

static uint32_t put_location(struct from_parca *c, uint64_t i)
{
    struct build_line lines[LINES_MAX];
    const struct bytes type = bytes_at(c, c->at.frame_type, i);
    uint32_t attr = 0;
    struct build_location l = {.mapping = put_mapping(c, i),
                               .address = (uint64_t)number_of(c, c->at.address, i),
                               .lines = lines,
                               .n_lines = put_lines(c, i, lines)};
    if (type.n > 0) {
        attr = build_attribute_text(c->build, NAME_FRAME_TYPE, utf8_of(c, type));
        l.attrs = &attr;
        l.n_attrs = 1;
    }
    return build_location(c->build, &l);
}

static int put_stack(struct from_parca *c, uint64_t from, uint64_t n, uint32_t *ret, struct error *e)
{
    vec_clear(&c->stack);
    c->size +=
        n; /* a byte for each frame, if not more: what the same locations are told of again and again */
    if (c->size > c->max)
        return FROM_PARCA_TOO_LARGE;
    for (uint64_t i = from; i < from + n; i++) {
        uint64_t element;
        int64_t address; /* there is one in memory for each location, however many there are said to be */
        if (!element_of(c, c->at.location, i, &element) ||
            !arrow_number(&c->stream.columns[c->at.address], element, &address))
            return error_set(e, FROM_PARCA_MALFORMED, "stacktrace: a location that is not there");
        if (element >= UINT32_MAX || vec_extend(&c->locations, (uint32_t)element + 1) < 0)
            return -ENOMEM;
        uint32_t *known = &c->locations.p[element];
        if (*known == 0)
            *known = put_location(c, element) + 1;
        if (vec_append(&c->stack, *known - 1) < 0)
            return -ENOMEM;
    }
    *ret = build_stack(c->build, c->stack.p, c->stack.n);
    return build_size(c->build) > c->max ? FROM_PARCA_TOO_LARGE : 0;
}

static int stack_of(struct from_parca *c, uint64_t row, uint32_t *ret, struct error *e)
{
    uint64_t list[2];
    *ret = 0;
    if (arrow_is_null(&c->stream.columns[c->at.stacktrace], row))
        return 0;
    if (!arrow_list(&c->stream, c->at.stacktrace, row, &list[0], &list[1]))
        return error_set(e, FROM_PARCA_MALFORMED, "stacktrace: a list that is not all there");
    const uint32_t known = c->lists.n, id = intern_add(&c->lists, bytes_of(list, sizeof list));
    if (id == INTERN_NONE || (id == known && vec_append(&c->stacks, 0) < 0))
        return -ENOMEM;
    int r = id == known ? put_stack(c, list[0], list[1], &c->stacks.p[id], e) : 0;
    *ret = c->stacks.p[id];
    return r;
}

/* ---- what runs on ----------------------------------------------------------------------------- */

/* Reads a column's value of a row, which holds up to *until. */
static int turn(struct from_parca *c, struct running *l, uint64_t row, bool is_number, struct error *e)
{
    uint64_t at;
    if (!arrow_seek(&c->stream, &l->cursor, row, &at))
        return error_set(e, FROM_PARCA_MALFORMED, "%.*s: its runs end before the rows do",
                         BYTES_FMT(c->stream.columns[l->column].name));
    l->until = l->cursor.end;
    if (is_number)
        l->number = number_of(c, l->cursor.column, at);
    else
        l->text = text_of(c, bytes_at(c, l->cursor.column, at));
    return 0;
}

static void set_attribute(struct from_parca *c, struct running *l)
{
    const struct bytes text = text_at(c, l->text);
    char digits[24], *end = digits;
    if (l->kind == LABEL_OF_RESOURCE)
        return;
    l->attribute = 0;
    if (text.n == 0)
        return;
    if (l->kind == LABEL_IS_NUMBER && text.n < 19) {
        memcpy(digits, text.p, text.n);
        digits[text.n] = 0;
        l->number = strtoll(digits, &end, 10);
    }
    const struct attr_value value = l->kind == LABEL_IS_NUMBER && end > digits && !*end
                                        ? (struct attr_value){.kind = ATTR_INT, .integer = l->number}
                                        : (struct attr_value){.kind = ATTR_STRING, .text = text};
    l->attribute = build_attribute(c->build, l->name, &value, 0) + 1;
}

static uint32_t resource_of(struct from_parca *c)
{
    c->key.n = 0;
    int r = 0;
    for (uint32_t i = 0; i < c->n_labels && r == 0; i++) {
        const uint32_t pair[] = {i, c->labels[i].text};
        if (c->labels[i].kind == LABEL_OF_RESOURCE && text_at(c, pair[1]).n > 0)
            r = buffer_add(&c->key, pair, sizeof pair);
    }
    const uint32_t known = c->resources.n,
                   id = r < 0 ? INTERN_NONE : intern_add(&c->resources, buffer_bytes(&c->key));
    if (id == INTERN_NONE ||
        (id == known && (vec_append(&c->first_group, 0) < 0 || vec_append(&c->last_group, 0) < 0)))
        (void)out_of_memory(c);
    return c->failed ? 0 : id;
}

static void set_group(struct from_parca *c)
{
    struct group g = {.resource = resource_of(c), .period = c->what[PERIOD].number};
    for (int i = 0; i < PERIOD; i++)
        g.text[i] = c->what[i].text;
    if (c->failed)
        return;
    const uint32_t known = c->groups_known.n;
    c->group = intern_add(&c->groups_known, bytes_of(&g, offsetof(struct group, first)));
    if (c->group == INTERN_NONE || (c->group == known && vec_append(&c->groups, g) < 0)) {
        (void)out_of_memory(c);
        return;
    }
    if (c->group < known)
        return;
    uint32_t *last = &c->last_group.p[g.resource];
    chain(&c->first_group.p[g.resource], last, *last ? &c->groups.p[*last - 1].next : NULL, c->group + 1);
}

/* The labels of a sample: its link, if they name a span, and its attributes. */
static void set_attrs(struct from_parca *c)
{
    const struct running *trace = NULL, *span = NULL;
    uint32_t attrs[ARROW_COLUMNS_MAX], n = 0;
    for (uint32_t i = 0; i < c->n_labels; i++) {
        const struct running *l = &c->labels[i];
        if (!trace && l->kind == LABEL_IS_TRACE && id_is(text_at(c, l->text), TRACE_ID_DIGITS))
            trace = l;
        else if (!span && l->kind == LABEL_IS_SPAN && id_is(text_at(c, l->text), SPAN_ID_DIGITS))
            span = l;
    }
    c->link = 0;
    if (trace && span) {
        uint8_t trace_id[16], span_id[8];
        id_bytes(text_at(c, trace->text), trace_id);
        id_bytes(text_at(c, span->text), span_id);
        c->link = build_link(c->build, trace_id, span_id);
    }
    for (uint32_t i = 0; i < c->n_labels; i++) {
        const struct running *l = &c->labels[i];
        if (l->attribute && !(c->link && (l == trace || l == span)))
            attrs[n++] = l->attribute - 1;
    }
    c->attrs = intern_add(&c->attr_sets, bytes_of(attrs, n * sizeof *attrs));
    if (c->attrs == INTERN_NONE)
        (void)out_of_memory(c);
}

/* A run has ended at this row. */
static int turn_all(struct from_parca *c, uint64_t row, struct error *e)
{
    int r = 0;
    c->changes = UINT64_MAX;
    for (uint32_t i = 0; i < c->n_labels && r == 0; i++) {
        struct running *l = &c->labels[i];
        if (row >= l->until) {
            r = turn(c, l, row, false, e);
            set_attribute(c, l);
        }
        c->changes = min_of(c->changes, l->until);
    }
    for (int i = 0; i < WHAT_N && r == 0; i++) {
        if (row >= c->what[i].until)
            r = turn(c, &c->what[i], row, i == PERIOD, e);
        c->changes = min_of(c->changes, c->what[i].until);
    }
    if (r != 0)
        return r;
    set_group(c);
    set_attrs(c);
    return c->failed;
}

/* ---- rows ------------------------------------------------------------------------------------- */

/* The sample of the row's stack and attributes, + 1; 0: no memory. */
static uint32_t sample_of(struct from_parca *c, uint32_t stack)
{
    struct hash_at at =
        hash_table_at(&c->known, hash_mix(hash_mix(stack, c->attrs), hash_mix(c->group, c->link)));
    for (uint32_t i; (i = hash_table_next(&c->known, &at)) != HASH_NONE;) {
        const struct sample *s = &c->samples.p[i];
        if (s->stack == stack && s->attrs == c->attrs && s->group == c->group && s->link == c->link)
            return i + 1;
    }
    const uint32_t i = c->samples.n;
    const struct sample sample = {.group = c->group, .stack = stack, .attrs = c->attrs, .link = c->link};
    if (vec_append(&c->samples, sample) < 0 || hash_table_add(&c->known, at, i) < 0)
        return 0;
    struct group *g = &c->groups.p[c->group];
    chain(&g->first, &g->last, g->last ? &c->samples.p[g->last - 1].next : NULL, i + 1);
    return i + 1;
}

/* The least that a row takes: a value and a timestamp. */
#define ROW_BYTES 9u

static int add_row(struct from_parca *c, uint32_t stack, int64_t value, uint64_t time, bool has_time,
                   struct error *e)
{
    const uint32_t sample = sample_of(c, stack);
    c->size += ROW_BYTES;
    if (c->size > c->max)
        return FROM_PARCA_TOO_LARGE;
    if (sample == 0)
        return -ENOMEM;
    struct sample *s = &c->samples.p[sample - 1];
    struct group *g = &c->groups.p[c->group];
    if (!has_time)
        return __builtin_add_overflow(s->sum, value, &s->sum)
                   ? error_set(e, FROM_PARCA_MALFORMED, "value: those of one stack are 2^63 and more")
                   : 0;
    g->from = g->has_time ? min_of(g->from, time) : time;
    g->to = g->has_time ? max_of(g->to, time) : time;
    g->has_time = true;
    if (vec_append(&c->rows, (struct row){value, time, 0}) < 0)
        return -ENOMEM;
    chain(&s->first, &s->last, s->last ? &c->rows.p[s->last - 1].next : NULL, c->rows.n);
    return 0;
}

static int read_batch(struct from_parca *c, struct error *e)
{
    const struct arrow_stream *s = &c->stream;
    const struct arrow_column *values = &s->columns[c->at.value];
    for (uint32_t i = 0; i < c->n_labels; i++) {
        c->labels[i].cursor = arrow_cursor(s, c->labels[i].column);
        c->labels[i].until = 0;
    }
    for (int i = 0; i < WHAT_N; i++) {
        const uint32_t column = arrow_find(s, 0, what_names[i]);
        c->what[i] = (struct running){.column = column, .cursor = arrow_cursor(s, column)};
    }
    intern_clear(&c->lists);
    vec_clear(&c->stacks);
    vec_clear(&c->locations);
    c->changes = 0;
    int r = 0;
    for (uint64_t row = 0; row < values->n && r == 0; row++) {
        int64_t value = 0, time = 0;
        uint32_t stack = 0;
        if (!arrow_number(values, row, &value))
            return error_set(e, FROM_PARCA_MALFORMED, "value: a row has none");
        const bool has_time =
            c->at.timestamp && arrow_number(&s->columns[c->at.timestamp], row, &time) && time > 0;
        if (row >= c->changes)
            r = turn_all(c, row, e);
        r = r != 0 ? r : stack_of(c, row, &stack, e);
        r = r != 0 ? r : add_row(c, stack, value, (uint64_t)time, has_time, e);
    }
    return r;
}

/* ---- writing ---------------------------------------------------------------------------------- */

static int put_sample(struct from_parca *c, const struct sample *s)
{
    const struct bytes attrs = intern_get(&c->attr_sets, s->attrs);
    struct build_sample put = {.stack = s->stack,
                               .link = s->link,
                               .attrs = (const void *)attrs.p,
                               .n_attrs = (uint32_t)(attrs.n / sizeof(uint32_t)),
                               .values = &s->sum,
                               .n_values = 1};
    vec_clear(&c->values);
    vec_clear(&c->times);
    for (uint32_t i = s->first; i > 0; i = c->rows.p[i - 1].next)
        if (vec_append(&c->values, c->rows.p[i - 1].value) < 0 ||
            vec_append(&c->times, c->rows.p[i - 1].time) < 0)
            return -ENOMEM;
    if (c->values.n > 0) {
        put.values = c->values.p;
        put.timestamps = c->times.p;
        put.n_values = put.n_timestamps = c->values.n;
    }
    build_sample(c->build, &put);
    return 0;
}

static int put_group(struct from_parca *c, const struct group *g)
{
    const struct bytes type = text_at(c, g->text[TYPE]);
    build_profile(c->build, &(struct build_profile){
                                .type = build_string(
                                    c->build, bytes_is(type, PARCA_OFF_CPU) ? BYTES_LIT(OFF_CPU) : type),
                                .unit = build_string(c->build, text_at(c, g->text[UNIT])),
                                .period_type = build_string(c->build, text_at(c, g->text[PERIOD_TYPE])),
                                .period_unit = build_string(c->build, text_at(c, g->text[PERIOD_UNIT])),
                                .period = g->period,
                                .time_unix_nano = g->from,
                                .duration_nano = g->has_time ? g->to - g->from + 1 : 0,
                            });
    int r = 0;
    for (uint32_t i = g->first; i > 0 && r == 0; i = c->samples.p[i - 1].next)
        r = put_sample(c, &c->samples.p[i - 1]);
    return r;
}

static int put_resource(struct from_parca *c, uint32_t id)
{
    static const struct bytes none = {0};
    struct attr attrs[ARROW_COLUMNS_MAX];
    const struct bytes pairs = intern_get(&c->resources, id);
    uint32_t n = 0, scope = UINT32_MAX;
    for (size_t i = 0; i < pairs.n; i += 2 * sizeof(uint32_t)) {
        uint32_t pair[2];
        memcpy(pair, pairs.p + i, sizeof pair);
        attrs[n++] =
            (struct attr){c->labels[pair[0]].name, {.kind = ATTR_STRING, .text = text_at(c, pair[1])}};
    }
    build_resource(c->build, attrs, n, none);
    int r = 0;
    for (uint32_t i = c->first_group.p[id]; i > 0 && r == 0; i = c->groups.p[i - 1].next) {
        const struct group *g = &c->groups.p[i - 1];
        if (g->text[PRODUCER] != scope)
            build_scope(c->build, text_at(c, g->text[PRODUCER]), none, NULL, 0, none);
        scope = g->text[PRODUCER];
        r = put_group(c, g);
    }
    return r;
}

static int put_all(struct from_parca *c, struct buffer *out)
{
    struct finish finish;
    uint64_t references = 0;
    for (uint32_t i = 0; i < c->samples.n; i++)
        references += intern_get(&c->attr_sets, c->samples.p[i].attrs).n / sizeof(uint32_t);
    const size_t rows = (size_t)c->rows.n * (sizeof(int64_t) + sizeof(uint64_t) + 2);
    int r = finish_begin(&finish, c->build, c->budget, finish_bound(c->samples.n, references) + rows, out);
    for (uint32_t i = 0; i < c->resources.n && r == 0; i++)
        r = put_resource(c, i);
    r = finish_end(&finish, c->build, r);
    return r == FINISH_TOO_LARGE ? FROM_PARCA_TOO_LARGE : r;
}

_Static_assert((int)ARROW_MALFORMED == FROM_PARCA_MALFORMED && (int)ARROW_TOO_LARGE == FROM_PARCA_TOO_LARGE,
               "what arrow_next says is said on");

int from_parca(struct from_parca *c, struct bytes ipc, const struct from_pprof_links *links,
               struct buffer *out, struct error *e)
{
    int r;
    begin(c, out->max);
    arrow_stream_init(&c->stream, ipc, c->max, c->budget);
    while ((r = arrow_next(&c->stream, e)) == 0) {
        if (!c->at.value)
            r = find_columns(c, links ? links : &from_pprof_usual_links, e);
        r = r != 0 ? r : read_batch(c, e);
        if (r != 0)
            break;
    }
    r = r == ARROW_END ? c->failed : r;
    r = r != 0 ? r : put_all(c, out);
    arrow_stream_release(&c->stream);
    return r;
}
