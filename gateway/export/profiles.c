/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/export/profiles.h"

#include <stdlib.h>

#include "gateway/export/exporter.h"
#include "proto/base/macros.h"

struct export_profiles {
    struct export_terms terms;
    bool is_durable;
    uint32_t n;
    struct exporter *to[];
};

struct export_profiles *export_profiles_new(struct exporter *const *to, uint32_t n)
{
    struct export_profiles *x = calloc(1, sizeof *x + n * sizeof *x->to);
    if (!x)
        return NULL;
    x->terms = (struct export_terms){.request_max = SIZE_MAX, .queue_size = UINT32_MAX, .room_max = SIZE_MAX};
    for (x->n = 0; x->n < n; x->n++) {
        const struct export_terms *terms = &to[x->n]->terms;
        x->to[x->n] = to[x->n];
        x->is_durable |= to[x->n]->is_durable;
        x->terms.no_references |= terms->no_references;
        x->terms.request_max = min_of(x->terms.request_max, terms->request_max);
        if (terms->room_max > 0)
            x->terms.room_max = min_of(x->terms.room_max, terms->room_max);
        x->terms.queue_size = min_of(x->terms.queue_size, terms->queue_size);
    }
    return x;
}

struct export_profiles *export_profiles_free(struct export_profiles *x)
{
    free(x);
    return NULL;
}

struct export_terms export_profiles_terms(const struct export_profiles *x)
{
    return x->terms;
}

export_set export_profiles_all(const struct export_profiles *x)
{
    return UINT64_MAX >> (EXPORT_PROFILES_MAX - x->n);
}

bool export_profiles_is_durable(const struct export_profiles *x)
{
    return x->is_durable;
}

static bool is_in(export_set set, uint32_t i)
{
    return set >> i & 1;
}

static void cancel(struct exporter *to, size_t n, uint32_t requests)
{
    for (; requests > 0; requests--, n = 0)
        to->kind->cancel(to, n);
}

/* The bytes with the first, as cancel has them. */
static bool reserve(struct exporter *to, size_t n, uint32_t requests)
{
    for (uint32_t i = 0; i < requests; i++)
        if (!to->kind->reserve(to, i == 0 ? n : 0)) {
            cancel(to, n, i);
            return false;
        }
    return true;
}

export_set export_profiles_reserve(struct export_profiles *x, size_t n, uint32_t requests, export_set of)
{
    export_set got = 0;
    for (uint32_t i = 0; i < x->n; i++)
        if (is_in(of, i) && reserve(x->to[i], n, requests))
            got |= (export_set)1 << i;
    return got;
}

void export_profiles_cancel(struct export_profiles *x, size_t n, uint32_t requests, export_set of)
{
    for (uint32_t i = 0; i < x->n; i++)
        if (is_in(of, i))
            cancel(x->to[i], n, requests);
}

unsigned export_profiles_forms(const struct export_profiles *x, enum coding received)
{
    unsigned forms = 0;
    for (uint32_t i = 0; i < x->n; i++)
        forms |= exporter_sends_on(x->to[i], received) ? EXPORT_CODED : EXPORT_PLAIN;
    return forms;
}

void export_profiles_push(struct export_profiles *x, struct export_forms forms, size_t reserved,
                          uint64_t n_samples, export_set to, struct promise *safe)
{
    for (uint32_t i = 0; i < x->n; i++) {
        if (!is_in(to, i))
            continue;
        const bool coded = forms.coded && exporter_sends_on(x->to[i], forms.coded->coding);
        x->to[i]->kind->push_profiles(x->to[i], coded ? forms.coded : forms.plain, reserved, n_samples, safe);
    }
    client_body_unref(forms.plain);
    client_body_unref(forms.coded);
}
