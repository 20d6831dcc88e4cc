/* SPDX-License-Identifier: Apache-2.0 */
#include <errno.h>
#include <string.h>

#include "gateway/classify/attr_text.h"
#include "gateway/classify/parts.h"
#include "proto/base/hash.h"
#include "proto/base/macros.h"

/* Attribute keys that fields of a frame come from (LANGUAGE §1; OpenTelemetry semantic
 * conventions). */
enum frame_key { KEY_NONE, KEY_TYPE, KEY_BUILD_ID_GNU, KEY_BUILD_ID_GO, KEY_BUILD_ID_HTLHASH, KEY_N };
static const struct bytes frame_keys[KEY_N] = {
    [KEY_TYPE] = BYTES_LIT("profile.frame.type"),
    [KEY_BUILD_ID_GNU] = BYTES_LIT("process.executable.build_id.gnu"),
    [KEY_BUILD_ID_GO] = BYTES_LIT("process.executable.build_id.go"),
    [KEY_BUILD_ID_HTLHASH] = BYTES_LIT("process.executable.build_id.htlhash"),
};

static __attribute__((noinline)) uint32_t new_string(struct classify *c, uint32_t string)
{
    uint32_t made = rules_matcher_string(c->matcher, profiles_string(c->request.view, string));
    if (made != RULES_NONE)
        c->request.string_id.p[string] = made + 1;
    return made;
}

static inline uint32_t string_of(struct classify *c, uint32_t string)
{
    uint32_t id = c->request.string_id.p[string];
    return likely(id != 0) ? id - 1 : new_string(c, string);
}

/* Of a text that many values may refer to, so that each is not as dear as the text is long. */
static __attribute__((noinline)) uint32_t long_text(struct classify *c, struct bytes text)
{
    struct long_text *known =
        &c->request.long_texts[hash_mix((uintptr_t)text.p, text.n) % CLASSIFY_LONG_TEXTS];
    if (known->p == text.p && known->n == text.n)
        return known->id;
    uint32_t id = rules_matcher_string(c->matcher, text);
    *known = (struct long_text){text.p, text.n, id};
    return id;
}

/* What is written is work, and beyond its bound there are no texts: the request is refused (classify.c). One
 * that is too long is none, too. */
static uint32_t value_text(struct classify *c, const struct attr_value *value)
{
    struct classify_request *r = &c->request;
    if (value->kind == ATTR_STRING)
        return likely(value->text.n < CLASSIFY_LONG) ? rules_matcher_string(c->matcher, value->text)
                                                     : long_text(c, value->text);
    if (r->work > r->work_max)
        return RULES_NONE;
    buffer_clear(&c->text, 1 << 16);
    int result = attr_text(r->view, value, &c->text);
    r->work += CLASSIFY_WORK_TEXT * c->text.n;
    return result < 0 ? RULES_NONE : rules_matcher_string(c->matcher, buffer_bytes(&c->text));
}

/* In attr_id, where 0 is what nobody asked for yet, and RULES_NONE is a text, too: there is none. */
#define ATTR_ID 2u

static uint32_t attribute_text(struct classify *c, uint32_t attribute)
{
    uint32_t *id = &c->request.attr_id.p[attribute];
    if (*id == 0)
        *id = value_text(c, &c->request.view->attribute.value[attribute]) + ATTR_ID;
    return *id - ATTR_ID;
}

/* ---- which key an entry of the attribute table has ----------------------------------------- */

static uint8_t frame_key_of(struct bytes key)
{
    for (int k = KEY_TYPE; k < KEY_N; k++)
        if (bytes_eq(key, frame_keys[k]))
            return (uint8_t)k;
    return KEY_NONE;
}

static uint32_t rule_key_of(const struct classify *c, struct bytes key)
{
    for (uint32_t k = 0; k < c->n_attrs; k++)
        if (bytes_eq(key, rules_program_attr(c->program, k)))
            return k + 1;
    return 0;
}

/* What keys mean, by string: the attributes of a request are many, their keys a few. */
#define KEYS 64u
struct key_memo {
    uint32_t string, rule_key; /* string + 1 */
    uint8_t frame_key;
};

