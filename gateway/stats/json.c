/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/json.h"

#include <errno.h>
#include <json-c/json.h>

#include "proto/base/macros.h"

int json_put(json_object *to, const char *key, json_object *value)
{
    if (to && value && json_object_object_add(to, key, value) == 0)
        return 0;
    json_object_put(value);
    return -ENOMEM;
}

json_object *json_text(struct bytes text)
{
    struct buffer clean = BUFFER_INIT(0);
    text.n = min_of(text.n, JSON_TEXT_MAX);
    json_object *o = NULL;
    if (buffer_add_utf8(&clean, text) == 0)
        o = json_object_new_string_len(clean.n > 0 ? (const char *)clean.p : "", (int)clean.n);
    buffer_release(&clean);
    return o;
}

json_object *json_append_object(json_object *list)
{
    json_object *o = json_object_new_object();
    if (o && json_object_array_add(list, o) == 0)
        return o;
    json_object_put(o);
    return NULL;
}

/* Takes the value, but for NULL, which is JSON's null here. */
static int put_member(json_object *to, struct bytes key, json_object *value)
{
    struct buffer name = BUFFER_INIT(0);
    key.n = min_of(key.n, (size_t)JSON_KEY_MAX);
    int r = buffer_add_utf8(&name, key);
    if (r == 0)
        r = buffer_add(&name, "", 1);
    if (r == 0 && json_object_object_add(to, (const char *)name.p, value) != 0)
        r = -ENOMEM;
    if (r < 0)
        json_object_put(value);
    buffer_release(&name);
    return r;
}

json_object *json_members(const struct bytes *keys, const struct bytes *values, uint32_t n)
{
    json_object *o = json_object_new_object();
    int r = o ? 0 : -ENOMEM;
    for (uint32_t i = 0; i < n && r == 0; i++) {
        json_object *value = values[i].p ? json_text(values[i]) : NULL;
        r = values[i].p && !value ? -ENOMEM : put_member(o, keys[i], value);
    }
    if (r == 0)
        return o;
    json_object_put(o);
    return NULL;
}

int json_write(json_object *top, struct buffer *out)
{
    const char *text = json_object_to_json_string_ext(top, JSON_C_TO_STRING_PLAIN);
    return text ? buffer_add_str(out, text) : -ENOMEM;
}
