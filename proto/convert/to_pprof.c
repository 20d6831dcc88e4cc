/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables go over entry by entry, number i becoming id i: nothing is merged, and what no sample needs goes
 * too. Profiles are put into rows first: those of one scope that say the same of each sample but for its
 * value are one row, with a column of values each. Then each row's samples are written once.
 */
#include "proto/convert/to_pprof.h"

#include <errno.h>
#include <stdio.h>

#include "proto/base/macros.h"
#include "proto/convert/escape.h"
#include "proto/convert/names.h"
#include "proto/otlp/layouts/fields.h"
#include "proto/pprof/write.h"

struct converting {
    const struct profiles *v;
    struct pprof_writer w;
    struct to_pprof_lost *lost;
    VEC(uint32_t) strings;          /* [string of the view]: the writer's, + 1; 0: not asked for yet */
    VEC(struct pprof_type) types;   /* columns */
    VEC(uint32_t) columns;          /* [profile] */
    VEC(int64_t) values;            /* [column] of the sample at hand */
    VEC(struct pprof_label) labels; /* likewise; those of its resource first */
    VEC(struct pprof_line) lines;
    struct buffer text;
    bool unescapes;
    build_put *put; /* NULL: all stays in the writer's buffer */
    void *user;
    int failed; /* -ENOMEM, or what `put` returned */
};

/* ---- pieces ----------------------------------------------------------------------------------- */

#define PIECE_BYTES ((size_t)64 << 10)

/* Between two fields of the profile: hands over what is written, where that is at least so much. */
static void put_written(struct converting *c, size_t least)
{
    struct buffer *out = c->w.w.out;
    if (!c->put || c->failed || out->n < least)
        return;
    c->failed = c->put(c->user, buffer_bytes(out));
    out->n = 0;
}

/* ---- strings ---------------------------------------------------------------------------------- */

static struct bytes unescaped(struct converting *c, struct bytes text)
{
    c->text.n = 0;
    if (unescape_bytes(text, &c->text) < 0)
        c->failed = -ENOMEM;
    return buffer_bytes(&c->text);
}

static uint32_t put_text(struct converting *c, struct bytes text)
{
    return pprof_write_string(&c->w, c->unescapes ? unescaped(c, text) : text);
}

static uint32_t put_label_text(struct converting *c, struct bytes text)
{
    return pprof_write_text(&c->w, c->unescapes ? unescaped(c, text) : text);
}

static uint32_t string_of(struct converting *c, uint32_t string)
{
    uint32_t *known = &c->strings.p[string];
    if (!*known)
        *known = put_text(c, profiles_string(c->v, string)) + 1;
    return *known - 1;
}

/* ---- tables ----------------------------------------------------------------------------------- */

/* The attributes of an entry: [at[i], at[i + 1]) of the pool. */
#define EACH_ATTRIBUTE(a, v, at, i)                                                    \
    uint32_t k_ = (at)[i], a = k_ < (at)[(i) + 1] ? (v)->attr_index.attribute[k_] : 0; \
    k_ < (at)[(i) + 1];                                                                \
    a = ++k_ < (at)[(i) + 1] ? (v)->attr_index.attribute[k_] : 0

static struct bytes key_of(const struct converting *c, uint32_t attribute)
{
    return profiles_string(c->v, c->v->attribute.key[attribute]);
}

static bool is_true(const struct converting *c, uint32_t attribute, const char *key)
{
    const struct attr_value *value = &c->v->attribute.value[attribute];
    return value->kind == ATTR_BOOL && value->boolean && bytes_is(key_of(c, attribute), key);
}

/* A build id, better ones first; 0: it is none. */
static int build_id_rank(struct bytes key)
{
    return bytes_is(key, NAME_BUILD_ID)                           ? 3
           : bytes_is(key, "process.executable.build_id.go")      ? 2
           : bytes_is(key, "process.executable.build_id.htlhash") ? 1
                                                                  : 0;
}

