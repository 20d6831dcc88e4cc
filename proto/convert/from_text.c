/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/from_text.h"

#include <stdlib.h>

#include "proto/base/macros.h"
#include "proto/convert/finish.h"
#include "proto/convert/names.h"
#include "proto/convert/stacks.h"

/* How much is looked at to tell text from protobuf. */
#define GUESS_BYTES 4096u

struct from_text {
    struct stacks stacks;
};

static int (*const readers[])(struct stacks *, struct bytes, const struct from_text_options *,
                              struct error *) = {
    [FROM_TEXT_FOLDED] = from_folded,
    [FROM_TEXT_LINES] = from_lines,
    [FROM_TEXT_PERF_SCRIPT] = from_perf_script,
};

struct from_text *from_text_new(struct budget *budget)
{
    struct from_text *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    struct stacks *s = &c->stacks;
    s->budget = budget;
    s->frames = s->heads = s->attrs = (struct intern)INTERN_INIT(budget);
    s->locations.budget = s->head_attrs.budget = s->types.budget = s->samples.budget = s->known.budget =
        s->stack.budget = budget;
    s->text.max = 1u << 20;
    s->build = build_new(budget);
    return s->build ? c : from_text_free(c);
}

struct from_text *from_text_free(struct from_text *c)
{
    if (!c)
        return NULL;
    struct stacks *s = &c->stacks;
    build_free(s->build);
    intern_release(&s->frames);
    intern_release(&s->heads);
    intern_release(&s->attrs);
    vec_release(&s->head_attrs);
    vec_release(&s->locations);
    vec_release(&s->types);
    vec_release(&s->samples);
    hash_table_release(&s->known);
    vec_release(&s->stack);
    buffer_release(&s->text);
    free(c);
    return NULL;
}

static void begin(struct stacks *s, struct bytes text)
{
    build_begin(s->build);
    intern_clear(&s->frames);
    intern_clear(&s->heads);
    intern_clear(&s->attrs);
    vec_clear(&s->head_attrs);
    vec_clear(&s->locations);
    vec_clear(&s->types);
    vec_clear(&s->samples);
    hash_table_clear(&s->known);
    s->escapes = !bytes_is_utf8(text);
    s->lasted = 0;
    s->is_too_long = false;
    s->failed = 0;
    (void)stacks_attrs(s, NULL, 0);
}

static void put_samples(struct stacks *s, const struct stacks_type *type)
{
    for (uint32_t i = type->first; i > 0; i = s->samples.p[i - 1].next) {
        const struct stacks_sample *sample = &s->samples.p[i - 1];
        struct bytes attrs = intern_get(&s->attrs, sample->attrs);
        build_sample(s->build, &(struct build_sample){.stack = sample->stack,
                                                      .attrs = (const void *)attrs.p,
                                                      .n_attrs = (uint32_t)(attrs.n / sizeof(uint32_t)),
                                                      .values = &sample->value,
                                                      .n_values = 1});
    }
}

static int put_all(struct stacks *s, const struct from_text_options *o, struct buffer *out)
{
    static const struct attr escaped = {BYTES_LIT(NAME_ESCAPED), {.kind = ATTR_BOOL, .boolean = true}};
    uint64_t references = 0;
    for (uint32_t i = 0; i < s->samples.n; i++)
        references += intern_get(&s->attrs, s->samples.p[i].attrs).n / sizeof(uint32_t);
    size_t bound = finish_bound(s->samples.n, references);
    struct finish finish;
    int r = finish_begin(&finish, s->build, s->budget, bound, out);
    if (r < 0)
        return finish_end(&finish, s->build, r);
    build_resource(s->build, o->origin.resource, o->origin.n_resource, BYTES_LIT(""));
    build_scope(s->build, o->origin.scope, o->origin.version, &escaped, s->escapes, BYTES_LIT(""));
    for (uint32_t i = 0; i < s->types.n; i++) {
        const struct stacks_type *type = &s->types.p[i];
        struct build_profile profile = {
            .type = stacks_string(s, type->name),
            .unit = stacks_string(s, type->unit),
            .period_type = stacks_string(s, o->period_type),
            .period_unit = stacks_string(s, o->period_unit),
            .period = o->period,
            .time_unix_nano = o->time_unix_nano,
            .duration_nano = o->duration_nano ? o->duration_nano : s->lasted,
        };
        build_profile(s->build, &profile);
        put_samples(s, type);
    }
    r = finish_end(&finish, s->build, s->is_too_long ? FROM_TEXT_TOO_LARGE : s->failed);
    return r == FINISH_TOO_LARGE ? FROM_TEXT_TOO_LARGE : r;
}

int from_text(struct from_text *c, enum from_text_format format, struct bytes text,
              const struct from_text_options *options, struct buffer *out, struct error *e)
{
    struct stacks *s = &c->stacks;
    text = from_text_without_mark(text);
    begin(s, text);
    int r = readers[format](s, text, options, e);
    r = r != 0 ? r : s->is_too_long ? FROM_TEXT_TOO_LARGE : s->failed;
    if (r == 0 && s->samples.n == 0)
        r = error_set(e, FROM_TEXT_MALFORMED, "no stack in it");
    return r != 0 ? r : put_all(s, options, out);
}

/* ---- which one it is -------------------------------------------------------------------------- */

struct bytes from_text_without_mark(struct bytes text)
{
    static const char mark[] = "\xef\xbb\xbf";
    const size_t n = bytes_starts(text, mark) ? sizeof mark - 1 : 0;
    return bytes_of(text.p + n, text.n - n);
}

static bool is_text(struct bytes body)
{
    size_t n = min_of(body.n, (size_t)GUESS_BYTES);
    for (size_t i = 0; i < n; i++)
        if ((body.p[i] < ' ' && body.p[i] != '\t' && body.p[i] != '\n' && body.p[i] != '\r') ||
            body.p[i] == 0x7f)
            return false;
    return n > 0;
}

enum from_text_format from_text_guess(struct bytes body)
{
    struct bytes rest = from_text_without_mark(body), line = {0}, next = {0};
    uint64_t number = 0;
    if (!is_text(body))
        return FROM_TEXT_NONE;
    while (stacks_line(&rest, &line, &number))
        if (bytes_trim(line).n > 0 && line.p[0] != '#')
            break;
    if (bytes_trim(line).n == 0)
        return FROM_TEXT_NONE;
    (void)stacks_line(&rest, &next, &number);
    return perf_script_begins(line, next) ? FROM_TEXT_PERF_SCRIPT : FROM_TEXT_FOLDED;
}
