/* SPDX-License-Identifier: Apache-2.0 */
#include <stdarg.h>
#include <stdio.h>

#include "proto/otlp/check/parts.h"

/* Bytes of a finding's text: a name in it may be anything's. */
#define TEXT_MAX 512u

static void add_index(struct buffer *path, uint32_t index)
{
    if (index != NOWHERE)
        (void)buffer_printf(path, "[%u]", index);
}

static void add_frames(const struct check *c, struct buffer *path)
{
    if (c->is_translated)
        (void)buffer_add_str(path, "(as 1.10) ");
    for (uint32_t i = 1; i < c->depth; i++) {
        const struct check_frame *f = &c->frame[i];
        if (i > 1)
            (void)buffer_add_str(path, ".");
        (void)buffer_add_bytes(path, f->field->proto);
        add_index(path, f->field->repeated ? f->index : NOWHERE);
    }
}

/* Whether it is one of the first, and worth words. */
static bool is_kept(struct check *c, enum check_rule rule)
{
    return c->count[rule]++ < c->per_rule;
}

__attribute__((format(printf, 4, 0))) static void keep(struct check *c, enum check_rule rule,
                                                       struct bytes path, const char *format, va_list more)
{
    char text[TEXT_MAX];
    int n = vsnprintf(text, sizeof text, format, more);
    const struct bytes said = bytes_of(text, n < 0 ? 0 : min_of((size_t)n, sizeof text - 1));
    const struct check_finding finding = {rule, arena_copy(&c->arena, path), arena_copy(&c->arena, said)};
    if (!finding.path.p || !finding.text.p || vec_append(&c->findings, finding) < 0)
        c->is_out = true;
}

void check_found(struct check *c, enum check_rule rule, const char *leaf, uint32_t index, const char *format,
                 ...)
{
    if (!is_kept(c, rule))
        return;
    cleanup(buffer_release) struct buffer path = BUFFER_INIT(0);
    add_frames(c, &path);
    if (leaf) {
        (void)buffer_printf(&path, "%s%s", c->depth > 1 ? "." : "", leaf);
        add_index(&path, index);
    }
    va_list more;
    va_start(more, format);
    keep(c, rule, buffer_bytes(&path), format, more);
    va_end(more);
}

void check_found_entry(struct check *c, enum check_rule rule, uint32_t table, uint32_t index,
                       const char *format, ...)
{
    if (!is_kept(c, rule))
        return;
    cleanup(buffer_release) struct buffer path = BUFFER_INIT(0);
    const struct field *row = c->field[MESSAGE_DICTIONARY][table];
    (void)buffer_printf(&path, "%sdictionary.%.*s", c->is_translated ? "(as 1.10) " : "",
                        BYTES_FMT(row->proto));
    add_index(&path, index);
    va_list more;
    va_start(more, format);
    keep(c, rule, buffer_bytes(&path), format, more);
    va_end(more);
}