static const struct key_memo *key_memo(const struct classify *c, struct key_memo *memos, uint32_t string)
{
    struct key_memo *memo = &memos[string % KEYS];
    if (memo->string != string + 1) {
        struct bytes key = profiles_string(c->request.view, string);
        *memo = (struct key_memo){string + 1, rule_key_of(c, key), frame_key_of(key)};
    }
    return memo;
}

#define FIELDS_OF_FUNCTION (1u << RULE_FIELD_FUNCTION | 1u << RULE_FIELD_SYSTEM_NAME | 1u << RULE_FIELD_FILE)
#define FIELDS_OF_MAPPING  (1u << RULE_FIELD_MAPPING | 1u << RULE_FIELD_LIBRARY | 1u << RULE_FIELD_BUILD_ID)

/* What a type says of its frames. */
static struct frame_kind frame_kind(struct classify *c, uint32_t type)
{
    uint32_t fields = rules_matcher_fields(c->matcher, type) & ~(1u << RULE_FIELD_TYPE);
    struct frame_kind kind = {type,
                              fields,
                              CLASSIFY_UNKNOWN,
                              fields & FIELDS_OF_MAPPING ? UINT32_MAX : 0,
                              (fields & FIELDS_OF_FUNCTION) != 0,
                              fields == 1u << RULE_FIELD_FUNCTION && !c->wants_inlined};
    if (kind.fields == 0 && !c->wants_inlined) { /* the type alone: one class for all of them */
        struct rules_frame frame;
        memset(frame.field, 0xff, sizeof frame.field);
        frame.field[RULE_FIELD_TYPE] = type;
        frame.inlined = false;
        kind.class = rules_matcher_frame(c->matcher, &frame);
    }
    return kind;
}

static int prepare_attributes(struct classify *c)
{
    struct key_memo memos[KEYS] = {{0}};
    uint32_t n = c->request.view->attribute.n;
    struct classify_request *r = &c->request;
    if (classify_room(&r->attr_id, n) < 0 || classify_room(&r->attr_kind, n) < 0 ||
        classify_room(&r->attr_frame, n) < 0 || classify_room(&r->attr_key, n) < 0 ||
        classify_room(&r->attr_says, n) < 0)
        return -ENOMEM;
    struct frame_kind *kind = r->attr_kind.p;
    memset(r->attr_id.p, 0, n * sizeof *r->attr_id.p);
    for (uint32_t i = 0; i < n; i++) {
        const struct key_memo *key = key_memo(c, memos, c->request.view->attribute.key[i]);
        r->attr_frame.p[i] = key->frame_key;
        r->attr_key.p[i] = key->rule_key;
        r->attr_says.p[i] = key->rule_key == 0 ? 0 : rules_says(key->rule_key - 1);
        kind[i].type = RULES_NONE;
        if (key->frame_key == KEY_TYPE) { /* once an attribute: thousands of locations share a handful */
            bool text = c->request.view->attribute.value[i].kind == ATTR_STRING;
            kind[i] =
                frame_kind(c, text ? attribute_text(c, i) : rules_matcher_string(c->matcher, BYTES_LIT("")));
        }
    }
    return 0;
}

/* ---- the fields of a frame ----------------------------------------------------------------- */

/* By the location's frame type: the first attribute of that key, "" if it is no string. */
static inline const struct frame_kind *location_kind(const struct profiles *v, const struct frame_kind *kinds,
                                                     const struct frame_kind *none, uint32_t location)
{
    for (uint32_t i = v->location.attrs_at[location]; i < v->location.attrs_at[location + 1]; i++) {
        const struct frame_kind *kind = &kinds[v->attr_index.attribute[i]];
        if (likely(kind->type != RULES_NONE))
            return kind;
    }
    return none;
}

static uint32_t find_build_id(struct classify *c, uint32_t mapping)
{
    const struct profiles *v = c->request.view;
    const uint8_t *frame_key = c->request.attr_frame.p;
    uint32_t best = RULES_NONE, best_key = KEY_N;
    for (uint32_t i = v->mapping.attrs_at[mapping]; i < v->mapping.attrs_at[mapping + 1]; i++) {
        uint32_t attribute = v->attr_index.attribute[i], key = frame_key[attribute];
        if (key >= KEY_BUILD_ID_GNU && key < best_key) {
            best = attribute_text(c, attribute);
            best_key = key;
        }
    }
    return best;
}

