/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/settings/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

#include "proto/base/library/library.h"
#include "proto/base/macros.h"
#include "proto/base/nearest.h"

#define VARIABLE_MAX 128u
#define KEY_MAX      320u

struct settings_file {
    struct settings_file_options options;
    const char *name;
    struct error *e;
    int r;
    yaml_document_t doc;
    bool no_memory; /* nobody goes on without */
};

/* libyaml's nodes under a name of ours. */
static const yaml_node_t *yaml(const struct settings_node *n)
{
    return (const yaml_node_t *)n;
}

static const struct settings_node *node(struct settings_file *f, int id)
{
    return (const struct settings_node *)yaml_document_get_node(&f->doc, id);
}

/* ---- errors ---------------------------------------------------------------------------------- */

static int fail_at(struct settings_file *f, const yaml_mark_t *at, const char *key, int r, const char *what)
{
    char column[24] = "";
    if (!f->options.lines_only)
        snprintf(column, sizeof column, ":%zu", at->column + 1);
    f->r =
        error_set(f->e, r, "%s:%zu%s: %s%s%s", f->name, at->line + 1, column, key, key[0] ? ": " : "", what);
    if (f->options.tell)
        f->options.tell(f->options.user, f->e->text);
    return f->r;
}

int settings_fail(struct settings_file *f, const struct settings_node *at, const char *key, const char *what)
{
    return fail_at(f, &yaml(at)->start_mark, key, -EINVAL, what);
}

int settings_fail_why(struct settings_file *f, const struct settings_node *at, const char *key, int r,
                      const struct error *why)
{
    return fail_at(f, &yaml(at)->start_mark, key, r, why->text);
}

int settings_no_memory(struct settings_file *f)
{
    f->no_memory = true;
    return f->r = error_set(f->e, -ENOMEM, "%s: out of memory", f->name);
}

int settings_failure(const struct settings_file *f)
{
    return f->r;
}

int settings_go_on(const struct settings_file *f, int r)
{
    return f->options.tell && !f->no_memory ? 0 : r;
}

/* ---- the document ---------------------------------------------------------------------------- */

#define BEHIND_COLON "a blank belongs behind a key's colon"

/* What to write, where libyaml's words say how it reads. `begin`: it is told where it begins, for libyaml is
 * far behind by then. */
static const struct advice {
    const char *context, *problem; /* libyaml's; NULL: any */
    const char *what;
    bool begin;
} advices[] = {
    {NULL, "found character that cannot start any token", "a value that begins so stands in quotes", false},
    {"while scanning an alias", NULL, "a value that begins with * stands in quotes", true},
    {"while scanning an anchor", NULL, "a value that begins with & stands in quotes", true},
    {"while scanning a quoted scalar", "found unexpected end of stream", "this quote is never closed", true},
    {"while scanning a simple key", NULL, "no key and value: " BEHIND_COLON, true},
    {NULL, "mapping values are not allowed in this context",
     "a colon where no key may stand: this line is too deep, the key above has no blank behind its colon, or a value "
     "wants quotes",
     false},
};

static const struct advice *advice_for(const yaml_parser_t *parser)
{
    const char *context = parser->context ? parser->context : "", *problem = parser->problem;
    for (size_t i = 0; problem && i < ARRAY_LEN(advices); i++)
        if ((!advices[i].context || strcmp(context, advices[i].context) == 0) &&
            (!advices[i].problem || strcmp(problem, advices[i].problem) == 0))
            return &advices[i];
    return NULL;
}

static int explain(struct settings_file *f, const yaml_parser_t *parser)
{
    const struct advice *advice = advice_for(parser);
    char what[160];
    if (parser->error == YAML_MEMORY_ERROR)
        return settings_no_memory(f);
    if (parser->error == YAML_SCANNER_ERROR && parser->buffer.pointer < parser->buffer.last &&
        *parser->buffer.pointer == '\t') /* "found character that cannot start any token" */
        return fail_at(f, &parser->problem_mark, "", -EINVAL, "a tab; YAML is indented by spaces");
    if (advice)
        return fail_at(f, advice->begin ? &parser->context_mark : &parser->problem_mark, "", -EINVAL,
                       advice->what);
    snprintf(what, sizeof what, "%s", parser->problem ? parser->problem : "not YAML");
    if (parser->context && parser->context_mark.line < parser->problem_mark.line)
        snprintf(what, sizeof what, "%s, %s that begins in line %zu", parser->problem, parser->context,
                 parser->context_mark.line + 1);
    return fail_at(f, &parser->problem_mark, "", -EINVAL, what);
}

