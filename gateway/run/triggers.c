/* SPDX-License-Identifier: Apache-2.0 */
/* The rules' triggers, of the running gateway. */
#include <errno.h>

#include "gateway/control/triggers.h"
#include "gateway/run/parts.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"

int gateway_start_triggers(struct gateway *g)
{
    struct error e;
    struct control_triggers_options options = {
        .rules = g->counting->rules.set,
        .store = outputs_store(g->outputs),
        .captures = g->captures,
        .budget = &g->budget,
        .before = g->triggers,
    };
    struct control_triggers *next = control_triggers_new(&options, &e);
    control_triggers_free(g->triggers);
    g->triggers = next;
    if (!next)
        log_error("triggers are not evaluated error=\"%s\"", e.text);
    return next ? 0 : -ENOMEM;
}

static void show_triggers(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    const struct gateway *g = context;
    admin_say_json(a, g->triggers ? control_triggers_json(g->triggers, clock_monotonic(), a->text) : -ENOMEM);
}

struct admin_page gateway_triggers_page(struct gateway *g)
{
    return (struct admin_page){"GET", "/api/v1/triggers",
                               "which triggers of the rules fire, and for whom (JSON)", show_triggers, g};
}
