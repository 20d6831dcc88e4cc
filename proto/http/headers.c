/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/headers.h"

#include <errno.h>

#include "proto/base/quantity.h"

static struct bytes add_text(struct buffer *text, struct bytes b)
{
    struct bytes at = {(const uint8_t *)(uintptr_t)text->n, b.n};
    if (b.n > 0)
        memcpy(text->p + text->n, b.p, b.n);
    text->n += b.n;
    return at;
}

int header_list_add(struct header_list *l, struct bytes name, struct bytes value)
{
    if (vec_reserve(&l->items, l->items.n + 1) < 0)
        return -ENOMEM;
    if (l->text.cap - l->text.n < name.n + value.n) {
        int r = buffer_reserve(&l->text, name.n + value.n);
        if (r < 0)
            return r;
    }
    struct http_header *h = &l->items.p[l->items.n++];
    h->name = add_text(&l->text, name);
    h->value = add_text(&l->text, value);
    l->size += name.n + value.n + HEADER_OVERHEAD;
    return 0;
}

void header_list_seal(struct header_list *l)
{
    for (uint32_t i = 0; i < l->items.n; i++) {
        l->items.p[i].name.p = l->text.p + (uintptr_t)l->items.p[i].name.p;
        l->items.p[i].value.p = l->text.p + (uintptr_t)l->items.p[i].value.p;
    }
}

void header_list_clear(struct header_list *l, size_t keep_max)
{
    if (l->text.cap > keep_max) {
        header_list_release(l);
        return;
    }
    l->text.n = 0;
    vec_clear(&l->items);
    l->size = 0;
}

void header_list_release(struct header_list *l)
{
    buffer_release(&l->text);
    vec_release(&l->items);
    *l = (struct header_list){0};
}

struct bytes http_header_find_bytes(const struct http_header *headers, uint32_t n, struct bytes name)
{
    for (uint32_t i = 0; i < n; i++)
        if (headers[i].name.n == name.n && memcmp(headers[i].name.p, name.p, name.n) == 0)
            /* An empty value is not an absent one. */
            return bytes_of(headers[i].value.p ? headers[i].value.p : (const uint8_t *)"",
                            headers[i].value.n);
    return bytes_of(NULL, 0);
}

void header_lower(uint8_t *p, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (p[i] >= 'A' && p[i] <= 'Z')
            p[i] |= 0x20;
}

bool header_name_is_valid(struct bytes name)
{
    for (size_t i = 0; i < name.n; i++) {
        uint8_t c = name.p[i];
        bool letter = (c | 0x20) >= 'a' && (c | 0x20) <= 'z', digit = c >= '0' && c <= '9';
        if (!letter && !digit && (c == 0 || !memchr("!#$%&'*+-.^_`|~", c, 15)))
            return false;
    }
    return name.n > 0;
}

bool header_value_is_valid(struct bytes value)
{
    for (size_t i = 0; i < value.n; i++)
        if ((value.p[i] < 0x20 && value.p[i] != '\t') || value.p[i] == 0x7f)
            return false;
    return true;
}

bool header_length(struct bytes value, int64_t *ret)
{
    uint64_t n;
    if (quantity_u64(value, &n) < 0 || n > INT64_MAX)
        return false;
    *ret = (int64_t)n;
    return true;
}

void target_split(struct bytes target, struct bytes *ret_path, struct bytes *ret_query)
{
    const uint8_t *mark = target.n > 0 ? memchr(target.p, '?', target.n) : NULL;
    size_t n = mark ? (size_t)(mark - target.p) : target.n;
    *ret_path = bytes_of(target.p, n);
    *ret_query = mark ? bytes_of(mark + 1, target.n - n - 1) : bytes_of(NULL, 0);
}
