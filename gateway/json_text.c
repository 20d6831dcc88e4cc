#include "gateway/json_text.h"

#include <stdint.h>

/* The length of the UTF-8 character at p (RFC 3629 section 4), or 0 when there is none. */
static size_t character(const uint8_t *p, size_t n)
{
    static const struct {
        uint8_t first, last, low, high; /* of the first byte; of the second */
        uint8_t length;
    } rows[] = {{0x00, 0x7f, 0, 0, 1},       {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
                {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
                {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (p[0] < rows[i].first || p[0] > rows[i].last)
            continue;
        if (rows[i].length > n || (rows[i].length > 1 && (p[1] < rows[i].low || p[1] > rows[i].high)))
            return 0;
        for (size_t k = 2; k < rows[i].length; k++) {
            if ((p[k] & 0xc0) != 0x80)
                return 0;
        }
        return rows[i].length;
    }
    return 0;
}

void json_put_string(FILE *to, struct bytes text)
{
    putc('"', to);
    for (size_t i = 0; i < text.n;) {
        uint8_t c = text.p[i];
        size_t n = character(text.p + i, text.n - i);
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
