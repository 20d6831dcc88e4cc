/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/lib/unit.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/settings/file.h"
#include "sender/relabel/relabel.h"

static struct arena arena;
static struct error e;
static struct attr attr[8];
static struct relabel_labels labels;

/* Adds a rule as it is written. */
static int add(struct relabel *r, const char *yaml)
{
    struct settings_file *f;
    struct relabel_rule rule = {0};
    struct settings_file_options options = {.arena = &arena};
    int result = settings_file_open(&f, "rule", bytes_str(yaml), &options, &e);
    if (result < 0 || (result = settings_defaults(&relabel_section, &rule, &arena)) < 0)
        return result;
    result = settings_take_map(f, &relabel_section, &rule, settings_root(f), "relabel");
    result = result < 0 ? result : relabel_add(r, &rule, &e);
    settings_file_close(f);
    return result;
}

static void put(const char *key, const char *value)
{
    attr[labels.n++] = (struct attr){bytes_str(key), {.kind = ATTR_STRING, .text = bytes_str(value)}};
}

/* A resource with three labels, to which the one rule is applied. The share that is left. */
static double apply(const char *yaml)
{
    labels = (struct relabel_labels){attr, 0, 8, &arena};
    put("service.name", "shop");
    put("k8s.pod.name", "shop-7f-x2");
    attr[labels.n++] = (struct attr){BYTES_LIT("process.pid"), {.kind = ATTR_INT, .integer = 42}};
    struct relabel *r = unit_made(relabel_new());
    unit_made(add(r, yaml) == 0 ? r : NULL);
    double share = relabel_apply(r, &labels);
    relabel_free(r);
    return share;
}

/* All labels, "key=value" with blanks between them. */
static const char *said(void)
{
    static char text[512];
    size_t n = 0;
    *text = 0;
    for (uint32_t i = 0; i < labels.n; i++) {
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%.*s=", i ? " " : "", BYTES_FMT(attr[i].key));
        if (attr[i].value.kind == ATTR_INT)
            n += (size_t)snprintf(text + n, sizeof text - n, "%d", (int)attr[i].value.integer);
        else
            n += (size_t)snprintf(text + n, sizeof text - n, "%.*s", BYTES_FMT(attr[i].value.text));
    }
    return text;
}

#define AS_IT_WAS "service.name=shop k8s.pod.name=shop-7f-x2 process.pid=42"

UNIT(keep_and_drop)
{
    ck_assert_double_eq(apply("{source_labels: [service.name], regex: shop, action: keep}"), 1);
    ck_assert_double_eq(apply("{source_labels: [service.name], regex: sho, action: keep}"), 0); /* whole */
    ck_assert_double_eq(apply("{source_labels: [service.name], regex: 's.*', action: drop}"), 0);
    ck_assert_double_eq(apply("{source_labels: [service.name], regex: x, action: drop}"), 1);
    ck_assert_double_eq(apply("{source_labels: [missing], regex: '', action: drop}"), 0); /* it is "" */
    ck_assert_double_eq(apply("{source_labels: [process.pid, service.name], regex: '42;shop', action: drop}"),
                        0);
    ck_assert_double_eq(
        apply("{source_labels: [process.pid, service.name], separator: '', regex: '42shop', action: drop}"),
        0);
    ck_assert_str_eq(said(), AS_IT_WAS);
    arena_release(&arena);
}

UNIT(a_share_of_samples)
{
    ck_assert_double_eq_tol(apply("{source_labels: [service.name], regex: shop, action: sample, share: 25%}"),
                            0.25, 1e-12);
    ck_assert_double_eq(apply("{source_labels: [service.name], regex: x, action: sample, share: 25%}"), 1);
    arena_release(&arena);
}

