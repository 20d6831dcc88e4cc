/* SPDX-License-Identifier: Apache-2.0 */
/* The rules' triggers, of the running gateway. */
#include <errno.h>

#include "gateway/control/triggers.h"
#include "gateway/run/parts.h"
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