/* Once a mapping: its frames may be as many as its attributes. Without memory to remember it, every time. */
static uint32_t mapping_build_id(struct classify *c, uint32_t mapping)
{
    struct attr_answer *answer = c->request.build_id.p + mapping;
    if (answer->owner == 0)
        *answer = (struct attr_answer){1, find_build_id(c, mapping)};
    return answer->text;
}

static uint32_t frame_location(const struct classify *c, uint32_t frame)
{
    return c->request.frames_at ? c->request.frame_location.p[frame] : frame;
}

/* The frame's line, or CLASSIFY_UNKNOWN of a location without lines. */
static uint32_t frame_line(const struct classify *c, uint32_t location, uint32_t frame)
{
    const struct profiles *v = c->request.view;
    if (v->location.lines_at[location] == v->location.lines_at[location + 1])
        return CLASSIFY_UNKNOWN;
    return v->location.lines_at[location] +
           (c->request.frames_at ? frame - c->request.frames_at[location] : 0);
}

static bool is_inlined(const struct classify *c, uint32_t location, uint32_t line)
{
    return line != CLASSIFY_UNKNOWN && line + 1 < c->request.view->location.lines_at[location + 1];
}

static uint32_t field_of(struct classify *c, uint32_t location, uint32_t line, enum rule_field field)
{
    const struct profiles *v = c->request.view;
    uint32_t mapping = v->location.mapping[location], function;
    switch (field) {
    case RULE_FIELD_TYPE: return c->request.location_type.p[location];
    case RULE_FIELD_FUNCTION:
    case RULE_FIELD_SYSTEM_NAME:
    case RULE_FIELD_FILE:
        if (line == CLASSIFY_UNKNOWN)
            return RULES_NONE;
        function = v->line.function[line];
        return string_of(c, field == RULE_FIELD_FUNCTION      ? v->function.name[function]
                            : field == RULE_FIELD_SYSTEM_NAME ? v->function.system_name[function]
                                                              : v->function.filename[function]);
    case RULE_FIELD_MAPPING: return mapping == 0 ? RULES_NONE : string_of(c, v->mapping.filename[mapping]);
    case RULE_FIELD_LIBRARY:
        return mapping == 0 ? RULES_NONE
                            : rules_matcher_library(c->matcher, string_of(c, v->mapping.filename[mapping]));
    case RULE_FIELD_BUILD_ID: return mapping == 0 ? RULES_NONE : mapping_build_id(c, mapping);
    case RULE_FIELD_COLUMN: break;
    }
    return RULES_NONE;
}

/* ---- classes of all frames ----------------------------------------------------------------- */

/* Frames of locations: as the locations themselves while each has at most one line, which is what profilers
 * that leave inlining to the backend send; else numbered one after the other. */
static int prepare_frame_numbers(struct classify *c)
{
    const struct profiles *v = c->request.view;
    uint32_t n = v->location.n;
    c->request.frames_at = NULL;
    c->request.n_frames = n;
    if (!v->location.several)
        return 0;
    if ((uint64_t)v->line.n + n > UINT32_MAX)
        return -ENOMEM;
    if (classify_room(&c->request.location_frames, n) < 0 ||
        classify_room(&c->request.frame_location, (uint64_t)v->line.n + n) < 0)
        return -ENOMEM;
    uint32_t *at = c->request.location_frames.p, *location = c->request.frame_location.p;
    uint32_t frame = 0;
    for (uint32_t i = 0; i < n; i++) {
        at[i] = frame;
        uint32_t lines = v->location.lines_at[i + 1] - v->location.lines_at[i];
        for (uint32_t k = 0; k < max_of(lines, 1u); k++)
            location[frame++] = i;
    }
    at[n] = c->request.n_frames = frame;
    c->request.frames_at = at;
    return 0;
}

static uint32_t whole_class(struct classify *c, uint32_t location, uint32_t line, bool inlined,
                            const struct frame_kind *kind)
{
    struct rules_frame frame;
    memset(frame.field, 0xff, sizeof frame.field);
    frame.field[RULE_FIELD_TYPE] = kind->type;
    for (uint32_t left = kind->fields; left; left &= left - 1) {
        uint32_t field = (uint32_t)__builtin_ctz(left);
        frame.field[field] = field_of(c, location, line, (enum rule_field)field);
    }
    frame.inlined = inlined;
    return rules_matcher_frame(c->matcher, &frame);
}

