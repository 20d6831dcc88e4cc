/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/pprof/write.h"

#include <errno.h>

#include "proto/pprof/fields.h"

void pprof_write_begin(struct pprof_writer *w, struct budget *budget, struct buffer *out)
{
    *w = (struct pprof_writer){.strings = INTERN_INIT(budget), .w = wire_writer(out), .begun = out->n};
    pprof_write_string(w, BYTES_LIT(""));
}

uint32_t pprof_write_string(struct pprof_writer *w, struct bytes text)
{
    uint32_t number = intern_add(&w->strings, text);
    if (number != INTERN_NONE)
        return number;
    w->w.failed = w->w.failed ? w->w.failed : -ENOMEM;
    return 0;
}

uint32_t pprof_write_text(struct pprof_writer *w, struct bytes text)
{
    if (text.n > 0)
        return pprof_write_string(w, text);
    if (!w->empty)
        w->empty = intern_append(&w->strings, text);
    if (w->empty != INTERN_NONE)
        return w->empty;
    w->w.failed = w->w.failed ? w->w.failed : -ENOMEM;
    return 0;
}

/* The scalars of a message that are not zero. */
static void put_fields(struct wire_writer *w, const struct pprof_message *m, const void *base)
{
    for (uint32_t number = 1; number < m->n_fields; number++) {
        const void *from = (const uint8_t *)base + m->fields[number].offset;
        switch (m->fields[number].kind) {
        case PPROF_U64: wire_put_uint_nonzero(w, number, *(const uint64_t *)from); break;
        case PPROF_I64: wire_put_int_nonzero(w, number, *(const int64_t *)from); break;
        case PPROF_FLAG: wire_put_uint_nonzero(w, number, *(const bool *)from); break;
        case PPROF_STRING:
        case PPROF_MAPPING:
        case PPROF_FUNCTION: wire_put_uint_nonzero(w, number, *(const uint32_t *)from); break;
        case PPROF_UNKNOWN:
        case PPROF_OTHER: break;
        }
    }
}

static void put_message(struct wire_writer *w, uint32_t field, const struct pprof_message *m,
                        const void *base)
{
    size_t mark = wire_begin(w, field);
    put_fields(w, m, base);
    wire_end(w, mark);
}

void pprof_write_type(struct pprof_writer *w, const struct pprof_type *t)
{
    put_message(&w->w, PROFILE_SAMPLE_TYPE, &pprof_value_type, t);
}

void pprof_write_mapping(struct pprof_writer *w, const struct pprof_mapping *m)
{
    put_message(&w->w, PROFILE_MAPPING, &pprof_mapping, m);
}

void pprof_write_function(struct pprof_writer *w, const struct pprof_function *f)
{
    put_message(&w->w, PROFILE_FUNCTION, &pprof_function, f);
}

void pprof_write_location(struct pprof_writer *w, const struct pprof_location *l,
                          const struct pprof_line *lines, uint32_t n_lines)
{
    size_t mark = wire_begin(&w->w, PROFILE_LOCATION);
    put_fields(&w->w, &pprof_location, l);
    for (uint32_t i = 0; i < n_lines; i++)
        put_message(&w->w, LOCATION_LINE, &pprof_line, &lines[i]);
    wire_end(&w->w, mark);
}

void pprof_write_sample(struct pprof_writer *w, const struct pprof_sample *s, uint32_t n_values)
{
    size_t mark = wire_begin(&w->w, PROFILE_SAMPLE);
    wire_put_packed32(&w->w, SAMPLE_LOCATION_ID, s->locations, s->n_locations);
    wire_put_packed64(&w->w, SAMPLE_VALUE, s->values, n_values);
    for (uint32_t i = 0; i < s->n_labels; i++)
        put_message(&w->w, SAMPLE_LABEL, &pprof_label, &s->labels[i]);
    wire_end(&w->w, mark);
}

void pprof_write_profile(struct pprof_writer *w, const struct pprof *p)
{
    put_fields(&w->w, &pprof_profile, p);
    put_message(&w->w, PROFILE_PERIOD_TYPE, &pprof_value_type, &p->period_type);
    wire_put_packed32(&w->w, PROFILE_COMMENT, p->comments.p, p->comments.n);
}

int pprof_write_end(struct pprof_writer *w)
{
    for (uint32_t i = 0; i < w->strings.n; i++)
        wire_put_bytes(&w->w, PROFILE_STRING_TABLE, intern_get(&w->strings, i));
    intern_release(&w->strings);
    if (w->w.failed)
        w->w.out->n = w->begun;
    return w->w.failed;
}
