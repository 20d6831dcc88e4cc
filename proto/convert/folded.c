/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A frame is known by its text, so a line costs one look-up a frame. Frames marked as inlined stand behind
 * the frame whose code they are in, and are one location with it: known by their texts together.
 */
#include <errno.h>

#include "proto/base/macros.h"
#include "proto/convert/names.h"
#include "proto/convert/stacks.h"
#include "proto/otlp/view/profiles.h"

/* Takes the blank and the number at the end of a line off it. 0: there is none; 1: *ret; -1: it is no whole
 * number, or passes 2^63. */
static int take_count(struct bytes *line, int64_t *ret)
{
    size_t end = line->n, at;
    while (end > 0 && (line->p[end - 1] == ' ' || line->p[end - 1] == '\t'))
        end--;
    for (at = end; at > 0 && line->p[at - 1] >= '0' && line->p[at - 1] <= '9'; at--)
        ;
    size_t digits = at;
    bool is_fraction = at < end && at > 1 && line->p[at - 1] == '.';
    while (is_fraction && at > 0 &&
           ((line->p[at - 1] >= '0' && line->p[at - 1] <= '9') || line->p[at - 1] == '.'))
        at--;
    bool is_negative = at > 0 && line->p[at - 1] == '-';
    at -= is_negative;
    if (digits == end || at == 0 || (line->p[at - 1] != ' ' && line->p[at - 1] != '\t'))
        return 0;
    int64_t value = 0;
    for (size_t i = at + is_negative; i < end; i++) {
        int64_t digit = line->p[i] - '0';
        if (is_fraction || __builtin_mul_overflow(value, 10, &value) ||
            __builtin_sub_overflow(value, digit, &value)) /* below zero there is one more */
            return -1;
    }
    if (!is_negative && value == INT64_MIN)
        return -1;
    *ret = is_negative ? value : -value;
    *line = bytes_of(line->p, at);
    while (line->n > 0 && (line->p[line->n - 1] == ' ' || line->p[line->n - 1] == '\t'))
        line->n--;
    return 1;
}

static struct bytes next_frame(struct bytes *rest)
{
    const uint8_t *end = rest->n ? memchr(rest->p, ';', rest->n) : NULL;
    struct bytes frame = bytes_of(rest->p, end ? (size_t)(end - rest->p) : rest->n);
    *rest = end ? bytes_of(end + 1, rest->n - frame.n - 1) : (struct bytes){0};
    return frame;
}

static uint32_t put_function(struct stacks *s, struct bytes frame)
{
    struct bytes name = bytes_of(frame.p, frame.n - (folded_mark(frame) ? FOLDED_MARK_BYTES : 0));
    return build_function(s->build, &(struct build_function){
                                        .name = stacks_string(s, name),
                                        .system_name = name.n < frame.n ? stacks_string(s, frame) : 0,
                                    });
}

/* The location of a frame with those that are inlined into it, which is written as they are. */
static uint32_t put_location(struct stacks *s, struct bytes written)
{
    struct build_line lines[32];
    uint32_t n = 0, at = ARRAY_LEN(lines), attr = 0;
    const char *type = NULL;
    for (struct bytes rest = written; rest.n > 0 && at > 0;) {
        struct bytes frame = next_frame(&rest);
        if (frame.n == 0)
            continue;
        lines[--at] = (struct build_line){.function = put_function(s, frame)};
        if (n++ == 0)
            type = folded_mark(frame) == 'k' ? "kernel" : stacks_runtime(frame);
    }
    if (type)
        attr = stacks_frame_type(s, type);
    return build_location(
        s->build,
        &(struct build_location){.lines = lines + at, .n_lines = n, .attrs = &attr, .n_attrs = type != NULL});
}

/* How many frames of one location are written out at most; further ones begin another. */
#define INLINED_MAX 31u

/* The frames at the front that are one location. */
static struct bytes next_location(struct bytes *rest)
{
    struct bytes all = next_frame(rest);
    for (uint32_t i = 0; i < INLINED_MAX && rest->n > 0; i++) {
        struct bytes after = *rest, frame = next_frame(&after);
        if (folded_mark(frame) != 'i')
            break;
        all.n = (size_t)(frame.p + frame.n - all.p);
        *rest = after;
    }
    return all;
}

