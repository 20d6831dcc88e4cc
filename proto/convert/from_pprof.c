/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The tables first, in their order, so that a place + 1 in pprof is the index in OTLP. Then one pass over the
 * samples puts stacks and attributes into the dictionary and keeps of each sample what a profile needs to say
 * of it: 12 bytes, its attributes and its values. Then the profiles are written from that, one for each type.
 */
#include "proto/convert/from_pprof.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/clock.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/convert/escape.h"
#include "proto/convert/finish.h"
#include "proto/convert/ids.h"
#include "proto/convert/names.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/otlp/view/value.h"
#include "proto/otlp/write/build.h"

/* Of one attribute's value, of one text, with what is written instead of a reference: nobody's labels or
 * comments are as long, and a few bytes can ask for gigabytes. */
#define VALUE_MAX (1u << 20)

struct kept {
    uint32_t stack, link, attrs_end; /* its attributes begin where those of the one before end */
};

/* How many entries of a table those added before have. */
struct before {
    uint32_t mappings, functions, locations;
};

#define KNOWN_LABELS 1024u
struct known_label {
    struct pprof_label label;
    uint32_t attribute; /* 0: none */
};

struct from_pprof {
    struct known_label labels[KNOWN_LABELS];
    struct budget *budget;
    struct pprof pprof;
    struct build *build;
    struct before before;
    size_t charged;       /* for what is being written */
    struct buffer *into;  /* where it is written at once, or NULL: it is kept until the end */
    struct finish finish; /* of `into`, once is_begun */
    bool is_begun;
    pprof_numbers stack;
    VEC(uint32_t) strings;     /* [string of the pprof]: in the request, + 1; 0: not asked for yet */
    VEC(uint32_t) frame_types; /* [string of the pprof, a file]: an attribute, + 1; 0: not asked for yet */
    VEC(struct kept) samples;
    pprof_numbers attrs;           /* of all samples */
    VEC(int64_t) values;           /* [sample × types] */
    VEC(uint32_t) order;           /* labels of a sample, by key */
    VEC(struct build_line) lines;  /* of a location */
    struct buffer key, text, list; /* texts being escaped; a value with others in it */
    bool escapes;
    int failed;
    bool is_too_large; /* it failed because a value passed VALUE_MAX */
};

const struct from_pprof_origin from_pprof_anybody = {.scope = BYTES_LIT("profgate"),
                                                     .version = BYTES_LIT(PROFGATE_VERSION)};

struct from_pprof *from_pprof_new(struct budget *budget)
{
    struct from_pprof *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->budget = budget;
    c->key.max = c->text.max = c->list.max = VALUE_MAX;
    pprof_init(&c->pprof, budget);
    c->stack.budget = c->strings.budget = c->frame_types.budget = c->samples.budget = c->attrs.budget =
        c->values.budget = c->order.budget = c->lines.budget = budget;
    c->build = build_new(budget);
    if (!c->build)
        return from_pprof_free(c);
    build_keep_equal(c->build);
    return c;
}

struct from_pprof *from_pprof_free(struct from_pprof *c)
{
    if (!c)
        return NULL;
    pprof_release(&c->pprof);
    build_free(c->build);
    budget_refund(c->budget, c->charged);
    vec_release(&c->stack);
    vec_release(&c->strings);
    vec_release(&c->frame_types);
    vec_release(&c->samples);
    vec_release(&c->attrs);
    vec_release(&c->values);
    vec_release(&c->order);
    vec_release(&c->lines);
    buffer_release(&c->key);
    buffer_release(&c->text);
    buffer_release(&c->list);
    free(c);
    return NULL;
}

static void fail(struct from_pprof *c, int r, bool is_too_large)
{
    c->is_too_large |= is_too_large;
    c->failed = c->failed ? c->failed : r;
}

/* ---- strings ---------------------------------------------------------------------------------- */

