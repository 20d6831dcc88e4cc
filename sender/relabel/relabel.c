/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/relabel/relabel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include "proto/base/macros.h"
#include "proto/base/vec.h"

#define AT(field) offsetof(struct relabel_rule, field)

static const struct settings_word actions[] = {
    {"replace", RELABEL_REPLACE},     {"keep", RELABEL_KEEP},
    {"drop", RELABEL_DROP},           {"sample", RELABEL_SAMPLE},
    {"labelmap", RELABEL_LABELMAP},   {"labeldrop", RELABEL_LABELDROP},
    {"labelkeep", RELABEL_LABELKEEP}, {NULL}};

/* clang-format off */
static const struct settings_row rows[] = {
    {"source_labels", SETTINGS_STRINGS, AT(source_labels), .doc = "attributes whose values are matched"},
    {"separator", SETTINGS_TEXT, AT(separator), ";", .doc = "what stands between them"},
    {"regex", SETTINGS_TEXT, AT(regex), "(.*)", .doc = "matches the whole of it"},
    {"target_label", SETTINGS_TEXT, AT(target_label), .doc = "the attribute that replace sets"},
    {"replacement", SETTINGS_TEXT, AT(replacement), "$1", .doc = "with $1, $2, … for what groups matched"},
    {"action", SETTINGS_CHOICE, AT(action), "replace", .words = actions, .doc = "what is done"},
    {"share", SETTINGS_SHARE, AT(share), "100%", .doc = "of sample: how many samples are sent"},
};
/* clang-format on */

const struct settings_section relabel_section = {
    .name = "relabel", .doc = "a rule over resource attributes", .rows = rows, .n_rows = ARRAY_LEN(rows)};

/* One that is ready to be applied; its text is the arena's. */
struct ready {
    struct relabel_rule rule;
    pcre2_code *code;
    pcre2_match_data *match;
};

struct relabel {
    struct arena arena;
    pcre2_match_context *context;
    VEC(struct ready) ready;
    uint64_t given_up;
};

struct relabel *relabel_new(void)
{
    struct relabel *r = calloc(1, sizeof *r);
    if (!r || !(r->context = pcre2_match_context_create(NULL)))
        return relabel_free(r);
    pcre2_set_match_limit(r->context, RELABEL_STEPS_MAX);
    return r;
}

struct relabel *relabel_free(struct relabel *r)
{
    if (!r)
        return NULL;
    for (uint32_t i = 0; i < r->ready.n; i++) {
        pcre2_match_data_free(r->ready.p[i].match);
        pcre2_code_free(r->ready.p[i].code);
    }
    vec_release(&r->ready);
    pcre2_match_context_free(r->context);
    arena_release(&r->arena);
    free(r);
    return NULL;
}

/* ---- rules ---- */

static bool is_of_names(int action)
{
    return action == RELABEL_LABELMAP || action == RELABEL_LABELDROP || action == RELABEL_LABELKEEP;
}

/* What a rule of this action must have, and has in vain. */
static int check(const struct relabel_rule *rule, struct error *e)
{
    const char *word = actions[0].word;
    for (size_t i = 0; actions[i].word; i++)
        if (actions[i].value == rule->action)
            word = actions[i].word;
    bool has_target = rule->target_label && *rule->target_label;
    if (rule->action == RELABEL_REPLACE && !has_target)
        return error_set(e, -EINVAL, "%s needs a target_label", word);
    if (rule->action != RELABEL_REPLACE && has_target)
        return error_set(e, -EINVAL, "%s has no target_label", word);
    if (is_of_names(rule->action) && rule->source_labels.n)
        return error_set(e, -EINVAL, "%s has no source_labels: it matches names", word);
    bool is_choice = rule->action == RELABEL_KEEP || rule->action == RELABEL_DROP;
    if ((is_choice || rule->action == RELABEL_SAMPLE) && !rule->source_labels.n)
        return error_set(e, -EINVAL, "%s needs source_labels", word);
    if (rule->action == RELABEL_SAMPLE && rule->share <= 0)
        return error_set(e, -EINVAL, "a share of 0 is drop");
    if (rule->action != RELABEL_SAMPLE && rule->share < 1)
        return error_set(e, -EINVAL, "%s has no share", word);
    return 0;
}

static const char *keep(struct relabel *r, const char *text)
{
    return (const char *)arena_copy(&r->arena, bytes_str(text ? text : "")).p;
}

/* The rule with its text in our arena. False: out of memory. */
static bool copy(struct relabel *r, const struct relabel_rule *from, struct relabel_rule *ret)
{
    *ret = *from;
    const char **labels = arena_calloc(&r->arena, from->source_labels.n + 1, sizeof *labels);
    for (uint32_t i = 0; labels && i < from->source_labels.n; i++)
        if (!(labels[i] = keep(r, from->source_labels.items[i])))
            return false;
    ret->source_labels.items = labels;
    ret->separator = keep(r, from->separator);
    ret->regex = keep(r, from->regex);
    ret->target_label = keep(r, from->target_label);
    ret->replacement = keep(r, from->replacement);
    return labels && ret->separator && ret->regex && ret->target_label && ret->replacement;
}