static void put_mapping(struct converting *c, uint32_t i)
{
    const struct profiles *v = c->v;
    struct pprof_mapping m = {.id = i,
                              .start = v->mapping.memory_start[i],
                              .limit = v->mapping.memory_limit[i],
                              .offset = v->mapping.file_offset[i],
                              .filename = string_of(c, v->mapping.filename[i])};
    int best = 0;
    for (EACH_ATTRIBUTE(a, v, v->mapping.attrs_at, i)) {
        int rank = build_id_rank(key_of(c, a));
        if (rank > best && v->attribute.value[a].kind == ATTR_STRING) {
            m.build_id = put_text(c, v->attribute.value[a].text);
            best = rank;
        }
        m.has_functions |= is_true(c, a, NAME_HAS_FUNCTIONS);
        m.has_filenames |= is_true(c, a, NAME_HAS_FILENAMES);
        m.has_line_numbers |= is_true(c, a, NAME_HAS_LINE_NUMBERS);
        m.has_inline_frames |= is_true(c, a, NAME_HAS_INLINE_FRAMES);
    }
    pprof_write_mapping(&c->w, &m);
}

static void put_function(struct converting *c, uint32_t i)
{
    const struct profiles *v = c->v;
    pprof_write_function(&c->w,
                         &(struct pprof_function){.id = i,
                                                  .name = string_of(c, v->function.name[i]),
                                                  .system_name = string_of(c, v->function.system_name[i]),
                                                  .filename = string_of(c, v->function.filename[i]),
                                                  .start_line = v->function.start_line[i]});
}

static void put_location(struct converting *c, uint32_t i)
{
    const struct profiles *v = c->v;
    struct pprof_location l = {.id = i, .mapping = v->location.mapping[i], .address = v->location.address[i]};
    for (EACH_ATTRIBUTE(a, v, v->location.attrs_at, i))
        l.is_folded |= is_true(c, a, NAME_IS_FOLDED);
    vec_clear(&c->lines);
    for (uint32_t k = v->location.lines_at[i]; k < v->location.lines_at[i + 1]; k++)
        if (v->line.function[k] == 0) /* pprof's reader takes no line without one */
            c->lost->lines++;
        else if (vec_append(&c->lines,
                            (struct pprof_line){v->line.function[k], v->line.line[k], v->line.column[k]}) < 0)
            c->failed = -ENOMEM;
    pprof_write_location(&c->w, &l, c->lines.p, c->lines.n);
    put_written(c, PIECE_BYTES);
}

static void put_tables(struct converting *c)
{
    for (uint32_t i = 1; i < c->v->mapping.n; i++)
        put_mapping(c, i);
    for (uint32_t i = 1; i < c->v->function.n; i++)
        put_function(c, i);
    for (uint32_t i = 1; i < c->v->location.n; i++)
        put_location(c, i);
}

/* ---- lists in attribute values: ArrayValue, of AnyValue ---------------------------------------- */

struct list {
    struct wire_reader reader;
};

static struct list list_of(const struct attr_value *array)
{
    return (struct list){wire_reader(array->text)};
}

/* The next AnyValue; false behind the last. What is in it was checked when the view was made. */
static bool next_value(struct list *list, struct bytes *ret)
{
    struct wire_field f;
    while (wire_next(&list->reader, &f) == 0)
        if (f.number == ARRAY_VALUE_VALUES && f.type == WIRE_LEN) {
            *ret = f.bytes;
            return true;
        }
    return false;
}

/* The last member of an AnyValue: its field number, 0 if it has none. */
static struct wire_field member_of(struct bytes any_value)
{
    struct wire_reader reader = wire_reader(any_value);
    struct wire_field f, last = {0};
    while (wire_next(&reader, &f) == 0)
        last = f;
    return last;
}