/* Without room for it the text ends early, and the whole fails in the end. */
static struct bytes escaped(struct from_pprof *c, struct bytes text, struct buffer *to)
{
    to->n = 0;
    int r = escape_bytes(text, to);
    fail(c, r, r < 0 && buffer_is_short_of(to, 2 * sizeof BYTES_REPLACEMENT));
    return buffer_bytes(to);
}

/* A string's text in the request, in `place` if it is not as it was. */
static struct bytes text_in(struct from_pprof *c, uint32_t string, struct buffer *place)
{
    struct bytes text = c->pprof.strings.p[string];
    return c->escapes ? escaped(c, text, place) : text;
}

/* The same, until the next one is asked for. */
static struct bytes text_of(struct from_pprof *c, uint32_t string)
{
    return text_in(c, string, &c->text);
}

/* The empty string may stand in the table more than once: what refers to one of them says nothing, too. */
static bool has_text(const struct pprof *p, uint32_t string)
{
    return string && p->strings.p[string].n > 0;
}

static uint32_t string_of(struct from_pprof *c, uint32_t string)
{
    uint32_t *known = &c->strings.p[string];
    if (!*known)
        *known = build_string(c->build, text_of(c, string)) + 1;
    return *known - 1;
}

static bool any_outside_utf8(const struct pprof *p)
{
    for (uint32_t i = 0; i < p->strings.n; i++)
        if (!bytes_is_utf8(p->strings.p[i]))
            return true;
    return false;
}

/* ---- tables ----------------------------------------------------------------------------------- */

static uint32_t flag(struct from_pprof *c, const char *name)
{
    return build_attribute(c->build, bytes_str(name),
                           &(struct attr_value){.kind = ATTR_BOOL, .boolean = true}, 0);
}

static uint32_t text_attribute(struct from_pprof *c, const char *name, uint32_t string)
{
    return build_attribute_text(c->build, name, text_of(c, string));
}

/* A place in a table of the pprof's, + 1, as the request's index. */
static uint32_t index_of(uint32_t before, uint32_t place)
{
    return place ? before + place : 0;
}

static void put_mapping(struct from_pprof *c, const struct pprof_mapping *m)
{
    uint32_t attrs[5], n = 0;
    if (has_text(&c->pprof, m->build_id))
        attrs[n++] = text_attribute(c, NAME_BUILD_ID, m->build_id);
    if (m->has_functions)
        attrs[n++] = flag(c, NAME_HAS_FUNCTIONS);
    if (m->has_filenames)
        attrs[n++] = flag(c, NAME_HAS_FILENAMES);
    if (m->has_line_numbers)
        attrs[n++] = flag(c, NAME_HAS_LINE_NUMBERS);
    if (m->has_inline_frames)
        attrs[n++] = flag(c, NAME_HAS_INLINE_FRAMES);
    build_mapping(c->build, &(struct build_mapping){.memory_start = m->start,
                                                    .memory_limit = m->limit,
                                                    .file_offset = m->offset,
                                                    .filename = string_of(c, m->filename),
                                                    .attrs = attrs,
                                                    .n_attrs = n});
}

static void put_function(struct from_pprof *c, const struct pprof_function *f)
{
    build_function(c->build, &(struct build_function){.name = string_of(c, f->name),
                                                      .system_name = string_of(c, f->system_name),
                                                      .filename = string_of(c, f->filename),
                                                      .start_line = f->start_line});
}

/* What a function's source file says of its runtime, or NULL. */
static const char *runtime_of(struct bytes file)
{
    static const struct {
        const char *end, *type;
    } ends[] = {{".go", "go"},      {"_amd64.s", "go"}, {"_arm64.s", "go"}, {".py", "cpython"},
                {".js", "v8js"},    {".mjs", "v8js"},   {".cjs", "v8js"},   {".ts", "v8js"},
                {".java", "jvm"},   {".kt", "jvm"},     {".scala", "jvm"},  {".rb", "ruby"},
                {".php", "php"},    {".pl", "perl"},    {".cs", "dotnet"},  {".ex", "beam"},
                {".erl", "beam"},   {".rs", "rust"},    {".c", "native"},   {".cc", "native"},
                {".cpp", "native"}, {".cxx", "native"}, {".h", "native"},   {".hpp", "native"},
                {".S", "native"}};
    for (size_t i = 0; i < ARRAY_LEN(ends); i++)
        if (bytes_ends(file, ends[i].end))
            return ends[i].type;
    return bytes_starts(file, "node:") ? "v8js" : bytes_starts(file, "<frozen ") ? "cpython" : NULL;
}

