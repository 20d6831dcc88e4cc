/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs, names, definitions.
 *
 * A pack's scope is its own definitions and what it `use`s, so a name is one look-up. A definition becomes a
 * node when it is asked for the first time, depth first: while it is being made its state is DEF_BUSY, and
 * whoever asks then has found a circle (E116). How many stand inside each other is bounded twice: `busy`
 * while they are made, so that the C stack is, and `rank`, which a definition that was made earlier brings
 * along.
 *
 * A body that is only another's name gives that one's node, so that rules which mean the same condition point
 * at the same struct; what is behind the front end keys on pointers.
 *
 * A `set` stands in for a parameter's body, read in the scope of the file that says it. Nothing is undone: a
 * test with `set`s of its own is a new pass with values and states of its own (proof.c).
 */
#include "rules/resolve/resolve.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "proto/base/macros.h"
#include "proto/base/nearest.h"
#include "rules/tree/limits.h"

static const char *const kind_names[] = {"pattern", "frame", "region", "sample", "text", "table"};

const char *kind_name(enum ast_kind kind)
{
    return kind_names[kind];
}

void *wrong(struct resolver *r, const char *code, struct rule_place place, const char *proposal,
            const char *format, ...)
{
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    report_plain(r->report, code, place, proposal, "%s", message);
    return NULL;
}

void *out_of_memory(struct resolver *r)
{
    r->oom = true;
    return NULL;
}

/* ---- scopes ---------------------------------------------------------------------------------- */

const struct ast_pack *find_pack(const struct resolver *r, struct bytes name, uint32_t *ret_index)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        if (r->scopes[i].usable && bytes_eq(r->packs[i].name.name, name)) {
            if (ret_index)
                *ret_index = i;
            return &r->packs[i];
        }
    }
    return NULL;
}

const struct ast_def *find_def(const struct resolver *r, uint32_t pack, struct bytes name)
{
    const struct pack_scope *scope = &r->scopes[pack];
    uint32_t id = intern_find(&scope->names, name);
    return id == INTERN_NONE ? NULL : scope->defs[id];
}

static int add_name(struct resolver *r, uint32_t pack, const struct ast_name *name, const struct ast_def *def)
{
    struct pack_scope *scope = &r->scopes[pack];
    const struct ast_def *other = find_def(r, pack, name->name);
    if (other && other != def) {
        struct bytes from = r->packs[other->pack].name.name;
        if (other->pack == pack)
            wrong(r, "E115", name->place, "one name has one meaning in a pack",
                  "`%.*s` is defined already (a %s, line %u)", BYTES_FMT(name->name), kind_name(other->kind),
                  other->name.place.line);
        else
            wrong(r, "E115", name->place, "one name has one meaning in a pack",
                  "`%.*s` is used from pack %.*s already (a %s)", BYTES_FMT(name->name), BYTES_FMT(from),
                  kind_name(other->kind));
        return 0;
    }
    uint32_t id = intern_add(&scope->names, name->name);
    if (id == INTERN_NONE)
        return -ENOMEM;
    scope->defs[id] = def;
    return 0;
}

static void report_no_pack(struct resolver *r, const struct ast_name *name)
{
    struct nearest near;
    nearest_start(&near, name->name);
    for (uint32_t i = 0; i < r->n_packs; i++) {
        if (r->scopes[i].usable)
            nearest_offer(&near, r->packs[i].name.name);
    }
    report_at(r->report, "E103", name->place, "there is no pack named `%.*s`", BYTES_FMT(name->name));
    report_meant(r->report, near.best);
    report_done(r->report);
}

const struct ast_def *find_own(const struct ast_pack *pack, struct bytes name)
{
    for (uint32_t i = 0; i < pack->n_defs; i++) {
        if (bytes_eq(pack->defs[i]->name.name, name))
            return pack->defs[i];
    }
    return NULL;
}

const struct ast_def *find_foreign(const struct resolver *r, struct bytes name,
                                   const struct ast_pack **ret_pack)
{
    *ret_pack = NULL;
    for (size_t n = name.n; n > 1; n--) {
        if (name.p[n - 1] != '.')
            continue;
        *ret_pack = find_pack(r, bytes_of(name.p, n - 1), NULL);
        if (*ret_pack)
            return find_own(*ret_pack, bytes_of(name.p + n, name.n - n));
    }
    return NULL;
}

