/* SPDX-License-Identifier: Apache-2.0 */
#include <dwarf.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "sender/symbolize/dwarf/parts.h"

/* Call, abstract function, definition, declaration: four; more go round in a circle. */
#define HOPS_MAX 8u
/* As gcc names it. */
#define CALL_OPERATOR "operator()"
/* Namespaces, classes and functions around a name that are named. */
#define SCOPES_AROUND_MAX 16u

void dwarf_others_close(struct dwarf_others *o)
{
    for (uint32_t i = 0; i < o->n; i++) {
        dwarf_cu_close(&o->cu[i]);
        dwarf_tree_release(&o->tree[i]);
    }
    o->n = 0;
}

/* The open unit that an offset of `in` is in: the one at hand, which is of `f`, or another one. */
static const struct dwarf_cu *unit_of(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_others *o,
                                      struct dwarf_file *in, uint64_t at)
{
    if (in == f && at >= cu->unit.at && at < cu->unit.end)
        return cu;
    for (uint32_t i = 0; i < o->n; i++)
        if (o->file[i] == in && at >= o->cu[i].unit.at && at < o->cu[i].unit.end)
            return &o->cu[i];
    if (dwarf_file_units(in) < 0)
        return NULL;
    const struct dwarf_unit *unit = dwarf_file_unit(in, at);
    struct dwarf_cu fresh;
    if (!unit || unit->version == 0 || in->work < 0 || dwarf_cu_open(in, unit, DWARF_TABLE, &fresh) != 0)
        return NULL;
    uint32_t slot = o->n < DWARF_OTHERS ? o->n++ : o->next++ % DWARF_OTHERS;
    dwarf_cu_close(&o->cu[slot]);
    dwarf_tree_release(&o->tree[slot]);
    o->has_scopes[slot] = false;
    o->cu[slot] = fresh;
    o->file[slot] = in;
    return &o->cu[slot];
}

/* The scopes of an open unit: of the one whose tree `t` is, or of another one. */
static const struct dwarf_tree *scopes_of(struct dwarf_file *in, const struct dwarf_cu *cu,
                                          struct dwarf_others *o, const struct dwarf_tree *t)
{
    uint32_t slot = 0;
    while (slot < o->n && cu != &o->cu[slot])
        slot++;
    if (slot == o->n)
        return t;
    if (!o->has_scopes[slot])
        dwarf_tree_scopes(in, cu, &o->tree[slot]);
    o->has_scopes[slot] = true;
    return &o->tree[slot];
}

/* Where a name is: found along a call's origins, not read yet. */
struct found {
    struct dwarf_text text;
    struct bytes here; /* of one that is in the entry itself, copied; .n 0: it is at `text` */
    bool is_there;
};

/* Whether it is a call operator's. */
static bool is_call(struct dwarf_file *f, const struct found *name)
{
    char start[sizeof CALL_OPERATOR]; /* of a template's instance arguments follow */
    if (name->here.n)
        return bytes_starts(name->here, CALL_OPERATOR);
    return bytes_is(bytes_of(start, dwarf_text_read(f, &name->text, start, sizeof start)), CALL_OPERATOR);
}

/* What stands for a scope that has no name; `call` says that a call operator is in it, so it is a lambda's.
 * binutils' c++filt has the same words, with a number behind. */
static struct bytes unnamed(const struct dwarf_die *scope, bool call)
{
    if (scope->tag == DW_TAG_namespace)
        return BYTES_LIT("(anonymous namespace)");
    return call ? BYTES_LIT("{lambda}") : BYTES_LIT("{unnamed type}");
}

/* The name of a function that is a scope: of a definition it stands at its declaration, whose place then is
 * *at. A mangled one has its scopes in it. */
static size_t function_name(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_die *die,
                            uint64_t *at, char *to, size_t room, bool *ret_mangled)
{
    uint8_t scratch[DWARF_DIE_MAX];
    size_t n = 0;
    for (uint32_t hop = 0; hop < HOPS_MAX; hop++) {
        struct dwarf_file *in = f;
        n = dwarf_text(f, cu, &die->linkage_name, to, room);
        *ret_mangled = n > 0;
        n = n ? n : dwarf_text(f, cu, &die->name, to, room);
        if (n || !die->origin.form || !dwarf_reference(&in, cu, &die->origin, at) || in != f ||
            *at < cu->unit.at || *at >= cu->unit.end || !dwarf_cu_die(f, cu, *at, scratch, die))
            break;
    }
    return n;
}

/* The names of the namespaces, classes and functions that the entry `at`, which is called `name`, is in, as
 * they stand before its own. A mangled name of a function stays mangled, and is the first. */
static struct bytes prefix_of(struct dwarf_file *f, const struct dwarf_cu *cu,
                              const struct dwarf_tree *scopes, uint64_t at, const struct found *name,
                              struct arena *text)
{
    uint8_t scratch[DWARF_DIE_MAX];
    char all[DWARF_NAME_MAX / 2], part[DWARF_NAME_MAX / 4];
    struct dwarf_die die = {.at = 0};
    size_t from = sizeof all;
    bool is_mangled = false, in_call = false;
    for (uint32_t i = 0; i < SCOPES_AROUND_MAX && !is_mangled; i++) {
        at = dwarf_scope_around(scopes->scopes.p, scopes->scopes.n, at);
        if (at == 0 || !dwarf_cu_die(f, cu, at, scratch, &die))
            break;
        bool is_function = die.tag == DW_TAG_subprogram;
        size_t n = is_function ? function_name(f, cu, &die, &at, part, sizeof part, &is_mangled)
                               : dwarf_text(f, cu, &die.name, part, sizeof part);
        if (n == 0 && i == 0 && die.tag != DW_TAG_namespace)
            in_call = is_call(f, name);
        struct bytes one = n ? bytes_of(part, n) : unnamed(&die, in_call);
        if (one.n + 2 > from)
            break;
        in_call = is_function && bytes_is(one, CALL_OPERATOR);
        from -= 2;
        memcpy(all + from, "::", 2);
        from -= one.n;
        memcpy(all + from, one.p, one.n);
    }
    return from < sizeof all ? arena_copy(text, bytes_of(all + from, sizeof all - from)) : bytes_of(NULL, 0);
}