static bool text_of_member(const struct converting *c, const struct wire_field *member, struct bytes *ret)
{
    if (member->number == ANY_VALUE_STRING_VALUE && member->type == WIRE_LEN)
        *ret = member->bytes;
    else if (member->number == ANY_VALUE_STRING_VALUE_STRINDEX && member->value < c->v->string.n)
        *ret = profiles_string(c->v, (uint32_t)member->value);
    else
        return false;
    return true;
}

/* {number, unit}, as from_pprof writes it. */
static bool number_with_unit(struct converting *c, const struct wire_field *member, struct pprof_label *l)
{
    struct wire_reader reader = wire_reader(member->bytes);
    struct wire_field f, part;
    bool has_number = false;
    while (member->number == ANY_VALUE_KVLIST_VALUE && wire_next(&reader, &f) == 0) {
        struct wire_reader pair = wire_reader(f.bytes);
        struct bytes key = {0}, text;
        struct wire_field value = {0};
        while (wire_next(&pair, &part) == 0)
            if (part.number == KEY_VALUE_KEY)
                key = part.bytes;
            else if (part.number == KEY_VALUE_VALUE)
                value = member_of(part.bytes);
        if (bytes_is(key, NAME_NUMBER) && value.number == ANY_VALUE_INT_VALUE) {
            l->number = (int64_t)value.value;
            has_number = true;
        } else if (bytes_is(key, NAME_UNIT) && text_of_member(c, &value, &text)) {
            l->unit = put_text(c, text);
        }
    }
    return has_number;
}

/* ---- labels ----------------------------------------------------------------------------------- */

static void add_label(struct converting *c, struct pprof_label l)
{
    if (vec_append(&c->labels, l) < 0)
        c->failed = -ENOMEM;
}

/* Text of a kind that pprof's labels do not have. */
static uint32_t put_printed(struct converting *c, const struct attr_value *value)
{
    char text[64];
    int n = value->kind == ATTR_BOOL ? snprintf(text, sizeof text, "%s", value->boolean ? "true" : "false")
                                     : snprintf(text, sizeof text, "%.17g", value->real);
    return pprof_write_string(&c->w, bytes_of(text, (size_t)n));
}

static uint32_t put_hex(struct converting *c, struct bytes bytes)
{
    c->text.n = 0;
    if (buffer_add_hex(&c->text, bytes) < 0)
        c->failed = -ENOMEM;
    return pprof_write_string(&c->w, buffer_bytes(&c->text));
}

static void put_list(struct converting *c, uint32_t key, const struct attr_value *value, uint32_t unit)
{
    struct list list = list_of(value);
    struct bytes any, text;
    while (next_value(&list, &any)) {
        struct wire_field member = member_of(any);
        struct pprof_label l = {.key = key};
        if (text_of_member(c, &member, &text))
            l.text = put_label_text(c, text);
        else if (member.number == ANY_VALUE_INT_VALUE)
            l.number = (int64_t)member.value, l.unit = unit;
        else if (!number_with_unit(c, &member, &l)) {
            c->lost->attributes++;
            continue;
        }
        add_label(c, l);
    }
}

static void put_label(struct converting *c, uint32_t key, const struct attr_value *value, uint32_t unit)
{
    switch (value->kind) {
    case ATTR_STRING:
        add_label(c, (struct pprof_label){.key = key, .text = put_label_text(c, value->text)});
        break;
    case ATTR_INT:
        add_label(c, (struct pprof_label){.key = key, .number = value->integer, .unit = unit});
        break;
    case ATTR_BOOL:
    case ATTR_DOUBLE: add_label(c, (struct pprof_label){.key = key, .text = put_printed(c, value)}); break;
    case ATTR_BYTES: add_label(c, (struct pprof_label){.key = key, .text = put_hex(c, value->text)}); break;
    case ATTR_ARRAY: put_list(c, key, value, unit); break;
    case ATTR_EMPTY:
    case ATTR_KVLIST: c->lost->attributes++; break;
    }
}

