/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/procs/identity.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"
#include "proto/wire/reader.h"

/* What only the one who looks from outside can say. */
static bool is_ours(struct bytes key)
{
    static const char *const prefixes[] = {"process.", "host.", "os.", "container.id", "k8s.pod.uid"};
    for (size_t i = 0; i < ARRAY_LEN(prefixes); i++) {
        size_t n = strlen(prefixes[i]);
        bool is_runtime = key.n > 16 && memcmp(key.p, "process.runtime.", 16) == 0;
        if (key.n >= n && memcmp(key.p, prefixes[i], n) == 0 && !is_runtime)
            return true;
    }
    return false;
}

static bool has(const struct identity *id, struct bytes key)
{
    for (uint32_t i = 0; i < id->n; i++)
        if (id->attr[i].key.n == key.n && memcmp(id->attr[i].key.p, key.p, key.n) == 0)
            return true;
    return false;
}

static void add(struct identity *id, struct bytes key, struct attr_value value)
{
    if (id->n == IDENTITY_MAX || key.n == 0 || key.n > IDENTITY_TEXT_MAX || has(id, key))
        return;
    if (value.kind == ATTR_STRING) {
        if (value.text.n > IDENTITY_TEXT_MAX)
            return;
        value.text = value.text.n ? arena_copy(&id->text, value.text) : BYTES_LIT("");
    }
    key = arena_copy(&id->text, key);
    if (key.p && (value.kind != ATTR_STRING || value.text.p))
        id->attr[id->n++] = (struct attr){.key = key, .value = value};
}

void identity_add(struct identity *id, struct bytes key, struct attr_value value)
{
    if (!is_ours(key))
        add(id, key, value);
}

void identity_know(struct identity *id, struct bytes key, struct bytes text)
{
    add(id, key, (struct attr_value){.kind = ATTR_STRING, .text = text});
}

/* Decodes into `to`, of IDENTITY_TEXT_MAX bytes. False: a broken escape, or too long. */
static bool percent_decode(struct bytes s, uint8_t *to, struct bytes *ret)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++) {
        if (n == IDENTITY_TEXT_MAX)
            return false;
        to[n] = s.p[i];
        if (s.p[i] == '%') {
            int high = i + 2 < s.n ? bytes_hex_value(s.p[i + 1]) : -1,
                low = high < 0 ? -1 : bytes_hex_value(s.p[i + 2]);
            if (low < 0)
                return false;
            to[n] = (uint8_t)(high << 4 | low);
            i += 2;
        }
        n++;
    }
    *ret = bytes_of(to, n);
    return true;
}

/* Takes the pair before the next comma. False: it is none. */
static bool pair(struct bytes *text, struct bytes *key, struct bytes *value, uint8_t *scratch)
{
    const uint8_t *comma = memchr(text->p, ',', text->n);
    struct bytes one = bytes_of(text->p, comma ? (size_t)(comma - text->p) : text->n);
    size_t used = one.n + (comma != NULL);
    *text = bytes_of(text->p + used, text->n - used);
    const uint8_t *equals = memchr(one.p, '=', one.n);
    if (!equals)
        return false;
    *key = bytes_trim(bytes_of(one.p, (size_t)(equals - one.p)));
    struct bytes raw = bytes_trim(bytes_of(equals + 1, one.n - (size_t)(equals - one.p) - 1));
    return key->n > 0 && percent_decode(raw, scratch, value);
}

void identity_variable(struct identity *id, struct bytes text)
{
    uint8_t scratch[IDENTITY_TEXT_MAX];
    struct bytes key, value;
    for (struct bytes rest = text; rest.n > 0;)
        if (!pair(&rest, &key, &value, scratch))
            return;
    for (struct bytes rest = text; rest.n > 0 && pair(&rest, &key, &value, scratch);)
        identity_add(id, key, (struct attr_value){.kind = ATTR_STRING, .text = value});
}

/* common.proto: AnyValue { string_value = 1; bool_value = 2; int_value = 3; … }. Others are left out. */
static struct attr_value any_value(struct bytes message)
{
    struct attr_value value = {.kind = ATTR_EMPTY};
    struct wire_reader r = wire_reader(message);
    for (struct wire_field f; wire_next(&r, &f) == 0;) {
        if (f.number == 1 && f.type == WIRE_LEN)
            value = (struct attr_value){.kind = ATTR_STRING, .text = f.bytes};
        else if (f.number == 2 && f.type == WIRE_VARINT)
            value = (struct attr_value){.kind = ATTR_BOOL, .boolean = f.value != 0};
        else if (f.number == 3 && f.type == WIRE_VARINT)
            value = (struct attr_value){.kind = ATTR_INT, .integer = (int64_t)f.value};
    }
    return value;
}

/* KeyValue { key = 1; value = 2; } */
static void key_value(struct identity *id, struct bytes message)
{
    struct bytes key = {0};
    struct attr_value value = {.kind = ATTR_EMPTY};
    struct wire_reader r = wire_reader(message);
    for (struct wire_field f; wire_next(&r, &f) == 0;) {
        if (f.number == 1 && f.type == WIRE_LEN)
            key = f.bytes;
        else if (f.number == 2 && f.type == WIRE_LEN)
            value = any_value(f.bytes);
    }
    if (value.kind != ATTR_EMPTY)
        identity_add(id, key, value);
}