int relabel_add(struct relabel *r, const struct relabel_rule *rule, struct error *e)
{
    int code;
    PCRE2_SIZE at;
    struct ready ready = {0};
    if (r->ready.n == RELABEL_RULES_MAX)
        return error_set(e, -EINVAL, "more than %u rules", RELABEL_RULES_MAX);
    int result = check(rule, e);
    if (result < 0)
        return result;
    if (!copy(r, rule, &ready.rule) || vec_reserve(&r->ready, (uint64_t)r->ready.n + 1) < 0)
        return error_set(e, -ENOMEM, "out of memory");
    ready.code = pcre2_compile((PCRE2_SPTR)ready.rule.regex, PCRE2_ZERO_TERMINATED,
                               PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_DOTALL | PCRE2_NEVER_UTF |
                                   PCRE2_NEVER_UCP | PCRE2_NEVER_BACKSLASH_C,
                               &code, &at, NULL);
    if (!ready.code) {
        PCRE2_UCHAR words[128];
        pcre2_get_error_message(code, words, sizeof words);
        return error_set(e, -EINVAL, "regex \"%s\": %s at byte %zu", ready.rule.regex, (const char *)words,
                         at);
    }
    ready.match = pcre2_match_data_create_from_pattern(ready.code, NULL);
    if (!ready.match) {
        pcre2_code_free(ready.code);
        return error_set(e, -ENOMEM, "out of memory");
    }
    r->ready.p[r->ready.n++] = ready;
    return 0;
}

/* ---- applying them ---- */

/* Text that is being put together; longer than it may be, it is none. */
struct text {
    char at[RELABEL_TEXT_MAX];
    size_t n;
    bool is_too_long;
};

static void put(struct text *t, struct bytes b)
{
    if (b.n > sizeof t->at - t->n) {
        t->is_too_long = true;
        return;
    }
    if (b.n)
        memcpy(t->at + t->n, b.p, b.n);
    t->n += b.n;
}

static struct bytes text_of(const struct text *t)
{
    return bytes_of(t->at, t->n);
}

static void put_value(struct text *t, const struct attr_value *value)
{
    char number[32];
    if (value->kind == ATTR_STRING)
        put(t, value->text);
    else if (value->kind == ATTR_BOOL)
        put(t, value->boolean ? BYTES_LIT("true") : BYTES_LIT("false"));
    else if (value->kind == ATTR_INT)
        put(t, bytes_of(number, (size_t)snprintf(number, sizeof number, "%lld", (long long)value->integer)));
}

static struct attr *find(const struct relabel_labels *labels, struct bytes key)
{
    for (uint32_t i = 0; i < labels->n; i++)
        if (bytes_eq(labels->attr[i].key, key))
            return &labels->attr[i];
    return NULL;
}

static void drop(struct relabel_labels *labels, const struct attr *one)
{
    size_t at = (size_t)(one - labels->attr);
    memmove(&labels->attr[at], &labels->attr[at + 1], (--labels->n - at) * sizeof *one);
}

static void put_label(struct relabel_labels *labels, struct bytes key, struct attr_value value)
{
    struct attr *there = find(labels, key);
    if (there)
        there->value = value;
    else if (labels->n < labels->room)
        labels->attr[labels->n++] = (struct attr){key, value};
}

/* Read by who tells of it, on another thread. */
static void give_up(struct relabel *r)
{
    __atomic_fetch_add(&r->given_up, 1, __ATOMIC_RELAXED);
}

/* Whether the rule's expression matches the whole of it. */
static bool matches(struct relabel *r, const struct ready *ready, struct bytes subject)
{
    static const uint8_t nothing[1] = {0};
    int n =
        pcre2_match(ready->code, subject.n ? subject.p : nothing, subject.n, 0, 0, ready->match, r->context);
    if (n < 0 && n != PCRE2_ERROR_NOMATCH)
        give_up(r);
    return n >= 0;
}

/* What is behind a '$': "1", "{1}", "{name}". Returns how long it is, 0 if it is no group; *ret is what that
 * matched. */
static size_t group(const struct ready *ready, const char *at, struct bytes subject, struct bytes *ret)
{
    char name[32];
    bool is_braced = *at == '{';
    const char *from = at + is_braced;
    size_t n = is_braced ? strcspn(from, "}") : strspn(from, "0123456789");
    if (n == 0 || n >= sizeof name || (is_braced && from[n] != '}'))
        return 0;
    memcpy(name, from, n);
    name[n] = 0;
    bool is_number = strspn(name, "0123456789") == n;
    long number =
        is_number ? strtol(name, NULL, 10) : pcre2_substring_number_from_name(ready->code, (PCRE2_SPTR)name);
    const PCRE2_SIZE *offset = pcre2_get_ovector_pointer(ready->match);
    *ret = bytes_of(NULL, 0); /* as in Go's Expand: what is no group is nothing */
    if (number >= 0 && number < (long)pcre2_get_ovector_count(ready->match) &&
        offset[2 * number] != PCRE2_UNSET && offset[2 * number] <= offset[2 * number + 1])
        *ret = bytes_of(subject.p + offset[2 * number], offset[2 * number + 1] - offset[2 * number]);
    return n + 2 * is_braced;
}