static void put_resource_labels(struct converting *c, uint32_t profile)
{
    const struct profiles *v = c->v;
    uint32_t resource = v->scope.resource[v->profile.scope[profile]];
    vec_clear(&c->labels);
    for (uint32_t i = v->resource.attrs_at[resource]; i < v->resource.attrs_at[resource + 1]; i++)
        put_label(c, put_text(c, v->key_value.attr[i].key), &v->key_value.attr[i].value, 0);
}

static void put_link(struct converting *c, uint32_t link)
{
    const struct profiles *v = c->v;
    uint64_t trace = v->link.trace_at[link], span = v->link.span_at[link];
    if (trace)
        add_label(c, (struct pprof_label){.key = pprof_write_string(&c->w, BYTES_LIT(LABEL_TRACE_ID)),
                                          .text = put_hex(c, bytes_of(v->body.p + trace, 16))});
    if (span)
        add_label(c, (struct pprof_label){.key = pprof_write_string(&c->w, BYTES_LIT(LABEL_SPAN_ID)),
                                          .text = put_hex(c, bytes_of(v->body.p + span, 8))});
}

/* ---- samples ---------------------------------------------------------------------------------- */

static uint32_t count_attrs(const struct profiles *v, uint32_t sample)
{
    return v->sample.attrs_at[sample + 1] - v->sample.attrs_at[sample];
}

static bool says_the_same(const struct profiles *v, uint32_t a, uint32_t b)
{
    uint32_t n = count_attrs(v, a);
    return v->sample.stack[a] == v->sample.stack[b] && v->sample.link[a] == v->sample.link[b] &&
           n == count_attrs(v, b) &&
           (n == 0 || memcmp(v->attr_index.attribute + v->sample.attrs_at[a],
                             v->attr_index.attribute + v->sample.attrs_at[b], n * sizeof(uint32_t)) == 0);
}

/* Whether a profile's samples are those of another one, which is of the same scope. */
static bool is_sibling(const struct profiles *v, uint32_t a, uint32_t b)
{
    uint32_t from_a = v->profile.samples_at[a], from_b = v->profile.samples_at[b];
    uint32_t n = v->profile.samples_at[a + 1] - from_a;
    if (v->profile.scope[a] != v->profile.scope[b] || n != v->profile.samples_at[b + 1] - from_b)
        return false;
    for (uint32_t i = 0; i < n; i++)
        if (!says_the_same(v, from_a + i, from_b + i))
            return false;
    return true;
}

/* Profiles [first, end) are one row. */
static void put_row(struct converting *c, uint32_t first, uint32_t end)
{
    const struct profiles *v = c->v;
    put_resource_labels(c, first);
    uint32_t n_common = c->labels.n, from = v->profile.samples_at[first];
    memset(c->values.p, 0, c->types.n * sizeof *c->values.p);
    for (uint32_t i = 0; from + i < v->profile.samples_at[first + 1] && c->failed == 0; i++) {
        uint32_t sample = from + i, stack = v->sample.stack[sample];
        if (stack == PROFILES_REJECTED)
            continue;
        for (uint32_t p = first; p < end; p++)
            c->values.p[c->columns.p[p]] = profiles_sample_value(v, v->profile.samples_at[p] + i);
        c->lost->moments += v->sample.n_timestamps[sample] > 0;
        c->labels.n = n_common;
        for (EACH_ATTRIBUTE(a, v, v->sample.attrs_at, sample))
            put_label(c, string_of(c, v->attribute.key[a]), &v->attribute.value[a],
                      string_of(c, v->attribute.unit[a]));
        put_link(c, v->sample.link[sample]);
        uint32_t locations = v->stack.locations_at[stack];
        pprof_write_sample(&c->w,
                           &(struct pprof_sample){.locations = v->stack_location.location + locations,
                                                  .n_locations = v->stack.locations_at[stack + 1] - locations,
                                                  .values = c->values.p,
                                                  .labels = c->labels.p,
                                                  .n_labels = c->labels.n},
                           c->types.n);
        put_written(c, PIECE_BYTES);
    }
    for (uint32_t p = first; p < end; p++)
        c->values.p[c->columns.p[p]] = 0;
}

