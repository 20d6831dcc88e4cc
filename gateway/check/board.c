/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/check/board.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "gateway/check/board_parts.h"
#include "gateway/stats/exposition.h"
#include "proto/base/macros.h"
#include "proto/base/thread.h"

struct board *board_new(void)
{
    struct board *b = calloc(1, sizeof *b);
    if (b)
        pthread_mutex_init(&b->lock, NULL);
    return b;
}

struct board *board_free(struct board *b)
{
    if (b)
        pthread_mutex_destroy(&b->lock);
    free(b);
    return NULL;
}

/* Cut, between characters where there are any. */
static void set_text(struct board_text *t, struct bytes from)
{
    const struct bytes text = bytes_cut(from, sizeof t->text);
    if (text.n > 0)
        memcpy(t->text, text.p, text.n);
    t->n = (uint32_t)text.n;
}

/* Its place: that of the finding it replaces, or of the oldest. */
static struct board_finding *place(struct board *b, uint32_t producer, enum check_rule rule)
{
    struct board_finding *oldest = &b->latest[0];
    for (uint32_t i = 0; i < b->n_latest; i++) {
        struct board_finding *f = &b->latest[i];
        if (f->producer == producer && f->rule == rule)
            return f;
        if (f->at_unix_nano < oldest->at_unix_nano)
            oldest = f;
    }
    return b->n_latest < BOARD_LATEST ? &b->latest[b->n_latest++] : oldest;
}

void board_add(struct board *b, uint32_t producer, struct bytes service, const struct check *found,
               uint64_t now_unix_nano)
{
    uint32_t n;
    const struct check_finding *findings = check_findings(found, &n);
    autolock(&b->lock);
    for (uint32_t i = 0; i < CHECK_RULES; i++)
        b->count[producer][i] += check_count(found, (enum check_rule)i);
    for (uint32_t i = 0; i < n; i++) {
        struct board_finding *f = place(b, producer, findings[i].rule);
        f->producer = producer;
        f->rule = findings[i].rule;
        f->at_unix_nano = now_unix_nano;
        set_text(&f->service, service);
        set_text(&f->path, findings[i].path);
        set_text(&f->text, findings[i].text);
    }
}

int board_prometheus(struct board *b, struct buffer *out)
{
    static const char name[] = "profgate_check_findings_total";
    struct exposition x = {.out = out};
    bool any = false;
    autolock(&b->lock);
    for (uint32_t p = 0; p < ARRAY_LEN(b->count); p++)
        for (uint32_t i = 0; i < CHECK_RULES; i++) {
            const struct check_rule_row *row = check_rule_row((enum check_rule)i);
            if (b->count[p][i] == 0)
                continue;
            if (!any)
                exposition_family(
                    &x, name, "counter",
                    "Places in checked requests that break a rule of OTLP profiles, by who made "
                    "them");
            any = true;
            exposition_print(&x, "%s{rule=\"%s\",severity=\"%s\",", name, row->id,
                             check_severity_name(row->severity));
            exposition_label(&x, "producer", producers_name(p));
            exposition_print(&x, "} %" PRIu64 "\n", b->count[p][i]);
        }
    return x.r;
}
