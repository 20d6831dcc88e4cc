/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/symbolize/dwarf/index.h"

#include <stdlib.h>

#include "proto/base/macros.h"

/* Linkers put this, and one less, where a function was that is in no program (DWARF 5, section 2.17.4, note).
 */
#define NOWHERE (UINT64_MAX - 1)

void dwarf_index_release(struct dwarf_index *x)
{
    vec_release(&x->functions);
    vec_release(&x->sequences);
    vec_release(&x->scopes);
    *x = (struct dwarf_index){0};
}

void dwarf_index_add(struct dwarf_index *x, struct dwarf_pointers *to, uint64_t start, uint64_t end,
                     uint64_t at, struct dwarf_pointer pointer)
{
    if (start == 0 || start >= NOWHERE || start >= end)
        return; /* not in the program */
    pointer.start = (uint32_t)start;
    pointer.end = (uint32_t)end;
    pointer.at = (uint32_t)at;
    x->is_bad |=
        end > UINT32_MAX || at > UINT32_MAX || to->n == DWARF_INDEX_MAX || vec_append(to, pointer) < 0;
}

const struct dwarf_pointer *dwarf_pointers_find(const struct dwarf_pointers *p, uint64_t address)
{
    uint32_t from = first_where(p->n, i, p->p[i].start > address);
    return from && address < p->p[from - 1].end ? &p->p[from - 1] : NULL;
}

uint32_t dwarf_pointers_behind(const struct dwarf_pointers *p, uint64_t address)
{
    return first_where(p->n, i, p->p[i].end > address);
}

/* The first scope that is not before an entry. */
static uint32_t scope_at(const struct dwarf_scope *scope, uint32_t n, uint64_t die)
{
    return first_where(n, i, scope[i].die >= die);
}

uint64_t dwarf_scope_around(const struct dwarf_scope *scope, uint32_t n, uint64_t die)
{
    uint32_t i = scope_at(scope, n, die);
    return i < n && scope[i].die == die ? scope[i].parent : 0;
}

const struct dwarf_index *dwarf_indexes_of(const struct dwarf_indexes *i, uint64_t unit)
{
    for (uint32_t k = 0; k < i->n; k++)
        if (i->index[k]->unit == unit)
            return i->index[k];
    return NULL;
}

static int by_start(const void *a, const void *b)
{
    const struct dwarf_pointer *x = a, *y = b;
    /* Found is the last: of several the one met first. */
    return order_of(x->start, y->start) ?: order_of(y->at, x->at);
}

static void settle(struct dwarf_pointers *p)
{
    if (p->n > 0)
        qsort(p->p, p->n, sizeof *p->p, by_start);
    vec_fit(p); /* it stays */
}

/* Copies the functions, and what is around them: that comes before them. */
static void keep_scopes(struct dwarf_index *x, const struct dwarf_scope *scope, uint32_t n)
{
    uint32_t kept = 0;
    autofree bool *is_needed = calloc(n + 1, sizeof *is_needed);
    for (uint32_t i = n; is_needed && i-- > 0;) {
        if (!scope[i].is_function && !is_needed[i])
            continue;
        is_needed[i] = true;
        kept++;
        uint32_t parent = scope_at(scope, n, scope[i].parent);
        if (parent < i && scope[parent].die == scope[i].parent)
            is_needed[parent] = true;
    }
    bool is_short = !is_needed || vec_reserve(&x->scopes, kept) < 0;
    for (uint32_t i = 0; !is_short && i < n; i++)
        if (is_needed[i])
            (void)vec_append(&x->scopes, scope[i]); /* there is room */
    vec_fit(&x->scopes);
    x->is_bad |= is_short;
}

void dwarf_indexes_keep(struct dwarf_indexes *i, struct dwarf_index *x, const struct dwarf_scope *scope,
                        uint32_t n)
{
    settle(&x->functions);
    settle(&x->sequences);
    keep_scopes(x, scope, n);
    if (i->n == DWARF_INDEXES_MAX || dwarf_indexes_memory(i) > DWARF_INDEX_MEMORY_MAX)
        dwarf_indexes_release(i);
    struct dwarf_index *kept = x->is_bad ? NULL : malloc(sizeof *kept);
    if (!kept)
        return;
    *kept = *x;
    *x = (struct dwarf_index){0};
    i->index[i->n++] = kept;
}

void dwarf_indexes_release(struct dwarf_indexes *i)
{
    for (; i->n > 0; i->n--) {
        dwarf_index_release(i->index[i->n - 1]);
        free(i->index[i->n - 1]);
    }
}

size_t dwarf_indexes_memory(const struct dwarf_indexes *i)
{
    size_t bytes = 0;
    for (uint32_t k = 0; k < i->n; k++) {
        const struct dwarf_index *x = i->index[k];
        bytes += sizeof *x + (x->functions.room + x->sequences.room) * sizeof(struct dwarf_pointer) +
                 x->scopes.room * sizeof *x->scopes.p;
    }
    return bytes;
}
