/* SPDX-License-Identifier: Apache-2.0 */
/* The front end's order of work: cut up and parse every file, then names, then the tree, then the warnings.
 */
#include "rules/compile.h"

#include <errno.h>
#include <stdlib.h>

#include "proto/base/macros.h"
#include "rules/parse/parse.h"
#include "rules/resolve/resolve.h"
#include "rules/resolve/warn.h"
#include "rules/source/lex.h"
#include "rules/source/report.h"

/* Files in one compilation: rule_place counts them in 16 bits, and nobody keeps more. */
#define FILES_MAX 1024u

struct compilation {
    struct rule_set *set;
    struct rule_file *files;
    struct ast_pack *packs;
    struct arena scratch;
    struct report report;
    struct ast_totals totals;
    struct resolver resolver;
    uint32_t n;
};

static int copy_files(struct compilation *c, const struct rules_input *inputs)
{
    struct arena *keep = &c->set->arena;
    c->files = arena_calloc(keep, c->n, sizeof *c->files);
    c->packs = arena_calloc(&c->scratch, c->n, sizeof *c->packs);
    c->report.errors = arena_calloc(&c->scratch, c->n, sizeof *c->report.errors);
    c->report.warnings = arena_calloc(&c->scratch, c->n, sizeof *c->report.warnings);
    c->resolver.scopes = arena_calloc(&c->scratch, c->n, sizeof *c->resolver.scopes);
    if (!c->files || !c->packs || !c->report.errors || !c->report.warnings || !c->resolver.scopes)
        return -ENOMEM;
    for (uint32_t i = 0; i < c->n; i++) {
        struct bytes text = inputs[i].text;
        if (text.n > RULES_FILE_MAX)
            text.n = 0; /* refused below; its text is not needed for that */
        c->files[i].name = arena_copy(keep, bytes_str(inputs[i].name));
        c->files[i].text = inputs[i].builtin ? text : arena_copy(keep, text);
        c->files[i].builtin = inputs[i].builtin;
        c->files[i].proven = inputs[i].proven;
        if (!c->files[i].name.p || !c->files[i].text.p)
            return -ENOMEM;
    }
    c->report.files = c->files;
    c->set->files = c->files;
    c->set->n_files = c->n;
    return 0;
}

static int parse_file(struct compilation *c, const struct rules_input *input, uint32_t i)
{
    if (input->text.n > RULES_FILE_MAX) {
        struct rule_place start = {.file = (uint16_t)i, .line = 1, .column = 1, .length = 1};
        report_plain(&c->report, "E127", start, NULL, "a rule file has at most %u bytes", RULES_FILE_MAX);
        return 0;
    }
    struct tokens tokens = {0};
    int r = lex(&c->files[i], (uint16_t)i, &c->report, &tokens);
    if (r == 0)
        r = parse(&c->files[i], (uint16_t)i, &tokens, &c->report, &c->totals, &c->scratch, &c->set->arena,
                  &c->set->test_arena, &c->packs[i]);
    tokens_release(&tokens);
    c->resolver.scopes[i].usable = r == 0;
    c->files[i].pack = c->packs[i].name.name;
    return r < 0 ? r : 0;
}

static int start_resolver(struct compilation *c)
{
    struct resolver *r = &c->resolver;
    r->report = &c->report;
    r->keep = &c->set->arena;
    r->scratch = &c->scratch;
    r->files = c->files;
    r->packs = c->packs;
    r->n_packs = c->n;
    r->n_defs = c->totals.defs;
    r->values = arena_calloc(&c->scratch, r->n_defs, sizeof *r->values);
    r->states = arena_calloc(&c->scratch, r->n_defs, sizeof *r->states);
    r->extensions = arena_calloc(&c->scratch, r->n_defs, sizeof *r->extensions);
    if (!r->values || !r->states || !r->extensions)
        return -ENOMEM;
    int error = resolve_scopes(r);
    if (error == 0)
        error = resolve_extends(r);
    return error == 0 ? resolve_overrides(r) : error;
}

/* The shipped packs' `set`s first, then the user's files in their order: the later one wins. */
static void apply_sets(struct compilation *c)
{
    for (int user = 0; user < 2; user++) {
        for (uint32_t i = 0; i < c->n; i++) {
            if (!c->resolver.scopes[i].usable || c->files[i].builtin != !user)
                continue;
            for (uint32_t k = 0; k < c->packs[i].n_sets; k++)
                apply_set(&c->resolver, &c->packs[i].sets[k], i, false);
        }
    }
}