/* The frame type of a location by its mapping and its innermost function's file, asked once a file: an
 * attribute, or 0 where neither says it. Of a file that says nothing the code is native if it has an address
 * in what is mapped: who interprets gives none. */
static uint32_t frame_type(struct from_pprof *c, const struct pprof_location *l)
{
    const struct pprof *p = &c->pprof;
    struct bytes mapped =
        l->mapping ? p->strings.p[p->mappings.p[l->mapping - 1].filename] : (struct bytes){0};
    if (bytes_starts(mapped, "[kernel"))
        return build_attribute_text(c->build, NAME_FRAME_TYPE, BYTES_LIT("kernel"));
    uint32_t file = l->n_lines ? p->functions.p[p->lines.p[l->line].function - 1].filename : 0;
    uint32_t *known = &c->frame_types.p[file];
    if (!*known) {
        const char *type = runtime_of(p->strings.p[file]);
        *known = 1 + (type ? build_attribute_text(c->build, NAME_FRAME_TYPE, bytes_str(type)) : 0);
    }
    if (*known == 1 && l->address && mapping_is_code(mapped))
        return build_attribute_text(c->build, NAME_FRAME_TYPE, BYTES_LIT("native"));
    return *known - 1;
}

static void put_location(struct from_pprof *c, const struct pprof_location *l)
{
    uint32_t attrs[2], n = 0, type = frame_type(c, l);
    if (type)
        attrs[n++] = type;
    if (l->is_folded)
        attrs[n++] = flag(c, NAME_IS_FOLDED);
    vec_clear(&c->lines);
    for (uint32_t i = l->line; i < l->line + l->n_lines; i++) {
        const struct pprof_line *line = &c->pprof.lines.p[i];
        int r = vec_append(&c->lines, (struct build_line){index_of(c->before.functions, line->function),
                                                          line->line, line->column});
        fail(c, r, false);
    }
    build_location(c->build, &(struct build_location){.mapping = index_of(c->before.mappings, l->mapping),
                                                      .address = l->address,
                                                      .lines = c->lines.p,
                                                      .n_lines = c->lines.n,
                                                      .attrs = attrs,
                                                      .n_attrs = n});
}

static void put_tables(struct from_pprof *c)
{
    const struct pprof *p = &c->pprof;
    for (uint32_t i = 0; i < p->mappings.n; i++)
        put_mapping(c, &p->mappings.p[i]);
    for (uint32_t i = 0; i < p->functions.n; i++)
        put_function(c, &p->functions.p[i]);
    for (uint32_t i = 0; i < p->locations.n; i++)
        put_location(c, &p->locations.p[i]);
}

/* ---- samples ---------------------------------------------------------------------------------- */

static const char *const usual_trace[] = {LABEL_TRACE_ID}, *const usual_span[] = {LABEL_SPAN_ID};
const struct from_pprof_links from_pprof_usual_links = {usual_trace, usual_span, 1, 1};

/* The one label with this key, if it is an id; its number in the sample, or -1. */
static int find_id(const struct pprof *p, const struct pprof_sample *s, const char *key, size_t digits)
{
    int found = -1;
    for (uint32_t i = 0; i < s->n_labels; i++) {
        if (!bytes_is(p->strings.p[s->labels[i].key], key))
            continue;
        if (found >= 0 || !id_is(p->strings.p[s->labels[i].text], digits))
            return -1;
        found = (int)i;
    }
    return found;
}

