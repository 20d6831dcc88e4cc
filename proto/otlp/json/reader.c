/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/reader.h"

#include "proto/otlp/json/value.h"
#include "proto/wire/wire.h"

struct json_reader json_reader(struct bytes text)
{
    static const uint8_t nothing[1];
    const uint8_t *p = text.p ? text.p : nothing;
    return (struct json_reader){.start = p, .p = p, .end = p + text.n};
}

static int malformed(struct json_reader *r, const uint8_t *at, const char *wrong)
{
    r->p = at;
    r->wrong = at < r->end ? wrong : "the text ends too early";
    return JSON_MALFORMED;
}

static void skip_blanks(struct json_reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
}

/* ---- strings ---------------------------------------------------------------------------------- */

#define EACH(byte) (0x0101010101010101u * (byte))

/* Bit 7 of each byte that a string cannot simply go on with: a quote, a backslash, a control character, not
 * ASCII. Bits above the lowest one set may be wrong (a borrow runs upwards). */
static inline uint64_t special_bytes(uint64_t w)
{
    uint64_t quote = w ^ EACH('"'), backslash = w ^ EACH('\\');
    uint64_t found = (w - EACH(0x20)) | (quote - EACH(1)) | (backslash - EACH(1));
    return (found & ~w & EACH(0x80)) | (w & EACH(0x80));
}

/* To the first byte that is special, or the end. */
static const uint8_t *plain_end(const uint8_t *p, const uint8_t *end)
{
    for (; end - p >= 8; p += 8) {
        uint64_t special = special_bytes(wire_load64(p));
        if (special)
            return p + __builtin_ctzll(special) / 8;
    }
    while (p < end && *p >= 0x20 && *p < 0x80 && *p != '"' && *p != '\\')
        p++;
    return p;
}

/* From the quote on. RFC 8259 §7; invalid UTF-8 is refused (§8.1, and protobuf's `string` must be UTF-8). */
static int read_string(struct json_reader *r, struct json_token *ret)
{
    const uint8_t *from = r->p + 1, *p = from;
    bool ascii = true;
    ret->escaped = false;
    for (;;) {
        p = plain_end(p, r->end);
        if (p == r->end)
            return malformed(r, p, "");
        if (*p == '"')
            break;
        if (*p >= 0x80) {
            ascii = false;
            while (p < r->end && *p >= 0x80)
                p++;
            continue;
        }
        size_t n = *p == '\\' ? json_escape_length(p, r->end) : 0;
        if (n == 0)
            return malformed(r, p, *p == '\\' ? "malformed escape" : "a control character in a string");
        ret->escaped = true;
        p += n;
    }
    ret->text = bytes_of(from, (size_t)(p - from));
    if (!ascii && !bytes_is_utf8(ret->text))
        return malformed(r, r->p, "a string that is not UTF-8");
    r->p = p + 1;
    return 0;
}

/* ---- the grammar ------------------------------------------------------------------------------ */

static bool in_object(const struct json_reader *r)
{
    uint32_t i = r->depth - 1;
    return r->depth > 0 && (r->objects[i / 64] >> (i % 64) & 1);
}

static int open_container(struct json_reader *r, bool object, struct json_token *ret)
{
    if (r->depth == JSON_DEPTH_MAX)
        return malformed(r, r->p, "nested too deep");
    uint64_t bit = (uint64_t)1 << (r->depth % 64), *word = &r->objects[r->depth / 64];
    *word = object ? *word | bit : *word & ~bit;
    r->depth++;
    r->p++;
    r->expect = JSON_EXPECT_FIRST;
    ret->kind = object ? JSON_OBJECT : JSON_LIST;
    return 0;
}

static int close_container(struct json_reader *r, struct json_token *ret)
{
    ret->kind = in_object(r) ? JSON_OBJECT_END : JSON_LIST_END;
    r->depth--;
    r->p++;
    r->expect = JSON_EXPECT_NEXT;
    return 0;
}

static int read_word(struct json_reader *r, struct bytes word, enum json_kind kind, struct json_token *ret)
{
    if ((size_t)(r->end - r->p) < word.n || memcmp(r->p, word.p, word.n) != 0)
        return malformed(r, r->p, "not a JSON value");
    r->p += word.n;
    ret->kind = kind;
    return 0;
}

static int read_value(struct json_reader *r, struct json_token *ret)
{
    const uint8_t *end;
    r->expect = JSON_EXPECT_NEXT;
    switch (*r->p) {
    case '{': return open_container(r, true, ret);
    case '[': return open_container(r, false, ret);
    case '"': ret->kind = JSON_STRING; return read_string(r, ret);
    case 't': return read_word(r, BYTES_LIT("true"), JSON_TRUE, ret);
    case 'f': return read_word(r, BYTES_LIT("false"), JSON_FALSE, ret);
    case 'n': return read_word(r, BYTES_LIT("null"), JSON_NULL, ret);
    default: break;
    }
    end = json_number_end(r->p, r->end);
    if (!end)
        return malformed(r, r->p, "not a JSON value");
    ret->kind = JSON_NUMBER;
    ret->text = bytes_of(r->p, (size_t)(end - r->p));
    r->p = end;
    return 0;
}

static int read_key(struct json_reader *r, struct json_token *ret)
{
    if (*r->p != '"')
        return malformed(r, r->p, "a key in quotes is missing");
    ret->kind = JSON_KEY;
    int pr = read_string(r, ret);
    if (pr != 0)
        return pr;
    skip_blanks(r);
    if (r->p == r->end || *r->p != ':')
        return malformed(r, r->p, "a colon is missing");
    r->p++;
    r->expect = JSON_EXPECT_VALUE;
    return 0;
}

int json_next(struct json_reader *r, struct json_token *ret)
{
    skip_blanks(r);
    ret->at = (size_t)(r->p - r->start);
    if (r->expect == JSON_EXPECT_NEXT && r->depth == 0) {
        ret->kind = JSON_END;
        return r->p == r->end ? 0 : malformed(r, r->p, "something follows the value");
    }
    if (r->p == r->end)
        return malformed(r, r->p, "");
    if (r->expect == JSON_EXPECT_VALUE)
        return read_value(r, ret);
    bool object = in_object(r);
    if (*r->p == (object ? '}' : ']'))
        return close_container(r, ret);
    if (r->expect == JSON_EXPECT_NEXT) {
        if (*r->p != ',')
            return malformed(r, r->p, object ? "neither a comma nor }" : "neither a comma nor ]");
        r->p++;
        skip_blanks(r);
        ret->at = (size_t)(r->p - r->start);
        if (r->p == r->end)
            return malformed(r, r->p, "");
    }
    return object ? read_key(r, ret) : read_value(r, ret);
}

int json_skip(struct json_reader *r, enum json_kind value)
{
    struct json_token token;
    uint32_t depth = r->depth;
    if (value != JSON_OBJECT && value != JSON_LIST)
        return 0;
    while (r->depth >= depth) {
        int pr = json_next(r, &token);
        if (pr != 0)
            return pr;
    }
    return 0;
}

size_t json_text_length(struct bytes texts)
{
    struct json_reader r = json_reader(texts);
    struct json_token token;
    if (json_next(&r, &token) != 0 || json_skip(&r, token.kind) != 0)
        return 0;
    return (size_t)(r.p - r.start);
}
