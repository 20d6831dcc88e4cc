/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/client/authorization.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proto/client/basic.h"

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
    char secret[1024];
    FILE *f = fopen(file, "re");
    if (!f)
        return error_set(e, -EINVAL, "cannot read %s: %s", file, strerror(errno));
    size_t n = fread(secret, 1, sizeof secret, f);
    bool ok = !ferror(f) && n < sizeof secret;
    fclose(f);
    while (n > 0 && (secret[n - 1] == '\n' || secret[n - 1] == '\r'))
        n--;
    if (!ok || n == 0 || memchr(secret, '\n', n))
        return error_set(e, -EINVAL, "%s is not one line of up to %zu bytes", file, sizeof secret - 1);
    int r = put(username, bytes_of(secret, n), out);
    return r < 0 ? error_set(e, r, "out of memory") : 0;
}
