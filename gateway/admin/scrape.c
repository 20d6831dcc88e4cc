/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/scrape.h"

#include <stdio.h>

#include "gateway/admin/query.h"

/* What ?collect[]= asks for; everything by default. False: it names something that is not there. */
static bool collect_of(struct bytes query, unsigned *ret_what)
{
    unsigned what = 0;
    struct bytes name, value;
    while (query_next(&query, &name, &value)) {
        if (!query_is(name, "collect[]"))
            continue;
        if (query_is(value, "self"))
            what |= ADMIN_METRICS_SELF;
        else if (query_is(value, "profiles"))
            what |= ADMIN_METRICS_PROFILES;
        else
            return false;
    }
    *ret_what = what ? what : ADMIN_METRICS_SELF | ADMIN_METRICS_PROFILES;
    return true;
}

/* Content-Type of an answer, with the escaping where the scraper asked for one. */
static const char *metrics_type(const struct admin_metrics *m, char text[ADMIN_TYPE_MAX])
{
    static const char *const types[] = {
        [ADMIN_TEXT_0_0_4] = "text/plain; version=0.0.4; charset=utf-8",
        [ADMIN_TEXT_1_0_0] = "text/plain; version=1.0.0; charset=utf-8",
        [ADMIN_OPENMETRICS_0_0_1] = "application/openmetrics-text; version=0.0.1; charset=utf-8",
        [ADMIN_OPENMETRICS_1_0_0] = "application/openmetrics-text; version=1.0.0; charset=utf-8",
    };
    static const char *const escapings[] = {[ADMIN_UNDERSCORES] = "underscores",
                                            [ADMIN_ALLOW_UTF8] = "allow-utf-8",
                                            [ADMIN_DOTS] = "dots",
                                            [ADMIN_VALUES] = "values"};
    snprintf(text, ADMIN_TYPE_MAX, "%s%s%s", types[m->format], m->escaping_is_asked_for ? "; escaping=" : "",
             m->escaping_is_asked_for ? escapings[m->escaping] : "");
    return text;
}

static void show_metrics(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    const struct admin_scrape *s = context;
    struct admin_metrics wanted = {.format = ADMIN_TEXT_0_0_4};
    if (!collect_of(x->query, &wanted.what)) {
        admin_say(a, 400, "collect[] is one of: profiles, self\n");
        return;
    }
    query_metrics_format(http_header_find(x->headers, x->n_headers, "accept"), &wanted);
    if (s->write(s->context, &wanted, a->text) < 0) {
        admin_say(a, 500, "the metrics could not be collected\n");
        return;
    }
    a->type = metrics_type(&wanted, a->type_room);
    a->is_negotiated = true;
}

struct admin_page admin_scrape_page(struct admin_scrape *s)
{
    return (
        struct admin_page){"GET", "/metrics",
                           "Prometheus text or OpenMetrics, by Accept: what the rules counted, and what the "
                           "gateway knows about itself\n"
                           "(?collect[]=profiles or ?collect[]=self for one of the two)",
                           show_metrics, s};
}
