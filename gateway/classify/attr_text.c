/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/classify/attr_text.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "proto/wire/reader.h"

/* A list or map being written: what is left to read of it. */
struct level {
    struct wire_reader reader;
    bool map;
    bool some; /* an element was written: a comma goes before the next */
};

struct writer {
    const struct profiles *view;
    struct buffer *out;
    struct level level[ATTR_TEXT_DEPTH];
    uint32_t depth;
    int r;
};

static void put(struct writer *w, const char *text)
{
    if (w->r == 0)
        w->r = buffer_add_str(w->out, text);
}

static void put_double(struct writer *w, double v, bool json)
{
    char text[40];
    if (!isfinite(v)) { /* protobuf's JSON mapping writes these as strings */
        const char *word = isnan(v) ? "NaN" : v > 0 ? "Infinity" : "-Infinity";
        snprintf(text, sizeof text, json ? "\"%s\"" : "%s", word);
    } else {
        for (int digits = 1; digits <= 17; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, v);
            if (strtod(text, NULL) == v)
                break;
        }
    }
    put(w, text);
}

static void put_hex(struct writer *w, struct bytes b)
{
    static const char digits[] = "0123456789abcdef";
    for (size_t i = 0; i < b.n && w->r == 0; i++) {
        char pair[2] = {digits[b.p[i] >> 4], digits[b.p[i] & 15]};
        w->r = buffer_add(w->out, pair, 2);
    }
}

/* A JSON string (RFC 8259 §7): quotes, backslashes and control characters escaped, other bytes as they are.
 */
static void put_string(struct writer *w, struct bytes s)
{
    put(w, "\"");
    for (size_t i = 0; i < s.n && w->r == 0; i++) {
        char text[8];
        if (s.p[i] == '"' || s.p[i] == '\\')
            snprintf(text, sizeof text, "\\%c", s.p[i]);
        else if (s.p[i] < 0x20)
            snprintf(text, sizeof text, "\\u%04x", s.p[i]);
        else
            snprintf(text, sizeof text, "%c", s.p[i]);
        put(w, text);
    }
    put(w, "\"");
}

static struct bytes table_string(const struct writer *w, uint64_t index)
{
    return index < w->view->string.n ? profiles_string(w->view, (uint32_t)index) : (struct bytes){0};
}

static void open_level(struct writer *w, struct bytes message, bool map)
{
    if (w->depth == ATTR_TEXT_DEPTH) {
        put(w, "null");
        return;
    }
    put(w, map ? "{" : "[");
    w->level[w->depth++] = (struct level){wire_reader(message), map, false};
}

/* AnyValue (opentelemetry/proto/common/v1/common.proto): the last field set wins, as in every oneof. */
static void put_any(struct writer *w, struct bytes message)
{
    struct wire_reader reader = wire_reader(message);
    struct wire_field f, last = {.number = 0};
    while (wire_next(&reader, &f) == 0)
        if (f.number <= 8)
            last = f;
    char text[24];
    double real;
    switch (last.number) {
    case 1: put_string(w, last.bytes); break;
    case 2: put(w, last.value ? "true" : "false"); break;
    case 3:
        snprintf(text, sizeof text, "%lld", (long long)last.value);
        put(w, text);
        break;
    case 4:
        memcpy(&real, &last.value, sizeof real);
        put_double(w, real, true);
        break;
    case 5: open_level(w, last.bytes, false); break;
    case 6: open_level(w, last.bytes, true); break;
    case 7:
        put(w, "\"");
        put_hex(w, last.bytes);
        put(w, "\"");
        break;
    case 8: put_string(w, table_string(w, last.value)); break; /* string_value_strindex */
    default: put(w, "null"); break;
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
    put_string(w, key);
    put(w, ":");
    put_any(w, value);
}

static void put_levels(struct writer *w)
{
    while (w->depth > 0 && w->r == 0) {
        struct level *l = &w->level[w->depth - 1];
        struct wire_field f;
        if (wire_next(&l->reader, &f) != 0) {
            put(w, l->map ? "}" : "]");
            w->depth--;
            continue;
        }
        if (f.number != 1 || f.type != WIRE_LEN)
            continue;
        if (l->some)
            put(w, ",");
        l->some = true;
        if (l->map)
            put_pair(w, f.bytes);
        else
            put_any(w, f.bytes);
    }
}

int attr_text(const struct profiles *view, const struct attr_value *value, struct buffer *out)
{
    struct writer w = {.view = view, .out = out};
    switch (value->kind) {
    case ATTR_EMPTY: break;
    case ATTR_STRING: w.r = buffer_add_bytes(out, value->text); break;
    case ATTR_BOOL: put(&w, value->boolean ? "true" : "false"); break;
    case ATTR_INT: w.r = buffer_printf(out, "%lld", (long long)value->integer); break;
    case ATTR_DOUBLE: put_double(&w, value->real, false); break;
    case ATTR_BYTES: put_hex(&w, value->text); break;
    case ATTR_ARRAY:
    case ATTR_KVLIST:
        open_level(&w, value->text, value->kind == ATTR_KVLIST);
        put_levels(&w);
        break;
    }
    return w.r;
}