/* libyaml looks at all open lists and maps for each token, and at each level of a document by recursion: what
 * is nested deep is refused event by event, before a document is made of it. A second document would be read
 * by nobody. */
static int check_events(struct settings_file *f, yaml_parser_t *parser)
{
    uint32_t depth = 0, documents = 0;
    for (int r = 0;;) {
        yaml_event_t event;
        if (!yaml_parser_parse(parser, &event))
            return explain(f, parser);
        bool ends = event.type == YAML_STREAM_END_EVENT || event.type == YAML_NO_EVENT;
        depth += event.type == YAML_SEQUENCE_START_EVENT || event.type == YAML_MAPPING_START_EVENT;
        depth -= event.type == YAML_SEQUENCE_END_EVENT || event.type == YAML_MAPPING_END_EVENT;
        documents += event.type == YAML_DOCUMENT_START_EVENT;
        if (documents > 1)
            r = fail_at(f, &event.start_mark, "", -EINVAL, "a second document begins; one is read");
        else if (depth > SETTINGS_DEPTH_MAX)
            r = fail_at(f, &event.start_mark, "", -EINVAL, "nested too deep");
        yaml_event_delete(&event);
        if (r < 0 || ends)
            return r;
    }
}

static int load(struct settings_file *f, yaml_parser_t *parser)
{
    return yaml_parser_load(parser, &f->doc) ? 0 : explain(f, parser);
}

static int parse_with(struct settings_file *f, struct bytes text,
                      int (*fn)(struct settings_file *f, yaml_parser_t *parser))
{
    yaml_parser_t parser;
    if (!yaml_parser_initialize(&parser))
        return settings_no_memory(f);
    yaml_parser_set_input_string(&parser, text.p, text.n);
    int r = fn(f, &parser);
    yaml_parser_delete(&parser);
    return r;
}

static int parse(struct settings_file *f, struct bytes text)
{
    if (text.n > SETTINGS_FILE_MAX)
        return error_set(f->e, -EINVAL, "%s: longer than 1 MiB", f->name);
    int r = library_load(&library_yaml, f->e);
    r = r < 0 ? r : parse_with(f, text, check_events);
    return r < 0 ? r : parse_with(f, text, load);
}

struct key {
    struct bytes text;
    const yaml_node_t *node;
};

static int by_text_and_place(const void *a, const void *b)
{
    const struct key *x = a, *y = b;
    return bytes_compare(x->text, y->text) ?: order_of(x->node->start_mark.index, y->node->start_mark.index);
}

/* libyaml takes a key that stands there twice; one of its values would be for nothing. `keys` has room for
 * those of the map. */
static int check_keys_of(struct settings_file *f, const yaml_node_t *map, struct key *keys)
{
    uint32_t n = 0;
    int r = 0;
    for (const yaml_node_pair_t *p = map->data.mapping.pairs.start; p < map->data.mapping.pairs.top; p++) {
        const yaml_node_t *k = yaml_document_get_node(&f->doc, p->key);
        if (k->type == YAML_SCALAR_NODE)
            keys[n++] = (struct key){bytes_of(k->data.scalar.value, k->data.scalar.length), k};
    }
    qsort(keys, n, sizeof *keys, by_text_and_place);
    for (uint32_t i = 1; i < n && r == 0; i++) {
        char what[64];
        if (!bytes_eq(keys[i].text, keys[i - 1].text))
            continue;
        snprintf(what, sizeof what, "this key stands in line %zu already",
                 keys[i - 1].node->start_mark.line + 1);
        r = settings_go_on(f, fail_at(f, &keys[i].node->start_mark, (const char *)keys[i].text.p, -EINVAL,
                                      what));
    }
    return r;
}

static int check_keys(struct settings_file *f)
{
    size_t most = 1;
    const yaml_node_t *nodes = f->doc.nodes.start, *end = f->doc.nodes.top;
    for (const yaml_node_t *n = nodes; n < end; n++)
        if (n->type == YAML_MAPPING_NODE)
            most = max_of(most, (size_t)(n->data.mapping.pairs.top - n->data.mapping.pairs.start));
    autofree struct key *keys = calloc(most, sizeof *keys);
    if (!keys)
        return settings_no_memory(f);
    int r = 0;
    for (const yaml_node_t *n = nodes; n < end && r == 0; n++)
        if (n->type == YAML_MAPPING_NODE)
            r = check_keys_of(f, n, keys);
    return r;
}