static uint32_t put_stack(struct stacks *s, struct bytes line)
{
    vec_clear(&s->stack);
    while (line.n > 0) {
        bool is_new;
        struct bytes written = next_location(&line);
        if (written.n == 0)
            continue; /* ";;" */
        uint32_t frame = stacks_frame(s, written, &is_new);
        if (frame == INTERN_NONE)
            return 0;
        if (is_new)
            s->locations.p[frame] = put_location(s, written);
        if (vec_append(&s->stack, s->locations.p[frame]) < 0)
            s->failed = -ENOMEM;
    }
    for (uint32_t i = 0, n = s->stack.n; i < n / 2; i++) {
        uint32_t location = s->stack.p[i];
        s->stack.p[i] = s->stack.p[n - 1 - i];
        s->stack.p[n - 1 - i] = location;
    }
    return build_stack(s->build, s->stack.p, s->stack.n);
}

static bool is_nothing(struct bytes line)
{
    return bytes_trim(line).n == 0 || bytes_starts(line, "# ");
}

/* How many counts every line has: 2 if all have two, else 1. */
static uint32_t count_columns(struct bytes text)
{
    struct bytes line;
    uint64_t number = 0;
    int64_t ignored;
    while (stacks_line(&text, &line, &number)) {
        for (uint32_t n = is_nothing(line) ? 2 : 0; n < 2; n++)
            if (take_count(&line, &ignored) != 1)
                return 1;
    }
    return 2;
}

static int put_types(struct stacks *s, const struct from_text_options *o, uint32_t n, struct error *e)
{
    static const struct bytes differ[] = {BYTES_LIT("before"), BYTES_LIT("after")};
    struct bytes type = o->type.n ? o->type : BYTES_LIT("samples"),
                 unit = o->unit.n ? o->unit : BYTES_LIT("count");
    uint32_t ignored;
    int r = 0;
    for (uint32_t i = 0; i < n && r == 0; i++)
        r = stacks_type(s, n == 1 ? type : differ[i], unit, &ignored, e);
    return r;
}

/* More frames than a stack is taken with; a line as long as that has a byte and a mark for each. */
static bool is_deep(struct bytes line)
{
    uint32_t frames = 0;
    if (line.n <= PROFILES_STACK_FRAMES_MAX)
        return false;
    while (line.n > 0)
        frames += next_frame(&line).n > 0;
    return frames > PROFILES_STACK_FRAMES_MAX;
}

/* `n` counts a line, 0: a line is one. */
static int read_lines(struct stacks *s, struct bytes text, uint32_t n, struct error *e)
{
    struct bytes line;
    uint64_t number = 0;
    int r = 0;
    while (r == 0 && s->failed == 0 && stacks_line(&text, &line, &number)) {
        int64_t counts[2] = {1, 0};
        if (is_nothing(line))
            continue;
        for (uint32_t i = n; i-- > 0 && r == 0;) {
            int had = take_count(&line, &counts[i]);
            if (had != 1)
                r = error_set(e, FROM_TEXT_MALFORMED, "line %llu: %s", (unsigned long long)number,
                              had < 0 ? "its count is no whole number below 2^63"
                                      : "no count at its end, as folded stacks have");
        }
        if (r == 0 && is_deep(line))
            r = error_set(e, FROM_TEXT_MALFORMED, "line %llu: more than %u frames",
                          (unsigned long long)number, PROFILES_STACK_FRAMES_MAX);
        if (r == 0) {
            uint32_t stack = put_stack(s, line);
            for (uint32_t i = 0; i < max_of(n, 1u) && r == 0; i++)
                r = stacks_add(s, i, stack, 0, counts[i]);
            if (r == FROM_TEXT_MALFORMED)
                error_set(e, r, "line %llu: the counts of its stack are 2^63 and more",
                          (unsigned long long)number);
        }
    }
    return r;
}

int from_folded(struct stacks *s, struct bytes text, const struct from_text_options *options, struct error *e)
{
    uint32_t n = count_columns(text);
    int r = put_types(s, options, n, e);
    return r != 0 ? r : read_lines(s, text, n, e);
}

int from_lines(struct stacks *s, struct bytes text, const struct from_text_options *options, struct error *e)
{
    int r = put_types(s, options, 1, e);
    return r != 0 ? r : read_lines(s, text, 0, e);
}