/* Most functions and mappings have frames of one type, and functions of one mapping: their class is beside
 * them, so that a name is looked at once a request. */
static inline struct class_memo *memo_of(const struct profiles *v, struct class_memo *functions,
                                         struct class_memo *mappings, uint32_t line, uint32_t mapping,
                                         const struct frame_kind *kind)
{
    return line != CLASSIFY_UNKNOWN && kind->by_function ? &functions[v->line.function[line]]
                                                         : &mappings[mapping];
}

static __attribute__((noinline)) uint32_t learn_class(struct classify *c, uint32_t location, uint32_t line,
                                                      const struct frame_kind *kind, struct class_memo *memo)
{
    uint32_t class = whole_class(c, location, line, c->wants_inlined && is_inlined(c, location, line), kind);
    if (likely(rules_matcher_error(c->matcher) == 0 &&
               (memo->type == CLASSIFY_NO_TYPE || memo->class != CLASSIFY_UNKNOWN)))
        *memo = (struct class_memo){kind->type,
                                    c->request.view->location.mapping[location] & kind->mapping_mask, class};
    return class;
}

/* Where a function's name is all that matters, frames are done in three passes: each finds its function and
 * asks for it; the names of functions that were asked for are looked up, in the order of the table and many
 * at a time; frames take the class of their function, which they have in place of a class until then. A
 * function is asked for as of its first frame's type, its class being CLASSIFY_UNKNOWN until it is known;
 * frames of it that have another type go their own way. */
struct asked {
    struct class_memo *memo;    /* [function] */
    uint32_t *class;            /* [frame] */
    uint32_t *functions, n;     /* [function.n + 1] */
    uint32_t *frames, n_frames; /* those that wait */
};

static struct asked none_asked(const struct classify *c)
{
    return (struct asked){.memo = c->request.function_class.p,
                          .class = c->request.frame_class.p,
                          .functions = c->request.asked_functions.p,
                          .frames = c->request.asked_frames.p};
}

static __attribute__((noinline)) uint32_t other_type(struct classify *c, uint32_t function, uint32_t type)
{
    uint32_t name = string_of(c, c->request.view->function.name[function]);
    return name == RULES_NONE ? 0 : rules_matcher_frame_text(c->matcher, type, RULE_FIELD_FUNCTION, name);
}

/* `asked` is a local of whoever inlines this, so that what is written to the tables cannot be it. */
static inline __attribute__((always_inline)) void ask_class(struct classify *c, struct asked *asked,
                                                            uint32_t frame, uint32_t function, uint32_t type)
{
    struct class_memo *memo = &asked->memo[function];
    uint32_t was = memo->type;
    asked->functions[asked->n] = function; /* without a branch: every second frame is the first of its own */
    asked->n += was == CLASSIFY_NO_TYPE;
    memo->type = was == CLASSIFY_NO_TYPE ? type : was;
    asked->class[frame] = function;
    asked->frames[asked->n_frames++] = frame;
    if (unlikely(memo->type != type)) {
        asked->n_frames--;
        asked->class[frame] = other_type(c, function, type);
    }
}

/* Some of the functions that were asked for: their names are looked up together. */
static inline void look_up(struct classify *c, struct class_memo *memo, const uint32_t *functions, uint32_t n)
{
    const struct profiles *v = c->request.view;
    const uint32_t *names = v->function.name;
    uint32_t *string_id = c->request.string_id.p;
    struct rules_named_frame frame[RULES_NAMED_MAX];
    uint32_t of[RULES_NAMED_MAX], k = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t string = names[functions[i]], known = string_id[string];
        if (unlikely(known != 0)) {
            memo[functions[i]].class =
                rules_matcher_frame_text(c->matcher, memo[functions[i]].type, RULE_FIELD_FUNCTION, known - 1);
            continue;
        }
        frame[k].name = profiles_string(v, string);
        frame[k].type = memo[functions[i]].type;
        of[k++] = functions[i];
    }
    rules_matcher_named_frames(c->matcher, frame, k);
    for (uint32_t i = 0; i < k; i++) {
        memo[of[i]].class = frame[i].class;
        string_id[names[of[i]]] = frame[i].string + 1; /* 0, unknown, of RULES_NONE */
    }
}