int settings_file_open(struct settings_file **ret, const char *name, struct bytes yaml_text,
                       const struct settings_file_options *options, struct error *e)
{
    autofree struct settings_file *f = calloc(1, sizeof *f);
    if (!f)
        return error_set(e, -ENOMEM, "%s: out of memory", name);
    f->options = *options;
    f->name = name;
    f->e = e;
    int r = parse(f, yaml_text);
    if (r < 0)
        return r;
    r = check_keys(f);
    if (r < 0)
        yaml_document_delete(&f->doc);
    else
        *ret = take_ptr(f);
    return r;
}

struct settings_file *settings_file_close(struct settings_file *f)
{
    if (f)
        yaml_document_delete(&f->doc);
    free(f);
    return NULL;
}

const struct settings_node *settings_root(struct settings_file *f)
{
    return (const struct settings_node *)yaml_document_get_root_node(&f->doc);
}

bool settings_is(const struct settings_node *n, enum settings_shape shape)
{
    static const yaml_node_type_t of[] = {[SETTINGS_SCALAR] = YAML_SCALAR_NODE,
                                          [SETTINGS_LIST] = YAML_SEQUENCE_NODE,
                                          [SETTINGS_MAP] = YAML_MAPPING_NODE};
    return yaml(n)->type == of[shape];
}

static struct bytes raw(const struct settings_node *n)
{
    return bytes_of(yaml(n)->data.scalar.value, yaml(n)->data.scalar.length);
}

bool settings_is_word(const struct settings_node *n, const char *word)
{
    return settings_is(n, SETTINGS_SCALAR) && yaml(n)->data.scalar.style == YAML_PLAIN_SCALAR_STYLE &&
           bytes_is(raw(n), word);
}

/* YAML 1.2, section 10.3.2. */
bool settings_is_null(const struct settings_node *n)
{
    static const char *const words[] = {"", "~", "null", "Null", "NULL"};
    for (size_t i = 0; i < ARRAY_LEN(words); i++)
        if (settings_is_word(n, words[i]))
            return true;
    return false;
}

uint32_t settings_count(const struct settings_node *n)
{
    const yaml_node_t *y = yaml(n);
    return (uint32_t)(settings_is(n, SETTINGS_LIST)
                          ? y->data.sequence.items.top - y->data.sequence.items.start
                      : settings_is(n, SETTINGS_MAP) ? y->data.mapping.pairs.top - y->data.mapping.pairs.start
                                                     : 0);
}

const struct settings_node *settings_item(struct settings_file *f, const struct settings_node *list,
                                          uint32_t i)
{
    return node(f, yaml(list)->data.sequence.items.start[i]);
}

const struct settings_node *settings_key(struct settings_file *f, const struct settings_node *map, uint32_t i)
{
    return node(f, yaml(map)->data.mapping.pairs.start[i].key);
}

const struct settings_node *settings_value(struct settings_file *f, const struct settings_node *map,
                                           uint32_t i)
{
    return node(f, yaml(map)->data.mapping.pairs.start[i].value);
}

/* The value that the path's first word leads to, and the rest of the path; words of a map are tried whole, so
 * that they may have dots in them. NULL: it leads nowhere. */
static const struct settings_node *step(struct settings_file *f, const struct settings_node *at,
                                        const char **path)
{
    char *end;
    if (settings_is(at, SETTINGS_LIST) && **path == '[') {
        unsigned long i = strtoul(*path + 1, &end, 10);
        *path = end + (*end == ']');
        return i < settings_count(at) ? settings_item(f, at, (uint32_t)i) : NULL;
    }
    for (uint32_t i = 0; settings_is(at, SETTINGS_MAP) && i < settings_count(at); i++) {
        const struct settings_node *key = settings_key(f, at, i);
        if (!settings_is(key, SETTINGS_SCALAR))
            continue;
        size_t n = raw(key).n;
        if (strncmp(*path, (const char *)raw(key).p, n) != 0 || !strchr(".[", (*path)[n]))
            continue;
        *path += n;
        return settings_value(f, at, i);
    }
    return NULL;
}

const struct settings_node *settings_seek(struct settings_file *f, const char *path)
{
    const struct settings_node *at = settings_root(f), *next = at;
    while (next && *path) {
        at = next;
        path += *path == '.';
        next = step(f, at, &path);
    }
    return next ? next : at;
}

