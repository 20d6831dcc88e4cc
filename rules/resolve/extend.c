/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows for other packs' tables: which `extend` belongs to which definition.
 *
 * They are gathered before any table is made: shipped packs first, then the user's files in their order. A
 * table's list is kept in the order in which its rows will stand, those of the latest file on top and within
 * a file as they are written, so each goes before those of earlier files and behind those of its own. The
 * rows stay as written: frame.c resolves them above the table's own, in the scope of the file that says them.
 */
#include "rules/resolve/resolve.h"

#include <errno.h>

#include "rules/tree/limits.h"

static bool is_table(const struct ast_def *def)
{
    return def->kind == DEF_TABLE;
}

static void report_no_table(struct resolver *r, const struct ast_name *name, const struct ast_pack *pack)
{
    const size_t n = pack ? pack->name.name.n + 1 : 0;
    report_at(r->report, "E103", name->place, "there is no table named `%.*s`", BYTES_FMT(name->name));
    if (pack) {
        report_own(r, pack, bytes_of(name->name.p + n, name->name.n - n), true, is_table);
    } else {
        report_propose(r->report, "write: extend table PACK.TABLE { … }");
        report_done(r->report);
    }
}

/* The table an `extend` means, or NULL with an error. */
static const struct ast_def *table_of(struct resolver *r, const struct ast_extend *a)
{
    const struct ast_pack *pack;
    const struct ast_def *def = find_foreign(r, a->name.name, &pack);
    if (!def && find_own(&r->packs[a->pack], a->name.name)) {
        wrong(r, "E133", a->place, "write the rows into the table",
              "`extend` is for another pack's table; `%.*s` is this pack's own", BYTES_FMT(a->name.name));
        return NULL;
    }
    if (!def) {
        report_no_table(r, &a->name, pack);
        return NULL;
    }
    if (def->pack == a->pack)
        return wrong(r, "E133", a->place, "write the rows into the table",
                     "`extend` is for another pack's table; `%.*s` is this pack's own",
                     BYTES_FMT(a->name.name));
    if (def->kind != DEF_TABLE)
        return wrong(r, "E117", a->name.place, NULL, "`%.*s` is a %s; a table is needed here",
                     BYTES_FMT(a->name.name), kind_name(def->kind));
    return def;
}

/* Puts it before those of earlier files, behind those of its own file that stand above it. */
static int add_extension(struct resolver *r, const struct ast_extend *a)
{
    const struct ast_def *def = table_of(r, a);
    if (!def)
        return 0;
    struct extensions *x = &r->extensions[def->id];
    if (x->n_rows + a->n_rows + def->table.n_rows > RULES_ROWS_MAX) {
        wrong(r, "E127", a->place, NULL, "a table has at most %u rows, with those of its extensions",
              RULES_ROWS_MAX);
        return 0;
    }
    const struct ast_extend **items = arena_calloc(r->scratch, x->n + 1, sizeof *items);
    if (!items)
        return -ENOMEM;
    uint32_t at = 0, n = 0;
    while (at < x->n && x->items[at]->pack == a->pack)
        at++;
    for (uint32_t i = 0; i <= x->n; i++)
        items[n++] = i == at ? a : x->items[i - (i > at)];
    x->items = items;
    x->n = n;
    x->n_rows += a->n_rows;
    return 0;
}

int resolve_extends(struct resolver *r)
{
    for (uint32_t user = 0; user < 2; user++) {
        for (uint32_t i = 0; i < r->n_packs; i++) {
            if (!r->scopes[i].usable || r->files[i].builtin != !user)
                continue;
            for (uint32_t k = 0; k < r->packs[i].n_extends; k++) {
                if (!r->packs[i].extends[k].broken && add_extension(r, &r->packs[i].extends[k]) < 0)
                    return -ENOMEM;
            }
        }
    }
    return 0;
}
