/* SPDX-License-Identifier: Apache-2.0 */
#include "sender/collect/text.h"

#include "proto/base/macros.h"

struct bytes text_clean(struct bytes s, char scratch[TEXT_MAX])
{
    if (s.n <= TEXT_MAX && bytes_is_utf8(s))
        return s;
    size_t n = min_of(s.n, (size_t)TEXT_MAX);
    for (size_t i = 0; i < n; i++)
        scratch[i] = s.p[i] < 0x80 ? (char)s.p[i] : '?';
    return bytes_of(scratch, n);
}
