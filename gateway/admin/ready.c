/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/admin/ready.h"

#include <errno.h>
#include <json-c/json.h>

#include "gateway/stats/json.h"
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

static int ready_json(const struct admin_check *check, bool is_ready, const struct error *why,
                      json_object *list)
{
    json_object *o = json_append_object(list);
    if (!o)
        return -ENOMEM;
    int r = json_put(o, "name", json_text(bytes_str(check->name)));
    r |= json_put(o, "ready", json_object_new_boolean(is_ready));
    if (!is_ready)
        r |= json_put(o, "reason", json_text(bytes_str(why->text)));
    return r == 0 ? 0 : -ENOMEM;
}

/* Asks every check; writes what is wrong as lines into `out`, or each check into `list` unless that is NULL.
 */
static int ask_checks(const struct admin_ready *ready, json_object *list, struct buffer *out, bool *ret_ready)
{
    *ret_ready = true;
    int r = 0;
    for (uint32_t i = 0; i < ready->n && r == 0; i++) {
        const struct admin_check *check = &ready->checks[i];
        struct error why = {""};
        bool is_ready = check->is_ready(check->context, &why);
        *ret_ready &= is_ready;
        if (list)
            r = ready_json(check, is_ready, &why, list);
        else if (!is_ready)
            r = buffer_printf(out, "not ready: %s%s%s\n", check->name, why.text[0] ? ": " : "", why.text);
    }
    return r;
}

/* {"ready":…,"checks":[…]} */
static int ready_document(const struct admin_ready *ready, struct buffer *out, bool *ret_ready)
{
    json_object *top = json_object_new_object(), *list = json_object_new_array();
    int r = list ? ask_checks(ready, list, out, ret_ready) : -ENOMEM;
    r |= json_put(top, "ready", json_object_new_boolean(*ret_ready));
    r |= json_put(top, "checks", list);
    if (r == 0)
        r = json_write(top, out);
    json_object_put(top);
    return r;
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