static int find_any_id(const struct pprof *p, const struct pprof_sample *s, const char *const *keys,
                       uint32_t n_keys, size_t digits)
{
    int found = -1;
    for (uint32_t i = 0; i < n_keys && found < 0; i++)
        found = find_id(p, s, keys[i], digits);
    return found;
}

static int compare_labels(const void *a, const void *b, void *context)
{
    const struct from_pprof *c = context;
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    const struct pprof_label *labels = c->pprof.labels.p;
    int order = labels[x].key == labels[y].key
                    ? 0
                    : bytes_compare(c->pprof.strings.p[labels[x].key], c->pprof.strings.p[labels[y].key]);
    return order ?: order_of(x, y);
}

static bool have_one_unit(struct from_pprof *c, uint32_t from, uint32_t to)
{
    uint32_t unit = UINT32_MAX;
    for (uint32_t i = from; i < to; i++) {
        const struct pprof_label *l = &c->pprof.labels.p[c->order.p[i]];
        if (l->text)
            continue;
        if (unit != UINT32_MAX && unit != l->unit && !bytes_eq(text_of(c, unit), text_of(c, l->unit)))
            return false;
        unit = l->unit;
    }
    return true;
}

static void put_number_with_unit(struct from_pprof *c, struct wire_writer *w, const struct pprof_label *l)
{
    size_t list = wire_begin(w, ANY_VALUE_KVLIST_VALUE);
    const struct attr pair[] = {
        {BYTES_LIT(NAME_NUMBER), {.kind = ATTR_INT, .integer = l->number}},
        {BYTES_LIT(NAME_UNIT), {.kind = ATTR_STRING, .text = text_of(c, l->unit)}},
    };
    for (size_t i = 0; i < ARRAY_LEN(pair); i++)
        value_write_pair(w, NULL, KEY_VALUE_LIST_VALUES, pair[i].key, &pair[i].value);
    wire_end(w, list);
}

/* Several labels of one key, [from, to) of the order: a list, and its numbers' unit where that is one. */
static uint32_t put_list(struct from_pprof *c, uint32_t from, uint32_t to)
{
    struct wire_writer w = wire_writer(&c->list);
    bool one_unit = have_one_unit(c, from, to);
    uint32_t key = c->pprof.labels.p[c->order.p[from]].key, unit = 0;
    c->list.n = 0;
    for (uint32_t i = from; i < to; i++) {
        const struct pprof_label *l = &c->pprof.labels.p[c->order.p[i]];
        size_t value = wire_begin(&w, ARRAY_VALUE_VALUES);
        if (l->text)
            wire_put_bytes(&w, ANY_VALUE_STRING_VALUE, text_of(c, l->text));
        else if (one_unit)
            wire_put_int(&w, ANY_VALUE_INT_VALUE, l->number), unit = l->unit;
        else
            put_number_with_unit(c, &w, l);
        wire_end(&w, value);
    }
    fail(c, w.failed, w.full);
    unit = string_of(c, unit);
    struct attr_value list = {.kind = ATTR_ARRAY, .text = buffer_bytes(&c->list)};
    return build_attribute(c->build, text_in(c, key, &c->key), &list, unit);
}

static uint32_t put_label(struct from_pprof *c, const struct pprof_label *l);

/* The same, of which most are said again and again: remembered by what they are. */
static uint32_t put_known_label(struct from_pprof *c, const struct pprof_label *l)
{
    uint64_t hash = hash_mix(hash_mix((uint64_t)l->key << 32 | l->text, l->unit), (uint64_t)l->number);
    struct known_label *known = &c->labels[hash % KNOWN_LABELS];
    if (!known->attribute || known->label.key != l->key || known->label.text != l->text ||
        known->label.unit != l->unit || known->label.number != l->number)
        *known = (struct known_label){*l, put_label(c, l)};
    return known->attribute;
}

