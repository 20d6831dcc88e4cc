/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most warnings are about what is written, so the written tree is walked: every pattern with what it is asked
 * of (a glob about a function may be meant for its package; the same about a file is none), every attribute,
 * every metric's labels. A regex is first tried as a glob (as_glob): one that can be written as such is W205,
 * or W202 if its dots stand for any byte; of the others has_literal asks for three bytes side by side (W206).
 *
 * W201 is about what is meant, after `extend`: a row is never reached if one above takes all it matches. That
 * is judged generously, by shape: equal comparisons, an `and` that holds what the other says, patterns of
 * which each atom is covered by one of the other's. A glob covers another when its stars can take what the
 * other has there, the other's stars included: glob_covers matches two sequences of bytes and stars as one
 * matches a text.
 */
#include "rules/resolve/warn.h"

#include "proto/base/macros.h"
#include "rules/source/place.h"
#include "rules/source/report.h"

/* Rows are compared with each other, pattern by pattern: not in tables that would make that long. */
#define COMPARED_ATOMS_MAX 2000u
#define SHOWN_MAX          40u /* bytes of the other row's source */

/* ---- regexes --------------------------------------------------------------------------------- */

static bool is_plain(uint8_t c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == ':' || c == ' ' || c == ',' || c == '@' || c >= 0x80;
}

/* The glob that says the same as a regex without operators but `.*`; false if it has others. */
static bool as_glob(struct bytes s, struct buffer *glob, bool *ret_dots, bool *ret_anchored)
{
    size_t from = s.n > 0 && s.p[0] == '^' ? 1 : 0, to = s.n > from && s.p[s.n - 1] == '$' ? s.n - 1 : s.n;
    if (to < s.n && to > from && s.p[to - 1] == '\\')
        return false;
    *ret_dots = false;
    *ret_anchored = from > 0 || to < s.n;
    if (from == 0)
        buffer_add_str(glob, "*");
    for (size_t i = from; i < to; i++) {
        uint8_t c = s.p[i];
        if (c == '.' && i + 1 < to && s.p[i + 1] == '*') {
            buffer_add_str(glob, "*");
            i++;
        } else if (c == '.') {
            *ret_dots = true;
            buffer_add_str(glob, ".");
        } else if (c == '\\' && i + 1 < to && !is_plain(s.p[i + 1])) {
            i++;
            if (s.p[i] == '*' || s.p[i] == '"' || s.p[i] == '\\')
                buffer_add_str(glob, "\\");
            buffer_add(glob, &s.p[i], 1);
        } else if (is_plain(c) || c == '/' || c == '<' || c == '>') {
            buffer_add(glob, &c, 1);
        } else {
            return false;
        }
    }
    if (to == s.n)
        buffer_add_str(glob, "*");
    return true;
}

/* /com.acme/ → xcomyacme: every dot another letter. */
static void report_dots(struct report *report, const struct rule_atom *atom, struct bytes glob)
{
    cleanup(buffer_release) struct buffer found = BUFFER_INIT(200);
    uint8_t letter = 'x';
    buffer_add(&found, &letter, 1);
    for (size_t i = 0; i < atom->text.n; i++) {
        uint8_t c = atom->text.p[i];
        if (c == '.')
            c = letter = letter == 'z' ? 'x' : (uint8_t)(letter + 1);
        buffer_add(&found, &c, 1);
    }
    report_at(report, "W202", atom->place,
              "`.` stands for any byte, and nothing anchors this regex: it also finds \"%.*s\"",
              BYTES_FMT(buffer_bytes(&found)));
    report_propose(report, "\"%.*s.*\"  (a glob is anchored at both ends)", (int)(glob.n - 2),
                   (const char *)glob.p + 1);
    report_done(report);
}

/* Whether three literal bytes stand side by side outside of groups, classes and optional parts. Generous: a
 * group is looked into when it has no quantifier that lets it be absent. */
