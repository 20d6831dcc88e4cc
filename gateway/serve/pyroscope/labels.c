/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/pyroscope/labels.h"

#include "proto/http/query.h"

enum refusal label_add(struct origin *o, struct bytes name, struct bytes value, struct error *why)
{
    if (bytes_starts(name, "__"))
        return REFUSAL_NONE;
    if (bytes_is(name, "service_name"))
        name = BYTES_LIT("service.name");
    for (uint32_t i = 0; i < o->from.n_resource; i++)
        if (bytes_eq(o->attrs[i].key, name)) {
            o->attrs[i].value.text = value;
            return bytes_is_utf8(value) ? REFUSAL_NONE : origin_add(o, name, value, why);
        }
    return origin_add(o, name, value, why);
}

static bool has(const struct origin *o, const char *name)
{
    for (uint32_t i = 0; i < o->from.n_resource; i++)
        if (bytes_is(o->attrs[i].key, name))
            return true;
    return false;
}

enum refusal labels_of_name(struct origin *o, struct bytes name, struct bytes *ret_app, struct error *why)
{
    const struct bytes app = bytes_trim(query_cut(&name, '{'));
    struct bytes labels = query_cut(&name, '}');
    *ret_app = app;
    if (app.n == 0) {
        error_set(why, 0, "name: an application's name belongs here, app or app{label=value,...}");
        return REFUSAL_MALFORMED;
    }
    enum refusal refusal = REFUSAL_NONE;
    while (labels.n > 0 && refusal == REFUSAL_NONE) {
        struct bytes value = query_cut(&labels, ',');
        const struct bytes label = bytes_trim(query_cut(&value, '='));
        if (label.n > 0)
            refusal = label_add(o, label, bytes_trim(value), why);
    }
    if (refusal == REFUSAL_NONE && !has(o, "service.name"))
        return origin_add(o, BYTES_LIT("service.name"), app, why);
    if (refusal == REFUSAL_NONE && !has(o, "app_name"))
        return origin_add(o, BYTES_LIT("app_name"), app, why);
    return refusal;
}