UNIT(replacements)
{
    static const struct {
        const char *rule, *said;
    } cases[] = {
        {"{source_labels: [k8s.pod.name], regex: '(.*)-([^-]*)-[^-]*', target_label: set, replacement: '$2/$1'}",
         AS_IT_WAS " set=7f/shop"},
        {"{source_labels: [service.name], target_label: service.name, replacement: 'the $1'}",
         "service.name=the shop k8s.pod.name=shop-7f-x2 process.pid=42"},
        {"{source_labels: [service.name], regex: '(?P<first>.).*', target_label: x, replacement: '$${first}$${9}!'}",
         AS_IT_WAS " x=s!"},
        {"{source_labels: [service.name], target_label: '$1.copy', replacement: yes}",
         AS_IT_WAS " shop.copy=yes"},
        {"{source_labels: [service.name], target_label: k8s.pod.name, replacement: ''}",
         "service.name=shop process.pid=42"}, /* nothing is none */
        {"{source_labels: [service.name], regex: other, target_label: x}", AS_IT_WAS},
        {"{target_label: env, replacement: 'prod$$$$'}", AS_IT_WAS " env=prod$"},
        {"{target_label: __note, replacement: x}", AS_IT_WAS}, /* a note, gone at the end */
        {"{regex: 'k8s[.](.*)', replacement: '$1', action: labelmap}", AS_IT_WAS " pod.name=shop-7f-x2"},
        {"{regex: 'process.*', replacement: 'pid', action: labelmap}", AS_IT_WAS " pid=42"},
        {"{regex: 'k8s.*|process.*', action: labeldrop}", "service.name=shop"},
        {"{regex: 'k8s.*', action: labelkeep}", "k8s.pod.name=shop-7f-x2"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        (void)apply(cases[i].rule);
        ck_assert_msg(strcmp(said(), cases[i].said) == 0, "%s: %s", cases[i].rule, said());
    }
    arena_release(&arena);
}

UNIT(what_is_wrong_with_a_rule_is_said)
{
    static const struct {
        const char *rule, *says;
    } cases[] = {
        {"{source_labels: [a]}", "replace needs a target_label"},
        {"{source_labels: [a], action: drop, target_label: x}", "drop has no target_label"},
        {"{source_labels: [a], action: labeldrop, regex: x}", "labeldrop has no source_labels"},
        {"{action: keep, regex: x}", "keep needs source_labels"},
        {"{source_labels: [a], action: sample, share: 0%}", "a share of 0 is drop"},
        {"{source_labels: [a], action: drop, share: 10%}", "drop has no share"},
        {"{source_labels: [a], action: hashmod}", "hashmod"},
        {"{source_labels: [a], target_label: b, regex: '('}",
         "regex \"(\": missing closing parenthesis at byte 1"},
        {"{sourcelabels: [a], action: drop}", "unknown key"},
    };
    struct relabel *r = unit_made(relabel_new());
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        ck_assert_int_eq(add(r, cases[i].rule), -EINVAL);
        ck_assert_msg(strstr(e.text, cases[i].says), "%s: %s", cases[i].rule, e.text);
    }
    for (uint32_t i = 0; i < RELABEL_RULES_MAX; i++)
        ck_assert_int_eq(add(r, "{source_labels: [a], action: drop}"), 0);
    ck_assert_int_eq(add(r, "{source_labels: [a], action: drop}"), -EINVAL);
    relabel_free(r);
    ck_assert_ptr_null(relabel_free(NULL));
    arena_release(&arena);
}

UNIT(who_is_profiled_cannot_make_it_dear)
{
    char many[RELABEL_TEXT_MAX + 2];
    struct relabel *r = unit_made(relabel_new());
    memset(many, 'a', sizeof many - 1);
    many[sizeof many - 1] = 0;
    ck_assert_int_eq(add(r, "{source_labels: [x], regex: '(a|aa)+[bc]', action: drop}"), 0);
    labels = (struct relabel_labels){attr, 0, 8, &arena};
    put("x", many + 1000);
    ck_assert_double_eq(relabel_apply(r, &labels), 1);
    ck_assert_uint_eq(relabel_given_up(r), 1);
    labels.n = 0;
    put("x", many); /* too long to be looked at */
    ck_assert_double_eq(relabel_apply(r, &labels), 1);
    ck_assert_uint_eq(relabel_given_up(r), 2);
    ck_assert_int_eq(add(r, "{regex: '(.*)', replacement: '$1.copy', action: labelmap}"), 0);
    ck_assert_int_eq(add(r, "{target_label: y, replacement: z}"), 0);
    labels = (struct relabel_labels){attr, 0, 2, &arena};
    put("x", "b");
    ck_assert_double_eq(relabel_apply(r, &labels), 1);
    ck_assert_str_eq(said(), "x=b x.copy=b"); /* and no room for more */
    relabel_free(r);
    arena_release(&arena);
}