struct settings_place settings_place(const struct settings_node *n)
{
    return (struct settings_place){yaml(n)->start_mark.line + 1, yaml(n)->start_mark.column + 1};
}

/* ---- texts ----------------------------------------------------------------------------------- */

/* One ${env:…}; at points behind the "${". Returns the place behind the '}', or NULL, with *e if it is the
 * text's fault. */
static const char *expand_one(const struct settings_file_options *options, const char *at, struct buffer *out,
                              struct error *e)
{
    const char *end = strchr(at, '}');
    char name[VARIABLE_MAX];
    if (!options->getvar) {
        error_set(e, -EINVAL, "%s", options->no_variables);
        return NULL;
    }
    if (!end || strncmp(at, "env:", 4) != 0) {
        error_set(e, -EINVAL, "\"${%.40s\" is not ${env:NAME} or ${env:NAME:-default}", at);
        return NULL;
    }
    const char *fallback = memmem(at, (size_t)(end - at), ":-", 2);
    size_t n = (size_t)((fallback ? fallback : end) - (at + 4));
    if (n == 0 || n >= sizeof name) {
        error_set(e, -EINVAL, "\"${%.40s\" has no variable name of 1 to 127 bytes", at);
        return NULL;
    }
    memcpy(name, at + 4, n);
    name[n] = 0;
    const char *value = options->getvar(name);
    bool says =
        value && value[0]; /* an empty one says no more than none: a key without a value may open a door */
    if (!says && !fallback) {
        error_set(e, -EINVAL, "the environment %s %s; write ${env:%s:-DEFAULT} if it may be %s",
                  value ? "has nothing in" : "has no variable", name, name, value ? "empty" : "absent");
        return NULL;
    }
    int r = says ? buffer_add_str(out, value) : buffer_add(out, fallback + 2, (size_t)(end - fallback - 2));
    return r < 0 ? NULL : end + 1;
}

