#include <errno.h>

#include "proto/base/macros.h"
#include "sender/symbolize/dwarf_parts.h"

/* Call, abstract function, definition, declaration: four; more go round in a circle. */
#define HOPS_MAX 8u
/* Namespaces and classes around a name that are named. */
#define SCOPES_AROUND_MAX 16u

void dwarf_others_close(struct dwarf_others *o)
{
    for (uint32_t i = 0; i < o->n; i++)
        dwarf_cu_close(&o->cu[i]);
    o->n = 0;
}

/* The open unit an offset is in: the one at hand, or another one. */
static const struct dwarf_cu *unit_of(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_others *o,
                                      uint64_t at)
{
    if (at >= cu->unit.at && at < cu->unit.end)
        return cu;
    for (uint32_t i = 0; i < o->n; i++)
        if (at >= o->cu[i].unit.at && at < o->cu[i].unit.end)
            return &o->cu[i];
    if (dwarf_file_units(f) < 0)
        return NULL;
    const struct dwarf_unit *unit = dwarf_file_unit(f, at);
    struct dwarf_cu fresh;
    if (!unit || unit->version == 0 || f->work < 0)
        return NULL;
    /* Its first entry needs one row of the abbreviations, another entry any of them. */
    struct dwarf_abbrevs all;
    if (dwarf_cu_open(f, unit, false, &fresh) < 0)
        return NULL;
    if (dwarf_abbrevs_read(f, unit->abbrevs_at, 0, &all) < 0) {
        dwarf_cu_close(&fresh);
        return NULL;
    }
    dwarf_abbrevs_release(&fresh.abbrevs);
    fresh.abbrevs = all;
    uint32_t slot = o->n < DWARF_OTHERS ? o->n++ : o->next++ % DWARF_OTHERS;
    dwarf_cu_close(&o->cu[slot]);
    o->cu[slot] = fresh;
    return &o->cu[slot];
}

static struct bytes text_of(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v,
                            struct arena *text)
{
    char name[DWARF_NAME_MAX];
    size_t n = dwarf_text(f, cu, v, name, sizeof name);
    return n ? arena_copy(text, bytes_of(name, n)) : bytes_of(NULL, 0);
}

static uint64_t scope_around(const struct dwarf_tree *t, uint64_t die)
{
    uint32_t from = 0, n = t->n_scopes;
    while (n > 0) {
        uint32_t half = n / 2;
        if (t->scope[from + half].die == die)
            return t->scope[from + half].parent;
        if (t->scope[from + half].die < die) {
            from += half + 1;
            n -= half + 1;
        } else {
            n = half;
        }
    }
    return 0;
}

/* Puts the names of the namespaces and classes that the entry `at` is in before its own. */
static struct bytes qualified(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_tree *t,
                              uint64_t at, struct bytes name)
{
    uint8_t scratch[DWARF_DIE_MAX];
    char all[DWARF_NAME_MAX], part[256];
    struct dwarf_die die;
    size_t from = sizeof all - min_of(name.n, sizeof all);
    memcpy(all + from, name.p, sizeof all - from);
    for (uint32_t i = 0; i < SCOPES_AROUND_MAX && (at = scope_around(t, at)) != 0; i++) {
        if (!dwarf_cu_die(f, cu, at, scratch, &die))
            break;
        size_t n = dwarf_text(f, cu, &die.name, part, sizeof part);
        struct bytes one = n ? bytes_of(part, n) : BYTES_LIT("(anonymous namespace)");
        if (one.n + 2 > from)
            break;
        from -= 2;
        memcpy(all + from, "::", 2);
        from -= one.n;
        memcpy(all + from, one.p, one.n);
    }
    struct bytes copy = arena_copy(&t->text, bytes_of(all + from, sizeof all - from));
    return copy.p ? copy : name;
}

void dwarf_name(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_others *others,
                struct dwarf_tree *t, struct dwarf_call *call)
{
    uint8_t scratch[DWARF_DIE_MAX];
    struct dwarf_die die;
    const struct dwarf_cu *own = cu;
    uint64_t at = call->die, named_at = 0;
    call->is_named = true;
    for (uint32_t hop = 0; hop < HOPS_MAX && f->work >= 0; hop++) {
        cu = unit_of(f, cu, others, at);
        if (!cu || !dwarf_cu_die(f, cu, at, scratch, &die))
            break;
        if (!call->frame.name.n) {
            call->frame.name = text_of(f, cu, &die.name, &t->text);
            named_at = cu == own ? at : 0;
        }
        if (!call->frame.linkage.n)
            call->frame.linkage = text_of(f, cu, &die.linkage_name, &t->text);
        if (!call->frame.start_line && die.decl_line <= UINT32_MAX)
            call->frame.start_line = (uint32_t)die.decl_line;
        if (!die.origin.form || !dwarf_reference(cu, &die.origin, &at))
            break;
    }
    if (named_at && call->frame.name.n && !call->frame.linkage.n)
        call->frame.name = qualified(f, own, t, named_at, call->frame.name);
}
