/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/stats/exposition.h"

#include <inttypes.h>

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

void exposition_family(struct exposition *x, const char *name, const char *type, const char *help)
{
    exposition_print(x, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void exposition_number(struct exposition *x, const char *name, const char *type, const char *help,
                       uint64_t value)
{
    exposition_family(x, name, type, help);
    exposition_print(x, "%s %" PRIu64 "\n", name, value);
}

void exposition_label(struct exposition *x, const char *name, struct bytes text)
{
    exposition_print(x, "%s=\"", name);
    if (x->r == 0)
        x->r = exposition_escape(x->out, text, true);
    exposition_print(x, "\"");
}
