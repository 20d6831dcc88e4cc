/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The compiler leaves, for the places where a thread may be stopped (calls, mostly), which bytecode of which
 * method that is (PcDesc, ascending by address), and of which call that method was inlined at (ScopeDesc, a
 * chain). An address between two such places is told as the one behind it.
 */
#include "sender/runtimes/hotspot/compiled.h"

#include "proto/base/macros.h"
#include "sender/runtimes/hotspot/numbers.h"
#include "sender/runtimes/hotspot/step.h"

/* Where in memory what of a compiled method is. */
struct tables {
    uint64_t pcs, scopes, metadata;
    uint32_t n_pcs;
};

struct pc {
    int32_t offset, scope, object, flags;
};
_Static_assert(sizeof(struct pc) == 16, "as hotspot_layout has checked");

#define PCS_MAX    (1u << 20)
#define SCOPES_MAX (64u << 10) /* bytes read of a chain's place */

static bool offset_at(const struct source *memory, uint64_t at, uint64_t base, uint64_t *ret)
{
    int32_t offset;
    if (!source_read(memory, at, &offset, sizeof offset))
        return false;
    *ret = base + (uint64_t)(int64_t)offset;
    return true;
}

static bool find_tables(const struct source *memory, const struct hotspot_place *p, uint64_t blob,
                        struct tables *ret)
{
    uint64_t base = blob, end, data = blob;
    bool is_apart = p->is_relative & HOTSPOT_APART, is_relative = p->is_relative & HOTSPOT_SCOPES;
    if (!p->nmethod_pcs ||
        (is_apart && (!source_read(memory, blob + p->nmethod_apart, &base, sizeof base) ||
                      !source_read(memory, blob + p->nmethod_metadata, &data, sizeof data))))
        return false;
    bool is_there =
        offset_at(memory, blob + p->nmethod_pcs, base, &ret->pcs) &&
        offset_at(memory, blob + p->nmethod_pcs_end, base, &end) &&
        (is_relative ? offset_at(memory, blob + p->nmethod_scopes, base, &ret->scopes)
                     : source_read(memory, blob + p->nmethod_scopes, &ret->scopes, sizeof ret->scopes)) &&
        offset_at(memory, blob + (is_apart ? p->nmethod_relocation : p->nmethod_metadata), data,
                  &ret->metadata);
    if (!is_there || end < ret->pcs || (end - ret->pcs) / sizeof(struct pc) > PCS_MAX)
        return false;
    ret->n_pcs = (uint32_t)((end - ret->pcs) / sizeof(struct pc));
    return true;
}

/* The first one not before a distance from the code's beginning; behind them all, the last. The outermost two
 * stand for nothing. */
static bool find_pc(const struct source *memory, const struct tables *t, uint64_t distance, struct pc *ret)
{
    uint32_t low = 1, high = t->n_pcs - 2;
    if (t->n_pcs < 3)
        return false;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (!source_read(memory, t->pcs + middle * sizeof *ret, ret, sizeof *ret))
            return false;
        if (ret->offset < 0 || (uint64_t)ret->offset < distance)
            low = middle + 1;
        else
            high = middle;
    }
    return source_read(memory, t->pcs + low * sizeof *ret, ret, sizeof *ret);
}

/* One scope: a method and a bytecode in it, and where the scope is that it was inlined in; 0: none. */
struct scope {
    uint64_t method;
    uint32_t bci, caller;
};

static bool read_scope(const struct source *memory, const struct hotspot_place *p, const struct tables *t,
                       uint32_t at, struct scope *ret)
{
    struct numbers s;
    uint32_t method, bci;
    numbers_begin(&s, memory, t->scopes + at, 16, p->is_relative & HOTSPOT_BYTES);
    if (!numbers_next(&s, &ret->caller) || !numbers_next(&s, &method) || !numbers_next(&s, &bci) ||
        method == 0 || method > PCS_MAX || ret->caller > SCOPES_MAX * 16)
        return false;
    ret->bci = bci - 1; /* of a method's entry it is -1 */
    return source_read(memory, t->metadata + 8 * (uint64_t)(method - 1), &ret->method, sizeof ret->method);
}

/* Names the chain at a distance, the innermost first. 0: there is none. */
static uint32_t name_scopes(const struct source *memory, const struct hotspot_place *p, uint64_t blob,
                            uint64_t distance, struct arena *text, struct runtime_name *ret)
{
    struct tables t;
    struct pc pc = {0};
    struct runtime_name *last = NULL;
    uint32_t n = 0;
    if (!find_tables(memory, p, blob, &t) || !find_pc(memory, &t, distance, &pc))
        return 0;
    for (uint32_t at = (uint32_t)pc.scope; at != 0 && n < HOTSPOT_INLINED_MAX; n++) {
        struct scope scope;
        struct runtime_name *name = last ? arena_calloc(text, 1, sizeof *name) : ret;
        if (!name || !read_scope(memory, p, &t, at, &scope) ||
            !hotspot_method_name(memory, p, scope.method, scope.bci == UINT32_MAX ? 0 : scope.bci, text,
                                 name))
            return 0;
        if (last)
            last->caller = name;
        last = name;
        at = scope.caller;
    }
    return n;
}

bool hotspot_compiled_name(const struct source *memory, const struct hotspot_place *p,
                           const struct sample_frame *word, struct arena *text, struct runtime_name *ret)
{
    struct hotspot_blob blob, after;
    uint64_t method;
    /* Of code whose class is unloaded up to JDK 17 the method goes first. */
    if (hotspot_blob_find(memory, p, word->where, &blob) != HOTSPOT_CODE_METHOD || blob.id != word->file ||
        !source_read(memory, blob.at + p->nmethod_method, &method, sizeof method) || !method)
        return false;
    bool is_named = name_scopes(memory, p, blob.at, word->where - blob.code, text, ret) > 0 ||
                    hotspot_method_name(memory, p, method, 0, text, ret);
    return is_named && hotspot_blob_find(memory, p, word->where, &after) == HOTSPOT_CODE_METHOD &&
           after.at == blob.at && after.id == word->file;
}