static bool any_definition(const struct ast_def *def)
{
    return def != NULL;
}

void report_own(struct resolver *r, const struct ast_pack *pack, struct bytes wanted, bool is_qualified,
                bool (*counts)(const struct ast_def *def))
{
    char there[160] = "";
    size_t n = 0;
    uint32_t more = 0;
    struct nearest near;
    nearest_start(&near, wanted);
    for (uint32_t i = 0; i < pack->n_defs; i++) {
        const struct bytes name = pack->defs[i]->name.name;
        if (!counts(pack->defs[i]))
            continue;
        nearest_offer(&near, name);
        if (n + name.n + 3 < sizeof there)
            n += (size_t)snprintf(there + n, sizeof there - n, "%s%.*s", n > 0 ? ", " : "", BYTES_FMT(name));
        else
            more++;
    }
    if (near.best.n > 0 && is_qualified)
        report_side(r->report, "did you mean `%.*s.%.*s`?", BYTES_FMT(pack->name.name), BYTES_FMT(near.best));
    else if (near.best.n > 0)
        report_meant(r->report, near.best);
    else if (more > 0)
        report_propose(r->report, "pack %.*s has %s and %u more", BYTES_FMT(pack->name.name), there, more);
    else if (n > 0)
        report_propose(r->report, "pack %.*s has %s", BYTES_FMT(pack->name.name), there);
    report_done(r->report);
}

static int add_uses(struct resolver *r, uint32_t pack)
{
    const struct ast_pack *p = &r->packs[pack];
    for (uint32_t i = 0; i < p->n_uses; i++) {
        const struct ast_use *use = &p->uses[i];
        uint32_t from;
        const struct ast_pack *other = find_pack(r, use->pack.name, &from);
        if (!other) {
            report_no_pack(r, &use->pack);
            continue;
        }
        if (from == pack) {
            wrong(r, "E131", use->pack.place, NULL, "a pack sees its own names without `use`");
            continue;
        }
        for (uint32_t k = 0; k < use->n_names; k++) {
            const struct ast_def *def = find_own(other, use->names[k].name);
            if (!def) {
                report_at(r->report, "E103", use->names[k].place, "pack %.*s defines nothing named `%.*s`",
                          BYTES_FMT(use->pack.name), BYTES_FMT(use->names[k].name));
                report_own(r, other, use->names[k].name, false, any_definition);
            }
            if (!def && find_def(r, pack, use->names[k].name))
                continue;
            if (add_name(r, pack, &use->names[k], def) < 0)
                return -ENOMEM;
        }
    }
    return 0;
}

static int add_pack(struct resolver *r, uint32_t pack)
{
    const struct ast_pack *p = &r->packs[pack];
    struct pack_scope *scope = &r->scopes[pack];
    uint32_t most = p->n_defs;
    for (uint32_t i = 0; i < p->n_uses; i++)
        most += p->uses[i].n_names;
    scope->defs = arena_calloc(r->scratch, most + 1, sizeof *scope->defs);
    if (!scope->defs)
        return -ENOMEM;
    for (uint32_t i = 0; i < p->n_defs; i++) {
        if (add_name(r, pack, &p->defs[i]->name, p->defs[i]) < 0)
            return -ENOMEM;
    }
    return 0;
}

int resolve_scopes(struct resolver *r)
{
    for (uint32_t i = 0; i < r->n_packs; i++) {
        for (uint32_t k = 0; k < i && r->scopes[i].usable; k++) {
            if (r->scopes[k].usable && bytes_eq(r->packs[k].name.name, r->packs[i].name.name)) {
                wrong(r, "E115", r->packs[i].name.place, "take another name: a pack is one file",
                      "there is a pack %.*s already (%.*s)", BYTES_FMT(r->packs[i].name.name),
                      BYTES_FMT(r->files[k].name));
                r->scopes[i].usable = false;
            }
        }
        if (r->scopes[i].usable && add_pack(r, i) < 0)
            return -ENOMEM;
    }
    for (uint32_t i = 0; i < r->n_packs; i++) {
        if (r->scopes[i].usable && add_uses(r, i) < 0)
            return -ENOMEM;
    }
    return 0;
}