static void answer(struct classify *c, struct asked asked)
{
    for (uint32_t i = 0; i < asked.n; i += RULES_NAMED_MAX)
        look_up(c, asked.memo, asked.functions + i, min_of(asked.n - i, RULES_NAMED_MAX));
    for (uint32_t i = 0; i < asked.n_frames; i++)
        asked.class[asked.frames[i]] = asked.memo[asked.class[asked.frames[i]]].class;
}

/* Finds the class of a frame that its type alone does not say. `known`: the memo may be believed. */
static inline __attribute__((always_inline)) void find_class(struct classify *c, struct asked *asked,
                                                             uint32_t location, uint32_t frame, uint32_t line,
                                                             const struct frame_kind *kind, bool known)
{
    if (likely(kind->by_name && line != CLASSIFY_UNKNOWN)) {
        ask_class(c, asked, frame, c->request.view->line.function[line], kind->type);
        return;
    }
    uint32_t in = c->request.view->location.mapping[location] & kind->mapping_mask;
    struct class_memo *memo =
        memo_of(c->request.view, c->request.function_class.p, c->request.mapping_class.p, line, in, kind);
    if (likely(known && memo->type == kind->type && memo->mapping == in))
        c->request.frame_class.p[frame] = memo->class;
    else
        c->request.frame_class.p[frame] = learn_class(c, location, line, kind, memo);
}

/* Classes of locations that are one frame each, and so not inlined. */
static void single_frames(struct classify *c, const struct frame_kind *kinds, const struct frame_kind *none)
{
    struct asked asked = none_asked(c);
    const struct profiles *v = c->request.view;
    const uint32_t *attrs_at = v->location.attrs_at, *attribute = v->attr_index.attribute,
                   *lines_at = v->location.lines_at;
    uint32_t *type = c->request.location_type.p, *class = c->request.frame_class.p;
    for (uint32_t i = 0, n = v->location.n, at = attrs_at[0]; i < n; i++) {
        const struct frame_kind *kind = none;
        for (uint32_t end = attrs_at[i + 1]; at < end; at++) {
            if (likely(kinds[attribute[at]].type != RULES_NONE)) {
                kind = &kinds[attribute[at]];
                at = end;
            }
        }
        at = attrs_at[i + 1];
        type[i] = kind->type;
        if (likely(kind->class != CLASSIFY_UNKNOWN))
            class[i] = kind->class;
        else
            find_class(c, &asked, i, i, lines_at[i] == lines_at[i + 1] ? CLASSIFY_UNKNOWN : lines_at[i], kind,
                       true);
    }
    answer(c, asked);
}

static void several_frames(struct classify *c, const struct frame_kind *kinds, const struct frame_kind *none)
{
    struct asked asked = none_asked(c);
    const struct profiles *v = c->request.view;
    const uint32_t *frames_at = c->request.frames_at;
    uint32_t *class = c->request.frame_class.p, *item = c->request.location_class.p;
    for (uint32_t i = 0; i < v->location.n; i++) {
        const struct frame_kind *kind = location_kind(v, kinds, none, i);
        c->request.location_type.p[i] = kind->type;
        for (uint32_t f = frames_at[i]; f < frames_at[i + 1]; f++) {
            if (kind->class != CLASSIFY_UNKNOWN)
                class[f] = kind->class;
            else
                find_class(c, &asked, i, f, frame_line(c, i, f), kind, !c->wants_inlined);
        }
    }
    answer(c, asked);
    for (uint32_t i = 0; i < v->location.n; i++)
        item[i] = frames_at[i + 1] - frames_at[i] == 1 ? class[frames_at[i]] : RULES_MANY;
}

/* Memory of what a request's functions and mappings are, not known yet. */
static int prepare_memos(struct classify *c)
{
    const struct profiles *v = c->request.view;
    struct classify_request *r = &c->request;
    if (classify_room(&r->function_class, v->function.n) < 0 ||
        classify_room(&r->mapping_class, v->mapping.n) < 0 || classify_room(&r->build_id, v->mapping.n) < 0)
        return -ENOMEM;
    for (uint32_t i = 0; i <= v->function.n; i++)
        r->function_class.p[i] = (struct class_memo){CLASSIFY_NO_TYPE, 0, CLASSIFY_UNKNOWN};
    for (uint32_t i = 0; i <= v->mapping.n; i++)
        r->mapping_class.p[i] = (struct class_memo){CLASSIFY_NO_TYPE, 0, CLASSIFY_UNKNOWN};
    memset(r->build_id.p, 0, v->mapping.n * sizeof *r->build_id.p);
    return 0;
}

