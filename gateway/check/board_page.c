/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/check/board.h"
#include "gateway/check/board_parts.h"
#include "proto/base/json.h"

static struct bytes text_of(const struct board_text *t)
{
    return bytes_of(t->text, t->n);
}

static void member(struct json *j, const char *key, struct bytes value)
{
    json_key(j, key);
    json_string(j, value);
}

/* A producer, with the rules it broke; nothing of one that broke none. */
static void producer(struct json *j, const struct board *b, uint32_t p)
{
    bool any = false;
    for (uint32_t i = 0; i < CHECK_RULES; i++) {
        if (b->count[p][i] == 0)
            continue;
        if (!any) {
            json_open(j, '{');
            member(j, "producer", producers_name(p));
            json_key(j, "rules"), json_open(j, '{');
        }
        any = true;
        json_key(j, check_rule_row((enum check_rule)i)->id), json_u64(j, b->count[p][i]);
    }
    if (any)
        json_close(j, '}'), json_close(j, '}');
}

static void finding(struct json *j, const struct board_finding *f)
{
    const struct check_rule_row *row = check_rule_row(f->rule);
    json_open(j, '{');
    member(j, "producer", producers_name(f->producer));
    member(j, "service", text_of(&f->service));
    member(j, "rule", bytes_str(row->id));
    member(j, "severity", bytes_str(check_severity_name(row->severity)));
    member(j, "title", bytes_str(row->title));
    member(j, "path", text_of(&f->path));
    member(j, "text", text_of(&f->text));
    member(j, "source", bytes_str(row->source));
    member(j, "says", bytes_str(row->says));
    member(j, "fix", bytes_str(row->fix));
    json_key(j, "timeUnixNano"), json_quoted_u64(j, f->at_unix_nano);
    json_close(j, '}');
}

static void handle(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    struct board *b = context;
    struct json j = JSON_INIT(a->text);
    json_open(&j, '{');
    json_key(&j, "producers"), json_open(&j, '[');
    pthread_mutex_lock(&b->lock);
    for (uint32_t p = 0; p < STATS_PRODUCERS + 1; p++)
        producer(&j, b, p);
    json_close(&j, ']');
    json_key(&j, "latest"), json_open(&j, '[');
    for (uint32_t i = 0; i < b->n_latest; i++)
        finding(&j, &b->latest[i]);
    pthread_mutex_unlock(&b->lock);
    json_close(&j, ']'), json_close(&j, '}');
    admin_say_json(a, j.r);
}

struct admin_page board_page(struct board *b)
{
    return (struct admin_page){
        "GET", "/api/v1/check",
        "what is wrong with the requests that were checked, by producer (JSON; check.share)", handle, b};
}