static uint32_t put_label(struct from_pprof *c, const struct pprof_label *l)
{
    struct attr_value value = {.kind = ATTR_INT, .integer = l->number};
    uint32_t unit = l->text ? 0 : string_of(c, l->unit);
    if (l->text)
        value = (struct attr_value){.kind = ATTR_STRING, .text = text_of(c, l->text)};
    return build_attribute(c->build, text_in(c, l->key, &c->key), &value, unit);
}

/* The sample's labels as attributes, but for the two that became its link. 0 or -ENOMEM. */
static int put_labels(struct from_pprof *c, const struct pprof_sample *s, int trace, int span)
{
    int r = 0;
    vec_clear(&c->order);
    for (uint32_t i = 0; i < s->n_labels && r == 0; i++)
        if ((int)i != trace && (int)i != span)
            r = vec_append(&c->order, i);
    if (r < 0)
        return r;
    if (c->order.n > 1)
        qsort_r(c->order.p, c->order.n, sizeof *c->order.p, compare_labels, c);
    for (uint32_t from = 0, to; from < c->order.n && r == 0; from = to) {
        struct bytes key = c->pprof.strings.p[s->labels[c->order.p[from]].key];
        for (to = from + 1; to < c->order.n; to++)
            if (!bytes_eq(key, c->pprof.strings.p[s->labels[c->order.p[to]].key]))
                break;
        r = vec_append(&c->attrs, to > from + 1 ? put_list(c, from, to)
                                                : put_known_label(c, &s->labels[c->order.p[from]]));
    }
    return r;
}

static uint32_t put_link(struct from_pprof *c, const struct pprof_sample *s, int trace, int span)
{
    uint8_t trace_id[16], span_id[8];
    id_bytes(c->pprof.strings.p[s->labels[trace].text], trace_id);
    id_bytes(c->pprof.strings.p[s->labels[span].text], span_id);
    return build_link(c->build, trace_id, span_id);
}

/* A Stack is encoded as a sample's location_id is. */
_Static_assert(STACK_LOCATION_INDICES == 1, "as pprof's Sample.location_id, packed");

/* A stack as it stands, whose locations are looked at when the first sample has it. 0, PPROF_MALFORMED. */
static int put_packed_stack(struct from_pprof *c, const struct pprof_samples *at, struct bytes packed,
                            uint32_t *ret, struct error *e)
{
    bool is_new;
    *ret = build_stack_encoded(c->build, packed, c->into != NULL, &is_new);
    return is_new ? pprof_check_packed(&c->pprof, at, packed, e) : 0;
}

/* The sample's stack; 0 where there is no memory, which fails the whole. */
static uint32_t put_stack(struct from_pprof *c, const struct pprof_sample *s)
{
    if (c->before.locations == 0)
        return build_stack(c->build, s->locations, s->n_locations);
    vec_clear(&c->stack);
    for (uint32_t i = 0; i < s->n_locations; i++)
        fail(c, vec_append(&c->stack, index_of(c->before.locations, s->locations[i])), false);
    return c->failed ? 0 : build_stack(c->build, c->stack.p, c->stack.n);
}

static int keep_sample(struct from_pprof *c, const struct pprof_samples *at, const struct pprof_sample *s,
                       const struct from_pprof_origin *origin, struct error *e)
{
    const struct from_pprof_links *l = origin->links ? origin->links : &from_pprof_usual_links;
    int trace =
        origin->keep_trace_labels ? -1 : find_any_id(&c->pprof, s, l->trace, l->n_trace, TRACE_ID_DIGITS);
    int span = trace < 0 ? -1 : find_any_id(&c->pprof, s, l->span, l->n_span, SPAN_ID_DIGITS);
    struct kept kept = {0};
    int r = 0;
    if (s->packed.p)
        r = put_packed_stack(c, at, s->packed, &kept.stack, e);
    else
        kept.stack = put_stack(c, s);
    if (r != 0)
        return r;
    if (span < 0)
        trace = -1;
    else
        kept.link = put_link(c, s, trace, span);
    r = put_labels(c, s, trace, span);
    kept.attrs_end = c->attrs.n;
    r = r < 0 ? r : vec_append(&c->samples, kept);
    return r < 0 ? r : vec_append_all(&c->values, s->values, c->pprof.types.n);
}

