/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/bytes.h"

#include <stdlib.h>
#include <string.h>

#include "proto/base/macros.h"

struct bytes bytes_after_last(struct bytes a, char sep)
{
    const uint8_t *at = a.n > 0 ? memrchr(a.p, sep, a.n) : NULL;
    if (!at)
        return a;
    return bytes_of(at + 1, (size_t)(a.p + a.n - (at + 1)));
}

struct bytes bytes_trim(struct bytes a)
{
    while (a.n > 0 && (a.p[0] == ' ' || a.p[0] == '\t')) {
        a.p++;
        a.n--;
    }
    while (a.n > 0 && (a.p[a.n - 1] == ' ' || a.p[a.n - 1] == '\t'))
        a.n--;
    return a;
}

int bytes_compare(struct bytes a, struct bytes b)
{
    size_t common = a.n < b.n ? a.n : b.n;
    int r = common > 0 ? memcmp(a.p, b.p, common) : 0;
    if (r != 0)
        return r < 0 ? -1 : 1;
    return order_of(a.n, b.n);
}

char *bytes_dup(struct bytes a)
{
    char *copy = malloc(a.n + 1);
    if (!copy)
        return NULL;
    if (a.n > 0)
        memcpy(copy, a.p, a.n);
    copy[a.n] = 0;
    return copy;
}

/* Length of the ASCII run at p, eight bytes at a time: nearly all strings are ASCII and end here. */
static size_t ascii_run(const uint8_t *p, size_t n)
{
    size_t i = 0;
    while (i + 8 <= n) {
        uint64_t word;
        memcpy(&word, p + i, 8);
        if (word & 0x8080808080808080u)
            break;
        i += 8;
    }
    while (i < n && p[i] < 0x80)
        i++;
    return i;
}

int bytes_hex_value(uint8_t digit)
{
    if (digit >= '0' && digit <= '9')
        return digit - '0';
    digit |= 0x20;
    return digit >= 'a' && digit <= 'f' ? digit - 'a' + 10 : -1;
}

void bytes_to_hex(struct bytes b, void *to)
{
    static const char digits[] = "0123456789abcdef";
    char *at = to;
    for (size_t i = 0; i < b.n; i++) {
        *at++ = digits[b.p[i] >> 4];
        *at++ = digits[b.p[i] & 15];
    }
}

static bool is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

struct bytes bytes_word(struct bytes *rest)
{
    size_t from = 0, to;
    while (from < rest->n && is_blank(rest->p[from]))
        from++;
    for (to = from; to < rest->n && !is_blank(rest->p[to]); to++)
        ;
    struct bytes word = bytes_of(rest->p ? rest->p + from : NULL, to - from);
    *rest = bytes_from(*rest, to);
    return word;
}

bool bytes_hex(struct bytes digits, uint64_t *ret)
{
    uint64_t value = 0;
    if (digits.n == 0 || digits.n > 16)
        return false;
    for (size_t i = 0; i < digits.n; i++) {
        int digit = bytes_hex_value(digits.p[i]);
        if (digit < 0)
            return false;
        value = value << 4 | (uint64_t)digit;
    }
    *ret = value;
    return true;
}

bool bytes_is_utf8(struct bytes a)
{
    if (a.n == 0)
        return true;
    const uint8_t *p = a.p, *end = a.p + a.n;

    for (;;) {
        p += ascii_run(p, (size_t)(end - p));
        if (p == end)
            return true;
        size_t more;
        uint32_t min, code;
        if ((p[0] & 0xe0) == 0xc0) {
            more = 1, min = 0x80, code = p[0] & 0x1f;
        } else if ((p[0] & 0xf0) == 0xe0) {
            more = 2, min = 0x800, code = p[0] & 0x0f;
        } else if ((p[0] & 0xf8) == 0xf0) {
            more = 3, min = 0x10000, code = p[0] & 0x07;
        } else {
            return false;
        }
        if ((size_t)(end - p) <= more)
            return false;
        for (size_t i = 1; i <= more; i++) {
            if ((p[i] & 0xc0) != 0x80)
                return false;
            code = code << 6 | (p[i] & 0x3f);
        }
        if (code < min || code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
            return false;
        p += more + 1;
    }
}

size_t bytes_put_utf8(uint8_t *to, uint32_t c)
{
    static const uint8_t lead[] = {0, 0xc0, 0xe0, 0xf0};
    if ((c >= 0xd800 && c < 0xe000) || c > 0x10ffff)
        c = 0xfffd;
    size_t n = c < 0x80 ? 0 : c < 0x800 ? 1 : c < 0x10000 ? 2 : 3; /* bytes behind the first */
    to[0] = (uint8_t)(lead[n] | c >> (6 * n));
    for (size_t i = 1; i <= n; i++)
        to[i] = (uint8_t)(0x80 | (c >> (6 * (n - i)) & 0x3f));
    return n + 1;
}

size_t bytes_utf8_length(struct bytes a)
{
    if (a.n == 0)
        return 0;
    size_t n = a.p[0] < 0x80 ? 1 : a.p[0] < 0xe0 ? 2 : a.p[0] < 0xf0 ? 3 : 4;
    return n <= a.n && bytes_is_utf8(bytes_of(a.p, n)) ? n : 0;
}

static uint32_t code_point(const uint8_t *p, size_t n)
{
    static const uint8_t lead[] = {0, 0x7f, 0x1f, 0x0f, 0x07};
    uint32_t c = p[0] & lead[n];
    for (size_t i = 1; i < n; i++)
        c = c << 6 | (p[i] & 0x3fu);
    return c;
}

static bool is_harmful(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0x61c || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

size_t bytes_shown(struct bytes a, uint32_t *ret)
{
    size_t n = bytes_utf8_length(a);
    *ret = n > 0 ? code_point(a.p, n) : 0;
    return is_harmful(*ret) ? 0 : n;
}

void bytes_make_plain(char *text)
{
    struct bytes rest = bytes_str(text);
    char *to = text;
    for (size_t taken; rest.n > 0; rest = bytes_of(rest.p + taken, rest.n - taken)) {
        uint32_t c;
        size_t n = bytes_shown(rest, &c);
        taken = max_of(n ? n : bytes_utf8_length(rest), (size_t)1);
        if (n == 0)
            *to++ = '?';
        memmove(to, rest.p, n);
        to += n;
    }
    *to = 0;
}

struct bytes bytes_cut(struct bytes text, size_t max)
{
    size_t n = max;
    if (text.n <= max)
        return text;
    while (n > 0 && n + 3 > max && (text.p[n] & 0xc0) == 0x80) /* 10xxxxxx is not a first byte (RFC 3629) */
        n--;
    return bytes_of(text.p, (text.p[n] & 0xc0) == 0x80 ? max : n);
}
