/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/capturing.h"

#include <stdlib.h>

struct capturing {
    struct keep_decider rules;
    struct capture_reader *reader;
    bool is_active;
    bool by_rules; /* of this request: the rules were asked to begin */
    const struct profiles *view;
    uint32_t profile; /* the one looked at last, + 1 */
    bool is_captured; /* it is */
};

struct capturing *capturing_new(struct captures *captures, const struct keep_decider *rules)
{
    struct capturing *c = calloc(1, sizeof *c);
    if (!c)
        return NULL;
    c->rules = *rules;
    c->reader = capture_reader_new(captures);
    if (!c->reader)
        return capturing_free(c);
    capturing_look(c);
    return c;
}

struct capturing *capturing_free(struct capturing *c)
{
    if (c)
        capture_reader_free(c->reader);
    free(c);
    return NULL;
}

void capturing_look(struct capturing *c)
{
    c->is_active = capture_reader_begin(c->reader);
}

static bool rules_have_any(const struct capturing *c)
{
    return c->rules.has_rules && c->rules.has_rules(c->rules.context);
}

static bool has_rules(void *context)
{
    struct capturing *c = context;
    return c->is_active || rules_have_any(c);
}

static int begin(void *context, const struct profiles *view)
{
    struct capturing *c = context;
    c->view = view;
    c->profile = 0;
    c->by_rules = rules_have_any(c);
    return c->by_rules ? c->rules.begin(c->rules.context, view) : 0;
}

static bool is_captured(struct capturing *c, uint32_t profile)
{
    if (c->profile != profile + 1) {
        const struct profiles *v = c->view;
        uint32_t resource = v->scope.resource[v->profile.scope[profile]];
        uint32_t from = v->resource.attrs_at[resource], to = v->resource.attrs_at[resource + 1];
        c->profile = profile + 1;
        c->is_captured = c->is_active && capture_wants(c->reader, v->key_value.attr + from, to - from);
    }
    return c->is_captured;
}

static int sample(void *context, uint32_t profile, uint32_t number, struct keep_said *ret)
{
    struct capturing *c = context;
    *ret = (struct keep_said){0};
    int r = c->by_rules ? c->rules.sample(c->rules.context, profile, number, ret) : 0;
    if (r == 0 && !ret->dropped && is_captured(c, profile))
        *ret = (struct keep_said){.of_stacks = KEEP_ONE};
    return r;
}

static void rate(void *context, uint32_t number, struct keep_rate *ret)
{
    struct capturing *c = context;
    c->rules.rate(c->rules.context, number, ret);
}

static void end(void *context)
{
    struct capturing *c = context;
    if (c->by_rules)
        c->rules.end(c->rules.context);
    c->view = NULL;
}

struct keep_decider capturing_decider(struct capturing *c)
{
    return (struct keep_decider){c, has_rules, begin, sample, rate, end};
}
