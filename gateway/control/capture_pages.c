/* SPDX-License-Identifier: Apache-2.0 */
/* A capture is a query string, so that one line of curl asks for it. */
#include "gateway/control/capture_pages.h"

#include "gateway/control/parts.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/quantity.h"
#include "proto/http/query.h"

/* What the query asks for: what to keep all raw profiles of, and for how long. */
struct wish {
    uint64_t lasting_ns;
    struct bytes keys[CAPTURE_KEYS_MAX], values[CAPTURE_KEYS_MAX]; /* of the resource */
    uint32_t n;                                                    /* 0: of everything */
};

/* Names and values of a query together; a service's name is some dozen bytes. */
#define CAPTURE_TEXT_BYTES 2048u
#define RESOURCE           "resource."

/* One parameter. False with *why. */
static bool capture_parameter(struct bytes name, struct bytes value, struct wish *c, uint32_t *ret_end,
                              const char **why)
{
    uint64_t id;
    if (bytes_is(name, "lasting")) {
        *why = "lasting is a duration, as 30s or 5m\n";
        return quantity_duration(value, &c->lasting_ns) == 0 && c->lasting_ns > 0;
    }
    if (bytes_is(name, "end")) {
        *why = "end is the id of a capture (/api/v1/captures)\n";
        bool good = quantity_u64(value, &id) == 0 && id > 0 && id <= UINT32_MAX;
        *ret_end = good ? (uint32_t)id : 0;
        return good;
    }
    *why = "parameters are lasting, end and resource.KEY (at most 8)\n";
    if (!bytes_starts(name, RESOURCE) || name.n == strlen(RESOURCE) || c->n == CAPTURE_KEYS_MAX)
        return false;
    c->keys[c->n] = bytes_of(name.p + strlen(RESOURCE), name.n - strlen(RESOURCE));
    c->values[c->n++] = value;
    return true;
}

/* What the query asks for; *ret_end is not 0 where a capture is to end. False with *why. */
static bool capture_of(struct bytes query, uint8_t text[CAPTURE_TEXT_BYTES], struct wish *c,
                       uint32_t *ret_end, const char **why)
{
    struct bytes name, value;
    size_t used = 0;
    *why = "the query is too long, or not percent-encoded\n";
    while (query_next(&query, &name, &value)) {
        if (query_decode(name, text + used, CAPTURE_TEXT_BYTES - used, &name) < 0)
            return false;
        used += name.n;
        if (query_decode(value, text + used, CAPTURE_TEXT_BYTES - used, &value) < 0)
            return false;
        used += value.n;
        if (!capture_parameter(name, value, c, ret_end, why))
            return false;
    }
    *why = "say how long: ?lasting=5m, and of what: &resource.service.name=checkout\n";
    return *ret_end != 0 || c->lasting_ns > 0;
}

static int count_by_hand(void *context, uint32_t id, const struct capture_rule *rule)
{
    *(uint32_t *)context += rule->by_hand;
    return 0;
}

static void begin_capture(struct captures *captures, const struct wish *c, struct admin_answer *a)
{
    uint32_t n = 0, id;
    captures_each(captures, count_by_hand, &n);
    if (n >= CAPTURES_BY_HAND_MAX) {
        a->status = 429;
        buffer_printf(a->text, "%u captures are running already: end one, or wait\n", n);
        return;
    }
    if (c->lasting_ns > CAPTURES_LASTING_MAX_NS) {
        admin_say(a, 400, "lasting is at most 1h; ask again before it is over\n");
        return;
    }
    struct capture_rule rule = {
        .keys = c->keys,
        .values = c->values,
        .n = c->n,
        .until_ns = clock_monotonic() + c->lasting_ns,
        .by_hand = true,
    };
    int r = captures_begin(captures, &rule, &id);
    if (r == CAPTURES_FULL) {
        admin_say(a, 429, "triggers capture as much as may be\n");
    } else if (r < 0) {
        admin_say(a, 500, "out of memory\n");
    } else {
        log_info("capture begins id=%u by=hand lasting=%llus attributes=%u", id,
                 (unsigned long long)(c->lasting_ns / NSEC_PER_SEC), c->n);
        a->status = 201;
        a->type = ADMIN_TYPE_JSON;
        buffer_printf(a->text, "{\"id\":%u}\n", id);
    }
}

struct wanted {
    uint32_t id;
    bool found;
};

static int find_by_hand(void *context, uint32_t id, const struct capture_rule *rule)
{
    struct wanted *wanted = context;
    wanted->found |= rule->by_hand && id == wanted->id;
    return 0;
}

static void end_capture(struct captures *captures, uint32_t id, struct admin_answer *a)
{
    struct wanted wanted = {.id = id};
    captures_each(captures, find_by_hand, &wanted);
    if (!wanted.found) {
        admin_say(a, 404, "there is no such capture, or a trigger began it\n");
        return;
    }
    captures_end(captures, id);
    log_info("capture ends id=%u by=hand", id);
    admin_say(a, 200, "ended\n");
}

static void take_capture(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    struct wish c = {0};
    uint8_t text[CAPTURE_TEXT_BYTES];
    const char *why;
    uint32_t end = 0;
    if (!capture_of(x->query, text, &c, &end, &why))
        admin_say(a, 400, why);
    else if (end == 0)
        begin_capture(context, &c, a);
    else
        end_capture(context, end, a);
}

struct admin_page capture_page(struct captures *captures)
{
    return (struct admin_page){
        "POST", "/api/v1/capture",
        "forwards all raw profiles for a time: ?lasting=5m&resource.service.name=checkout\n"
        "(without resource.…: of everything; ?end=ID ends it)",
        take_capture, captures};
}

/* ---- JSON ---- */

static int add_capture(void *context, uint32_t id, const struct capture_rule *rule)
{
    struct json *j = context;
    uint64_t now = clock_monotonic(), left = rule->until_ns > now ? rule->until_ns - now : 0;
    json_open(j, '{');
    json_key(j, "id"), json_u64(j, id);
    json_key(j, "by"), json_string(j, rule->by_hand ? BYTES_LIT("hand") : BYTES_LIT("trigger"));
    json_key(j, "resource"), put_members(j, rule->keys, rule->values, rule->n);
    json_key(j, "seconds_left"), json_double(j, (double)left / NSEC_PER_SEC);
    json_close(j, '}');
    return j->r;
}

static int list_captures(const struct captures *captures, struct buffer *out)
{
    struct json j = JSON_INIT(out);
    json_open(&j, '{');
    json_key(&j, "captures"), json_open(&j, '[');
    captures_each(captures, add_capture, &j);
    json_close(&j, ']');
    json_close(&j, '}');
    return j.r == 0 ? buffer_add_str(out, "\n") : j.r;
}

static void show_captures(void *context, const struct http_exchange *x, struct admin_answer *a)
{
    admin_say_json(a, list_captures(context, a->text));
}

struct admin_page captures_page(struct captures *captures)
{
    return (struct admin_page){"GET", "/api/v1/captures", "of what all raw profiles are forwarded now (JSON)",
                               show_captures, captures};
}