void resolve_scopes_release(struct resolver *r)
{
    for (uint32_t i = 0; i < r->n_packs; i++)
        intern_release(&r->scopes[i].names);
}

/* ---- names ----------------------------------------------------------------------------------- */

static const char *const type_words[] = {"native", "kernel", "jvm",    "cpython", "go",   "v8js",  "php",
                                         "perl",   "ruby",   "dotnet", "rust",    "beam", "luajit"};

/* How others call what has a name here: runtimes where a frame is meant, kinds of profiles behind `on`,
 * attributes where a text is. */
static const struct foreign {
    const char *theirs, *ours;
} runtimes[] = {{"java", "jvm"},        {"kotlin", "jvm"},    {"scala", "jvm"},       {"hotspot", "jvm"},
                {"python", "cpython"},  {"py", "cpython"},    {"node", "v8js"},       {"nodejs", "v8js"},
                {"javascript", "v8js"}, {"js", "v8js"},       {"v8", "v8js"},         {"golang", "go"},
                {"c", "native"},        {"cpp", "native"},    {"user", "not kernel"}, {"linux", "kernel"},
                {"kern", "kernel"},     {"csharp", "dotnet"}, {"clr", "dotnet"},      {"net", "dotnet"},
                {"erlang", "beam"},     {"elixir", "beam"},   {"lua", "luajit"},      {NULL, NULL}},
  kinds_of_profiles[] = {{"memory", "alloc   (what is in use: \"inuse_space/bytes\")"},
                         {"heap", "alloc   (what is in use: \"inuse_space/bytes\")"},
                         {"allocs", "alloc"},
                         {"allocations", "alloc"},
                         {"offcpu", "off_cpu"},
                         {"sleep", "off_cpu"},
                         {"block", "off_cpu"},
                         {"mutex", "lock"},
                         {"locks", "lock"},
                         {"contention", "lock"},
                         {"time", "cpu"},
                         {"process_cpu", "cpu"},
                         {"samples", "\"samples/count\""},
                         {"all", "any"},
                         {NULL, NULL}},
  attributes[] = {{"service", "resource[\"service.name\"]"},
                  {"app", "resource[\"service.name\"]"},
                  {"host", "resource[\"host.name\"]"},
                  {"pod", "resource[\"k8s.pod.name\"]"},
                  {"namespace", "resource[\"k8s.namespace.name\"]"},
                  {"container", "resource[\"container.name\"]"},
                  {"process", "resource[\"process.executable.name\"]"},
                  {"comm", "sample[\"thread.name\"]"},
                  {"thread", "sample[\"thread.name\"]"},
                  {NULL, NULL}};

/* Ours for what was written, in letters of any size and nearly so, or NULL. */
static const char *in_our_words(const struct foreign *all, struct bytes name)
{
    char small[32];
    const char *ours = NULL;
    struct nearest near;
    if (name.n >= sizeof small)
        return NULL;
    for (size_t i = 0; i < name.n; i++)
        small[i] = (char)tolower(name.p[i]);
    for (size_t i = 0; all == runtimes && i < ARRAY_LEN(type_words); i++)
        if (bytes_is(bytes_of(small, name.n), type_words[i]))
            return type_words[i];
    nearest_start(&near, bytes_of(small, name.n));
    near.max = near.distance = name.n > 4 ? 2 : 1; /* one letter off, and of short ones none */
    for (const struct foreign *f = all; f->theirs; f++)
        if (nearest_offer(&near, bytes_str(f->theirs)))
            ours = f->ours;
    return ours;
}

