/* SPDX-License-Identifier: Apache-2.0 */
/* What there is: types, services, labels. Of sections that have something in the time that is asked for. */
#include <errno.h>
#include <stdlib.h>

#include "gateway/look/parts.h"
#include "proto/base/clock.h"
#include "proto/base/idmap.h"

#define SERVICES_MAX 1000u
#define VALUES_MAX   10000u

struct entry {
    uint64_t value, seen;
    uint32_t n_hosts;
    uint32_t unit; /* string */
};

/* Texts that were met, and what is known of them. */
struct listing {
    const struct look_question *question;
    struct intern texts;
    VEC(struct entry) entries; /* [text] */
    struct idmap hosts;        /* (service, host) that was counted */
    struct intern host_names, units;
};

static void listing_release(struct listing *l)
{
    intern_release(&l->texts);
    intern_release(&l->host_names);
    intern_release(&l->units);
    vec_release(&l->entries);
    idmap_release(&l->hosts);
}

static struct bytes label_of(const struct look_epoch *e, const struct look_series *s, enum look_label label)
{
    return intern_get(&e->dict.strings, s->label[label]);
}

/* LOOK_NONE: no memory. */
static uint32_t entry_of(struct listing *l, struct bytes text)
{
    const uint32_t number = intern_add(&l->texts, text);
    return number == INTERN_NONE || vec_extend(&l->entries, l->texts.n) < 0 ? LOOK_NONE : number;
}

static int add_service(struct listing *l, struct look_epoch *e, const struct look_section *section)
{
    const struct look_series *s = &e->series.p[section->series];
    const uint32_t number = entry_of(l, label_of(e, s, LOOK_SERVICE));
    const uint32_t host = intern_add(&l->host_names, label_of(e, s, LOOK_HOST));
    uint32_t *counted = number == LOOK_NONE || host == INTERN_NONE
                            ? NULL
                            : idmap_place(&l->hosts, idmap_key(number, host), 0);
    if (!counted)
        return -ENOMEM;
    struct entry *entry = &l->entries.p[number];
    entry->n_hosts += *counted == 0;
    *counted = 1;
    entry->value = look_add(entry->value, section->total);
    entry->seen = look_add(entry->seen, section->seen);
    return 0;
}

static int add_type(struct listing *l, struct look_epoch *e, const struct look_section *section)
{
    const struct look_series *s = &e->series.p[section->series];
    const uint32_t number = entry_of(l, intern_get(&e->dict.strings, s->type));
    const uint32_t unit = intern_add(&l->units, intern_get(&e->dict.strings, s->unit));
    if (number == LOOK_NONE || unit == INTERN_NONE)
        return -ENOMEM;
    l->entries.p[number].unit = unit;
    return 0;
}

static int add_labels(struct listing *l, struct look_epoch *e, const struct look_section *section)
{
    const struct look_series *s = &e->series.p[section->series];
    const enum look_label name = l->question->name;
    if (name != LOOK_NO_LABEL) {
        const struct bytes value = label_of(e, s, name);
        return value.n > 0 && intern_add(&l->texts, value) == INTERN_NONE ? -ENOMEM : 0;
    }
    for (uint32_t i = 0; i < LOOK_N_LABELS; i++)
        if (s->label[i] != LOOK_EMPTY && intern_add(&l->texts, bytes_str(look_labels[i].name)) == INTERN_NONE)
            return -ENOMEM;
    return 0;
}

static int add(void *context, struct look_epoch *e, uint64_t at_ns, const struct look_section *section)
{
    struct listing *l = context;
    switch (l->question->endpoint) {
    case LOOK_TYPES: return add_type(l, e, section);
    case LOOK_SERVICES: return add_service(l, e, section);
    default: return l->question->names_unknown ? 0 : add_labels(l, e, section);
    }
}

/* ---- written ------------------------------------------------------------------------------- */