/* No longer than `max` with all that they need (0: no bound). */
static int keep_samples(struct from_pprof *c, const struct from_pprof_origin *origin, size_t max,
                        struct error *e)
{
    struct pprof_samples at = pprof_samples(&c->pprof);
    at.packed = c->before.locations == 0;
    struct pprof_sample sample;
    int r;
    vec_clear(&c->samples);
    vec_clear(&c->attrs);
    vec_clear(&c->values);
    while ((r = pprof_next(&c->pprof, &at, &sample, e)) == 0) {
        if ((r = keep_sample(c, &at, &sample, origin, e)) != 0)
            return r;
        if (c->is_too_large || (max && build_size(c->build) > max))
            return FROM_PPROF_TOO_LARGE;
    }
    return r == PPROF_END ? 0 : r;
}

/* ---- profiles --------------------------------------------------------------------------------- */

/* Which type comes first: pprof's default is the last one (profile.proto, default_sample_type). */
static uint32_t first_type(const struct pprof *p)
{
    for (uint32_t i = 0; has_text(p, p->default_type) && i < p->types.n; i++)
        if (bytes_eq(p->strings.p[p->types.p[i].type], p->strings.p[p->default_type]))
            return i;
    return p->types.n - 1;
}

/* The i-th profile's type: the first one, and then the others in their order. */
static uint32_t type_at(uint32_t first, uint32_t i)
{
    return i == 0 ? first : i <= first ? i - 1 : i;
}

static void put_scope(struct from_pprof *c, const struct from_pprof_origin *origin)
{
    const struct pprof *p = &c->pprof;
    struct wire_writer w = wire_writer(&c->list);
    struct attr attrs[3];
    uint32_t n = 0, first = first_type(p);
    c->list.n = 0;
    for (uint32_t i = 0; i < p->types.n; i++) {
        size_t value = wire_begin(&w, ARRAY_VALUE_VALUES);
        wire_put_int(&w, ANY_VALUE_INT_VALUE, type_at(first, i));
        wire_end(&w, value);
    }
    if (p->types.n > 1)
        attrs[n++] =
            (struct attr){BYTES_LIT(NAME_TYPE_ORDER), {.kind = ATTR_ARRAY, .text = buffer_bytes(&c->list)}};
    if (has_text(p, p->default_type))
        attrs[n++] = (struct attr){BYTES_LIT(NAME_DEFAULT_TYPE),
                                   {.kind = ATTR_STRING, .text = text_of(c, p->default_type)}};
    if (c->escapes)
        attrs[n++] = (struct attr){BYTES_LIT(NAME_ESCAPED), {.kind = ATTR_BOOL, .boolean = true}};
    build_scope(c->build, origin->scope, origin->version, attrs, n, BYTES_LIT(""));
    fail(c, w.failed, w.full);
}

static uint32_t put_comments(struct from_pprof *c)
{
    struct wire_writer w = wire_writer(&c->list);
    c->list.n = 0;
    for (uint32_t i = 0; i < c->pprof.comments.n; i++) {
        size_t value = wire_begin(&w, ARRAY_VALUE_VALUES);
        wire_put_bytes(&w, ANY_VALUE_STRING_VALUE, text_of(c, c->pprof.comments.p[i]));
        wire_end(&w, value);
    }
    fail(c, w.failed, w.full);
    struct attr_value list = {.kind = ATTR_ARRAY, .text = buffer_bytes(&c->list)};
    return build_attribute(c->build, BYTES_LIT(NAME_COMMENT), &list, 0);
}