/* A parameter's own value must be right although a `set` stands in for it. */
static void resolve_replaced(struct compilation *c, const struct ast_def *def)
{
    if (!c->resolver.values[def->id].set || def->broken)
        return;
    c->resolver.here = (struct resolve_place){.pack = def->pack, .each = true};
    if (def->kind == DEF_PATTERN)
        resolve_pattern(&c->resolver, def->body);
    else
        resolve_text(&c->resolver, def->body);
}

/* Also what nothing uses must be right. */
static void resolve_defs(struct compilation *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        for (uint32_t k = 0; c->resolver.scopes[i].usable && k < c->packs[i].n_defs; k++) {
            const struct ast_def *def = c->packs[i].defs[k];
            c->resolver.here = (struct resolve_place){.pack = i, .each = true};
            if (find_def(&c->resolver, i, def->name.name) == def)
                resolve_def(&c->resolver, def, def->name.place);
            resolve_replaced(c, def);
        }
    }
}

static int resolve_all(struct compilation *c)
{
    struct list metrics = {0}, tests = {0}, keeps = {0}, triggers = {0};
    apply_sets(c);
    resolve_defs(c);
    int r = resolve_metrics(&c->resolver, UINT32_MAX, &metrics);
    if (r == 0)
        r = resolve_keeps(&c->resolver, UINT32_MAX, &keeps);
    if (r == 0)
        r = resolve_triggers(&c->resolver, &metrics, &triggers);
    c->resolver.keep = &c->set->test_arena; /* all that others need is there */
    if (r == 0)
        r = resolve_tests(&c->resolver, &metrics, &keeps, &tests);
    c->set->metrics = metrics.items;
    c->set->n_metrics = metrics.n;
    c->set->tests = tests.items;
    c->set->n_tests = tests.n;
    c->set->keeps = keeps.items;
    c->set->n_keeps = keeps.n;
    c->set->triggers = triggers.items;
    c->set->n_triggers = triggers.n;
    return r == 0 && c->resolver.oom ? -ENOMEM : r;
}

static void warn_all(struct compilation *c)
{
    for (uint32_t i = 0; i < c->n; i++) {
        warn_pack(&c->report, &c->packs[i]);
        for (uint32_t k = 0; k < c->packs[i].n_defs; k++) {
            const struct ast_def *def = c->packs[i].defs[k];
            const struct def_state *s = &c->resolver.states[def->id];
            if (def->kind == DEF_TABLE && s->state == DEF_DONE)
                warn_table(&c->report, s->node);
        }
    }
}

static int compile(struct compilation *c, const struct rules_input *inputs)
{
    int r = copy_files(c, inputs);
    for (uint32_t i = 0; r == 0 && i < c->n; i++)
        r = parse_file(c, &inputs[i], i);
    if (r == 0)
        r = start_resolver(c);
    if (r == 0)
        r = resolve_all(c);
    if (r == 0 && c->report.out->n_errors == 0)
        warn_all(c);
    resolve_scopes_release(&c->resolver);
    return r == 0 && c->report.oom ? -ENOMEM : r;
}

struct rule_set *rules_compile(const struct rules_input *inputs, uint32_t n_inputs,
                               struct rules_diagnostics *ret)
{
    *ret = (struct rules_diagnostics){0};
    struct compilation c = {.n = n_inputs, .report = {.out = ret}};
    if (n_inputs > FILES_MAX)
        return NULL;
    c.set = calloc(1, sizeof *c.set);
    int r = c.set ? compile(&c, inputs) : -ENOMEM;
    report_finish(&c.report);
    arena_release(&c.scratch);
    if (r < 0)
        rules_diagnostics_release(ret);
    if (r < 0 || ret->n_errors > 0)
        c.set = rules_set_free(c.set);
    return c.set;
}

void rules_set_forget_tests(struct rule_set *set)
{
    set->tests = NULL;
    set->n_tests = 0;
    arena_release(&set->test_arena);
}

struct rule_set *rules_set_free(struct rule_set *set)
{
    if (set) {
        arena_release(&set->test_arena);
        arena_release(&set->arena);
    }
    free(set);
    return NULL;
}
