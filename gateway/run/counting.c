/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/run/counting.h"

#include <errno.h>
#include <stdlib.h>

#include "gateway/control/triggers.h"
#include "gateway/run/pipeline.h"
#include "proto/base/log.h"

static void warn_unmatched(void *user, uint32_t i, const char *pattern)
{
    log_warn("rules.files matches no file pattern=%s", pattern);
}

struct counting *counting_new(const struct config *config, struct error *e)
{
    struct counting *c = calloc(1, sizeof *c);
    if (!c) {
        error_set(e, -ENOMEM, "out of memory");
        return NULL;
    }
    c->users = 1;
    c->value_length_limit = config->value_length_limit;
    c->check_share = config->check_share;
    c->forward = (struct forward_options){.keep = config->keep,
                                          .seed = config->keep_seed,
                                          .refuse_when_full = config->when_full == CONFIG_REFUSE};
    c->forward.rates = c->rates = forward_rates_new();
    if (!c->rates) {
        error_set(e, -ENOMEM, "out of memory");
        return counting_drop(c);
    }
    if (rule_files_load(&c->rules, config, NULL, e) < 0) {
        forward_rates_free(c->rates);
        free(c);
        return NULL;
    }
    rule_files_unmatched(config, warn_unmatched, NULL);
    c->metrics = pipeline_metrics(c->rules.program, &c->n_metrics);
    if (!c->metrics) {
        error_set(e, -ENOMEM, "out of memory");
        return counting_drop(c);
    }
    control_triggers_mark(c->rules.set, c->metrics, c->n_metrics);
    return c;
}

struct counting *counting_use(struct counting *c)
{
    c->users++;
    return c;
}

struct counting *counting_drop(struct counting *c)
{
    if (!c || --c->users > 0)
        return NULL;
    rule_files_release(&c->rules);
    forward_rates_free(c->rates);
    free(c->metrics);
    free(c);
    return NULL;
}
