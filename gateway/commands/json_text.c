/* SPDX-License-Identifier: Apache-2.0 */
#include "gateway/commands/json_text.h"

#include <stdint.h>

void json_put_string(FILE *to, struct bytes text)
{
    putc('"', to);
    for (size_t i = 0; i < text.n;) {
        uint8_t c = text.p[i];
        size_t n = bytes_utf8_length(bytes_of(text.p + i, text.n - i));
        if (n == 0)
            fputs("\\ufffd", to);
        else if (c == '"' || c == '\\')
            fprintf(to, "\\%c", c);
        else if (c == '\n')
            fputs("\\n", to);
        else if (c == '\t')
            fputs("\\t", to);
        else if (c < 0x20 || c == 0x7f)
            fprintf(to, "\\u%04x", c);
        else
            fwrite(text.p + i, 1, n, to);
        i += n > 0 ? n : 1;
    }
    putc('"', to);
}

void json_put_key(FILE *to, const char *name, bool *first)
{
    fprintf(to, "%s\"%s\": ", *first ? "" : ", ", name);
    *first = false;
}
