/* SPDX-License-Identifier: Apache-2.0 */
/* The rules' triggers, of the running gateway. */
#include "gateway/control/triggers.h"
#include "gateway/run/parts.h"
#include "proto/base/clock.h"

struct control_triggers *gateway_triggers_for(struct gateway *g, const struct counting *counting,
                                              struct error *e)
{
    struct control_triggers_options options = {
        .rules = counting->rules.set,
        .store = outputs_store(g->outputs),
        .captures = g->captures,
        .budget = &g->budget,
        .before = g->triggers,
    };
    return control_triggers_new(&options, e);
}

static void show_triggers(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    const struct gateway *g = context;
    admin_say_json(a, control_triggers_json(g->triggers, clock_monotonic(), a->text));
}

struct admin_page gateway_triggers_page(struct gateway *g)
{
    return (struct admin_page){"GET", "/api/v1/triggers",
                               "which triggers of the rules fire, and for whom (JSON)", show_triggers, g};
}