/* ---- types ------------------------------------------------------------------------------------ */

static const struct attr_value *scope_attribute(const struct converting *c, uint32_t scope, const char *key)
{
    const struct profiles *v = c->v;
    for (uint32_t i = v->scope.attrs_at[scope]; i < v->scope.attrs_at[scope + 1]; i++)
        if (bytes_is(v->key_value.attr[i].key, key))
            return &v->key_value.attr[i].value;
    return NULL;
}

/* The columns by pprof.scope.sample_type_order, if that is one of all profiles. */
static bool order_columns(struct converting *c)
{
    const struct attr_value *order = c->v->scope.n == 1 ? scope_attribute(c, 0, NAME_TYPE_ORDER) : NULL;
    uint32_t n = c->v->profile.n, i = 0;
    uint64_t seen = 0;
    struct bytes any;
    if (!order || order->kind != ATTR_ARRAY || n > PPROF_TYPES_MAX)
        return false;
    for (struct list list = list_of(order); next_value(&list, &any); i++) {
        struct wire_field member = member_of(any);
        if (i == n || member.number != ANY_VALUE_INT_VALUE || member.value >= n || seen >> member.value & 1)
            return false;
        seen |= UINT64_C(1) << member.value;
        c->columns.p[i] = (uint32_t)member.value;
    }
    for (uint32_t p = 1; p < n; p++)
        if (!is_sibling(c->v, 0, p))
            return false;
    return i == n;
}

/* A column for each kind of profile. 0; TO_PPROF_TYPES; -ENOMEM. */
static int find_columns(struct converting *c)
{
    const struct profiles *v = c->v;
    for (uint32_t p = 0; p < v->profile.n; p++) {
        struct pprof_type type = {string_of(c, v->profile.type[p]), string_of(c, v->profile.unit[p])};
        uint32_t i = 0;
        while (i < c->types.n && (c->types.p[i].type != type.type || c->types.p[i].unit != type.unit))
            i++;
        c->columns.p[p] = i;
        if (i == PPROF_TYPES_MAX)
            return TO_PPROF_TYPES;
        if (i == c->types.n && vec_append(&c->types, type) < 0)
            return -ENOMEM;
    }
    return 0;
}

/* pprof's tool asks for types by their names alone, and refuses a profile in which two share one. Of such
 * (async-profiler's lock/count and lock/nanoseconds) all but one are called by their units, too, those of
 * unit count first: it is the time or the bytes that others know the name of. */
static int name_apart(struct converting *c)
{
    uint32_t name[PPROF_TYPES_MAX], count = pprof_write_string(&c->w, BYTES_LIT("count"));
    for (uint32_t i = 0; i < c->types.n; i++)
        name[i] = c->types.p[i].type;
    for (uint32_t p = 0; p < c->v->profile.n; p++) {
        struct pprof_type *type = &c->types.p[c->columns.p[p]];
        bool shares = false;
        for (uint32_t i = 0; i < c->types.n; i++) {
            const struct pprof_type *other = &c->types.p[i];
            shares |= other != type && name[i] == name[type - c->types.p] &&
                      (type->unit == count || (other < type && other->unit != count));
        }
        if (!shares)
            continue;
        cleanup(buffer_release) struct buffer both = BUFFER_INIT(0);
        if (buffer_add_bytes(&both, profiles_string(c->v, c->v->profile.type[p])) < 0 ||
            buffer_add(&both, "_", 1) < 0 ||
            buffer_add_bytes(&both, profiles_string(c->v, c->v->profile.unit[p])) < 0)
            return -ENOMEM;
        type->type = put_text(c, buffer_bytes(&both));
    }
    return 0;
}