/* A template with what the last match's groups matched. False: it is too long. */
static bool expand(struct relabel *r, const struct ready *ready, const char *template, struct bytes subject,
                   struct text *ret)
{
    ret->n = 0;
    ret->is_too_long = false;
    for (const char *at = template; *at;) {
        size_t plain = strcspn(at, "$");
        put(ret, bytes_of(at, plain));
        at += plain;
        if (!*at)
            break;
        struct bytes matched = BYTES_LIT("$");
        size_t n = at[1] == '$' ? 1 : group(ready, at + 1, subject, &matched);
        put(ret, matched);
        at += 1 + n;
    }
    if (ret->is_too_long)
        give_up(r);
    return !ret->is_too_long;
}

static struct bytes kept(struct relabel_labels *labels, const struct text *t)
{
    return arena_copy(labels->text, text_of(t));
}

static void replace(struct relabel *r, const struct ready *ready, struct bytes subject,
                    struct relabel_labels *labels)
{
    struct text target, value;
    if (!expand(r, ready, ready->rule.target_label, subject, &target) || target.n == 0 ||
        !expand(r, ready, ready->rule.replacement, subject, &value))
        return;
    struct attr *there = find(labels, text_of(&target));
    if (value.n == 0 && there)
        drop(labels, there);
    if (value.n == 0)
        return;
    struct bytes key = kept(labels, &target), text = kept(labels, &value);
    if (key.p && text.p && bytes_is_utf8(key) && bytes_is_utf8(text)) /* a group may end within a character */
        put_label(labels, key, (struct attr_value){.kind = ATTR_STRING, .text = text});
}

/* Copies stand behind what there was, which alone is looked at. */
static void map(struct relabel *r, const struct ready *ready, struct relabel_labels *labels)
{
    struct text name;
    uint32_t n = labels->n;
    for (uint32_t i = 0; i < n; i++) {
        struct bytes key = labels->attr[i].key;
        if (!matches(r, ready, key) || !expand(r, ready, ready->rule.replacement, key, &name) || !name.n)
            continue;
        struct bytes copy = kept(labels, &name);
        if (copy.p && bytes_is_utf8(copy))
            put_label(labels, copy, labels->attr[i].value);
    }
}

static void drop_names(struct relabel *r, const struct ready *ready, struct relabel_labels *labels)
{
    bool drops = ready->rule.action == RELABEL_LABELDROP;
    for (uint32_t i = labels->n; i > 0; i--)
        if (matches(r, ready, labels->attr[i - 1].key) == drops)
            drop(labels, &labels->attr[i - 1]);
}

/* What the rule matches. False: it is too long. */
static bool subject_of(struct relabel *r, const struct ready *ready, const struct relabel_labels *labels,
                       struct text *ret)
{
    ret->n = 0;
    ret->is_too_long = false;
    for (uint32_t i = 0; i < ready->rule.source_labels.n; i++) {
        const struct attr *label = find(labels, bytes_str(ready->rule.source_labels.items[i]));
        if (i > 0)
            put(ret, bytes_str(ready->rule.separator));
        if (label)
            put_value(ret, &label->value);
    }
    if (ret->is_too_long)
        give_up(r);
    return !ret->is_too_long;
}

/* Returns the share after this rule. */
static double apply(struct relabel *r, const struct ready *ready, struct relabel_labels *labels, double share)
{
    struct text subject;
    if (ready->rule.action == RELABEL_LABELMAP) {
        map(r, ready, labels);
        return share;
    }
    if (is_of_names(ready->rule.action)) {
        drop_names(r, ready, labels);
        return share;
    }
    bool is_match = subject_of(r, ready, labels, &subject) && matches(r, ready, text_of(&subject));
    if (ready->rule.action == RELABEL_KEEP)
        return is_match ? share : 0;
    if (is_match && ready->rule.action == RELABEL_REPLACE)
        replace(r, ready, text_of(&subject), labels);
    return is_match && ready->rule.action == RELABEL_DROP     ? 0
           : is_match && ready->rule.action == RELABEL_SAMPLE ? ready->rule.share
                                                              : share;
}

double relabel_apply(struct relabel *r, struct relabel_labels *labels)
{
    double share = 1;
    for (uint32_t i = 0; i < r->ready.n && share > 0; i++)
        share = apply(r, &r->ready.p[i], labels, share);
    for (uint32_t i = labels->n; i > 0; i--)
        if (bytes_starts(labels->attr[i - 1].key, "__"))
            drop(labels, &labels->attr[i - 1]);
    return share;
}

uint64_t relabel_given_up(const struct relabel *r)
{
    return __atomic_load_n(&r->given_up, __ATOMIC_RELAXED);
}