/* Whether a variable of the environment stands here as shells write it: $TOKEN, which nothing replaces. */
static bool is_shells(const struct settings_file_options *options, const char *dollar, struct error *e)
{
    const size_t n = strspn(dollar + 1, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    char name[VARIABLE_MAX];
    if (n == 0 || n >= sizeof name || !options->getvar)
        return false;
    memcpy(name, dollar + 1, n);
    name[n] = 0;
    if (!options->getvar(name))
        return false;
    error_set(e, -EINVAL, "$%s is not replaced: write ${env:%s}, or $$%s if these bytes are meant", name,
              name, name);
    return true;
}

/* A copy with what is to be replaced replaced; NULL as expand_one. */
static const char *expand(const struct settings_file_options *options, const char *text, struct error *e)
{
    struct buffer out = BUFFER_INIT(0);
    while (text && *text) {
        size_t plain = strcspn(text, "$");
        if (buffer_add(&out, text, plain) < 0)
            text = NULL;
        else if (text[plain] == 0)
            text += plain;
        else if (text[plain + 1] == '{')
            text = expand_one(options, text + plain + 2, &out, e);
        else if (is_shells(options, text + plain, e))
            text = NULL;
        else if (buffer_add_str(&out, "$") < 0)
            text = NULL;
        else
            text += plain + 1 + (text[plain + 1] == '$');
    }
    struct bytes copy = text ? arena_copy(options->arena, buffer_bytes(&out)) : (struct bytes){0};
    buffer_release(&out);
    return (const char *)copy.p;
}

const char *settings_text(struct settings_file *f, const struct settings_node *n, const char *key)
{
    const char *text = (const char *)yaml(n)->data.scalar.value, *wrong = NULL;
    if (!settings_is(n, SETTINGS_SCALAR))
        wrong = "a single value belongs here";
    else if (strlen(text) != yaml(n)->data.scalar.length)
        wrong = "a NUL byte cannot be part of a value";
    if (wrong) {
        settings_fail(f, n, key, wrong);
        return NULL;
    }
    struct error why = {""};
    const char *expanded = settings_is_null(n) ? "" : expand(&f->options, text, &why);
    if (!expanded && why.text[0])
        settings_fail(f, n, key, why.text);
    else if (!expanded)
        settings_no_memory(f);
    return expanded;
}

/* ---- rows ------------------------------------------------------------------------------------ */

static int take_list(struct settings_file *f, const struct settings_node *n, const char *key,
                     struct settings_strings *ret)
{
    uint32_t count = settings_count(n);
    const char **items = arena_calloc(f->options.arena, count + 1, sizeof *items);
    if (!items)
        return settings_no_memory(f);
    for (uint32_t i = 0; i < count; i++)
        if (!(items[i] = settings_text(f, settings_item(f, n, i), key)))
            return f->r;
    *ret = (struct settings_strings){items, count};
    return 0;
}

static int take_pairs(struct settings_file *f, const struct settings_node *n, const char *key,
                      struct settings_pairs *ret)
{
    uint32_t count = settings_count(n);
    struct settings_pair *items = arena_calloc(f->options.arena, count + 1, sizeof *items);
    if (!items)
        return settings_no_memory(f);
    for (uint32_t i = 0; i < count; i++)
        if (!(items[i].name = settings_text(f, settings_key(f, n, i), key)) ||
            !(items[i].value = settings_text(f, settings_value(f, n, i), key)))
            return f->r;
    *ret = (struct settings_pairs){items, count};
    return 0;
}

/* Sets a row's field by a node: a text, or a list or map for a row that is one. 0, -EINVAL, -ENOMEM. */
static int take(struct settings_file *f, const struct settings_row *row, void *base,
                const struct settings_node *n, const char *key)
{
    bool is_list = row->type == SETTINGS_STRINGS || row->type == SETTINGS_REPEATED;
    if (is_list && settings_is(n, SETTINGS_LIST))
        return take_list(f, n, key, (void *)((char *)base + row->offset));
    if (row->type == SETTINGS_PAIRS && settings_is(n, SETTINGS_MAP))
        return take_pairs(f, n, key, (void *)((char *)base + row->offset));
    if (!settings_is(n, SETTINGS_SCALAR))
        return settings_fail(f, n, key,
                             is_list                       ? "a list belongs here, not a map: [one, another]"
                             : row->type == SETTINGS_PAIRS ? "a map belongs here, not a list: { NAME: VALUE }"
                             : settings_is(n, SETTINGS_LIST) ? "a single value belongs here, not a list"
                                                             : "a single value belongs here, not a map");
    struct error why = {""};
    const char *text = settings_text(f, n, key);
    if (!text)
        return f->r;
    int r = settings_set(row, base, text, f->options.arena, &why);
    return r == 0 ? 0 : settings_fail_why(f, n, key, r, &why);
}

/* The key that was probably meant: by its whole name, or by what is behind its dot, which somebody may have
 * left out. */
static struct bytes meant(const struct settings_section *s, const char *path)
{
    struct nearest whole, last;
    nearest_start(&whole, bytes_str(path));
    nearest_start(&last, bytes_str(path));
    const char *behind = NULL;
    for (uint32_t i = 0; i < s->n_rows; i++) {
        const char *dot = strchr(s->rows[i].key, '.');
        nearest_offer(&whole, bytes_str(s->rows[i].key));
        if (dot && nearest_offer(&last, bytes_str(dot + 1)))
            behind = s->rows[i].key;
    }
    return whole.best.n > 0 ? whole.best : behind ? bytes_str(behind) : (struct bytes){0};
}

struct settings_key_name settings_key_meant(const struct settings_section *sections, const char *key)
{
    struct settings_key_name ret = {""};
    struct nearest near;
    nearest_start(&near, bytes_str(key));
    for (const struct settings_section *s = sections; s && s->name; s++)
        for (uint32_t i = 0; i < s->n_rows; i++) {
            const char *name = s->rows[i].key;
            const size_t n = strlen(ret.s);
            if (n > 0 && bytes_is(near.best, name))
                snprintf(ret.s + n, sizeof ret.s - n, " or %s.%s", s->name, name);
            else if (nearest_offer(&near, bytes_str(name)))
                snprintf(ret.s, sizeof ret.s, "%s.%s", s->name, name);
        }
    return ret;
}

static int unknown_key(struct settings_file *f, const struct settings_section *s,
                       const struct settings_node *at, const char *key, const char *path)
{
    char what[425];
    if (strchr(path, ':')) /* { endpoint:http://… } */
        return settings_fail(f, at, key, "unknown key; " BEHIND_COLON);
    const struct settings_key_name other = settings_key_meant(f->options.sections, path);
    struct bytes best = meant(s, path);
    if (best.n == 0)
        best = bytes_str(other.s);
    size_t n = (size_t)snprintf(what, sizeof what, "unknown key%s", nearest_ask(best).s);
    for (uint32_t i = 0; i < s->n_rows && n + strlen(s->rows[i].key) + 24 < sizeof what; i++)
        n += (size_t)snprintf(what + n, sizeof what - n, "%s%s",
                              i > 0        ? ", "
                              : best.n > 0 ? " Known here: "
                                           : "; known here: ",
                              s->rows[i].key);
    return settings_fail(f, at, key, what);
}

/* Whether keys of the section begin with this and a dot. */
static bool opens(const struct settings_section *s, struct bytes prefix)
{
    for (uint32_t i = 0; i < s->n_rows; i++)
        if (strncmp(s->rows[i].key, (const char *)prefix.p, prefix.n) == 0 && s->rows[i].key[prefix.n] == '.')
            return true;
    return false;
}

static const struct settings_node *find_key(struct settings_file *f, const struct settings_node *map,
                                            struct bytes name, uint32_t *ret)
{
    for (*ret = 0; *ret < settings_count(map); ++*ret) {
        const struct settings_node *k = settings_key(f, map, *ret);
        if (settings_is(k, SETTINGS_SCALAR) && bytes_eq(raw(k), name))
            return k;
    }
    return NULL;
}

/* Of a key that is written with its dots, `a.b`: the one that means the same, in a map beside it, `a: {b:
 * …}`.
 */
static const struct settings_node *twin_of(struct settings_file *f, const struct settings_node *map,
                                           const char *path)
{
    const struct settings_node *found = NULL;
    for (const char *dot; !found && (dot = strchr(path, '.')); path = dot + 1) {
        uint32_t i;
        if (!find_key(f, map, bytes_of(path, (size_t)(dot - path)), &i))
            return NULL;
        map = settings_value(f, map, i);
        if (!settings_is(map, SETTINGS_MAP))
            return NULL;
        found = find_key(f, map, bytes_str(dot + 1), &i);
    }
    return found;
}

/* Both stand there: the later one is wrong. */
static int fail_twins(struct settings_file *f, const struct settings_node *a, const struct settings_node *b,
                      const char *key)
{
    const bool is_behind = yaml(a)->start_mark.index > yaml(b)->start_mark.index;
    char what[64];
    snprintf(what, sizeof what, "this key stands in line %zu already",
             yaml(is_behind ? b : a)->start_mark.line + 1);
    return settings_fail(f, is_behind ? a : b, key, what);
}

/* `prefix` is "tls." inside a nested map. It calls itself as often as a key of the section has dots, whatever
 * the file has. */
static int take_keys(struct settings_file *f, const struct settings_section *s, void *base,
                     const struct settings_node *map, const char *where, const char *prefix)
{
    if (settings_is_null(map))
        return 0;
    char path[KEY_MAX / 2], full[KEY_MAX];
    if (!settings_is(map, SETTINGS_MAP)) {
        snprintf(full, sizeof full, "%s.%s", where, prefix);
        full[strlen(full) - 1] = 0; /* the last dot */
        const bool is_run_on = settings_is(map, SETTINGS_SCALAR) && memchr(raw(map).p, ':', raw(map).n);
        return settings_fail(f, map, full,
                             is_run_on ? "a map of keys belongs here; " BEHIND_COLON
                                       : "a map of keys belongs here");
    }
    int r = 0;
    for (uint32_t i = 0; i < settings_count(map) && r == 0; i++) {
        const struct settings_node *k = settings_key(f, map, i), *v = settings_value(f, map, i);
        const char *name = settings_text(f, k, where);
        if (!name)
            return f->r; /* whatever else is in it */
        snprintf(path, sizeof path, "%s%s", prefix, name);
        snprintf(full, sizeof full, "%s.%s", where, path);
        const struct settings_row *row = settings_find(s, bytes_str(path));
        const struct settings_node *twin = row ? twin_of(f, map, name) : NULL;
        if (twin) {
            r = fail_twins(f, k, twin, full);
        } else if (row) {
            r = take(f, row, base, v, full);
        } else if (opens(s, bytes_str(path))) {
            strcat(path, "."); /* there is room: a key begins with it */
            r = take_keys(f, s, base, v, where, path);
        } else {
            r = unknown_key(f, s, k, full, path);
        }
        r = settings_go_on(f, r);
    }
    return r;
}

int settings_take_map(struct settings_file *f, const struct settings_section *s, void *base,
                      const struct settings_node *map, const char *where)
{
    return take_keys(f, s, base, map, where, "");
}
