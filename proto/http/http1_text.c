/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/http/http1_text.h"

#include <errno.h>
#include <stdio.h>
#include <time.h>

#include "proto/base/macros.h"

static const struct {
    uint16_t status;
    const char *phrase;
} phrases[] = {
    {100, "Continue"},
    {200, "OK"},
    {202, "Accepted"},
    {204, "No Content"},
    {301, "Moved Permanently"},
    {302, "Found"},
    {304, "Not Modified"},
    {307, "Temporary Redirect"},
    {308, "Permanent Redirect"},
    {400, "Bad Request"},
    {401, "Unauthorized"},
    {403, "Forbidden"},
    {404, "Not Found"},
    {405, "Method Not Allowed"},
    {406, "Not Acceptable"},
    {408, "Request Timeout"},
    {409, "Conflict"},
    {411, "Length Required"},
    {413, "Content Too Large"},
    {414, "URI Too Long"},
    {415, "Unsupported Media Type"},
    {417, "Expectation Failed"},
    {421, "Misdirected Request"},
    {422, "Unprocessable Content"},
    {426, "Upgrade Required"},
    {429, "Too Many Requests"},
    {431, "Request Header Fields Too Large"},
    {500, "Internal Server Error"},
    {501, "Not Implemented"},
    {502, "Bad Gateway"},
    {503, "Service Unavailable"},
    {504, "Gateway Timeout"},
    {505, "HTTP Version Not Supported"},
};

const char *http_status_phrase(uint32_t status)
{
    for (size_t i = 0; i < ARRAY_LEN(phrases); i++)
        if (phrases[i].status == status)
            return phrases[i].phrase;
    return "";
}

struct bytes http_date(void)
{
    /* Not strftime: its names are the locale's. */
    static const char days[][4] = {"Sun", "Mon", "Tue", "Wed", "Thu", "Fri", "Sat"};
    static const char months[][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                     "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    static _Thread_local char text[80]; /* room for what the compiler thinks a year could be */
    static _Thread_local time_t made;
    time_t now = time(NULL);
    if (now != made) {
        struct tm tm;
        gmtime_r(&now, &tm);
        snprintf(text, sizeof text, "%s, %02d %s %04d %02d:%02d:%02d GMT", days[tm.tm_wday % 7], tm.tm_mday,
                 months[tm.tm_mon % 12], tm.tm_year + 1900, tm.tm_hour, tm.tm_min, tm.tm_sec);
        made = now;
    }
    return bytes_of(text, HTTP_DATE_N);
}

int http1_add_header(struct buffer *out, struct bytes name, struct bytes value)
{
    uint8_t *p = buffer_cursor(out, name.n + value.n + 4);
    if (!p)
        return -ENOMEM;
    memcpy(p, name.p, name.n);
    p += name.n;
    *p++ = ':';
    *p++ = ' ';
    for (size_t i = 0; i < value.n; i++) {
        uint8_t c = value.p[i];
        *p++ = c == '\r' || c == '\n' || c == '\0' ? ' ' : c;
    }
    *p++ = '\r';
    *p++ = '\n';
    out->n += name.n + value.n + 4;
    return 0;
}
