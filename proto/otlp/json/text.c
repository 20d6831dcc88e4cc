/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/text.h"

static void put(struct json *j, const char *p, size_t n)
{
    if (j->r == 0)
        j->r = buffer_add(j->out, p, n);
}

void json_put_base64(struct json *j, struct bytes b)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    json_raw(j, BYTES_LIT("\""));
    for (size_t i = 0; i < b.n && j->r == 0; i += 3) {
        size_t left = b.n - i;
        uint32_t v =
            (uint32_t)b.p[i] << 16 | (left > 1 ? (uint32_t)b.p[i + 1] << 8 : 0) | (left > 2 ? b.p[i + 2] : 0);
        char four[4] = {digit[v >> 18], digit[v >> 12 & 63], left > 1 ? digit[v >> 6 & 63] : '=',
                        left > 2 ? digit[v & 63] : '='};
        put(j, four, 4);
    }
    put(j, "\"", 1);
}

void json_put_hex(struct json *j, struct bytes b)
{
    json_raw(j, BYTES_LIT("\""));
    if (j->r == 0)
        j->r = buffer_add_hex(j->out, b);
    put(j, "\"", 1);
}
