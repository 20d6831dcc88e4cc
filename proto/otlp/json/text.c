/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/otlp/json/text.h"

#include "proto/base/base64.h"

static void put(struct json *j, const char *p, size_t n)
{
    if (j->r == 0)
        j->r = buffer_add(j->out, p, n);
}

void json_put_base64(struct json *j, struct bytes b)
{
    json_raw(j, BYTES_LIT("\""));
    if (j->r == 0)
        j->r = base64_encode(b, true, j->out);
    put(j, "\"", 1);
}

void json_put_hex(struct json *j, struct bytes b)
{
    json_raw(j, BYTES_LIT("\""));
    if (j->r == 0)
        j->r = buffer_add_hex(j->out, b);
    put(j, "\"", 1);
}
