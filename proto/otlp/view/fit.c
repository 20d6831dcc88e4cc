/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether samples that were decoded as 1.10 can be that. A Sample with fields 1 and 2 alone, or 1, 2 and 5,
 * has the same wire types in 1.8, 1.9 and 1.10, but field 2 is the values in the former and the attributes in
 * the latter:
 *
 * - {1, 2}: 1.10 forbids a sample without values and timestamps, so it is none;
 * - {1, 2, 5}, and not as many of 2 as of 5: values and timestamps must match in number, so these are
 * attributes;
 * - as many: attributes if all of them are in the table and their keys differ, as those of one sample must.
 */
#include "proto/otlp/view/decode.h"

/* Beyond this many entries of field 2, asking whether all keys differ costs more than the answer is worth:
 * attributes of a sample are a handful. */
#define ATTRS_PLAUSIBLE 64u

static bool plausible_attrs(const struct profiles *v, uint32_t from, uint32_t to)
{
    if (to - from > ATTRS_PLAUSIBLE)
        return false;
    for (uint32_t i = from; i < to; i++) {
        uint32_t a = v->attr_index.attribute[i];
        if (a >= v->attribute.n)
            return false;
        for (uint32_t j = from; j < i; j++)
            if (v->attribute.key[v->attr_index.attribute[j]] == v->attribute.key[a])
                return false;
    }
    return true;
}

bool decode_fits_1_10(const struct decode *d)
{
    const struct profiles *v = d->p;
    bool fits = true;
    for (uint32_t i = 0; i < v->sample.n; i++) {
        uint32_t from = v->sample.attrs_at[i], to = v->sample.attrs_at[i + 1];
        if (from == to || v->sample.n_values[i] > 0)
            continue; /* only {1, 5}: no difference; field 4 as loose numbers: the sniffer's business */
        if (v->sample.n_timestamps[i] == 0)
            return false; /* only {1, 2} */
        if (v->sample.n_timestamps[i] != to - from)
            return true; /* {1, 2, 5}, and there were never as many values as timestamps */
        fits &= plausible_attrs(v, from, to);
    }
    return fits;
}