static void put_samples(struct from_pprof *c, uint32_t type)
{
    uint32_t types = c->pprof.types.n, attrs = 0;
    for (uint32_t i = 0; i < c->samples.n; i++) {
        const struct kept *s = &c->samples.p[i];
        uint32_t n = s->attrs_end - attrs;
        build_sample(c->build, &(struct build_sample){.stack = s->stack,
                                                      .link = s->link,
                                                      .attrs = n ? c->attrs.p + attrs : NULL,
                                                      .n_attrs = n,
                                                      .values = &c->values.p[(size_t)i * types + type],
                                                      .n_values = 1});
        attrs = s->attrs_end;
    }
}

/* Of the profile, or, where it has none, of the origin. Before 1971 is none: some writers count in
 * microseconds. */
static int64_t time_of(const struct from_pprof *c, const struct from_pprof_origin *origin)
{
    const int64_t year = 365ll * 24 * 3600 * NSEC_PER_SEC;
    return origin->time_nanos && c->pprof.time_nanos < year ? origin->time_nanos : c->pprof.time_nanos;
}

/* A time as OTLP has it, which has none below 0: that is an attribute. */
static uint64_t unsigned_time(struct from_pprof *c, const char *name, int64_t nanos, uint32_t *attrs,
                              uint32_t *n)
{
    if (nanos >= 0)
        return (uint64_t)nanos;
    attrs[(*n)++] = build_attribute_int(c->build, name, nanos);
    return 0;
}

static void put_profiles(struct from_pprof *c, const struct from_pprof_origin *origin)
{
    const struct pprof *p = &c->pprof;
    uint32_t attrs[6], n = 0, first = first_type(p);
    const uint64_t time = unsigned_time(c, NAME_TIME, time_of(c, origin), attrs, &n);
    const int64_t lasted = p->duration_nanos ? p->duration_nanos : origin->duration_nanos;
    const uint64_t duration = unsigned_time(c, NAME_DURATION, lasted, attrs, &n);
    if (p->comments.n)
        attrs[n++] = put_comments(c);
    if (has_text(p, p->doc_url))
        attrs[n++] = text_attribute(c, NAME_DOC_URL, p->doc_url);
    if (has_text(p, p->drop_frames))
        attrs[n++] = text_attribute(c, NAME_DROP_FRAMES, p->drop_frames);
    if (has_text(p, p->keep_frames))
        attrs[n++] = text_attribute(c, NAME_KEEP_FRAMES, p->keep_frames);
    for (uint32_t i = 0; i < p->types.n; i++) {
        uint32_t type = type_at(first, i);
        build_profile(c->build, &(struct build_profile){.type = string_of(c, p->types.p[type].type),
                                                        .unit = string_of(c, p->types.p[type].unit),
                                                        .period_type = string_of(c, p->period_type.type),
                                                        .period_unit = string_of(c, p->period_type.unit),
                                                        .period = p->period,
                                                        .time_unix_nano = time,
                                                        .duration_nano = duration,
                                                        .attrs = attrs,
                                                        .n_attrs = n});
        put_samples(c, type);
    }
}

/* What is being written is charged beforehand: a body of as many bytes with few types is about as long. */
static int put_tree(struct from_pprof *c, const struct from_pprof_origin *origin, size_t max)
{
    size_t bound =
        finish_bound((uint64_t)c->samples.n * c->pprof.types.n, (uint64_t)c->attrs.n * c->pprof.types.n);
    if (max && bound / 8 > max)
        return FROM_PPROF_TOO_LARGE;
    int r = 0;
    if (c->into) {
        c->is_begun = true;
        r = finish_begin(&c->finish, c->build, c->budget, bound, c->into);
    } else if (budget_charge(c->budget, bound)) {
        c->charged += bound;
    } else {
        r = -ENOMEM;
    }
    if (r < 0)
        return r;
    build_resource(c->build, origin->resource, origin->n_resource, BYTES_LIT(""));
    put_scope(c, origin);
    put_profiles(c, origin);
    return c->is_too_large ? FROM_PPROF_TOO_LARGE : c->failed;
}

