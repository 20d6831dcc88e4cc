/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/exposition.h"

#define EACH(c)     (UINT64_C(0x0101010101010101) * (uint8_t)(c))
#define HAS_ZERO(x) (((x)-EACH(1)) & ~(x)&EACH(0x80))

/* Whether none of eight bytes is to be escaped; may say no of other ones. */
static bool is_plain(const uint8_t *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return (HAS_ZERO(x ^ EACH('\\')) | HAS_ZERO(x ^ EACH('\n')) | HAS_ZERO(x ^ EACH('"'))) == 0;
}

int exposition_escape(struct buffer *out, struct bytes text, bool quotes)
{
    size_t from = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.n; i++) {
        while (i + 8 <= text.n && is_plain(text.p + i))
            i += 8;
        if (i == text.n)
            break;
        const char *escape = text.p[i] == '\\'            ? "\\\\"
                             : text.p[i] == '\n'          ? "\\n"
                             : text.p[i] == '"' && quotes ? "\\\""
                                                          : NULL;
        if (!escape)
            continue;
        r = buffer_add(out, text.p + from, i - from);
        if (r == 0)
            r = buffer_add_str(out, escape);
        from = i + 1;
    }
    return r < 0 ? r : buffer_add(out, text.p + from, text.n - from);
}
