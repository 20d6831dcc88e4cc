/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/exposition.h"

int exposition_escape(struct buffer *out, struct bytes text, bool quotes)
{
    size_t from = 0;
    int r = 0;
    for (size_t i = 0; r == 0 && i < text.n; i++) {
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
