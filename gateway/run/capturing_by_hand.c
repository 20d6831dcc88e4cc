/* SPDX-License-Identifier: Apache-2.0 */
/* What a person captures: POST /api/v1/capture and GET /api/v1/captures. */
#include <errno.h>
#include <json-c/json.h>

#include "gateway/run/capturing.h"
#include "gateway/stats/json.h"
#include "proto/base/clock.h"
#include "proto/base/log.h"
#include "proto/base/macros.h"

static int count_by_hand(void *context, uint32_t id, const struct capture_rule *rule)
{
    *(uint32_t *)context += rule->by_hand;
    return 0;
}

static int begin_by_hand(void *context, const struct admin_capture *capture, uint32_t *ret_id,
                         struct error *e)
{
    struct captures *captures = context;
    uint32_t n = 0;
    captures_each(captures, count_by_hand, &n);
    if (n >= CAPTURING_BY_HAND_MAX)
        return error_set(e, -ENOSPC, "%u captures are running already: end one, or wait", n);
    if (capture->lasting_ns > CAPTURING_LASTING_MAX_NS)
        return error_set(e, -EINVAL, "lasting is at most 1h; ask again before it is over");
    struct capture_rule rule = {
        .keys = capture->keys,
        .values = capture->values,
        .n = capture->n,
        .until_ns = clock_monotonic() + capture->lasting_ns,
        .by_hand = true,
    };
    int r = captures_begin(captures, &rule, ret_id);
    if (r < 0)
        return error_set(e, r, r == -ENOSPC ? "triggers capture as much as may be" : "out of memory");
    log_info("capture begins id=%u by=hand lasting=%llus attributes=%u", *ret_id,
             (unsigned long long)(capture->lasting_ns / NSEC_PER_SEC), capture->n);
    return 0;
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

static int end_by_hand(void *context, uint32_t id)
{
    struct captures *captures = context;
    struct wanted wanted = {.id = id};
    captures_each(captures, find_by_hand, &wanted);
    if (!wanted.found)
        return -ENOENT;
    captures_end(captures, id);
    log_info("capture ends id=%u by=hand", id);
    return 0;
}

/* ---- JSON ---- */

static int add_capture(void *context, uint32_t id, const struct capture_rule *rule)
{
    json_object *o = json_append_object(context);
    uint64_t now = clock_monotonic(), left = rule->until_ns > now ? rule->until_ns - now : 0;
    if (!o)
        return -ENOMEM;
    int r = json_put(o, "id", json_object_new_int64(id));
    r |= json_put(o, "by", json_object_new_string(rule->by_hand ? "hand" : "trigger"));
    r |= json_put(o, "resource", json_members(rule->keys, rule->values, rule->n));
    r |= json_put(o, "seconds_left", json_object_new_double((double)left / NSEC_PER_SEC));
    return r == 0 ? 0 : -ENOMEM;
}

static int list_captures(void *context, struct buffer *out)
{
    json_object *top = json_object_new_object(), *list = json_object_new_array();
    int r = json_put(top, "captures", list);
    if (r == 0)
        r = captures_each(context, add_capture, list);
    if (r == 0)
        r = json_write(top, out);
    if (r == 0)
        r = buffer_add_str(out, "\n");
    json_object_put(top);
    return r;
}

struct admin_captures capturing_for_admin(struct captures *captures)
{
    return (struct admin_captures){begin_by_hand, end_by_hand, list_captures, captures};
}
