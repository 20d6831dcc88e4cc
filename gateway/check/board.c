/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/check/board.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>

#include "gateway/check/board_parts.h"
#include "gateway/stats/exposition.h"
#include "proto/base/macros.h"

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
    pthread_mutex_lock(&b->lock);
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
    pthread_mutex_unlock(&b->lock);
}

uint64_t board_read(struct board *b, uint32_t producer, enum check_rule rule)
{
    pthread_mutex_lock(&b->lock);
    const uint64_t n = b->count[producer][rule];
    pthread_mutex_unlock(&b->lock);
    return n;
}

#define NAME "profgate_check_findings_total"

static int series(struct buffer *out, uint32_t producer, enum check_rule rule, uint64_t count)
{
    const struct check_rule_row *row = check_rule_row(rule);
    int r = buffer_printf(out, NAME "{rule=\"%s\",severity=\"%s\",producer=\"", row->id,
                          check_severity_name(row->severity));
    if (r == 0)
        r = exposition_escape(out, producers_name(producer), true);
    return r < 0 ? r : buffer_printf(out, "\"} %" PRIu64 "\n", count);
}

int board_prometheus(struct board *b, struct buffer *out)
{
    bool any = false;
    int r = 0;
    pthread_mutex_lock(&b->lock);
    for (uint32_t p = 0; p < ARRAY_LEN(b->count) && r == 0; p++)
        for (uint32_t i = 0; i < CHECK_RULES && r == 0; i++) {
            if (b->count[p][i] == 0)
                continue;
            if (!any)
                r = buffer_add_str(out,
                                   "# HELP " NAME
                                   " Places in checked requests that break a rule of OTLP profiles, by who "
                                   "made them\n# TYPE " NAME " counter\n");
            any = true;
            if (r == 0)
                r = series(out, p, (enum check_rule)i, b->count[p][i]);
        }
    pthread_mutex_unlock(&b->lock);
    return r;
}
