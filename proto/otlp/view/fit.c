/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether what was decoded as 1.10 is plainly that, so that nobody else needs to be asked. A Sample with
 * fields 1, 2 and 5 has the same wire types in 1.8, 1.9 and 1.10, but field 2 is the values in the former and
 * the attributes in the latter. Where every index is good and no sample is empty, attributes are what they
 * are unless one sample has a key twice; and that can only be of weight where other samples have as many of
 * field 2 as of field 5, as values have.
 */
#include "proto/otlp/view/decode.h"

/* Beyond this many entries of field 2, asking whether all keys differ costs more than the answer is worth:
 * attributes of a sample are a handful. */
#define ATTRS_PLAUSIBLE 64u

static bool keys_differ(const struct profiles *v, uint32_t from, uint32_t to)
{
    if (to - from > ATTRS_PLAUSIBLE)
        return false;
    for (uint32_t i = from; i < to; i++)
        for (uint32_t j = from; j < i; j++)
            if (v->attribute.key[v->attr_index.attribute[j]] == v->attribute.key[v->attr_index.attribute[i]])
                return false;
    return true;
}

bool decode_is_plain_1_10(const struct decode *d, bool *ret_told)
{
    const struct profiles *v = d->p;
    uint32_t surely = 0; /* samples that no other layout can have; with half of them it is decided */
    for (uint32_t i = 0; i < v->sample.n && surely <= v->sample.n / 2; i++) {
        uint32_t from = v->sample.attrs_at[i], to = v->sample.attrs_at[i + 1];
        if (v->sample.n_values[i] > 0)
            surely++; /* as a list, or somebody was in doubt */
        else if (from == to)
            continue;
        else if (v->sample.n_timestamps[i] != to - from)
            surely++;
        else if (!keys_differ(v, from, to))
            return false;
    }
    *ret_told = surely > 0;
    return true;
}