static struct bytes joined(struct bytes prefix, struct bytes name, struct arena *text)
{
    name.n = min_of(name.n, DWARF_NAME_MAX - 1 - prefix.n);
    uint8_t *both = arena_alloc(text, prefix.n + name.n + 1);
    if (!both)
        return name;
    memcpy(both, prefix.p, prefix.n);
    memcpy(both + prefix.n, name.p, name.n);
    both[prefix.n + name.n] = 0;
    return bytes_of(both, prefix.n + name.n);
}

/* A name that is still to be read. */
struct want {
    struct dwarf_text text;
    struct bytes *to;
};

struct wants {
    struct want *want; /* room for one of each call */
    uint32_t n;
};

static bool look(struct dwarf_file *f, const struct dwarf_cu *cu, const struct dwarf_value *v,
                 struct arena *text, struct found *ret)
{
    if (v->form == DW_FORM_string && v->text.n) {
        ret->here = arena_copy(text, bytes_of(v->text.p, min_of(v->text.n, (size_t)DWARF_NAME_MAX - 1)));
        ret->is_there = ret->here.p;
    } else {
        ret->is_there = dwarf_text_at(f, cu, v, &ret->text);
    }
    return ret->is_there;
}

static void want(struct wants *wants, const struct found *name, struct bytes *to)
{
    if (name->here.n)
        *to = name->here;
    else if (name->is_there)
        wants->want[wants->n++] = (struct want){name->text, to};
}

/* Follows a call's origins to its names. */
static void chase(struct dwarf_file *f, const struct dwarf_cu *own, struct dwarf_others *others,
                  struct dwarf_tree *t, struct dwarf_call *call, struct wants *wants)
{
    uint8_t scratch[DWARF_DIE_MAX];
    struct dwarf_die die = {.at = 0};
    struct found name = {.is_there = false}, linkage = {.is_there = false};
    struct dwarf_file *in = f, *named_in = f;
    uint64_t at = call->die, named_at = 0;
    for (uint32_t hop = 0; hop < HOPS_MAX && in->work >= 0; hop++) {
        const struct dwarf_cu *cu = unit_of(f, own, others, in, at);
        if (!cu || !dwarf_cu_die(in, cu, at, scratch, &die))
            break;
        if (!name.is_there && look(in, cu, &die.name, &t->text, &name)) {
            named_at = at;
            named_in = in;
        }
        if (!linkage.is_there)
            (void)look(in, cu, &die.linkage_name, &t->text, &linkage);
        if (!call->frame.start_line && die.decl_line <= UINT32_MAX)
            call->frame.start_line = (uint32_t)die.decl_line;
        if (!die.origin.form || !dwarf_reference(&in, cu, &die.origin, &at))
            break;
    }
    if (linkage.is_there) {
        want(wants, &linkage, &call->frame.linkage);
        return;
    }
    want(wants, &name, &call->frame.name);
    const struct dwarf_cu *cu = name.is_there ? unit_of(f, own, others, named_in, named_at) : NULL;
    if (cu)
        call->prefix = prefix_of(named_in, cu, scopes_of(named_in, cu, others, t), named_at, &name, &t->text);
}

static int by_place(const void *a, const void *b)
{
    const struct want *x = a, *y = b;
    return order_of((uintptr_t)x->text.file, (uintptr_t)y->text.file)
               ?: order_of(x->text.section, y->text.section) ?: order_of(x->text.at, y->text.at);
}

static void read_texts(struct dwarf_file *f, struct wants *wants, struct arena *text)
{
    char name[DWARF_NAME_MAX];
    if (wants->n)
        qsort(wants->want, wants->n, sizeof *wants->want, by_place);
    for (uint32_t i = 0; i < wants->n && f->work >= 0; i++) {
        const struct want *w = &wants->want[i];
        if (i > 0 && by_place(w, w - 1) == 0) {
            *w->to = *w[-1].to;
            continue;
        }
        size_t n = dwarf_text_read(f, &w->text, name, sizeof name);
        *w->to = n ? arena_copy(text, bytes_of(name, n)) : bytes_of(NULL, 0);
    }
}

void dwarf_name_calls(struct dwarf_file *f, const struct dwarf_cu *cu, struct dwarf_others *others,
                      struct dwarf_tree *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->calls.n; i++)
        n += t->calls.p[i].is_used;
    autofree struct want *room = malloc(n * sizeof *room + 1);
    struct wants wants = {.want = room};
    if (!room)
        return;
    for (uint32_t i = 0; i < t->calls.n && f->work >= 0; i++) {
        if (!t->calls.p[i].is_used)
            continue;
        int64_t before = f->work;
        if (f->alt)
            f->alt->work = before;
        chase(f, cu, others, t, &t->calls.p[i], &wants);
        f->work -= f->alt ? before - f->alt->work : 0;
    }
    read_texts(f, &wants, &t->text);
    for (uint32_t i = 0; i < t->calls.n; i++) {
        struct dwarf_call *call = &t->calls.p[i];
        if (call->prefix.n && call->frame.name.n)
            call->frame.name = joined(call->prefix, call->frame.name, &t->text);
    }
}