const struct ast_def *look_up(struct resolver *r, struct bytes name, struct rule_place place, unsigned kinds,
                              const char *what)
{
    const struct ast_def *def = find_def(r, r->here.pack, name), *best = NULL;
    const struct pack_scope *scope = &r->scopes[r->here.pack];
    if (def || intern_find(&scope->names, name) != INTERN_NONE)
        return def; /* NULL: its `use` was told that the pack has none */
    struct nearest near;
    nearest_start(&near, name);
    for (uint32_t i = 0; i < scope->names.n; i++) {
        def = scope->defs[i];
        if (def && (kinds & 1u << def->kind) && nearest_offer(&near, intern_get(&scope->names, i)))
            best = def;
    }
    for (size_t i = 0; (kinds & 1u << DEF_FRAME) && i < ARRAY_LEN(type_words); i++) {
        if (nearest_offer(&near, bytes_str(type_words[i])))
            best = NULL;
    }
    report_at(r->report, "E103", place, "there is no %s named `%.*s`", what, BYTES_FMT(name));
    if (best && best->pack == r->here.pack)
        report_side(r->report, "did you mean `%.*s` (line %u)?", BYTES_FMT(near.best), best->name.place.line);
    else if (best)
        report_side(r->report, "did you mean `%.*s` (pack %.*s)?", BYTES_FMT(near.best),
                    BYTES_FMT(r->packs[best->pack].name.name));
    else
        report_meant(r->report, near.best);
    const char *ours = near.best.n > 0           ? NULL
                       : kinds & 1u << DEF_FRAME ? in_our_words(runtimes, name)
                       : kinds & 1u << DEF_TEXT  ? in_our_words(attributes, name)
                       : r->here.is_on           ? in_our_words(kinds_of_profiles, name)
                                                 : NULL;
    if (ours)
        report_propose(r->report, "write: %s", ours);
    else if (r->here.is_on)
        report_propose(r->report,
                       "a kind stands alone: cpu, wall, off_cpu, alloc, lock or any; types are strings: "
                       "on \"samples/count\" | \"cpu/*\"");
    for (uint32_t i = 0; near.best.n == 0 && !ours && !r->here.is_on && i < r->n_packs; i++) {
        def = r->scopes[i].usable ? find_own(&r->packs[i], name) : NULL;
        if (def && (kinds & 1u << def->kind)) {
            report_propose(r->report, "pack %.*s has one: write at the top  use %.*s (%.*s)",
                           BYTES_FMT(r->packs[i].name.name), BYTES_FMT(r->packs[i].name.name),
                           BYTES_FMT(name));
            break;
        }
    }
    report_done(r->report);
    return NULL;
}

/* The definition's own text or pattern, or what a `set` put in its place, in the scope it was written in. */
static const struct ast *body_of(struct resolver *r, const struct ast_def *def)
{
    const struct set_value *value = &r->values[def->id];
    if (!value->set)
        return def->body;
    r->here.pack = value->pack;
    return def->kind == DEF_PATTERN ? value->set->value_pattern : value->set->value;
}

/* A body that is only another definition's name gives that one's node, which keeps its name. */
static bool is_alias(const struct ast *body)
{
    if (body->op == AST_PATTERN)
        return body->n_kids == 1 && body->kids[0]->op == AST_NAME;
    if (body->op == AST_TEXT)
        return body->n_kids == 1 && !body->kids[0]->guard && body->kids[0]->n_kids == 1 &&
               body->kids[0]->kids[0]->op == AST_NAME;
    return body->op == AST_NAME;
}

static const void *resolve_body(struct resolver *r, const struct ast_def *def)
{
    if (def->kind == DEF_TABLE)
        return resolve_table(r, def);
    if (def->kind == DEF_REGION)
        return resolve_region(r, def);
    const struct ast *body = body_of(r, def);
    bool alias = is_alias(body);
    if (def->kind == DEF_PATTERN) {
        struct rule_pattern *node = (struct rule_pattern *)resolve_pattern(r, body);
        if (node && !alias)
            node->name = def->name.name;
        return node;
    }
    if (def->kind == DEF_FRAME) {
        struct rule_frame *node = (struct rule_frame *)resolve_frame(r, body);
        if (node && !alias)
            node->name = def->name.name;
        return node;
    }
    if (def->kind == DEF_SAMPLE) {
        struct rule_sample *node = (struct rule_sample *)resolve_sample(r, body);
        if (node && !alias)
            node->name = def->name.name;
        return node;
    }
    struct rule_text *node = (struct rule_text *)resolve_text(r, body);
    if (node && !alias)
        node->name = def->name.name;
    return node;
}

