/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/classify/attr_text.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/base/json.h"
#include "proto/wire/reader.h"

/* A list or map being written: what is left to read of it. */
struct level {
    struct wire_reader reader;
    bool map;
};

struct writer {
    const struct profiles *view;
    struct json json;
    struct level level[ATTR_TEXT_DEPTH];
    uint32_t depth;
};

/* The shortest of %g: 100000 is 1e+05, in a list as by itself. */
static size_t double_text(char text[40], double v)
{
    int n = 0;
    if (!isfinite(v))
        n = snprintf(text, 40, "%s", isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity");
    else
        for (int digits = 1; digits <= DBL_DECIMAL_DIG; digits++) {
            n = snprintf(text, 40, "%.*g", digits, v);
            if (strtod(text, NULL) == v)
                break;
        }
    return (size_t)n;
}

static struct bytes table_string(const struct writer *w, uint64_t index)
{
    return index < w->view->string.n ? profiles_string(w->view, (uint32_t)index) : (struct bytes){0};
}

static void open_level(struct writer *w, struct bytes message, bool map)
{
    if (w->depth == ATTR_TEXT_DEPTH) {
        json_null(&w->json);
        return;
    }
    json_open(&w->json, map ? '{' : '[');
    w->level[w->depth++] = (struct level){wire_reader(message), map};
}

static void put_double(struct json *j, double v)
{
    char text[40];
    struct bytes is = bytes_of(text, double_text(text, v));
    if (isfinite(v))
        json_raw(j, is);
    else
        json_string(j, is); /* as protobuf's JSON mapping has it */
}

static void put_bytes(struct json *j, struct bytes b)
{
    json_raw(j, BYTES_LIT("\""));
    if (j->r == 0)
        j->r = buffer_add_hex(j->out, b);
    if (j->r == 0)
        j->r = buffer_add_str(j->out, "\"");
}

/* AnyValue (opentelemetry/proto/common/v1/common.proto): the last field set wins, as in every oneof. */
static void put_any(struct writer *w, struct bytes message)
{
    struct wire_reader reader = wire_reader(message);
    struct wire_field f, last = {.number = 0};
    while (wire_next(&reader, &f) == 0)
        if (f.number <= 8)
            last = f;
    struct json *j = &w->json;
    double real;
    switch (last.number) {
    case 1: json_string(j, last.bytes); break;
    case 2: json_bool(j, last.value != 0); break;
    case 3: json_i64(j, (int64_t)last.value); break;
    case 4:
        memcpy(&real, &last.value, sizeof real);
        put_double(j, real);
        break;
    case 5: open_level(w, last.bytes, false); break;
    case 6: open_level(w, last.bytes, true); break;
    case 7: put_bytes(j, last.bytes); break;
    case 8: json_string(j, table_string(w, last.value)); break; /* string_value_strindex */
    default: json_null(j); break;
    }
}

/* KeyValue: key = 1, value = 2, key_strindex = 3. */
static void put_pair(struct writer *w, struct bytes message)
{
    struct wire_reader reader = wire_reader(message);
    struct wire_field f;
    struct bytes key = {0}, value = {0};
    while (wire_next(&reader, &f) == 0) {
        if (f.number == 1)
            key = f.bytes;
        else if (f.number == 2)
            value = f.bytes;
        else if (f.number == 3 && f.value != 0)
            key = table_string(w, f.value);
    }
    json_string_key(&w->json, key);
    put_any(w, value);
}

static void put_levels(struct writer *w)
{
    while (w->depth > 0 && w->json.r == 0) {
        struct level *l = &w->level[w->depth - 1];
        struct wire_field f;
        if (wire_next(&l->reader, &f) != 0) {
            json_close(&w->json, l->map ? '}' : ']');
            w->depth--;
            continue;
        }
        if (f.number != 1 || f.type != WIRE_LEN)
            continue;
        if (l->map)
            put_pair(w, f.bytes);
        else
            put_any(w, f.bytes);
    }
}

int attr_text(const struct profiles *view, const struct attr_value *value, struct buffer *out)
{
    char text[40];
    switch (value->kind) {
    case ATTR_EMPTY: return 0;
    case ATTR_STRING: return buffer_add_bytes(out, value->text);
    case ATTR_BOOL: return buffer_add_str(out, value->boolean ? "true" : "false");
    case ATTR_INT: return buffer_printf(out, "%lld", (long long)value->integer);
    case ATTR_DOUBLE: return buffer_add(out, text, double_text(text, value->real));
    case ATTR_BYTES: return buffer_add_hex(out, value->text);
    case ATTR_ARRAY:
    case ATTR_KVLIST: break;
    }
    struct writer w = {.view = view, .json = JSON_INIT(out)};
    open_level(&w, value->text, value->kind == ATTR_KVLIST);
    put_levels(&w);
    return w.json.r;
}
