/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/context/record.h"

#include <string.h>

#include "proto/base/macros.h"

static bool is_zero(const uint8_t *p, size_t n)
{
    uint8_t any = 0;
    for (size_t i = 0; i < n; i++)
        any |= p[i];
    return any == 0;
}

bool record_read(const uint8_t *p, size_t n, struct record *ret)
{
    struct record r = {0};
    uint16_t size;
    if (n < CONTEXT_HEAD_BYTES || (p[CONTEXT_VALID_AT] != 1 && p[CONTEXT_VALID_AT] != GO_CONTEXT))
        return false;
    r.has_labels = p[CONTEXT_VALID_AT] == GO_CONTEXT;
    memcpy(&size, p + CONTEXT_SIZE_AT, sizeof size);
    /* What is above the limit was not copied; an entry that is cut by it is not whole. */
    r.attributes = bytes_of(p + CONTEXT_HEAD_BYTES, min_of((size_t)size, n - CONTEXT_HEAD_BYTES));
    /* "If either of trace-id/span-id are set, both must be set": one alone is no link. */
    r.is_linked = !is_zero(p, 16) && !is_zero(p + 16, 8);
    if (r.is_linked) {
        memcpy(r.trace_id, p, 16);
        memcpy(r.span_id, p + 16, 8);
    }
    if (!r.is_linked && r.attributes.n < 2)
        return false;
    *ret = r;
    return true;
}

bool record_next(struct bytes *rest, uint8_t *key, struct bytes *value)
{
    if (rest->n < 2 || (size_t)rest->p[1] + 2 > rest->n)
        return false;
    *key = rest->p[0];
    *value = bytes_of(rest->p + 2, rest->p[1]);
    *rest = bytes_of(rest->p + 2 + value->n, rest->n - 2 - value->n);
    return true;
}

bool record_next_label(struct bytes *rest, struct bytes *key, struct bytes *value)
{
    if (rest->n < 2 || (size_t)rest->p[0] + rest->p[1] + 2 > rest->n)
        return false;
    *key = bytes_of(rest->p + 2, rest->p[0]);
    *value = bytes_of(key->p + key->n, rest->p[1]);
    *rest = bytes_of(value->p + value->n, rest->n - 2 - key->n - value->n);
    return true;
}

bool record_has_new_key(const struct record *record, uint32_t n_keys)
{
    uint8_t key;
    struct bytes rest = record->attributes, value;
    while (!record->has_labels && record_next(&rest, &key, &value))
        if (key >= n_keys)
            return true;
    return false;
}