int frames_prepare(struct classify *c)
{
    const struct profiles *v = c->request.view;
    struct classify_request *r = &c->request;
    if (classify_room(&r->string_id, v->string.n) < 0 || classify_room(&r->location_type, v->location.n) < 0)
        return -ENOMEM;
    memset(r->string_id.p, 0, v->string.n * sizeof *r->string_id.p);
    memset(r->long_texts, 0, sizeof r->long_texts);
    if (prepare_memos(c) < 0 || prepare_attributes(c) < 0 || prepare_frame_numbers(c) < 0 ||
        classify_room(&r->frame_class, r->n_frames) < 0 || classify_room(&r->asked_frames, r->n_frames) < 0 ||
        classify_room(&r->asked_functions, v->function.n) < 0 ||
        classify_room(&r->location_class, r->frames_at ? v->location.n : 0) < 0)
        return -ENOMEM;
    c->request.stack = (struct rules_stack){.frames_at = c->request.frames_at,
                                            .classes = c->request.frame_class.p,
                                            .item_classes = c->request.location_class.p};
    c->asker.types = c->request.frames_at ? NULL : c->request.location_type.p; /* else not by frame */
    r->attrs_of = 0;
    r->said =
        hash_mix(++c->requests, c->said_key); /* what samples of others said is not asked for any more */
    struct frame_kind none = frame_kind(c, RULES_NONE);
    if (c->request.frames_at)
        several_frames(c, c->request.attr_kind.p, &none);
    else
        single_frames(c, c->request.attr_kind.p, &none);
    return rules_matcher_error(c->matcher);
}

/* ---- what the matcher may ask -------------------------------------------------------------- */

static uint32_t ask_field(void *context, uint32_t frame, enum rule_field field)
{
    struct classify *c = context;
    uint32_t location = frame_location(c, frame);
    return field_of(c, location, frame_line(c, location, frame), field);
}

static bool ask_inlined(void *context, uint32_t frame)
{
    struct classify *c = context;
    uint32_t location = frame_location(c, frame);
    return is_inlined(c, location, frame_line(c, location, frame));
}

/* The first of the attributes attr_index[from … to) that has the key. */
static uint32_t find_indexed(struct classify *c, uint32_t from, uint32_t to, uint32_t key)
{
    const uint32_t *rule_key = c->request.attr_key.p;
    for (uint32_t i = from; i < to; i++)
        if (rule_key[c->request.view->attr_index.attribute[i]] == key + 1)
            return attribute_text(c, c->request.view->attr_index.attribute[i]);
    return RULES_NONE;
}

/* All that rules ask for of a sample in one look at its list. */
static __attribute__((noinline)) void read_sample(struct classify *c)
{
    const struct profiles *v = c->request.view;
    const uint32_t *rule_key = c->request.attr_key.p, *id = c->request.attr_id.p,
                   *attribute = v->attr_index.attribute + v->sample.attrs_at[c->request.sample],
                   *end = v->attr_index.attribute + v->sample.attrs_at[c->request.sample + 1];
    uint32_t *text = c->sample_attrs, *keys = c->sample_keys, n = c->n_sample_keys;
    for (uint32_t i = 0; i < n; i++)
        text[keys[i]] = RULES_NONE;
    for (n = 0; attribute < end; attribute++) {
        uint32_t k = rule_key[*attribute];
        if (k == 0 || text[k - 1] != RULES_NONE)
            continue;
        uint32_t found =
            likely(id[*attribute] != 0) ? id[*attribute] - ATTR_ID : attribute_text(c, *attribute);
        text[k - 1] = found;
        keys[n] = k - 1;
        n += found != RULES_NONE;
    }
    c->n_sample_keys = n;
    c->request.attrs_of = c->request.sample + 1;
}

static inline uint32_t sample_attr(struct classify *c, uint32_t key)
{
    if (c->request.attrs_of != c->request.sample + 1)
        read_sample(c);
    return c->sample_attrs[key];
}