void from_pprof_begin(struct from_pprof *c)
{
    budget_refund(c->budget, c->charged);
    c->charged = 0;
    c->before = (struct before){0};
    c->failed = 0;
    c->is_too_large = false;
    build_begin(c->build);
}

int from_pprof_add(struct from_pprof *c, struct bytes pprof, const struct from_pprof_origin *origin,
                   size_t max, struct error *e)
{
    int r = pprof_read(&c->pprof, pprof, e);
    vec_clear(&c->strings);
    vec_clear(&c->frame_types);
    r = r != 0 ? r : vec_extend(&c->strings, c->pprof.strings.n);
    r = r != 0 ? r : vec_extend(&c->frame_types, c->pprof.strings.n);
    if (r != 0)
        return r;
    memset(c->labels, 0, sizeof c->labels);
    c->escapes = any_outside_utf8(&c->pprof);
    put_tables(c);
    r = keep_samples(c, origin, max, e);
    if (r == 0)
        r = put_tree(c, origin, max);
    c->before.mappings += c->pprof.mappings.n;
    c->before.functions += c->pprof.functions.n;
    c->before.locations += c->pprof.locations.n;
    return r;
}

int from_pprof_end(struct from_pprof *c, struct buffer *out)
{
    int r = finish_request(c->build, c->budget, out);
    budget_refund(c->budget, c->charged);
    c->charged = 0;
    return r == FINISH_TOO_LARGE ? FROM_PPROF_TOO_LARGE : r;
}

/* Samples whose memory is kept for the next pprof. */
#define KEEP_SAMPLES (1u << 15)

/* The samples are written, and only the dictionary is left to be: the memory for one is not needed with that
 * for the other. */
static void let_samples_go(struct from_pprof *c)
{
    if (c->samples.n <= KEEP_SAMPLES)
        return;
    vec_release(&c->samples);
    vec_release(&c->attrs);
    vec_release(&c->values);
}

/* The only one of its request: its dictionary is complete when its tree is written, to `out`. */
static int add_only(struct from_pprof *c, struct bytes pprof, const struct from_pprof_origin *origin,
                    struct buffer *out, size_t max, struct error *e)
{
    from_pprof_begin(c);
    c->into = out;
    int r = from_pprof_add(c, pprof, origin, max, e);
    c->into = NULL;
    let_samples_go(c);
    return r;
}

struct giving {
    build_put *put;
    void *user;
    struct mapping *pages;
};

/* Stacks come from the pprof as they stand there. */
static int put_and_give_back(void *user, struct bytes piece)
{
    const struct giving *g = user;
    int r = g->put(g->user, piece);
    mapping_used(g->pages, piece.n);
    return r;
}

int from_pprof_pieces(struct from_pprof *c, struct bytes pprof, struct mapping *pages,
                      const struct from_pprof_origin *origin, size_t max, build_put *put, void *user,
                      struct error *e)
{
    struct buffer tree = BUFFER_INIT(0);
    struct giving giving = {put, user, pages};
    c->pprof.pages = pages;
    int r = add_only(c, pprof, origin, &tree, max, e);
    c->pprof.pages = NULL;
    if (r == 0 && build_size(c->build) > max)
        r = FROM_PPROF_TOO_LARGE;
    if (c->is_begun)
        r = finish_pieces(&c->finish, c->build, r, put_and_give_back, &giving);
    c->is_begun = false;
    return r;
}

int from_pprof(struct from_pprof *c, struct bytes pprof, const struct from_pprof_origin *origin,
               struct buffer *out, struct error *e)
{
    int r = add_only(c, pprof, origin, out, out->max, e);
    if (c->is_begun && (r = finish_end(&c->finish, c->build, r)) == FINISH_TOO_LARGE)
        r = FROM_PPROF_TOO_LARGE;
    c->is_begun = false;
    return r;
}
