/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_set(struct error *e, int r, const char *format, ...)
{
    if (!e)
        return r;
    va_list args;
    va_start(args, format);
    vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    return r;
}

void error_clear(struct error *e)
{
    if (e)
        e->text[0] = 0;
}

int error_memory(struct error *e, int r)
{
    return r < 0 && e && !e->text[0] ? error_set(e, r, "out of memory") : r;
}

int error_prefix(struct error *e, int r, const char *format, ...)
{
    if (!e)
        return r;
    char old[ERROR_TEXT_MAX];
    memcpy(old, e->text, sizeof old);
    va_list args;
    va_start(args, format);
    int n = vsnprintf(e->text, sizeof e->text, format, args);
    va_end(args);
    if (n >= 0 && n < ERROR_TEXT_MAX)
        snprintf(e->text + n, sizeof e->text - (size_t)n, "%s", old);
    return r;
}