static bool ask_linked(void *context)
{
    struct classify *c = context;
    return c->request.view->link.span_at[c->request.view->sample.link[c->request.sample]] != 0;
}

static __attribute__((noinline)) uint32_t learn_says(struct classify *c, uint64_t keys, struct said *said,
                                                     uint64_t list)
{
    if (c->request.attrs_of != c->request.sample + 1)
        read_sample(c);
    uint32_t says = rules_matcher_sample(c->matcher, keys, c->sample_attrs, ask_linked(c));
    if (rules_matcher_error(c->matcher) == 0)
        *said = (struct said){list, says};
    return says;
}

static uint32_t ask_sample(void *context, uint64_t keys)
{
    struct classify *c = context;
    const struct profiles *v = c->request.view;
    const uint64_t *says = c->request.attr_says.p;
    const uint32_t *attribute = v->attr_index.attribute + v->sample.attrs_at[c->request.sample],
                   *end = v->attr_index.attribute + v->sample.attrs_at[c->request.sample + 1];
    uint64_t list = (c->request.said ^ keys) * c->said_key;
    if (keys & RULES_SAYS_LINKED && ask_linked(c))
        list = ~list; /* as no attribute, of 32 bits, makes of another */
    for (; attribute < end; attribute++) {
        if (!(keys & says[*attribute]))
            continue;
        list = (list ^ *attribute) * c->said_key;
        list ^= list >> 32;
    }
    struct said *said = &c->said[list >> 32 & (CLASSIFY_SAID - 1)];
    return likely(said->list == list) ? said->says : learn_says(c, keys, said, list);
}

static uint32_t find_keyed(struct classify *c, uint32_t from, uint32_t to, uint32_t key)
{
    struct bytes want = rules_program_attr(c->program, key);
    for (uint32_t i = from; i < to; i++)
        if (bytes_eq(c->request.view->key_value.attr[i].key, want))
            return value_text(c, &c->request.view->key_value.attr[i].value);
    return RULES_NONE;
}

/* The place of the last answer for this key, of that kind of owner; true when it is this owner's. */
static bool answered(struct classify *c, uint32_t kind, uint32_t key, uint32_t owner,
                     struct attr_answer **ret)
{
    struct attr_answer *a = &c->answers[kind * c->n_attrs + key];
    bool same = a->owner == owner + 1;
    a->owner = owner + 1;
    *ret = a;
    return same;
}

static uint32_t ask_attr(void *context, enum rule_scope scope, uint32_t key)
{
    struct classify *c = context;
    const struct profiles *v = c->request.view;
    uint32_t in = v->profile.scope[c->request.profile], of = v->scope.resource[in], found;
    struct attr_answer *a;
    switch (scope) {
    case RULE_SCOPE_SAMPLE: return sample_attr(c, key);
    case RULE_SCOPE_PROFILE:
        if (!answered(c, 0, key, c->request.profile, &a))
            a->text = find_indexed(c, v->profile.attrs_at[c->request.profile],
                                   v->profile.attrs_at[c->request.profile + 1], key);
        return a->text;
    case RULE_SCOPE_SCOPE:
        if (!answered(c, 1, key, in, &a))
            a->text = find_keyed(c, v->scope.attrs_at[in], v->scope.attrs_at[in + 1], key);
        return a->text;
    case RULE_SCOPE_RESOURCE:
        if (!answered(c, 2, key, of, &a))
            a->text = find_keyed(c, v->resource.attrs_at[of], v->resource.attrs_at[of + 1], key);
        return a->text;
    case RULE_SCOPE_ATTR:
        for (int s = RULE_SCOPE_SAMPLE; s <= RULE_SCOPE_RESOURCE; s++)
            if ((found = ask_attr(c, (enum rule_scope)s, key)) != RULES_NONE)
                return found;
    }
    return RULES_NONE;
}

static uint32_t ask_type(void *context)
{
    struct classify *c = context;
    return string_of(c, c->request.view->profile.type[c->request.profile]);
}

static uint32_t ask_unit(void *context)
{
    struct classify *c = context;
    return string_of(c, c->request.view->profile.unit[c->request.profile]);
}

void frames_asker(struct classify *c, struct rules_asker *ret)
{
    *ret = (struct rules_asker){c,        ask_field,  ask_inlined, ask_attr,  ask_type,
                                ask_unit, ask_linked, NULL,        ask_sample};
}