static int put_types(struct converting *c, struct pprof *once)
{
    const struct profiles *v = c->v;
    bool is_ordered = order_columns(c);
    int r = is_ordered ? vec_extend(&c->types, v->profile.n) : find_columns(c);
    if (!is_ordered && r == 0)
        r = name_apart(c);
    for (uint32_t p = 0; is_ordered && r == 0 && p < v->profile.n; p++)
        c->types.p[c->columns.p[p]] =
            (struct pprof_type){string_of(c, v->profile.type[p]), string_of(c, v->profile.unit[p])};
    const struct attr_value *type = v->scope.n == 1 ? scope_attribute(c, 0, NAME_DEFAULT_TYPE) : NULL;
    if (type && type->kind == ATTR_STRING)
        once->default_type = put_text(c, type->text);
    else if (!is_ordered && c->types.n > 1)
        once->default_type = c->types.p[0].type; /* OTLP's is the first, pprof's the last */
    for (uint32_t i = 0; r == 0 && i < c->types.n; i++)
        pprof_write_type(&c->w, &c->types.p[i]);
    return r != 0 ? r : vec_extend(&c->values, c->types.n);
}

/* ---- what a profile has once ------------------------------------------------------------------ */

/* Comments: a list; or, as the Collector's translator wrote them, one text with commas, or an attribute each.
 */
static int take_comment(struct converting *c, struct pprof *once, const struct attr_value *value,
                        bool has_number)
{
    int r = 0;
    struct bytes any, text;
    if (value->kind == ATTR_ARRAY) {
        for (struct list list = list_of(value); r == 0 && next_value(&list, &any);) {
            struct wire_field member = member_of(any);
            if (text_of_member(c, &member, &text))
                r = vec_append(&once->comments, put_text(c, text));
        }
        return r;
    }
    struct bytes rest = value->kind == ATTR_STRING ? value->text : (struct bytes){0};
    while (rest.p && r == 0) {
        const uint8_t *comma = has_number ? NULL : memchr(rest.p, ',', rest.n);
        size_t n = comma ? (size_t)(comma - rest.p) : rest.n;
        r = vec_append(&once->comments, put_text(c, bytes_of(rest.p, n)));
        rest = comma ? bytes_of(comma + 1, rest.n - n - 1) : (struct bytes){0};
    }
    return r;
}

static int take_profile_attributes(struct converting *c, struct pprof *once)
{
    const struct profiles *v = c->v;
    const struct {
        const char *key, *older; /* of the Collector's translator before it had names of its own */
        uint32_t *to;
    } texts[] = {{NAME_DOC_URL, "doc_url", &once->doc_url},
                 {NAME_DROP_FRAMES, "drop_frames", &once->drop_frames},
                 {NAME_KEEP_FRAMES, "keep_frames", &once->keep_frames}};
    const struct {
        const char *key;
        int64_t *to;
    } times[] = {{NAME_TIME, &once->time_nanos}, {NAME_DURATION, &once->duration_nanos}};
    int r = 0;
    for (EACH_ATTRIBUTE(a, v, v->profile.attrs_at, 0)) {
        const struct attr_value *value = &v->attribute.value[a];
        struct bytes key = key_of(c, a);
        bool has_number = bytes_starts(key, NAME_COMMENT ".");
        if (r == 0 && (has_number || bytes_is(key, NAME_COMMENT)))
            r = take_comment(c, once, value, has_number);
        for (size_t i = 0; i < ARRAY_LEN(texts) && value->kind == ATTR_STRING; i++)
            if (bytes_is(key, texts[i].key) || bytes_is(key, texts[i].older))
                *texts[i].to = put_text(c, value->text);
        for (size_t i = 0; i < ARRAY_LEN(times) && value->kind == ATTR_INT; i++)
            if (bytes_is(key, times[i].key))
                *times[i].to = value->integer;
    }
    return r;
}