static void put_services(const struct listing *l, const struct look_found *found,
                         const struct look_ranked *rows, struct json *j)
{
    const double seconds = (double)(found->to_ns - found->from_ns) / NSEC_PER_SEC;
    const bool is_time = bytes_is(l->question->select[0].type, LOOK_CPU_TYPE);
    for (uint32_t i = 0; i < min_of(l->texts.n, SERVICES_MAX); i++) {
        const struct entry *entry = &l->entries.p[rows[i].group];
        json_open(j, '{');
        json_key(j, "service"), json_string(j, intern_get(&l->texts, rows[i].group));
        json_key(j, "hosts"), json_u64(j, entry->n_hosts);
        json_key(j, "value"), json_u64(j, entry->value);
        if (is_time && seconds > 0)
            json_key(j, "cores"), json_double(j, (double)entry->value / NSEC_PER_SEC / seconds);
        json_key(j, "samples"), json_u64(j, look_samples(entry->seen));
        json_key(j, "share"), json_double(j, (double)entry->value / (double)max_of(found->total, 1ull));
        json_close(j, '}');
    }
}

static int by_text(const void *a, const void *b)
{
    return bytes_compare(*(const struct bytes *)a, *(const struct bytes *)b);
}

static void put_types(const struct listing *l, struct json *j)
{
    for (uint32_t i = 0; i < l->texts.n; i++) {
        const struct bytes id = intern_get(&l->texts, i);
        json_open(j, '{');
        json_key(j, "id"), json_string(j, id);
        json_key(j, "unit"), json_string(j, intern_get(&l->units, l->entries.p[i].unit));
        if (bytes_is(id, LOOK_CPU_TYPE))
            json_key(j, "metric"), json_string(j, BYTES_LIT("profile.cpu.time"));
        json_close(j, '}');
    }
}

typedef VEC(struct bytes) texts;

static int sort_texts(const struct listing *l, texts *ret)
{
    int r = vec_append_all(ret, l->texts.p, l->texts.n);
    if (r == 0 && ret->n > 1)
        qsort(ret->p, ret->n, sizeof *ret->p, by_text);
    return r;
}

static int put_ranked(const struct listing *l, const struct look_found *found, struct budget *budget,
                      struct json *j)
{
    VEC(struct look_ranked) rows = {.budget = budget};
    int r = vec_reserve(&rows, (uint64_t)l->texts.n + 1);
    for (uint32_t i = 0; r == 0 && i < l->texts.n; i++)
        rows.p[rows.n++] = (struct look_ranked){l->entries.p[i].value, i};
    if (r == 0) {
        qsort(rows.p, rows.n, sizeof *rows.p, look_by_rank);
        put_services(l, found, rows.p, j);
    }
    vec_release(&rows);
    return r;
}

/* Goes over everything that is asked about. As look_visit; released in any case. */
static int gather(struct listing *l, const struct look_asked *asked, struct look_found *found)
{
    const struct look_question *q = asked->question;
    *l = (struct listing){.question = q,
                          .texts = INTERN_INIT(asked->budget),
                          .host_names = INTERN_INIT(asked->budget),
                          .units = INTERN_INIT(asked->budget),
                          .hosts = IDMAP_INIT(asked->budget)};
    l->entries.budget = asked->budget;
    const struct look_visit visit = {.select = &q->select[0],
                                     .is_of_services = q->endpoint == LOOK_TYPES,
                                     .deadline_ns = asked->deadline_ns,
                                     .show = add,
                                     .context = l,
                                     .budget = asked->budget};
    return look_visit(asked->store, &visit, found);
}

int look_each_text(const struct look_asked *asked, void (*each)(void *context, struct bytes text),
                   void *context)
{
    cleanup(listing_release) struct listing l;
    struct look_found found;
    texts sorted = {.budget = asked->budget};
    int r = gather(&l, asked, &found);
    if (r == 0 && (r = sort_texts(&l, &sorted)) == 0)
        for (uint32_t i = 0; i < min_of(sorted.n, VALUES_MAX); i++)
            each(context, sorted.p[i]);
    vec_release(&sorted);
    return r;
}

int look_write_lists(const struct look_asked *asked, struct json *j)
{
    cleanup(listing_release) struct listing l;
    struct look_found found;
    int r = gather(&l, asked, &found);
    if (r == 0) {
        json_open(j, '[');
        if (asked->question->endpoint == LOOK_TYPES)
            put_types(&l, j);
        else
            r = put_ranked(&l, &found, asked->budget, j);
        json_close(j, ']');
    }
    return r;
}

static void put_text(void *context, struct bytes text)
{
    json_string(context, text);
}

int look_write_labels(const struct look_asked *asked, struct json *j)
{
    json_open(j, '[');
    int r = look_each_text(asked, put_text, j);
    json_close(j, ']');
    return r;
}