/* threadlocal.attribute_key_map: ArrayValue { repeated AnyValue values = 1; } */
static void key_map(struct identity *id, struct bytes array)
{
    struct wire_reader r = wire_reader(array);
    id->n_keys = 0;
    id->key = arena_calloc(&id->text, IDENTITY_KEYS_MAX, sizeof *id->key);
    for (struct wire_field f; id->key && id->n_keys < IDENTITY_KEYS_MAX && wire_next(&r, &f) == 0;) {
        if (f.number != 1 || f.type != WIRE_LEN)
            continue;
        struct attr_value name = any_value(f.bytes);
        bool is_name = name.kind == ATTR_STRING && name.text.n > 0 && name.text.n <= IDENTITY_TEXT_MAX &&
                       bytes_is_utf8(name.text) && !is_ours(name.text);
        struct bytes copy = is_name ? arena_copy(&id->text, name.text) : BYTES_LIT("");
        id->key[id->n_keys++] = copy.p ? copy : BYTES_LIT("");
    }
}

/* An entry of ProcessContext.attributes: what readers need, nothing of the resource. */
static void reference(struct identity *id, struct bytes message)
{
    struct bytes key = {0}, value = {0};
    struct wire_reader r = wire_reader(message);
    for (struct wire_field f; wire_next(&r, &f) == 0;) {
        if (f.number == 1 && f.type == WIRE_LEN)
            key = f.bytes;
        else if (f.number == 2 && f.type == WIRE_LEN)
            value = f.bytes;
    }
    if (bytes_is(key, "threadlocal.schema_version")) {
        struct attr_value schema = any_value(value);
        if (schema.kind == ATTR_STRING && schema.text.n <= IDENTITY_TEXT_MAX)
            id->schema = arena_copy(&id->text, schema.text);
    } else if (bytes_is(key, "threadlocal.attribute_key_map")) {
        /* AnyValue { array_value = 5 } */
        struct wire_reader any = wire_reader(value);
        for (struct wire_field f; wire_next(&any, &f) == 0;)
            if (f.number == 5 && f.type == WIRE_LEN)
                key_map(id, f.bytes);
    }
}

void identity_context(struct identity *id, struct bytes payload)
{
    /* ProcessContext { Resource resource = 1; repeated KeyValue attributes = 2; },
     * Resource { repeated KeyValue attributes = 1; … } */
    struct wire_reader context = wire_reader(payload);
    for (struct wire_field f; wire_next(&context, &f) == 0;) {
        if (f.number == 2 && f.type == WIRE_LEN)
            reference(id, f.bytes);
        if (f.number != 1 || f.type != WIRE_LEN)
            continue;
        struct wire_reader resource = wire_reader(f.bytes);
        for (struct wire_field g; wire_next(&resource, &g) == 0;)
            if (g.number == 1 && g.type == WIRE_LEN)
                key_value(id, g.bytes);
    }
}

#define UID_LEN 36u

/* 8-4-4-4-12 hex digits; '_' or '-' between. */
static bool is_uid(const uint8_t *p, char ret[UID_LEN])
{
    for (uint32_t i = 0; i < UID_LEN; i++) {
        bool is_dash = i == 8 || i == 13 || i == 18 || i == 23;
        if (is_dash ? p[i] != '-' && p[i] != '_' : bytes_hex_value(p[i]) < 0)
            return false;
        ret[i] = is_dash ? '-' : (char)p[i];
    }
    return true;
}

void identity_pod(struct identity *id, struct bytes cgroup)
{
    char uid[UID_LEN];
    for (size_t i = 0; i + 4 + UID_LEN <= cgroup.n; i++) {
        if ((cgroup.p[i] == '/' || cgroup.p[i] == '-') && memcmp(cgroup.p + i + 1, "pod", 3) == 0 &&
            is_uid(cgroup.p + i + 4, uid)) {
            struct attr_value value = {.kind = ATTR_STRING, .text = bytes_of(uid, sizeof uid)};
            add(id, BYTES_LIT("k8s.pod.uid"), value);
            return;
        }
    }
}

struct bytes identity_text(const struct identity *id, const char *key)
{
    for (uint32_t i = 0; i < id->n; i++)
        if (bytes_is(id->attr[i].key, key) && id->attr[i].value.kind == ATTR_STRING)
            return id->attr[i].value.text;
    return BYTES_LIT("");
}

void identity_release(struct identity *id)
{
    id->n = id->n_keys = 0;
    id->key = NULL;
    id->schema = bytes_of(NULL, 0);
    arena_release(&id->text);
}

struct identity *identity_hold(struct identity *id)
{
    if (id)
        id->held++;
    return id;
}

void identity_free(struct identity *id)
{
    if (!id || id->held-- > 0)
        return;
    identity_release(id);
    free(id);
}

bool identity_header(struct bytes bytes, struct identity_header *ret)
{
    struct {
        char signature[8];
        uint32_t version, size;
        uint64_t published, payload;
    } h;
    _Static_assert(sizeof h == IDENTITY_HEADER_BYTES, "OTEP 4719");
    if (bytes.n < sizeof h)
        return false;
    memcpy(&h, bytes.p, sizeof h);
    if (memcmp(h.signature, "OTEL_CTX", 8) != 0 || h.version != 2 || h.published == 0 ||
        h.size > IDENTITY_BYTES_MAX)
        return false;
    *ret = (struct identity_header){.published = h.published, .payload = h.payload, .size = h.size};
    return true;
}