static int take_once(struct converting *c, struct pprof *once)
{
    const struct profiles *v = c->v;
    uint64_t first = v->profile.time_unix_nano[0], from = first, end = 0;
    bool differ = false;
    for (uint32_t p = 0; p < v->profile.n; p++) {
        uint64_t begun = v->profile.time_unix_nano[p], ended;
        differ |= begun != first || v->profile.duration_nano[p] != v->profile.duration_nano[0];
        if (__builtin_add_overflow(begun, v->profile.duration_nano[p], &ended))
            ended = begun;
        end = max_of(end, ended);
        from = begun && (begun < from || from == 0) ? begun : from;
    }
    once->time_nanos = (int64_t)from;
    once->duration_nanos = (int64_t)(differ ? end - from : v->profile.duration_nano[0]);
    once->period_type =
        (struct pprof_type){string_of(c, v->profile.period_type[0]), string_of(c, v->profile.period_unit[0])};
    once->period = v->profile.period[0];
    return take_profile_attributes(c, once);
}

/* ---- all -------------------------------------------------------------------------------------- */

static bool any_is_escaped(const struct converting *c)
{
    for (uint32_t i = 0; i < c->v->scope.n; i++) {
        const struct attr_value *value = scope_attribute(c, i, NAME_ESCAPED);
        if (value && value->kind == ATTR_BOOL && value->boolean)
            return true;
    }
    return false;
}

/* The end of the row that begins with profile `first`: siblings, of which none has another's column. */
static uint32_t row_end(const struct converting *c, uint32_t first)
{
    uint64_t columns = 0;
    uint32_t p = first;
    for (; p < c->v->profile.n && !(columns >> c->columns.p[p] & 1); p++) {
        if (p > first && !is_sibling(c->v, first, p))
            break;
        columns |= UINT64_C(1) << c->columns.p[p];
    }
    return p;
}

static int put_all(struct converting *c)
{
    cleanup(pprof_release) struct pprof once;
    pprof_init(&once, c->w.strings.arena.budget);
    int r = vec_extend(&c->strings, c->v->string.n);
    r = r < 0 ? r : vec_extend(&c->columns, c->v->profile.n);
    if (r == 0 && c->v->profile.n > 0) {
        r = put_types(c, &once);
        r = r != 0 ? r : take_once(c, &once);
        if (r == 0) {
            pprof_write_profile(&c->w, &once);
            put_tables(c);
        }
    }
    for (uint32_t p = 0, end; r == 0 && p < c->v->profile.n; p = end) {
        end = row_end(c, p);
        put_row(c, p, end);
    }
    return r;
}

static int convert(const struct profiles *view, struct budget *budget, struct buffer *out, build_put *put,
                   void *user, struct to_pprof_lost *ret_lost)
{
    struct converting c = {.v = view, .lost = ret_lost, .put = put, .user = user};
    *ret_lost = (struct to_pprof_lost){0};
    c.strings.budget = c.types.budget = c.columns.budget = c.values.budget = c.labels.budget =
        c.lines.budget = budget;
    pprof_write_begin(&c.w, budget, out);
    c.unescapes = any_is_escaped(&c);
    int r = put_all(&c);
    int written = pprof_write_end(&c.w);
    r = r != 0 ? r : c.failed ? c.failed : written;
    if (r == 0)
        put_written(&c, 0);
    vec_release(&c.strings);
    vec_release(&c.types);
    vec_release(&c.columns);
    vec_release(&c.values);
    vec_release(&c.labels);
    vec_release(&c.lines);
    buffer_release(&c.text);
    return r != 0 ? r : c.failed;
}

int to_pprof(const struct profiles *view, struct budget *budget, struct buffer *out,
             struct to_pprof_lost *ret_lost)
{
    const size_t was = out->n;
    int r = convert(view, budget, out, NULL, NULL, ret_lost);
    if (r != 0)
        out->n = was;
    return r;
}

int to_pprof_pieces(const struct profiles *view, struct budget *budget, build_put *put, void *user,
                    struct to_pprof_lost *ret_lost)
{
    cleanup(buffer_release) struct buffer piece = BUFFER_INIT(0);
    return convert(view, budget, &piece, put, user, ret_lost);
}
