/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A function a message: each reads the keys of its object, and passes over those that it does not know.
 */
#include "gateway/serve/pyroscope/push.h"

#include <errno.h>

#include "proto/base/macros.h"
#include "proto/coding/room.h"
#include "proto/otlp/json/reader.h"
#include "proto/otlp/json/value.h"
#include "proto/wire/writer.h"

/* Beside PUSH_MALFORMED. */
enum { PUSH_END = 2 };

struct reading {
    const struct push_form *form;
    struct json_reader json;
    struct wire_writer w;
    struct buffer *out;
    struct error *e;
};

static int wrong(struct reading *r, const char *what)
{
    return error_set(r->e, PUSH_MALFORMED, "%s at byte %zu", what, (size_t)(r->json.p - r->json.start));
}

static int next(struct reading *r, struct json_token *ret)
{
    return json_next(&r->json, ret) == 0 ? 0 : wrong(r, r->json.wrong);
}

static int skip(struct reading *r)
{
    struct json_token t;
    int result = next(r, &t);
    return result == 0 && json_skip(&r->json, t.kind) != 0 ? wrong(r, r->json.wrong) : result;
}

/* The next key of an object. 0, PUSH_END, PUSH_MALFORMED. */
static int next_key(struct reading *r, struct bytes *ret)
{
    struct json_token t;
    int result = next(r, &t);
    *ret = t.text;
    return result != 0 ? result : t.kind == JSON_KEY ? 0 : PUSH_END;
}

/* The next object of a list that has begun. 0, PUSH_END, PUSH_MALFORMED. */
static int next_object(struct reading *r)
{
    struct json_token t;
    int result = next(r, &t);
    if (result != 0 || t.kind == JSON_OBJECT)
        return result;
    return t.kind == JSON_LIST_END ? PUSH_END : wrong(r, "an object belongs here");
}

/* The beginning of a list; null is an empty one. Likewise. */
static int begin_list(struct reading *r)
{
    struct json_token t;
    int result = next(r, &t);
    if (result != 0 || t.kind == JSON_LIST)
        return result;
    return t.kind == JSON_NULL ? PUSH_END : wrong(r, "a list belongs here");
}

/* A string as a field, or bytes in base64; neither is longer than in JSON. */
static int put_string(struct reading *r, uint32_t field, bool is_base64)
{
    struct json_token t;
    int result = next(r, &t);
    if (result != 0 || t.kind == JSON_NULL)
        return result;
    if (t.kind != JSON_STRING)
        return wrong(r, "a string belongs here");
    const size_t mark = wire_begin(&r->w, field);
    if (r->w.failed || buffer_reserve(r->out, t.text.n) < 0)
        return -ENOMEM;
    uint8_t *at = r->out->p + r->out->n;
    size_t n = t.text.n;
    if (t.escaped)
        n = json_unescape(t.text, at);
    else if (n > 0)
        memcpy(at, t.text.p, n);
    if (is_base64 && !json_base64(at, &n))
        return wrong(r, "no base64");
    r->out->n += n;
    wire_end(&r->w, mark);
    return 0;
}

static int read_label(struct reading *r)
{
    struct bytes key;
    int result;
    while ((result = next_key(r, &key)) == 0) {
        result = bytes_is(key, "name")    ? put_string(r, LABEL_NAME, false)
                 : bytes_is(key, "value") ? put_string(r, LABEL_VALUE, false)
                                          : skip(r);
        if (result != 0)
            break;
    }
    return result == PUSH_END ? 0 : result;
}

static int read_sample(struct reading *r)
{
    struct bytes key;
    int result;
    while ((result = next_key(r, &key)) == 0) {
        const bool is_profile = bytes_is(key, "rawProfile") || bytes_is(key, "raw_profile");
        result = is_profile ? put_string(r, SAMPLE_RAW_PROFILE, true) : skip(r);
        if (result != 0)
            break;
    }
    return result == PUSH_END ? 0 : result;
}

/* A list of objects, each a message in `field`. */
static int read_list(struct reading *r, uint32_t field, int (*read)(struct reading *r))
{
    int result = begin_list(r);
    while (result == 0 && (result = next_object(r)) == 0) {
        const size_t mark = wire_begin(&r->w, field);
        result = read(r);
        if (result == 0)
            wire_end(&r->w, mark);
    }
    return result == PUSH_END ? 0 : result;
}

/* {"labels": [...]}, a message; null is none. */
static int read_label_set(struct reading *r)
{
    struct json_token t;
    struct bytes key;
    int result = next(r, &t);
    if (result != 0 || t.kind == JSON_NULL)
        return result;
    if (t.kind != JSON_OBJECT)
        return wrong(r, "an object belongs here");
    const size_t mark = wire_begin(&r->w, SERIES_LABELS);
    while (result == 0 && (result = next_key(r, &key)) == 0)
        result = bytes_is(key, "labels") ? read_list(r, SERIES_LABELS, read_label) : skip(r);
    if (result == PUSH_END)
        wire_end(&r->w, mark);
    return result == PUSH_END ? 0 : result;
}

static int read_labels(struct reading *r)
{
    return r->form->has_set ? read_label_set(r) : read_list(r, SERIES_LABELS, read_label);
}

static int read_series(struct reading *r)
{
    struct bytes key;
    int result;
    while ((result = next_key(r, &key)) == 0) {
        result = bytes_is(key, "labels")    ? read_labels(r)
                 : bytes_is(key, "samples") ? read_list(r, SERIES_SAMPLES, read_sample)
                                            : skip(r);
        if (result != 0)
            break;
    }
    return result == PUSH_END ? 0 : result;
}

static int read_request(struct reading *r)
{
    struct json_token t;
    struct bytes key;
    int result = next(r, &t);
    if (result == 0 && t.kind != JSON_OBJECT)
        return wrong(r, "an object belongs here");
    while (result == 0 && (result = next_key(r, &key)) == 0)
        result = bytes_is(key, "series") ? read_list(r, r->form->series, read_series) : skip(r);
    result = result == PUSH_END ? next(r, &t) : result;
    return result == 0 && t.kind != JSON_END ? wrong(r, "there is something behind the message") : result;
}

/* No message is longer than twice its JSON and what the writer wants to have free: "{}," is two bytes. */
#define SPARE 64u

int push_from_json(const struct push_form *form, struct bytes json, struct budget *budget, struct buffer *out,
                   struct error *e)
{
    if (json.n > SIZE_MAX / 4 || room_make(out, 2 * json.n + SPARE, budget) != 0)
        return -ENOMEM;
    out->max = out->cap;
    struct reading r = {.form = form, .json = json_reader(json), .w = wire_writer(out), .out = out, .e = e};
    int result = read_request(&r);
    return result == 0 && r.w.failed ? -ENOMEM : result;
}
