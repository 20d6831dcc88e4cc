/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/serve/pprof/origin.h"

#include "proto/base/macros.h"
#include "proto/base/room.h"
#include "proto/http/query.h"

void origin_init(struct origin *o, const struct from_pprof_links *links, struct budget *budget)
{
    o->from = from_pprof_anybody;
    o->from.links = links;
    o->from.resource = o->attrs;
    o->budget = budget;
    o->text = (struct buffer)BUFFER_INIT(0);
}

void origin_release(struct origin *o)
{
    room_release(&o->text, o->budget);
}

/* Of a name or a value in a message. */
#define SHOWN_MAX ((size_t)64)

enum refusal origin_add(struct origin *o, struct bytes name, struct bytes value, struct error *why)
{
    const struct bytes shown = bytes_of(name.p, min_of(name.n, SHOWN_MAX));
    const char *wrong = name.n == 0                              ? "an attribute has no name"
                        : !bytes_is_utf8(name)                   ? "the name of an attribute is not UTF-8"
                        : !bytes_is_utf8(value)                  ? "the value is not UTF-8"
                        : o->from.n_resource == ORIGIN_ATTRS_MAX ? "one attribute too many"
                                                                 : NULL;
    for (uint32_t i = 0; i < o->from.n_resource && !wrong; i++)
        if (bytes_eq(o->attrs[i].key, name))
            wrong = "an attribute is there twice";
    if (wrong) {
        error_set(why, 0, "%.*s: %s", bytes_is_utf8(shown) ? (int)shown.n : 0, (const char *)shown.p, wrong);
        return REFUSAL_MALFORMED;
    }
    o->attrs[o->from.n_resource++] = (struct attr){name, {.kind = ATTR_STRING, .text = value}};
    return REFUSAL_NONE;
}

enum refusal origin_reserve(struct origin *o, size_t n)
{
    return room_make(&o->text, n + 1, o->budget) == 0 ? REFUSAL_NONE : REFUSAL_BUSY;
}

enum refusal origin_decode(struct origin *o, struct bytes encoded, struct bytes *ret, struct error *why)
{
    if (query_decode_form(encoded, o->text.p + o->text.n, o->text.cap - o->text.n, ret) < 0) {
        error_set(why, 0, "the query string is not percent-encoded");
        return REFUSAL_MALFORMED;
    }
    o->text.n += ret->n;
    return REFUSAL_NONE;
}

enum refusal origin_add_query(struct origin *o, struct bytes query, const char *skip, struct error *why)
{
    struct bytes name, value;
    enum refusal refusal = origin_reserve(o, query.n);
    while (refusal == REFUSAL_NONE && query_next(&query, &name, &value)) {
        if (skip && query_is(name, skip))
            continue;
        refusal = origin_decode(o, name, &name, why);
        if (refusal == REFUSAL_NONE)
            refusal = origin_decode(o, value, &value, why);
        if (refusal == REFUSAL_NONE)
            refusal = origin_add(o, name, value, why);
    }
    return refusal;
}
