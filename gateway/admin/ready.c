/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/ready.h"

#include "proto/base/json.h"
#include "proto/http/query.h"

static void show_health(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    admin_say(a, 200, "ok\n");
}

struct admin_page admin_health_page(void)
{
    return (struct admin_page){"GET",       "/healthz", "200 while the process runs",
                               show_health, NULL,       .is_open = true};
}

static void ready_json(struct json *j, const struct admin_check *check, bool is_ready,
                       const struct error *why)
{
    json_open(j, '{');
    json_key(j, "name"), json_string(j, bytes_str(check->name));
    json_key(j, "ready"), json_bool(j, is_ready);
    if (!is_ready)
        json_key(j, "reason"), json_string(j, bytes_str(why->text));
    json_close(j, '}');
}

/* Asks every check; writes what is wrong as lines into `out`, or each check into `list` unless that is NULL.
 */
static int ask_checks(const struct admin_ready *ready, struct json *list, struct buffer *out, bool *ret_ready)
{
    *ret_ready = true;
    int r = 0;
    for (uint32_t i = 0; i < ready->n && r == 0; i++) {
        const struct admin_check *check = &ready->checks[i];
        struct error why = {""};
        bool is_ready = check->is_ready(check->context, &why);
        *ret_ready &= is_ready;
        if (list)
            ready_json(list, check, is_ready, &why);
        else if (!is_ready)
            r = buffer_printf(out, "not ready: %s%s%s\n", check->name, why.text[0] ? ": " : "", why.text);
    }
    return list ? list->r : r;
}

/* {"ready":…,"checks":[…]} */
static int ready_document(const struct admin_ready *ready, struct buffer *out, bool *ret_ready)
{
    struct buffer checks = BUFFER_INIT(0);
    struct json list = JSON_INIT(&checks), top = JSON_INIT(out);
    json_open(&list, '[');
    ask_checks(ready, &list, NULL, ret_ready);
    json_close(&list, ']');
    json_open(&top, '{');
    json_key(&top, "ready"), json_bool(&top, *ret_ready);
    json_key(&top, "checks"), json_raw(&top, buffer_bytes(&checks));
    json_close(&top, '}');
    buffer_release(&checks);
    return list.r < 0 ? list.r : top.r;
}

static void show_ready(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    const struct admin_ready *ready = context;
    struct bytes accept = http_header_find(x->headers, x->n_headers, "accept");
    bool as_json = query_accepts(accept, ADMIN_TYPE_JSON), is_ready = false;
    int r = as_json ? ready_document(ready, a->text, &is_ready) : ask_checks(ready, NULL, a->text, &is_ready);
    if (r == 0 && is_ready && !as_json)
        r = buffer_add_str(a->text, "ok\n");
    a->status = is_ready ? 200 : 503;
    if (as_json || r < 0)
        admin_say_json(a, r);
}

struct admin_page admin_ready_page(struct admin_ready *r)
{
    return (struct admin_page){"GET",
                               "/readyz",
                               "200 when requests are taken and can be passed on, else 503 and why\n"
                               "(Accept: application/json for each condition)",
                               show_ready,
                               r,
                               .is_open = true};
}
