/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/convert/stacks.h"

#include <errno.h>

#include "proto/base/hash.h"
#include "proto/base/macros.h"
#include "proto/convert/escape.h"
#include "proto/convert/names.h"

bool stacks_line(struct bytes *rest, struct bytes *ret, uint64_t *line)
{
    if (rest->n == 0)
        return false;
    const uint8_t *end = memchr(rest->p, '\n', rest->n);
    size_t n = end ? (size_t)(end - rest->p) : rest->n;
    *ret = bytes_of(rest->p, n > 0 && rest->p[n - 1] == '\r' ? n - 1 : n);
    *rest = end ? bytes_of(end + 1, rest->n - n - 1) : (struct bytes){0};
    ++*line;
    return true;
}

static void fail(struct stacks *s, int r)
{
    s->failed = s->failed ? s->failed : r;
}

uint32_t stacks_frame(struct stacks *s, struct bytes written, bool *ret_is_new)
{
    uint32_t n = s->frames.n, i = intern_add(&s->frames, written);
    *ret_is_new = i == n;
    if (i == INTERN_NONE || (i == n && vec_append(&s->locations, 0) < 0)) {
        fail(s, -ENOMEM);
        return INTERN_NONE;
    }
    return i;
}

struct bytes stacks_text(struct stacks *s, struct bytes text)
{
    if (!s->escapes)
        return text;
    s->text.n = 0;
    int r = escape_bytes(text, &s->text);
    s->is_too_long |= r < 0 && buffer_is_short_of(&s->text, 2 * sizeof BYTES_REPLACEMENT);
    fail(s, r);
    return buffer_bytes(&s->text);
}

uint32_t stacks_string(struct stacks *s, struct bytes text)
{
    return build_string(s->build, stacks_text(s, text));
}

uint32_t stacks_frame_type(struct stacks *s, const char *type)
{
    return build_attribute_text(s->build, NAME_FRAME_TYPE, bytes_str(type));
}

/* V8 names what it compiled by its kind, with a mark of how: "LazyCompile:~main /app.js:1". */
static bool is_v8(struct bytes name)
{
    static const char *const kinds[] = {"LazyCompile:",     "Function:", "Script:", "Eval:", "Builtin:",
                                        "BytecodeHandler:", "Handler:",  "RegExp:", "JS:",   "Stub:"};
    for (size_t i = 0; i < ARRAY_LEN(kinds); i++)
        if (bytes_starts(name, kinds[i]))
            return true;
    return false;
}

/* "Ljava/lang/String;::length", as perf-map-agent and JVMTI agents write, and "java/lang/String:::length",
 * which folding makes of it. */
static bool is_jvm(struct bytes name)
{
    const uint8_t *end = memmem(name.p, name.n, ";::", 3);
    end = end ? end : memmem(name.p, name.n, ":::", 3);
    return end && memchr(name.p, '/', (size_t)(end - name.p));
}

const char *stacks_runtime(struct bytes name)
{
    return name.n == 0                  ? NULL
           : bytes_starts(name, "py::") ? "cpython"
           : is_jvm(name)               ? "jvm"
           : is_v8(name)                ? "v8js"
                                        : NULL;
}

int stacks_type(struct stacks *s, struct bytes name, struct bytes unit, uint32_t *ret, struct error *e)
{
    for (*ret = 0; *ret < s->types.n; ++*ret)
        if (bytes_eq(s->types.p[*ret].name, name) && bytes_eq(s->types.p[*ret].unit, unit))
            return 0;
    if (s->types.n == STACKS_TYPES_MAX)
        return error_set(e, FROM_TEXT_MALFORMED, "more than %u kinds of events", STACKS_TYPES_MAX);
    return vec_append(&s->types, (struct stacks_type){.name = name, .unit = unit});
}

uint32_t stacks_attrs(struct stacks *s, const uint32_t *attrs, uint32_t n)
{
    uint32_t i = intern_add(&s->attrs, bytes_of(attrs, n * sizeof *attrs));
    if (i == INTERN_NONE)
        fail(s, -ENOMEM);
    return i == INTERN_NONE ? 0 : i;
}

int stacks_add(struct stacks *s, uint32_t type, uint32_t stack, uint32_t attrs, int64_t value)
{
    struct hash_at at = hash_table_at(&s->known, hash_mix(hash_mix(stack, attrs), type));
    for (uint32_t i; (i = hash_table_next(&s->known, &at)) != HASH_NONE;) {
        struct stacks_sample *known = &s->samples.p[i];
        if (known->stack == stack && known->attrs == attrs && known->type == type)
            return __builtin_add_overflow(known->value, value, &known->value) ? FROM_TEXT_MALFORMED : 0;
    }
    uint32_t i = s->samples.n;
    struct stacks_sample sample = {.type = type, .stack = stack, .attrs = attrs, .value = value};
    int r = vec_append(&s->samples, sample);
    r = r < 0 ? r : hash_table_add(&s->known, at, i);
    if (r < 0)
        return r;
    struct stacks_type *of = &s->types.p[type];
    if (of->last)
        s->samples.p[of->last - 1].next = i + 1;
    else
        of->first = i + 1;
    of->last = i + 1;
    return 0;
}