static bool has_literal(struct bytes s)
{
    uint32_t run = 0;
    for (size_t i = 0; i < s.n; i++) {
        uint8_t c = s.p[i];
        bool literal =
            is_plain(c) || c == '/' || c == '<' || c == '>' || c == '"' || c == '#' || c == ';' || c == '=';
        size_t at = i;
        if (c == '\\' && i + 1 < s.n) {
            i++;
            c = s.p[i];
            literal = !((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'));
        } else if (c == '[') {
            while (i < s.n && (s.p[i] != ']' || i == at + 1))
                i += s.p[i] == '\\' ? 2 : 1;
        } else if (c == '(' && i + 2 < s.n && s.p[i + 1] == '?') {
            i += 2;
        }
        bool optional = i + 1 < s.n && (s.p[i + 1] == '?' || s.p[i + 1] == '*' || s.p[i + 1] == '{');
        run = literal && !optional ? run + 1 : 0;
        if (run == 3)
            return true;
    }
    return false;
}

static void warn_regex(struct report *report, const struct rule_atom *atom)
{
    cleanup(buffer_release) struct buffer glob = BUFFER_INIT(2048);
    bool dots, anchored, simple = as_glob(atom->text, &glob, &dots, &anchored);
    if (simple && dots && !anchored && glob.n > 2 && glob.n < 150) {
        report_dots(report, atom, buffer_bytes(&glob));
    } else if (simple && !dots && glob.p) {
        report_at(report, "W205", atom->place, "this regex is a glob");
        report_propose(report, "\"%.*s\"%s  (compared without an engine)", BYTES_FMT(buffer_bytes(&glob)),
                       atom->nocase ? "i" : "");
        report_done(report);
    } else if (!has_literal(atom->text)) {
        report_plain(report, "W206", atom->place, "give it a word that every text it finds must have",
                     "no three bytes to search for: the regex engine runs on every text");
    }
}

/* W211: in a glob `^` and `.*` are bytes, which no name begins with. */
static bool warn_regex_in_quotes(struct report *report, const struct rule_atom *atom)
{
    struct bytes text = atom->text;
    bool caret = bytes_starts(text, "^"), any = bytes_starts(text, ".*");
    if (!caret && !any)
        return false;
    size_t lead = caret ? 1 : 2;
    bool dollar = text.n > lead && text.p[text.n - 1] == '$';
    struct bytes inner = bytes_of(text.p + lead, text.n - lead - dollar);
    cleanup(buffer_release) struct buffer glob = BUFFER_INIT(256);
    for (size_t i = 0; i < inner.n; i++) {
        bool star = inner.p[i] == '.' && i + 1 < inner.n && inner.p[i + 1] == '*';
        if (!star)
            buffer_add(&glob, &inner.p[i], 1); /* what does not fit is cut */
    }
    report_at(report, "W211", atom->place, "a glob, in which `%s` stands for itself; it reads like a regex",
              caret ? "^" : ".");
    report_propose(report, "a regex stands between slashes: /%.*s/", BYTES_FMT(text));
    report_propose(report, "the same as a glob: \"%s%.*s%s\"", caret ? "" : "*",
                   BYTES_FMT(buffer_bytes(&glob)),
                   dollar || (glob.n > 0 && glob.p[glob.n - 1] == '*') ? "" : "*");
    report_done(report);
    return true;
}

/* W203: "*com.acme.*" of a function. */
static void warn_jvm_glob(struct report *report, const struct rule_atom *atom)
{
    static const char *const roots[] = {"com.",   "org.", "net.", "io.",   "java.",
                                        "javax.", "jdk.", "sun.", "scala."};
    if (atom->kind != RULE_GLOB || !atom->star_first || !atom->star_last || atom->n_pieces != 1)
        return;
    struct bytes name = atom->pieces[0];
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        if (!bytes_starts(name, roots[i]))
            continue;
        report_at(report, "W203", atom->place,
                  "a JVM method is sent with its arguments; \"*%.*s*\" also finds callers' argument types",
                  BYTES_FMT(name));
        report_propose(report, "use names (symbol)   and   symbol.name ~ \"%.*s*\"", BYTES_FMT(name));
        report_done(report);
        return;
    }
}

/* W212: names that profilers spell in several ways (rules/README.md, "How names are spelled"), asked for as
   one of them.

   The length of the package or module that a glob begins with, "java.util." of "java.util.*"; *ret_words: how
   many words it has. */
static size_t module_of(const struct rule_atom *atom, uint32_t *ret_words)
{
    size_t n = 0, end = 0;
    *ret_words = 0;
    for (; n < atom->text.n && !atom->star_first; n++) {
        uint8_t c = atom->text.p[n];
        if (c == '.' && n > end) {
            end = n + 1;
            ++*ret_words;
        } else if (!(c >= 'a' && c <= 'z') && c != '_' && !(c >= '0' && c <= '9' && n > end)) {
            break;
        }
    }
    return end;
}

/* The first n bytes of a glob as written, with slashes for dots. */
static void add_path(struct buffer *out, const struct rule_atom *atom, size_t n)
{
    for (size_t i = 0; i < n; i++)
        buffer_add(out, atom->text.p[i] == '.' ? "/" : (const char *)&atom->text.p[i], 1);
}

/* "java.util.*" meets no method that is sent with its result's type. Two packages at least: Go has "io.Copy".
 */
static void warn_jvm_anchored(struct report *report, const struct rule_atom *atom)
{
    static const char *const roots[] = {"com.",   "org.", "net.", "io.",   "java.",
                                        "javax.", "jdk.", "sun.", "scala."};
    uint32_t words;
    size_t n = module_of(atom, &words);
    bool is_root = false;
    for (size_t i = 0; i < ARRAY_LEN(roots); i++)
        is_root |= bytes_starts(atom->text, roots[i]);
    if (!is_root || words < 2)
        return;
    cleanup(buffer_release) struct buffer path = BUFFER_INIT(0);
    add_path(&path, atom, n);
    struct bytes rest = bytes_of(atom->text.p + n, atom->text.n - n);
    report_at(report, "W212", atom->place,
              "a JVM method is sent as \"void %.*sX.y(int)\" by some: this finds the others'", (int)n,
              (const char *)atom->text.p);
    report_propose(report, "use names (symbol)   and   symbol.name ~ \"%.*s\" | \"%.*s%.*s\"",
                   BYTES_FMT(atom->text), BYTES_FMT(buffer_bytes(&path)), BYTES_FMT(rest));
    report_done(report);
}

/* `cpython and "json.dumps"`: the module is in the file's name. */
static void warn_python(struct report *report, const struct rule_atom *atom)
{
    uint32_t words;
    size_t n = module_of(atom, &words);
    if (words == 0 || n == atom->text.n || atom->text.p[n] == '<')
        return;
    cleanup(buffer_release) struct buffer path = BUFFER_INIT(0);
    add_path(&path, atom, n - 1);
    struct bytes rest = bytes_of(atom->text.p + n, atom->text.n - n), at = buffer_bytes(&path);
    report_at(report, "W212", atom->place, "a Python function is sent without its module");
    if (bytes_is(rest, "*"))
        report_propose(report, "file ~ \"*/%.*s/*\" | \"*/%.*s.py\"", BYTES_FMT(at), BYTES_FMT(at));
    else
        report_propose(report, "\"%.*s\" and file ~ \"*/%.*s/*\" | \"*/%.*s.py\"", BYTES_FMT(rest),
                       BYTES_FMT(at), BYTES_FMT(at));
    report_done(report);
}

/* `kernel and "sys_read"`: system calls have their machine's prefix. */
static void warn_kernel(struct report *report, const struct rule_atom *atom)
{
    if (atom->star_first || !bytes_starts(atom->text, "sys_"))
        return;
    report_at(report, "W212", atom->place, "the kernel calls its system calls by the machine, too");
    report_propose(report, "\"__x64_%.*s\" | \"__arm64_%.*s\"", BYTES_FMT(atom->text), BYTES_FMT(atom->text));
    report_done(report);
}

/* ---- expressions ----------------------------------------------------------------------------- */

/* Where a pattern stands: not where a function is asked for; there, beside no type, or beside this one. */
enum place { PLACE_OTHER, PLACE_FUNCTION, PLACE_PYTHON, PLACE_KERNEL };

static void warn_glob(struct report *report, const struct rule_atom *atom, enum place place)
{
    switch (place) {
    case PLACE_OTHER: break;
    case PLACE_FUNCTION:
        warn_jvm_glob(report, atom);
        warn_jvm_anchored(report, atom);
        break;
    case PLACE_PYTHON: warn_python(report, atom); break;
    case PLACE_KERNEL: warn_kernel(report, atom); break;
    }
}

/* The place of what stands beside a type in `and`. */
static enum place place_beside(const struct ast *a, enum place place)
{
    for (uint32_t i = 0; i < a->n_kids && place != PLACE_OTHER; i++) {
        if (a->kids[i]->op != AST_TYPE_WORD)
            continue;
        if (bytes_is(a->kids[i]->name, "cpython"))
            return PLACE_PYTHON;
        if (bytes_is(a->kids[i]->name, "kernel"))
            return PLACE_KERNEL;
    }
    return place;
}

/* The string that a comparison's side is and nothing else; NULL if there is more to it. */
static const struct ast *only_string(const struct ast *side)
{
    while ((side->op == AST_TEXT || side->op == AST_CHOICE) && side->n_kids == 1 && !side->guard)
        side = side->kids[0];
    return side->op == AST_STRING ? side : NULL;
}

/* W213: `==` compares bytes. A star in the middle is in Go's (*T).Method; at an end it was meant for a glob.
 */
static void warn_glob_equalled(struct report *report, const struct ast *equal)
{
    const struct ast *string = only_string(equal->kids[1]);
    const struct bytes text = string ? string->name : bytes_of(NULL, 0);
    if (text.n < 2 || (text.p[0] != '*' && text.p[text.n - 1] != '*'))
        return;
    report_at(report, "W213", string->place, "`%s` compares every byte: here `*` stands for itself",
              equal->negated ? "!=" : "==");
    report_propose(report, "write: %s \"%.*s\"", equal->negated ? "!~" : "~", BYTES_FMT(text));
    report_done(report);
}

/* Every pattern in it; recursion is as deep as the parser allowed. */
static void warn_ast(struct report *report, const struct ast *a, enum place place)
{
    if (!a)
        return;
    if (a->op == AST_ATOM) {
        if (a->atom->kind == RULE_REGEX)
            warn_regex(report, a->atom);
        else if (!warn_regex_in_quotes(report, a->atom))
            warn_glob(report, a->atom, place);
        return;
    }
    if (a->op == AST_CAPTURE) { /* its regex meets what the rule asks for, not every string */
        warn_ast(report, a->kids[1], PLACE_OTHER);
        return;
    }
    if (a->op == AST_TEXT_EQUAL || a->op == AST_FRAME_EQUAL)
        warn_glob_equalled(report, a);
    bool is_function =
        a->n_kids > 0 && a->kids[0]->op == AST_FIELD && a->kids[0]->field == RULE_FIELD_FUNCTION;
    if (a->op == AST_AND)
        place = place_beside(a, place);
    else if (a->op == AST_FRAME_MATCH)
        place = !is_function ? PLACE_OTHER : place == PLACE_OTHER ? PLACE_FUNCTION : place;
    else if (a->op == AST_TEXT_MATCH)
        place = PLACE_OTHER;
    for (uint32_t i = 0; i < a->n_kids; i++) {
        bool frame_side = !(a->op == AST_TEXT_MATCH && i == 1);
        warn_ast(report, a->kids[i], frame_side ? place : PLACE_OTHER);
    }
    warn_ast(report, a->guard, PLACE_FUNCTION);
}

/* ---- definitions, labels --------------------------------------------------------------------- */

/* Attributes that belong to what sends, by the semantic conventions' names: always the resource's. */
static bool is_resource_key(struct bytes key)
{
    static const char *const roots[] = {"service.",    "host.",          "k8s.", "cloud.",
                                        "deployment.", "telemetry.sdk.", "os."};
    for (size_t i = 0; i < ARRAY_LEN(roots); i++) {
        if (bytes_starts(key, roots[i]))
            return true;
    }
    return false;
}

static void warn_attr(struct report *report, const struct ast *a)
{
    if (!a)
        return;
    if (a->op == AST_ATTR && a->scope == RULE_SCOPE_ATTR && is_resource_key(a->name)) {
        report_at(report, "W208", a->place, "`%.*s` is asked of every sample, and only a resource has it",
                  BYTES_FMT(a->source));
        report_propose(report, "resource[\"%.*s\"]", BYTES_FMT(a->name));
        report_done(report);
    }
    for (uint32_t i = 0; i < a->n_kids; i++)
        warn_attr(report, a->kids[i]);
    warn_attr(report, a->guard);
}

static void warn_def(struct report *report, const struct ast_def *def)
{
    warn_ast(report, def->body,
             def->kind == DEF_PATTERN || def->kind == DEF_TEXT ? PLACE_OTHER : PLACE_FUNCTION);
    if (def->body)
        warn_attr(report, def->body);
    warn_ast(report, def->region.after, PLACE_FUNCTION);
    warn_ast(report, def->region.while_, PLACE_FUNCTION);
    warn_ast(report, def->region.until, PLACE_FUNCTION);
    for (uint32_t i = 0; i < def->table.n_rows; i++) {
        const struct ast_row *row = &def->table.rows[i];
        warn_ast(report, row->frame, PLACE_FUNCTION);
        warn_ast(report, row->when, PLACE_FUNCTION);
        warn_attr(report, row->when);
        for (uint32_t k = 0; k < row->n_cells; k++)
            warn_ast(report, row->cells[k], PLACE_OTHER);
    }
}

/* A function's or file's name as it is, or a thread's number: as many values as the program has. */
static const struct ast *find_wide(const struct ast *a)
{
    if (a->op == AST_CAPTURE || a->op == AST_TEXT_MATCH || a->op == AST_TEXT_EQUAL)
        return NULL;
    if (a->op == AST_FIELD_OF && a->kids[0]->op == AST_FIELD &&
        (a->kids[0]->field == RULE_FIELD_FUNCTION || a->kids[0]->field == RULE_FIELD_SYSTEM_NAME))
        return a;
    if (a->op == AST_ATTR && bytes_is(a->name, "thread.id"))
        return a;
    for (uint32_t i = 0; i < a->n_kids; i++) {
        const struct ast *found = find_wide(a->kids[i]);
        if (found)
            return found;
    }
    return NULL;
}

static void warn_metric(struct report *report, const struct ast_pack *pack, const struct ast_metric *m)
{
    warn_ast(report, m->on, PLACE_OTHER);
    warn_ast(report, m->where, PLACE_FUNCTION);
    warn_ast(report, m->each, PLACE_FUNCTION);
    warn_attr(report, m->where);
    bool limited = m->limit > 0;
    for (uint32_t i = 0; m->also && i < pack->n_metrics; i++)
        limited |= !pack->metrics[i].also && bytes_eq(pack->metrics[i].name.name, m->name.name) &&
                   pack->metrics[i].limit > 0;
    for (uint32_t i = 0; i < m->n_labels; i++) {
        const struct ast *text = m->labels[i].text, *wide = text ? find_wide(text) : NULL;
        warn_ast(report, text, PLACE_OTHER);
        warn_attr(report, text);
        if (!wide)
            continue;
        if (wide->op == AST_ATTR)
            report_plain(report, "W207", wide->place, "label by the thread's name: sample[\"thread.name\"]",
                         "a thread's number makes a series a thread, and they come and go");
        else if (!limited)
            report_plain(report, "W204", wide->place, "add: limit 200 largest",
                         "`%.*s` may give very many series", BYTES_FMT(wide->source));
    }
    bool tested = m->also || m->override || report->files[m->place.file].proven;
    for (uint32_t i = 0; !tested && i < pack->n_tests; i++) {
        for (uint32_t k = 0; k < pack->tests[i].n_expects; k++)
            tested |= bytes_eq(pack->tests[i].expects[k].metric.name, m->name.name);
    }
    if (!tested)
        report_plain(report, "W209", m->place, NULL, "no test expects %.*s", BYTES_FMT(m->name.name));
}

void warn_pack(struct report *report, const struct ast_pack *pack)
{
    for (uint32_t i = 0; i < pack->n_defs; i++)
        warn_def(report, pack->defs[i]);
    for (uint32_t i = 0; i < pack->n_metrics; i++)
        warn_metric(report, pack, &pack->metrics[i]);
    for (uint32_t i = 0; i < pack->n_triggers; i++) {
        const struct ast_trigger *t = &pack->triggers[i];
        if (t->asks_at.line > 0)
            report_plain(report, "W214", t->asks_at, NULL,
                         "no sender is asked for anything yet: this does nothing");
    }
    for (uint32_t i = 0; i < pack->n_tests; i++) {
        for (uint32_t k = 0; k < pack->tests[i].n_expects; k++)
            warn_ast(report, pack->tests[i].expects[k].that, PLACE_FUNCTION);
    }
}

/* ---- rows ------------------------------------------------------------------------------------ */

/* Whether glob a holds for every text that glob b holds for: b's stars may be anything, so only a star of a
 * may stand for one. Walks both as sequences of bytes and stars (-1). */
static bool glob_covers(const int16_t *a, size_t n, const int16_t *b, size_t m)
{
    size_t i = 0, j = 0, star = SIZE_MAX, mark = 0;
    while (j < m) {
        if (i < n && a[i] == -1) {
            star = i++;
            mark = j;
        } else if (i < n && a[i] == b[j] && b[j] != -1) {
            i++;
            j++;
        } else if (star != SIZE_MAX) {
            i = star + 1;
            j = ++mark;
        } else {
            return false;
        }
    }
    while (i < n && a[i] == -1)
        i++;
    return i == n;
}

#define SYMBOLS_MAX 512u

static size_t glob_symbols(const struct rule_atom *atom, int16_t *out)
{
    size_t n = 0;
    if (atom->star_first)
        out[n++] = -1;
    for (uint32_t i = 0; i < atom->n_pieces; i++) {
        if (i > 0)
            out[n++] = -1;
        if (n + atom->pieces[i].n + 2 > SYMBOLS_MAX)
            return 0;
        for (size_t k = 0; k < atom->pieces[i].n; k++) {
            uint8_t c = atom->pieces[i].p[k];
            out[n++] = atom->nocase && c >= 'A' && c <= 'Z' ? c | 0x20 : c;
        }
    }
    if (atom->star_last && atom->n_pieces > 0)
        out[n++] = -1;
    return n;
}

static bool atom_covers(const struct rule_atom *a, const struct rule_atom *b)
{
    if (a == b)
        return true;
    if (a->kind != b->kind || a->nocase != b->nocase)
        return false;
    if (a->kind == RULE_REGEX)
        return bytes_eq(a->text, b->text);
    int16_t x[SYMBOLS_MAX], y[SYMBOLS_MAX];
    size_t n = glob_symbols(a, x), m = glob_symbols(b, y);
    return n > 0 && m > 0 && glob_covers(x, n, y, m);
}

static bool pattern_covers(const struct rule_pattern *a, const struct rule_pattern *b)
{
    for (uint32_t i = 0; i < b->n_atoms; i++) {
        bool covered = false;
        for (uint32_t k = 0; k < a->n_atoms && !covered; k++)
            covered = atom_covers(a->atoms[k], b->atoms[i]);
        if (!covered)
            return false;
    }
    return b->n_atoms > 0;
}

static bool frame_covers(const struct rule_frame *a, const struct rule_frame *b)
{
    if (a == b)
        return true;
    if (a->op == RULE_FRAME_EQUAL && b->op == RULE_FRAME_EQUAL)
        return !a->negated && !b->negated && a->field.field == b->field.field &&
               a->field.table == b->field.table && a->field.column == b->field.column && a->literal.p &&
               b->literal.p && bytes_eq(a->literal, b->literal);
    /* What holds for one side of an `and` holds for the `and`. */
    if (b->op == RULE_FRAME_AND) {
        for (uint32_t i = 0; i < b->n_kids; i++) {
            if (b->kids[i] == a || (b->kids[i]->op != RULE_FRAME_AND && frame_covers(a, b->kids[i])))
                return true;
        }
        return false;
    }
    return a->op == RULE_FRAME_MATCH && b->op == RULE_FRAME_MATCH && !a->negated && !b->negated &&
           a->field.field == b->field.field && a->field.table == b->field.table &&
           a->field.column == b->field.column && pattern_covers(a->pattern, b->pattern);
}

static uint32_t count_atoms(const struct rule_table *t)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_rows; i++) {
        const struct rule_frame *f = t->rows[i].frame;
        n += f && f->op == RULE_FRAME_MATCH ? f->pattern->n_atoms
             : f && f->op == RULE_FRAME_AND ? f->n_kids * 8
                                            : 1;
    }
    return n;
}

void warn_table(struct report *report, const struct rule_table *table)
{
    if (count_atoms(table) > COMPARED_ATOMS_MAX)
        return;
    for (uint32_t i = 1; i < table->n_rows; i++) {
        const struct rule_row *row = &table->rows[i];
        for (uint32_t k = 0; row->frame && k < i; k++) {
            const struct rule_row *above = &table->rows[k];
            if (!above->frame || above->when || above->place.file != row->place.file ||
                !frame_covers(above->frame, row->frame)) /* an `extend` may take a whole row over */
                continue;
            struct bytes source = place_source(&report->files[above->place.file], above->place);
            report_at(report, "W201", row->place,
                      "this row is never reached: row %u (line %u, %.*s%s) takes everything it matches",
                      k + 1, above->place.line, (int)min_of(source.n, (size_t)SHOWN_MAX),
                      (const char *)source.p, source.n > SHOWN_MAX ? "…" : "");
            report_propose(report, "move it above line %u", above->place.line);
            report_done(report);
            break;
        }
    }
}