const void *resolve_def(struct resolver *r, const struct ast_def *def, struct rule_place place)
{
    struct def_state *s = &r->states[def->id];
    if (s->state == DEF_BUSY) {
        s->state = DEF_WRONG;
        return wrong(r, "E116", place, NULL, "`%.*s` depends on itself", BYTES_FMT(def->name.name));
    }
    if (def->broken || s->state == DEF_WRONG)
        return NULL;
    if (s->state == DEF_UNSEEN) {
        if (r->busy >= RULES_NESTING_MAX)
            return wrong(r, "E127", place, NULL, "more than %u definitions that use each other in a row",
                         RULES_NESTING_MAX);
        struct resolve_place outside = r->here;
        r->here = (struct resolve_place){
            .pack = def->pack, .each = def->kind == DEF_TEXT || def->kind == DEF_SAMPLE, .rank = 1};
        s->state = DEF_BUSY;
        r->busy++;
        const void *node = resolve_body(r, def);
        r->busy--;
        if (node && r->here.rank > RULES_NESTING_MAX)
            node = wrong(r, "E127", def->name.place, NULL,
                         "more than %u definitions that use each other in a row", RULES_NESTING_MAX);
        /* A cycle found further in has marked it wrong already. */
        s->node = s->state == DEF_BUSY ? node : NULL;
        s->state = s->node ? DEF_DONE : DEF_WRONG;
        s->rank = r->here.rank;
        s->uses_frame = r->here.uses_frame;
        s->needs_sample = r->here.needs_sample;
        r->here = outside;
        if (!s->node)
            return NULL;
    }
    if (r->here.rank < s->rank + 1)
        r->here.rank = (uint16_t)(s->rank + 1);
    if (s->uses_frame && !r->here.each)
        return wrong(r, "E109", place, "say it in a label of a rule with `each frame`",
                     "`%.*s` speaks of `frame`, which is only known in a rule with `each`",
                     BYTES_FMT(def->name.name));
    r->here.uses_frame |= s->uses_frame;
    r->here.needs_sample |= s->needs_sample;
    return s->node;
}

/* ---- set ------------------------------------------------------------------------------------- */

static bool is_param(const struct ast_def *def)
{
    return def->param;
}

/* PARAM of the pack itself, else PACK.PARAM with the longest pack that is declared. */
static const struct ast_def *find_param(struct resolver *r, const struct ast_name *name, uint32_t pack)
{
    const struct ast_pack *other = NULL;
    const struct ast_def *def = find_own(&r->packs[pack], name->name);
    if (!def)
        def = find_foreign(r, name->name, &other);
    if (!def && other) {
        size_t n = other->name.name.n + 1;
        struct bytes rest = bytes_of(name->name.p + n, name->name.n - n);
        report_at(r->report, "E103", name->place, "pack %.*s has no parameter named `%.*s`",
                  BYTES_FMT(other->name.name), BYTES_FMT(rest));
        report_own(r, other, rest, true, is_param);
        return NULL;
    }
    if (!def)
        wrong(r, "E103", name->place, "write: set PACK.NAME = …", "there is no parameter named `%.*s`",
              BYTES_FMT(name->name));
    return def;
}

static struct bytes set_source(const struct ast_set *set)
{
    return set->value_pattern ? set->value_pattern->source : set->value->source;
}

void apply_set(struct resolver *r, const struct ast_set *set, uint32_t pack, bool in_test)
{
    const struct ast_def *def = find_param(r, &set->name, pack);
    if (!def)
        return;
    if (!def->param) {
        wrong(r, "E124", set->name.place, "only what is declared with `param` can be set",
              "`%.*s` is no parameter (a %s)", BYTES_FMT(set->name.name), kind_name(def->kind));
        return;
    }
    if (def->kind == DEF_PATTERN ? !set->value_pattern : !set->value) {
        wrong(r, "E124", set->name.place, NULL, "`%.*s` is a %s, and this value is not one",
              BYTES_FMT(set->name.name), kind_name(def->kind));
        return;
    }
    struct set_value *value = &r->values[def->id];
    bool equal_rank =
        value->set && (value->pack == pack || (r->files[value->pack].builtin && r->files[pack].builtin));
    if (equal_rank && !in_test && !bytes_eq(set_source(value->set), set_source(set))) {
        wrong(r, "E124", set->name.place, NULL, "`%.*s` is set to something else already (line %u)",
              BYTES_FMT(set->name.name), value->set->name.place.line);
        return;
    }
    *value = (struct set_value){set, pack};
}
