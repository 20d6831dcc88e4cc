/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/authorization.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/base/file.h"
#include "proto/client/basic.h"

/* Bytes: far more than tokens and passwords have. */
#define SECRET_MAX 1023u

static int put(const char *username, struct bytes secret, struct buffer *out)
{
    if (!username)
        return buffer_printf(out, "Bearer %.*s", BYTES_FMT(secret));
    cleanup(buffer_release) struct buffer pair = BUFFER_INIT(0);
    int r = buffer_printf(&pair, "%s:%.*s", username, BYTES_FMT(secret));
    r = r < 0 ? r : basic_append(buffer_bytes(&pair), out);
    return r;
}

int authorization_from_file(const char *username, const char *file, struct buffer *out, struct error *e)
{
    cleanup(buffer_release) struct buffer secret = BUFFER_INIT(0);
    int r = file_read(file, SECRET_MAX, &secret, e);
    if (r != 0)
        return r > 0 ? -EINVAL : r;
    while (secret.n > 0 && (secret.p[secret.n - 1] == '\n' || secret.p[secret.n - 1] == '\r'))
        secret.n--;
    if (secret.n == 0 || memchr(secret.p, '\n', secret.n))
        return error_set(e, -EINVAL, "%s is not one line", file);
    r = put(username, buffer_bytes(&secret), out);
    return r < 0 ? error_set(e, r, "out of memory") : 0;
}
